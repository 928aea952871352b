"""Where large captures were cut, kept between actions: Spark plans each action anew, in a process of its own.

A plan lies in the user's cache directory under a name made from all that it depends on: path, size and time of the
files, how they are read, and the wirelake that read them. It is decoded strictly into its types, so reading it runs no
code from it. It may hold some bytes of the captures: the beginnings of messages at the cuts. So the directory is the
user's alone.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from pyarrow import fs

from .. import __version__
from ..capture.decode import CaptureRange
from ..capture.partitions import Partition
from ..capture.settings import ReadSettings
from ..errors import LakeError
from ..ingest import carry

PLACE = "WIRELAKE_CACHE_DIR"
"""The variable that names the directory instead of the user's cache directory; empty: nothing is kept."""
MOST_BYTES = 256 << 20
"""Of all plans. The one that was used longest ago goes first."""
LARGEST_BYTES = 32 << 20
"""A plan above this is not kept."""
SETTLED_SECONDS = 2.0
"""A file that has just changed may change again, and keep its size and time."""


@dataclass
class KeptPlan:
    partitions: list[Partition]


def place() -> Path | None:
    """Return the directory of plans, made if need be; None if there is none that only the user can write to."""
    given = os.environ.get(PLACE)
    if given == "":
        return None
    try:
        cache = Path(given or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        made = cache / "plans" if given else cache / "wirelake" / "plans"
        made.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = made.stat()
    except (OSError, RuntimeError):  # there is no home
        return None
    is_ours = not hasattr(os, "getuid") or found.st_uid == os.getuid()
    return made if is_ours and not found.st_mode & 0o022 else None


def key_of(pieces: Sequence[CaptureRange], reading: ReadSettings, partition_bytes: int) -> str | None:
    """Return the name of the plan of these captures; None if they may change without a trace."""
    stamps = [_stamp(piece.path) for piece in pieces]
    if None in stamps:
        return None
    depends = (stamps, pieces, replace(reading, columns={}), partition_bytes, __version__, carry.VERSION, _sources())
    return hashlib.sha256(repr(depends).encode()).hexdigest()


def _stamp(path: str) -> tuple[str, int, int] | None:
    try:
        files, name = fs.FileSystem.from_uri(path) if "://" in path else (fs.LocalFileSystem(), path)
        found = files.get_file_info(name)
    except (OSError, ValueError):
        return None
    if found.mtime_ns is None or abs(time.time() - found.mtime_ns / 1e9) < SETTLED_SECONDS:
        return None
    return path, found.size, found.mtime_ns


@lru_cache(maxsize=1)
def _sources() -> int:
    """The time of the newest source: while wirelake is developed its version stays."""
    return max((path.stat().st_mtime_ns for path in Path(__file__).parents[1].rglob("*.py")), default=0)


def get(key: str, pieces: Sequence[CaptureRange]) -> list[Partition] | None:
    """Return a plan that was kept. One that is damaged, or leads to other files, is removed."""
    folder = place()
    if folder is None:
        return None
    path = folder / key
    try:
        kept = carry.unpack(path.read_bytes(), KeptPlan, str(path))
        os.utime(path)
    except OSError:
        return None
    except LakeError:
        path.unlink(missing_ok=True)
        return None
    known = {piece.path for piece in pieces}
    is_theirs = all(captured.path in known for partition in kept.partitions for captured in partition.ranges)
    return kept.partitions if is_theirs else None


def put(key: str, partitions: list[Partition]) -> None:
    folder = place()
    if folder is None:
        return
    data = carry.pack(KeptPlan(partitions))
    with suppress(OSError):  # the disk may be full: the next action plans again
        if len(data) <= LARGEST_BYTES:
            write(folder, key, data)
            _make_room(folder)


def write(folder: Path, key: str, data: bytes) -> None:
    """Write a plan so that others see all of it or nothing."""
    number, name = tempfile.mkstemp(dir=folder)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
        os.replace(name, folder / key)
    except OSError:
        os.unlink(name)
        raise


def _make_room(folder: Path) -> None:
    plans = sorted((path.stat().st_mtime_ns, path.stat().st_size, path) for path in folder.iterdir())
    total = sum(size for _, size, _ in plans)
    for _, size, path in plans:
        if total <= MOST_BYTES:
            return
        path.unlink(missing_ok=True)
        total -= size
