from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.casual.stores.stores import KINDS, Asking, database_for, opener


@pytest.fixture(params=KINDS)
def ask(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Asking]:
    """A store of each kind."""
    url = database_for(request.param, lambda: request.getfixturevalue("postgres"))
    asking = Asking(opener(request.param, tmp_path, url))
    yield asking
    asking.store.close()
