"""The report as a file."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..lake import Lake
from .collect import MOST_BYTES, Progress, collect

LARGEST = 10_000_000
"""No page has more bytes."""


@dataclass(frozen=True)
class Written:
    """What was written: where, how much, and what the page holds of how much there is."""

    path: Path
    bytes: int
    conversations: int
    held: list[dict[str, Any]]


def write_report(
    lake: Lake, path: str | os.PathLike[str], *, name: str | None = None, progress: Progress | None = None
) -> Written:
    """Writes the page; it is there whole or not at all, and always below 10 MB.

    ``name`` is what the page calls the lake, instead of its path.
    """
    from .render import render

    budget = MOST_BYTES
    while True:
        report = collect(lake, most_bytes=budget, progress=progress)
        report["about"]["lake"] = name or lake.path
        page = render(report).encode("utf-8")
        if len(page) < LARGEST or budget == 0:
            break
        budget = budget * 3 // 4 if budget > 100_000 else 0
    target = Path(path)
    _replace(target, page)
    return Written(target, len(page), len(report["conversations"]), report["held"])


def _replace(target: Path, data: bytes) -> None:
    """Puts a file in its place when it is complete."""
    number, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(number, "wb") as stream:
            stream.write(data)
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


def _umask() -> int:
    """What a new file may not allow; there is no way to ask without setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
