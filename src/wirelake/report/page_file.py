"""The report as a file: written whole or not at all, and only over a report of ours."""

from __future__ import annotations

import errno
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..lake import Lake
from .collect import MAX_DATA_BYTES, Progress, collect
from .render import START, render

MAX_PAGE_BYTES = 10_000_000


@dataclass(frozen=True)
class Written:
    """What was written: where, how much, and which conversations of how many the page has."""

    path: Path
    bytes: int
    conversations: int
    held: list[dict[str, Any]]


def write_report(
    lake: Lake,
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Written:
    """Write the page; the file appears whole or not at all, and is always below 10 MB.

    ``name`` is what the page calls the lake, instead of its path. A file that is not a report of wirelake is left alone
    (FileExistsError) unless ``force`` is set.
    """
    target = Path(path)
    if not force:
        check_replaceable(target)
    budget = MAX_DATA_BYTES
    while True:
        report = collect(lake, max_bytes=budget, progress=progress)
        report["about"]["lake"] = name or lake.path
        page = render(report).encode("utf-8")
        if len(page) < MAX_PAGE_BYTES or budget == 0:
            break
        budget = budget * 3 // 4 if budget > 100_000 else 0
    _replace(target, page, force)
    return Written(target, len(page), len(report["conversations"]), report["held"])


def check_replaceable(target: Path) -> None:
    """Raise FileExistsError if there is anything but a report of wirelake. Links are not followed."""
    if not target.is_symlink():
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
        if not target.exists() or _is_report(target):
            return
    raise FileExistsError(errno.EEXIST, "it exists and is not a report of wirelake", str(target))


def _is_report(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        return stream.read(len(START)) == START


def _replace(target: Path, data: bytes, force: bool) -> None:
    """Put a file in its place when it is complete. A link is replaced, not followed."""
    number, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(number, "wb") as stream:
            stream.write(data)
        os.chmod(name, 0o666 & ~_umask())
        if not force:
            check_replaceable(target)  # once more: collecting may have taken minutes
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


def _umask() -> int:
    """Return the permissions that new files do not get; asking means setting."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
