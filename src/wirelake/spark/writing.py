"""Write rows as captures: ``df.write.format("casual").mode("append").save(directory)``.

A task encodes its rows, in their order, and puts its files into a hidden directory. The commit moves them to their
places; only then does ``overwrite`` remove what was there, so that a job that fails has changed nothing.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ..capture.chunks import DIRECTIONS
from ..capture.read.listing import store_of
from ..capture.write.tap import TapWriter, private
from ..columnar.row_to_message import kind_columns
from ..errors import EncodeError, OptionError
from ..spec.resolve import layout
from . import schema as s
from .options import WriteOptions
from .structs import encode_column
from .user_errors import user_errors

SUFFIXES = {"none": "", "gzip": ".gz", "zstd": ".zst"}
_COPIED_BYTES = 1 << 20


@dataclass
class Written(WriterCommitMessage):
    """The names of the files of a task, below the hidden directory."""

    files: tuple[str, ...]


class CaptureWriter(DataSourceArrowWriter):
    """Made in the planner, pickled to workers for ``write``, and to a worker of the driver for ``commit``."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        self.options, self.overwrite = options, overwrite
        self.names = tuple(schema.names)
        self.kind = options.kind or ("tap" if "ts" in self.names else "raw")
        self.job = uuid.uuid4().hex[:16]
        self.is_new = not self._exists()
        self.is_left_alone = not self.is_new and options.if_exists == "ignore" and not overwrite
        self._check()

    def _exists(self) -> bool:
        store, place, _ = self._places()
        found = store.get_file_info(place).type
        if found == fs.FileType.File:
            raise OptionError(f"{self.options.what}: {self.options.path} is a file; name a directory")
        if found == fs.FileType.NotFound:
            return False
        if self.options.if_exists == "error" and not self.overwrite:
            raise OptionError(f"{self.options.what}: {self.options.path} exists already, and ifExists is error")
        return True

    def _check(self) -> None:
        what, protocol = self.options.what, self.options.encoding.declared.load()
        known = s.format_schema(protocol).names
        if unknown := [name for name in self.names if name not in known]:
            raise OptionError(f"{what}: {', '.join(map(repr, unknown))} is no column of {protocol.name}; drop it first")
        kinds = kind_columns(layout(protocol))
        if not set(kinds) & set(self.names):
            raise OptionError(f"{what}: rows have to say which message they are: the column {kinds[0]!r} is missing")
        if self.kind == "tap" and "ts" not in self.names:
            raise OptionError(f"{what}: a tap has times, and the column 'ts' is missing; kind=raw needs none")

    # --- in a worker

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        with user_errors(), tempfile.TemporaryDirectory(prefix="wirelake-") as folder:
            if self.is_left_alone:
                return Written(())
            context = TaskContext.get()
            assert context is not None
            name = f"part-{context.partitionId():05d}-{self.job}"
            protocol = self.options.encoding.declared.load().name
            files = (_Tap if self.kind == "tap" else _Raw)(Path(folder), name, protocol)
            for batch in iterator:
                files.add(batch, self._frames(batch))
            return self._staged(files.close(), f"{context.taskAttemptId()}")

    def _frames(self, batch: pa.RecordBatch) -> pa.BinaryArray:
        fields = [field for field in batch.schema if field.name == "length" or field.name not in s.ORIGIN.names]
        structs = pa.StructArray.from_arrays([batch.column(field.name) for field in fields], fields=fields)
        return encode_column(self.options.encoding, structs)

    def _staged(self, files: list[Path], attempt: str) -> Written:
        """Copy files into the hidden directory, below the name of the attempt: others at the same task have others."""
        store, _, hidden = self._places()
        made = []
        for file in files:
            store.create_dir(f"{hidden}/{attempt}")
            made.append(f"{attempt}/{file.name}{SUFFIXES[self.options.compression]}")
            _copy(file, store, f"{hidden}/{made[-1]}", self.options.compression)
        return Written(tuple(made))

    # --- in the driver

    def commit(self, messages: list[Any]) -> None:
        with user_errors():
            store, place, hidden = self._places()
            old = _visible(store, place) if self.overwrite else []
            if not self.is_left_alone:
                store.create_dir(place)
            for message in messages:
                for name in message.files if message is not None else ():
                    store.move(f"{hidden}/{name}", f"{place}/{name.rpartition('/')[2]}")
            for info in old:
                (store.delete_dir if info.type == fs.FileType.Directory else store.delete_file)(info.path)
            self._clear()

    def abort(self, messages: list[Any]) -> None:
        with user_errors(), suppress(FileNotFoundError):
            self._clear()
            store, place, _ = self._places()
            if self.is_new and not store.get_file_info(fs.FileSelector(place)):
                store.delete_dir(place)

    def _clear(self) -> None:
        store, _, hidden = self._places()
        with suppress(FileNotFoundError):
            store.delete_dir(hidden)

    def _places(self) -> tuple[Any, str, str]:
        """Return the file system, the directory in it, and the hidden one below that."""
        store, place, _ = store_of(self.options.path)
        place = place.rstrip("/")
        return store, place, f"{place}/_temporary-{self.job}"


