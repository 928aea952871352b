"""Whether a compressed capture holds more than was read of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.capture.packing import PACK
from wirelake.ingest.tasks.has_more import HasMoreTask


@pytest.mark.parametrize("suffix", PACK)
def test_only_a_byte_behind_those_that_were_read_counts(tmp_path: Path, suffix: str) -> None:
    content = bytes(range(256)) * 2000
    path = tmp_path / f"a.pcap{suffix}"
    path.write_bytes(PACK[suffix](content))
    assert HasMoreTask(str(path), len(content) - 1).run()
    assert not HasMoreTask(str(path), len(content)).run()
    assert not HasMoreTask(str(path), len(content) + 1).run()
