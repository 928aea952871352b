"""The compiled loops. Only this room imports numba; it knows nothing of protocols, only programs of integers.

Numba keeps what it compiled beside a kernel's file and compiles again when that file changes. What a kernel calls,
though, is compiled into it, and lies in other files of this room: so the cache is dropped when any of them is newer.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from .cache_place import find_place


def _drop_stale_cache(room: Path) -> None:
    newest = max((source.stat().st_mtime for source in room.glob("*.py")), default=0.0)
    for index in room.glob("__pycache__/*.nbi"):
        # Another process may have been quicker, or the place may be read-only: then numba decides alone.
        with suppress(OSError):
            if index.stat().st_mtime < newest:
                index.unlink()


_drop_stale_cache(Path(__file__).parent)
find_place(Path(__file__).parent)
