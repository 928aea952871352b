"""Captures into the tables of a lake, in one commit.

    ingest(InlineRunner(), ["captures/"], "lake")

Nothing is visible before the commit, everything after it. What is undecided is the carry of the next ingest, so
captures may come one by one or all at once, with the same result.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from ..capture.settings import ReadSettings
from ..errors import LakeError
from ..lake import Input, Lake
from .known import recognise
from .plan import choose_new, find_captures, refuse_shrunk
from .runner import Runner
from .stages import NoProgress, Progress
from .step import Report, Step

BUCKETS = 8


def ingest(
    runner: Runner,
    inputs: Iterable[str],
    lake: str | Lake,
    *,
    reading: ReadSettings | None = None,
    kind: str | None = None,
    final: bool = False,
    keep_bytes: bool = False,
    partition_bytes: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Read captures (files, directories, patterns, URIs) that the lake does not have yet, and commit their tables.

    ``final`` says that nothing more comes: whatever is open is decided. ``kind`` is that of captures whose bytes do
    not tell it (``raw``).
    """
    began = time.monotonic()
    inputs = list(inputs)
    captures, notes = find_captures(inputs, kind, _known(lake))  # before there is a lake: a refused input leaves none
    lake = lake if isinstance(lake, Lake) else Lake.open(lake, settings={"buckets": BUCKETS})
    with lake.writing() as run:
        step = Step(run, runner, reading or ReadSettings(), final, keep_bytes, progress or NoProgress())
        found = recognise(captures, lake.inputs())
        refuse_shrunk(found, inputs)
        new = choose_new(found, step.carry.positions(), final)
        step.report.notes += [*notes, *(one.note for one in found if one.note)]
        step.report.skipped = len(captures) - len(new)
        report = step.run(new, found, partition_bytes)
    report.seconds = time.monotonic() - began
    return report


def _known(lake: str | Lake) -> dict[str, Input]:
    """Return the captures that the lake has, if there is one."""
    try:
        return (lake if isinstance(lake, Lake) else Lake.open(lake, create=False)).inputs()
    except LakeError:
        return {}
