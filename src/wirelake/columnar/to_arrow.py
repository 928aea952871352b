"""Filled slots -> Arrow arrays. Slots are dense: entries with the row of each; rows without an entry are null.

Most batches have few kinds of messages, and most columns belong to others: whether a column has anything at all is
asked before anything is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, assert_never

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..codec.content import read_json, read_msgpack
from ..codec.scales import microseconds
from ..kernels import gather as g
from ..kernels.memory import BLOCK
from ..spec import nodes as n
from ..spec.columns import Column
from ..spec.declare import tag_rows
from ..spec.resolve import MessageNode
from .kernel_program import Program, Slots
from .message_to_row import render
from .nulls import nulls
from .schema import CELL, arrow_type

Mask = NDArray[np.bool_] | None
"""Which rows are there; None if all are."""

_NUMPY = {"int16": np.int16, "int32": np.int32, "int64": np.int64}


@dataclass
class Filled:
    """What the kernel left: entries by slot, and per accepted row its frame and message."""

    program: Program
    buf: NDArray[np.uint8]
    out: NDArray[np.int64]
    base: NDArray[np.int64]
    fill: NDArray[np.int64]
    elements: NDArray[np.int64]
    rows: int
    row_message: NDArray[np.int64]
    row_padded: NDArray[np.int8]
    message_rows: NDArray[np.int64]
    lengths: NDArray[np.int64]
    payloads: NDArray[np.int64]
    frames: NDArray[np.int64] | slice
    """Which frame each row is; a slice where none was declined."""

    def entries(self, slot: int) -> NDArray[np.int64]:
        """The slot's entries: value or position, length, row; one after the other."""
        return self.out[self.base[slot] : self.fill[slot]]

    def values(self, slot: int) -> NDArray[np.int64]:
        return self.entries(slot)[::3]

    def spans(self, slot: int) -> NDArray[np.int64]:
        return self.entries(slot)[1::3]

    def where(self, slot: int) -> NDArray[np.int64]:
        return self.entries(slot)[2::3]

    # --- columns

    def notes(self) -> pa.Array:
        """The oddities that the kernel tolerates: known padding."""
        padded = np.flatnonzero(self.row_padded[: self.rows])
        if not len(padded):
            return nulls(self.rows, pa.list_(pa.string()))
        nodes = self.program.layout.nodes
        notes: list[list[str] | None] = [None] * self.rows
        for row in padded:
            padding = nodes[self.row_message[row]].padding
            assert padding is not None
            notes[row] = [padding.note]
        return pa.array(notes, pa.list_(pa.string()))

    def column(self, name: str) -> pa.Array:
        made = self.program.slots[name]
        if made.column.kind == "derived":
            return self._derived(made.column)
        if made.column.kind == "option":
            shown = self.program.layout.shown[name]
            return pa.repeat(pa.scalar(shown, pa.string()), self.rows)
        if made.column.kind == "word":
            return self.named_by_message([node.word for node in self.program.layout.nodes])
        if not self._anywhere(made.column):
            return nulls(self.rows, arrow_type(made.column))
        return self._array(made, self.rows, self._has(made.column))

    def named_by_message(self, names: list[str]) -> pa.Array:
        """For each row the name that belongs to its message."""
        return _spelled(self.row_message[: self.rows], 1, tuple(names))

    @cached_property
    def _messages(self) -> list[MessageNode | None]:
        """The messages of the layout; None for those of which there are none here."""
        nodes = self.program.layout.nodes
        return [node if count else None for node, count in zip(nodes, self.message_rows.tolist(), strict=True)]

    def _anywhere(self, column: Column) -> bool:
        """Whether any row has this column. A signature is never in a plain frame: the record codec reads those."""
        if isinstance(column.wire, n.Signature):
            return False
        return any(node is not None and column.name in _names(node) for node in self._messages)

    def _has(self, column: Column) -> Mask:
        """Rows whose message has this column."""
        lookup = [node is None or column.name in _names(node) for node in self._messages]
        return None if all(lookup) else np.array(lookup)[self.row_message[: self.rows]]

    def _array(self, made: Slots, rows: int, has: Mask) -> pa.Array:
        column = made.column
        match column.kind:
            case "value":
                return self._value(made, rows)
            case "struct":
                children = [self._child(child, made, rows) for child in made.children.values()]
                fields = [pa.field(c.column.name, arrow_type(c.column)) for c in made.children.values()]
                return pa.StructArray.from_arrays(children, fields=fields, mask=None if has is None else pa.array(~has))
            case "list":
                return self._list(
                    made, rows, self._array(made.children["element"], int(self.elements[made.list_id]), None)
                )
            case "cells":
                return self._list(made, rows, self._cells(made))
            case "order":
                return self._list(made, rows, self._keys(made))
            case "derived" | "option" | "word":
                raise AssertionError("only at the top")
            case _:
                assert_never(column.kind)

    def _child(self, child: Slots, parent: Slots, rows: int) -> pa.Array:
        if isinstance(child.column.how, n.Empty):
            sibling = parent.children[child.column.how.field]
            empty = np.ones(rows, np.bool_)
            empty[self.where(sibling.slot)] = False
            return pa.array(empty)
        return self._array(child, rows, None)

    # --- leaves

    def _value(self, made: Slots, rows: int) -> pa.Array:
        column, slot = made.column, made.slot
        count = int(self.fill[slot] - self.base[slot]) // 3
        if count == 0:
            return nulls(rows, arrow_type(column))
        if column.free:
            return self._rendered(made, rows)
        if column.type in ("string", "binary"):
            return self._bytes(slot, rows, pa.string() if column.type == "string" else pa.binary())
        full, there = self._spread(slot, rows)
        match column.type:
            case "double" if isinstance(column.wire, n.Scaled):
                full = full / column.wire.per
            case "timestamp":
                full = full * microseconds(column.wire) + column.wire.epoch * 1_000_000
            case "double":
                full = _doubles(full, column.wire.size)
            case "bool":
                full = full != 0
            case "decimal":
                full = full.view(np.uint64)
            case name:
                full = full.astype(_NUMPY[name], copy=False)
        array = pa.array(full, mask=None if there is None else there == 0)
        return array.cast(arrow_type(column)) if column.type in ("decimal", "timestamp") else array

    def _spread(self, slot: int, rows: int) -> tuple[NDArray[Any], NDArray[np.uint8] | None]:
        """A slot's values row by row, 0 where there is none; and which rows have one, None if all have."""
        entries = self.entries(slot)
        if len(entries) == 3 * rows:
            return np.ascontiguousarray(entries[::3]), None
        values, there = np.zeros(rows, np.int64), np.zeros(rows, np.uint8)
        g.spread(entries, values, there)
        return values, there

    def _bytes(self, slot: int, rows: int, kind: pa.DataType) -> pa.Array:
        entries = self.entries(slot)
        absent = rows - len(entries) // 3
        size = int(g.total_length(entries))
        data, offsets = np.empty(size + BLOCK, np.uint8), np.empty(rows + 1, np.int32)
        there = np.zeros(rows if absent else 0, np.uint8)
        g.gather(self.buf, entries, offsets, there, data)
        return pa.Array.from_buffers(
            kind, rows, [_bitmap(there) if absent else None, pa.py_buffer(offsets), pa.py_buffer(data[:size])], absent
        )

    def _rendered(self, made: Slots, rows: int) -> pa.Array:
        read = read_json if made.column.wire.content == "json" else read_msgpack
        texts: list[str | None] = [None] * rows
        spans = zip(self.where(made.slot), self.values(made.slot), self.spans(made.slot), strict=True)
        for row, start, length in spans:
            texts[row] = render(read(self.buf[start : start + length].tobytes()), made.column)
        return pa.array(texts, pa.string())

    # --- lists

    def _list(self, made: Slots, rows: int, elements: pa.Array) -> pa.Array:
        counts, there = self._spread(made.slot, rows)
        offsets = np.zeros(rows + 1, np.int32)
        kind = pa.list_(elements.type)
        np.cumsum(counts, out=offsets[1:])
        bitmap = _bitmap(there) if there is not None else None
        return pa.Array.from_buffers(kind, rows, [bitmap, pa.py_buffer(offsets)], children=[elements])

    def _cells(self, made: Slots) -> pa.Array:
        rows = int(self.elements[made.list_id])
        first = made.children["first"].slot
        if rows == 0:
            return pa.nulls(0, CELL)
        return pa.StructArray.from_arrays(
            [
                pa.array(self.values(first).astype(np.int32)),
                _spelled(self.entries(first + 1), 3, tuple(kind.name for kind in made.column.wire.types)),
                self._numbers(first + 2, rows, pa.int64()),
                self._numbers(first + 3, rows, pa.float64()),
                self._bytes(first + 4, rows, pa.string()),
                self._bytes(first + 5, rows, pa.binary()),
            ],
            fields=list(CELL),
        )

    def _numbers(self, slot: int, rows: int, kind: pa.DataType) -> pa.Array:
        """Numbers of eight bytes, whose bits the slot holds."""
        values, there = self._spread(slot, rows)
        bitmap = _bitmap(there) if there is not None else None
        return pa.Array.from_buffers(kind, rows, [bitmap, pa.py_buffer(values)])

    def _keys(self, made: Slots) -> pa.Array:
        assert isinstance(made.column.how, n.OrderOf)
        field = made.column.how.field
        declared = next(x for x in self.program.layout.nodes[0].fields if x.name == field)
        names = [""] * 256
        for row in tag_rows(declared.wire.struct):
            names[row.code] = row.name
        return _spelled(self.entries(made.children["keys"].slot), 3, tuple(names))

    # --- derived

    def _derived(self, column: Column) -> pa.Array:
        if not self._anywhere(column):
            return nulls(self.rows, arrow_type(column))
        has = self._has(column)
        assert column.how is not None
        values, known = self._derive(column.how)
        absent = None if has is None and known is None else ~_both(has, known, self.rows)
        kind = np.int32 if column.type == "int32" else np.bool_
        return pa.array(values.astype(kind, copy=False), mask=absent)

    def _derive(self, how: n.Derived) -> tuple[NDArray[Any], Mask]:
        match how:
            case n.FrameLength(less=less):
                return self.lengths - (self._lengths(less) if less else 0), None
            case n.LengthOf(field=name):
                return self._lengths(name), None
            case n.PayloadLength():
                return self._payload(), None
            case n.Wide(limit=limit):
                return self._payload() >= limit, None
            case n.Masked():
                return np.zeros(self.rows, np.bool_), None
            case n.AtLeast(field=name, limit=limit):
                return self._spread(self._slot_of(name), self.rows)[0] >= limit, None
            case n.Present(field=name):
                return self._present(name), self._looked()
            case n.Empty() | n.OrderOf() | n.Lookup():
                raise AssertionError("not at the top")
            case _:
                assert_never(how)

    def _slot_of(self, path: str) -> int:
        first, *rest = path.split(".")
        fields = (field for cls in self.program.layout.protocol.messages for field in cls.__wire_fields__)
        name = next(field.column or field.key for field in fields if field.name == first)
        made = self.program.slots[name]
        for part in rest:
            made = made.children[part]
        return made.slot

    def _lengths(self, name: str) -> NDArray[np.int64]:
        slot = self._slot_of(name)
        spans = self.spans(slot)
        if len(spans) == self.rows:
            return spans
        full = np.zeros(self.rows, np.int64)
        full[self.where(slot)] = spans
        return full

    def _payload(self) -> NDArray[np.int64]:
        layout = self.program.layout
        parts = layout.frame.parts
        size = next(part for part in parts if isinstance(part, n.Size))
        if isinstance(size.wire, n.Escaped):
            return self.lengths - self.payloads + sum(map(layout.part_size, parts[parts.index(size) + 1 :]))
        before = 0 if size.counts == "whole" else layout.size_before(size) + size.wire.size
        return self.lengths - before - size.plus

    def _present(self, name: str) -> NDArray[np.bool_]:
        there = np.zeros(self.rows, np.bool_)
        there[self.where(self._slot_of(name))] = True
        return there

    def _looked(self) -> Mask:
        """Rows whose body was looked into."""
        looked = np.ones(self.rows, np.bool_)
        for index, node in enumerate(self._messages):
            if node is None or node.body is None:
                continue
            body: n.Body = node.body.wire
            of_message = self.row_message[: self.rows] == index
            if body.empty == "absent":
                looked &= ~of_message | (self._lengths(node.body.name) > 0)
            if body.opaque_if:
                looked &= ~of_message | (self._spread(self._slot_of(body.opaque_if), self.rows)[0] == 0)
        return None if looked.all() else looked


