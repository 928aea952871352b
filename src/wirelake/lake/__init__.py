"""The lake on disk: staging, Parquet files by date, commits that survive a kill, one writer. Knows no Spark.

Layout: ``bronze/chunks``, ``silver/<protocol>``, ``silver/messages``, ``silver/quarantine``, ``gold/<name>`` and
``accounting`` are tables, with directories ``date=YYYY-MM-DD`` of Parquet files. ``_lake.json`` marks a lake;
``_commits`` has one record per commit, ``_carry`` the state that one commit hands to the next, ``_staging`` files that
are not committed; a writer holds ``_lock``.

A lake is data, never code: reading one, even a hostile one, runs nothing and touches no file outside it
(``validation.py``, ``store.py``).
"""

from __future__ import annotations

from ..errors import LakeError
from .arrow_files import StreamWriter, read_ipc, stage_ipc
from .commit_records import Kept
from .commits import Run
from .inputs import Input
from .lake import Lake, Summary
from .staging import Attempt, StagedFile, Staging

__all__ = [
    "Attempt",
    "Input",
    "Kept",
    "Lake",
    "LakeError",
    "Run",
    "StagedFile",
    "Staging",
    "StreamWriter",
    "Summary",
    "read_ipc",
    "stage_ipc",
]
