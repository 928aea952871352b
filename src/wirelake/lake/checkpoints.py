"""Checkpoints: the whole state of a lake in one file, ``_commits/00000256.checkpoint``, so that nobody adds up all
records.

A checkpoint is a head and sections. The head has all that is small; there is a section of files for each table, as an
Arrow stream, and one of captures. Each is packed with zstd and has a checksum, and is read when it is needed. Nothing
in it is code, and what it says is held against the rules for records (``validation.py``).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from functools import partial
from typing import TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from .. import __version__
from ..errors import LakeError
from . import validation as valid
from .commit_records import COMMITS, Kept
from .inputs import Input
from .state import Inputs, State
from .store import Store
from .table_files import FILES, TableFiles
from .validation import Count, Text, Values, printable, shown

T = TypeVar("T")

EVERY = 256
"""Commits from one checkpoint to the next."""
MAGIC = b"wlcheck\n"
FORMAT = 1
LARGEST = 1 << 30
SMALL, RATIO = 64 << 20, 1000
"""A section may unpack to ``SMALL`` bytes, and to more if the file has a thousandth of them."""
_START = struct.Struct("<8sHBII")
_CODEC = pa.Codec("zstd", compression_level=1)
_DAMAGE = (msgspec.MsgspecError, struct.error, ValueError, TypeError, RecursionError, OSError, pa.ArrowException)


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of the file behind the head."""

    start: Count
    packed: Count
    size: Count
    checksum: Count
    items: Count


class Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is small, and where the rest is."""

    number: Count
    swept: Count
    carry: dict[Text, Text]
    facts: Values
    labels: Values
    kept: dict[Text, list[Kept]]
    settings: Values
    tables: dict[Text, Section]
    inputs: Section
    keys: Section
    """Those of the inputs, which are much smaller."""

    def faults(self) -> Iterator[str]:
        """Yield what no checkpoint of wirelake names."""
        yield from (f"the table {shown(table)}" for table in self.tables if not valid.is_table(table))
        yield from (f"the carry {shown(name)}" for name in self.carry if not valid.is_name(name))
        kept = (path for listed in self.kept.values() for one in listed for path in one.carry.values())
        paths = (path for path in (*self.carry.values(), *kept) if not valid.is_carry_path(path))
        yield from (f"the file {shown(path)} as carry" for path in paths)


def checkpoint_path(number: int) -> str:
    return f"{COMMITS}/{number:08d}.checkpoint"


# --- writing


def write_checkpoint(store: Store, state: State) -> None:
    """Write the state down. Whoever opens the lake from now on begins there."""
    store.publish(checkpoint_path(state.number), pack(state))
    state.checkpoint = state.number


def pack(state: State) -> bytes:
    body = _Body()
    tables = {table: files.to_arrow() for table, files in sorted(state.files.items())}
    sections = {table: body.add(_stream(rows), rows.num_rows) for table, rows in tables.items() if rows.num_rows}
    inputs = list(state.inputs.by_key().values())
    captures = body.add(msgspec.msgpack.encode(inputs), len(inputs))
    keys = body.add(msgspec.msgpack.encode([capture.key for capture in inputs]), len(inputs))
    head = msgspec.msgpack.encode(
        Head(
            number=state.number,
            swept=state.swept,
            carry=state.carry,
            facts=state.facts,
            labels=state.labels,
            kept=state.kept,
            settings=state.settings,
            tables=sections,
            inputs=captures,
            keys=keys,
        )
    )
    writer = __version__.encode()
    start = _START.pack(MAGIC, FORMAT, len(writer), len(head), zlib.crc32(head))
    return b"".join([start, writer, head, *body.parts])


class _Body:
    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self._size = 0

    def add(self, data: bytes, items: int) -> Section:
        packed = bytes(_CODEC.compress(data))
        section = Section(self._size, len(packed), len(data), zlib.crc32(data), items)
        self.parts.append(packed)
        self._size += len(packed)
        return section


def _stream(rows: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, FILES) as writer:
        writer.write_table(rows.combine_chunks())
    return out.getvalue().to_pybytes()  # type: ignore[no-any-return]


# --- reading


def read_checkpoint(store: Store, number: int) -> State:
    """Return the state that a checkpoint holds; its record, ``last``, is the caller's to add."""
    path = checkpoint_path(number)
    return unpack(store.read(path, LARGEST), number, store.show(path))


