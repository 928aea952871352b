"""A state that leaves much open, for the tests of all that is carried."""

from __future__ import annotations

import pytest

from tests.capture.reloading import open_captures
from wirelake.capture.decode import CaptureDecoder, CaptureRange
from wirelake.capture.settings import ReadSettings
from wirelake.capture.state import State


@pytest.fixture(scope="session")
def open_state(tmp_path_factory: pytest.TempPathFactory) -> State:
    decoder = CaptureDecoder(ReadSettings())
    for path in open_captures(tmp_path_factory.mktemp("captures")):
        for _ in decoder.run(CaptureRange(str(path), path.name)):
            pass
    return decoder.state()
