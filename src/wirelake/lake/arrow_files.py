"""Arrow batches in files, written and read as streams: rows between the stages of a run, and carry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyarrow import ipc

from .staging import Attempt, Sink, StagedFile
from .store import Store, errors

COMPRESSION = "lz4"
"""For files that cross a network. On a local disk they live for seconds, and compression does not pay."""


class StreamWriter:
    """Writes Arrow batches to a staged file as they come; without a batch the file has only a schema.

    The file is not synced: a commit that takes it as carry does that.
    """

    def __init__(self, attempt: Attempt, name: str, schema: pa.Schema) -> None:
        self._name = f"{name}.arrow"
        self._rows = 0
        self._file: StagedFile | None = None
        options = ipc.IpcWriteOptions(compression=None if attempt.store.is_local else COMPRESSION)
        place = f"{attempt.directory}/{self._name}"
        self._sink = Sink(attempt, place, lambda stream: ipc.new_stream(stream, schema, options=options))

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        self._sink.write(batch)
        self._rows += batch.num_rows

    def close(self) -> StagedFile:
        if self._file is None:
            size = self._sink.close(durable=False)
            self._file = StagedFile("", "", self._sink.staged, self._name, self._rows, size)
        return self._file

    def abort(self) -> None:
        if self._file is None:
            self._sink.abort()


def stage_ipc(attempt: Attempt, name: str, schema: pa.Schema, rows: Iterable[pa.RecordBatch | pa.Table]) -> StagedFile:
    """Write rows to one staged file. ``name`` is unique within the attempt and has no extension."""
    writer = attempt.stream(name, schema)
    for batch in rows:
        writer.write(batch)
    return writer.close()


def read_ipc(store: Store, *files: StagedFile | str) -> Iterator[pa.RecordBatch]:
    """Yield the batches of staged files, or of paths in the lake."""
    for file in files:
        path = file if isinstance(file, str) else file.staged
        shown = store.show(path)
        # A file is not mapped: a text that is kept of its rows would keep all of it in memory.
        with store.open_input(path) as stream:
            with errors(shown, "cannot be read"):
                reader = ipc.open_stream(stream)
            yield from _batches(reader, shown)


def _batches(reader: Any, shown: str) -> Iterator[pa.RecordBatch]:
    while True:
        with errors(shown, "cannot be read"):
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
        yield batch