@lru_cache(maxsize=1024)
def _names(node: MessageNode) -> frozenset[str]:
    """The columns that a message has in this reading."""
    return frozenset(x.column or x.key for x in node.fields) | frozenset(d.name for d in node.derived)


def _both(a: Mask, b: Mask, rows: int) -> NDArray[np.bool_]:
    both = np.ones(rows, np.bool_)
    for mask in (a, b):
        if mask is not None:
            both &= mask
    return both


def _bitmap(there: NDArray[np.uint8]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(there, bitorder="little"))


def _doubles(bits: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    """Numbers from their IEEE bits, of 4 or 8 bytes."""
    if size == 4:
        with np.errstate(invalid="ignore"):  # a signalling NaN is a NaN like any other
            return bits.astype(np.uint32).view(np.float32).astype(np.float64)
    return bits.view(np.float64)


def _spelled(numbers: NDArray[np.int64], step: int, names: tuple[str, ...]) -> pa.Array:
    """The name that belongs to every ``step``-th number."""
    starts, spellings, longest = _spellings(names)
    rows = len(numbers) // step
    offsets, data = np.empty(rows + 1, np.int32), np.empty(rows * longest + BLOCK, np.uint8)
    size = g.spell(numbers, step, starts, spellings, offsets, data)
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(data[:size])], 0)


@lru_cache(maxsize=64)
def _spellings(names: tuple[str, ...]) -> tuple[NDArray[np.int64], NDArray[np.uint8], int]:
    """Where each name begins and the last ends, their bytes, and the length of the longest."""
    encoded = [name.encode() for name in names]
    starts = np.cumsum([0, *map(len, encoded)])
    return starts, np.frombuffer(b"".join(encoded) + bytes(BLOCK), np.uint8), max(map(len, encoded))