def unpack(data: bytes, number: int, path: str) -> State:
    """Decode and check a checkpoint; raise LakeError about ``path`` if it is not one that wirelake writes."""
    try:
        head, body = _head(data, path)
        for fault in head.faults():
            raise ValueError(f"it names {fault}")
        if head.number != number:
            raise ValueError(f"it is that of commit {head.number}")
    except _DAMAGE as error:
        raise _damaged(path, error) from error
    sections = _Sections(body, path)
    return State(
        number=head.number,
        checkpoint=head.number,
        swept=head.swept,
        files={table: TableFiles(table, partial(sections.files, table, part)) for table, part in head.tables.items()},
        inputs=Inputs(partial(sections.listed, head.inputs, Input), partial(sections.listed, head.keys, str)),
        carry=head.carry,
        facts=dict(head.facts),
        labels=dict(head.labels),
        kept=head.kept,
        settings=dict(head.settings),
    )


def _head(data: bytes, path: str) -> tuple[Head, memoryview]:
    magic, version, named, length, checksum = _START.unpack_from(data)
    if magic != MAGIC:
        raise ValueError("it begins otherwise")
    at = _START.size + named
    if version > FORMAT:
        writer = printable(data[_START.size : at].decode())
        raise LakeError(path, f"has the format of a newer wirelake ({writer}); upgrade this one")
    head = data[at : at + length]
    if zlib.crc32(head) != checksum:
        raise ValueError("the checksum of its head does not fit")
    return msgspec.msgpack.decode(head, type=Head), memoryview(data)[at + length :]


class _Sections:
    """The packed sections of a checkpoint in memory."""

    def __init__(self, body: memoryview, path: str) -> None:
        self._body, self._path = body, path

    def files(self, table: str, section: Section) -> pa.Table:
        try:
            rows = pa.ipc.open_stream(self._unpacked(section)).read_all()
            _check_files(table, rows, section.items)
        except _DAMAGE as error:
            raise _damaged(self._path, error) from error
        return rows

    def listed(self, section: Section, kind: type[T]) -> list[T]:
        try:
            return msgspec.msgpack.decode(self._unpacked(section), type=list[kind])  # type: ignore[valid-type]
        except _DAMAGE as error:
            raise _damaged(self._path, error) from error

    def _unpacked(self, section: Section) -> bytes:
        packed = self._body[section.start : section.start + section.packed]
        if section.size > min(LARGEST, SMALL + len(packed) * RATIO):
            raise ValueError(f"a section of {section.size} bytes is packed into {len(packed)}")
        data = bytes(_CODEC.decompress(pa.py_buffer(packed), decompressed_size=section.size))
        if zlib.crc32(data) != section.checksum:
            raise ValueError("the checksum of a section does not fit")
        return data


def _check_files(table: str, rows: pa.Table, count: int) -> None:
    """Refuse rows that no record could have brought: other columns, other names, negative numbers."""
    if rows.schema != FILES or rows.num_rows != count:
        raise ValueError(f"its rows for {table} are not lists of files")
    rows.validate(full=True)
    for name in ("partition", "name", "rows", "bytes", "sensor", "columns"):
        if rows.column(name).null_count:
            raise ValueError(f"files of {table} have no {name}")
    for name in ("rows", "bytes"):
        if rows.num_rows and pc.min(rows.column(name)).as_py() < 0:
            raise ValueError(f"files of {table} have a negative number of {name}")
    for partition in pc.unique(rows.column("partition")).to_pylist():
        if not valid.is_partition(partition):
            raise ValueError(f"it names the directory {shown(partition)} of {table}")
    is_part = pc.match_substring_regex(rows.column("name"), f"^(?:{valid.PART})$")
    if not pc.all(is_part).as_py() and rows.num_rows:
        raise ValueError(f"it names the file {shown(rows.filter(pc.invert(is_part)).column('name')[0].as_py())}")
    for name in ("sensor", "columns"):
        if any(len(text) > valid.LONGEST_TEXT for text in pc.unique(rows.column(name)).to_pylist()):
            raise ValueError(f"files of {table} have a {name} that is too long")


def _damaged(path: str, error: Exception) -> LakeError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    hint = "restore it from a backup, or delete it if an older checkpoint is beside it"
    return LakeError(path, f"is not a checkpoint that wirelake wrote ({reason}); {hint}")