def _visible(store: Any, place: str) -> list[Any]:
    """Return what readers see in a directory."""
    found = store.get_file_info(fs.FileSelector(place, allow_not_found=True))
    return [info for info in found if not info.base_name.startswith(("_", "."))]


def _copy(file: Path, store: Any, place: str, compression: str) -> None:
    """Captures hold all traffic: on a local disk only their owner may read them."""
    if isinstance(store, fs.LocalFileSystem):
        out = pa.PythonFile(open(place, "xb", opener=private), "w")  # noqa: SIM115
    else:
        out = store.open_output_stream(place, compression=None)
    with out, file.open("rb") as source:
        packed = pa.CompressedOutputStream(out, compression) if compression != "none" else out
        while data := source.read(_COPIED_BYTES):
            packed.write(data)
        packed.close()


# --- the files of a task


class _Tap:
    """One tap with all connections; rows without one are of one together."""

    def __init__(self, folder: Path, name: str, protocol: str) -> None:
        self._tap = TapWriter(folder / f"{name}.tap")
        self._protocol = protocol
        self._numbers: dict[str | None, int] = {}

    def add(self, batch: pa.RecordBatch, frames: pa.BinaryArray) -> None:
        times = batch.column("ts").cast(pa.int64()).to_pylist()
        for connection, way, time, frame in zip(*_streams(batch), times, frames, strict=True):
            if not frame.is_valid:
                continue
            if time is None:
                raise EncodeError("a tap has times, and ts is null; kind=raw needs none", rule="field_type", path="ts")
            number = self._numbers.get(connection)
            if number is None:
                client = (connection or "", 0)
                number = self._numbers[connection] = self._tap.open(client, ("", 0), time, self._protocol)
            self._tap.data(number, way, time, memoryview(frame.as_buffer()))

    def close(self) -> list[Path]:
        self._tap.end()
        return self._tap.paths


class _Raw:
    """One file for each direction of each connection."""

    def __init__(self, folder: Path, name: str, _: str) -> None:
        self._folder, self._name = folder, name
        self._numbers: dict[str | None, int] = {}
        self._paths: dict[Path, None] = {}

    def add(self, batch: pa.RecordBatch, frames: pa.BinaryArray) -> None:
        parts: dict[tuple[int, int], list[Any]] = {}
        for connection, way, frame in zip(*_streams(batch), frames, strict=True):
            if frame.is_valid:
                number = self._numbers.setdefault(connection, len(self._numbers))
                parts.setdefault((number, way), []).append(frame.as_buffer())
        for (number, way), data in parts.items():
            path = self._folder / f"{self._name}-{number:05d}-{DIRECTIONS[way]}.bin"
            with path.open("ab") as file:
                file.writelines(data)
            self._paths[path] = None

    def close(self) -> list[Path]:
        return list(self._paths)


def _streams(batch: pa.RecordBatch) -> tuple[list[str | None], list[int]]:
    """Return connection and direction of each row; what rows do not say is one connection, to its server."""
    names = batch.schema.names
    nothing: list[Any] = [None] * len(batch)
    connections = batch.column("connection").to_pylist() if "connection" in names else nothing
    ways = batch.column("direction").to_pylist() if "direction" in names else nothing
    if wrong := {way for way in ways if way is not None and way not in DIRECTIONS}:
        raise EncodeError(f"{wrong.pop()!r} is no direction", rule="field_type", path="direction")
    return connections, [0 if way is None else DIRECTIONS.index(way) for way in ways]
