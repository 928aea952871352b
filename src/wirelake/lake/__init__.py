"""The lake on disk: staging, Parquet files by date, commits that survive a kill, one writer. Knows no Spark.

Layout: ``bronze/chunks``, ``silver/<protocol>``, ``silver/messages``, ``silver/quarantine``, ``gold/<name>`` and
``accounting`` are tables, with directories ``date=YYYY-MM-DD`` of Parquet files. ``_lake.json`` says that it is a lake;
``_commits`` has one record per commit, ``_carry`` what one commit hands to the next, ``_staging`` what is not
committed; ``_lock`` is held while somebody writes.
"""

from __future__ import annotations

from ..errors import LakeError
from .arrow_files import StreamWriter, read_ipc, read_schema, stage_ipc
from .inputs import Input, look
from .lake import Lake, Run, Summary, TableSummary
from .staging import MANIFEST, Attempt, StagedFile, Staging, from_manifest, manifest
from .table_writer import TableWriter

__all__ = [
    "MANIFEST",
    "Attempt",
    "Input",
    "Lake",
    "LakeError",
    "Run",
    "StagedFile",
    "Staging",
    "StreamWriter",
    "Summary",
    "TableSummary",
    "TableWriter",
    "from_manifest",
    "look",
    "manifest",
    "read_ipc",
    "read_schema",
    "stage_ipc",
]
