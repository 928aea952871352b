"""Filled slots -> Arrow arrays. Slots are dense: entries with the row of each; rows without an entry are null."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, assert_never

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..codec.content import read_json, read_msgpack
from ..kernels import columns as k
from ..spec import nodes as n
from ..spec.columns import Column
from ..spec.declare import tag_rows
from ..spec.resolve import MessageNode
from .lower import Program, Slots
from .rows import render
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
    lengths: NDArray[np.int64]
    payloads: NDArray[np.int64]
    frames: NDArray[np.int64]
    """Which frame each row is."""

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
            return pa.nulls(self.rows, pa.list_(pa.string()))
        nodes = list(self.program.layout.messages.values())
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
            words = pa.array([node.word for node in self.program.layout.messages.values()], pa.string())
            return words.take(pa.array(self.row_message[: self.rows]))
        return self._array(made, self.rows, self._has(made.column))

    def _has(self, column: Column) -> Mask:
        """Rows whose message has this column. A signature is never in a plain frame: the record codec reads those."""
        if isinstance(column.wire, n.Signature):
            return np.zeros(self.rows, np.bool_)
        lookup = np.array([column.name in _names(node) for node in self.program.layout.messages.values()])
        if lookup.all():
            return None
        mask: NDArray[np.bool_] = lookup[self.row_message[: self.rows]]
        return None if mask.all() else mask

    def _array(self, made: Slots, rows: int, has: Mask) -> pa.Array:
        column = made.column
        match column.kind:
            case "value":
                return self._value(made, rows)
            case "struct":
                children = [self._child(child, made, rows) for child in made.children.values()]
                fields = [pa.field(c.column.name, arrow_type(c.column)) for c in made.children.values()]
                if has is not None and not has.any():
                    return pa.nulls(rows, pa.struct(fields))
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
            return pa.nulls(rows, arrow_type(column))
        if column.free:
            return self._rendered(made, rows)
        if column.type in ("string", "binary"):
            return self._bytes(slot, rows, pa.string() if column.type == "string" else pa.binary())
        values = self.values(slot)
        if column.type == "double":
            full: Any = _doubles(values, np.full(count, column.wire.size))
        elif column.type == "bool":
            full = values != 0
        elif column.type == "decimal":
            full = values.copy().view(np.uint64)
        else:
            full = values.astype(_NUMPY[column.type])
        if count == rows:
            array = pa.array(full)
        else:
            spread = np.zeros(rows, full.dtype)
            where = self.where(slot)
            spread[where] = full
            array = pa.array(spread, mask=_absent(rows, where))
        return array.cast(pa.decimal128(20, 0)) if column.type == "decimal" else array

    def _bytes(self, slot: int, rows: int, kind: pa.DataType) -> pa.Array:
        lengths = self.spans(slot)
        count = len(lengths)
        dense = np.zeros(count + 1, np.int64)
        np.cumsum(lengths, out=dense[1:])
        data = np.empty(int(dense[-1]), np.uint8)
        k.gather(self.buf, self.entries(slot), dense, data)
        if count == rows:
            offsets, bitmap = dense.astype(np.int32), None
        else:
            where = self.where(slot)
            offsets = np.zeros(rows + 1, np.int32)
            offsets[where + 1] = lengths
            np.cumsum(offsets, out=offsets)
            bitmap = _bitmap(rows, where)
        return pa.Array.from_buffers(kind, rows, [bitmap, pa.py_buffer(offsets), pa.py_buffer(data)], rows - count)

    def _rendered(self, made: Slots, rows: int) -> pa.Array:
        read = read_json if made.column.wire.content == "json" else read_msgpack
        texts: list[str | None] = [None] * rows
        spans = zip(self.where(made.slot), self.values(made.slot), self.spans(made.slot), strict=True)
        for row, start, length in spans:
            texts[row] = render(read(self.buf[start : start + length].tobytes()), made.column)
        return pa.array(texts, pa.string())

    # --- lists

    def _list(self, made: Slots, rows: int, elements: pa.Array) -> pa.Array:
        counts = self.values(made.slot)
        offsets = np.zeros(rows + 1, np.int32)
        kind = pa.list_(elements.type)
        if len(counts) == rows:
            np.cumsum(counts, out=offsets[1:])
            bitmap = None
        else:
            where = self.where(made.slot)
            offsets[where + 1] = counts
            np.cumsum(offsets, out=offsets)
            bitmap = _bitmap(rows, where)
        return pa.Array.from_buffers(
            kind, rows, [bitmap, pa.py_buffer(offsets)], rows - len(counts), children=[elements]
        )

    def _cells(self, made: Slots) -> pa.Array:
        rows = int(self.elements[made.list_id])
        first = made.children["first"].slot
        names = pa.array([kind.name for kind in made.column.wire.types], pa.string())
        if rows == 0:
            return pa.nulls(0, CELL)
        return pa.StructArray.from_arrays(
            [
                pa.array(self.values(first).astype(np.int32)),
                names.take(pa.array(np.ascontiguousarray(self.values(first + 1)))),
                self._spread(first + 2, rows, self.values(first + 2)),
                self._spread(first + 3, rows, _doubles(self.values(first + 3), self.spans(first + 3))),
                self._bytes(first + 4, rows, pa.string()),
                self._bytes(first + 5, rows, pa.binary()),
            ],
            fields=list(CELL),
        )

    def _spread(self, slot: int, rows: int, values: NDArray[Any]) -> pa.Array:
        if len(values) == rows:
            return pa.array(np.ascontiguousarray(values))
        spread = np.zeros(rows, values.dtype)
        where = self.where(slot)
        spread[where] = values
        return pa.array(spread, mask=_absent(rows, where))

    def _keys(self, made: Slots) -> pa.Array:
        assert isinstance(made.column.how, n.OrderOf)
        field = made.column.how.field
        declared = next(x for x in next(iter(self.program.layout.messages.values())).fields if x.name == field)
        names: list[str | None] = [None] * 256
        for row in tag_rows(declared.wire.struct):
            names[row.code] = row.name
        return pa.array(names, pa.string()).take(
            pa.array(np.ascontiguousarray(self.values(made.children["keys"].slot)))
        )

    # --- derived

    def _derived(self, column: Column) -> pa.Array:
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
                slot = self._slot_of(name)
                full = np.zeros(self.rows, np.int64)
                full[self.where(slot)] = self.values(slot)
                return full >= limit, None
            case n.Present(field=name):
                return self._present(name), self._looked()
            case n.Empty() | n.OrderOf():
                raise AssertionError("not at the top")
            case _:
                assert_never(how)

    def _slot_of(self, path: str) -> int:
        first, *rest = path.split(".")
        name = next(x.column or x.key for cls in self.program.layout.protocol.messages for x in cls.__wire_fields__ if x.name == first)  # fmt: skip
        made = self.program.slots[name]
        for part in rest:
            made = made.children[part]
        return made.slot

    def _lengths(self, name: str) -> NDArray[np.int64]:
        slot = self._slot_of(name)
        full = np.zeros(self.rows, np.int64)
        full[self.where(slot)] = self.spans(slot)
        return full

    def _payload(self) -> NDArray[np.int64]:
        parts = self.program.layout.frame.parts
        at = next(i for i, part in enumerate(parts) if isinstance(part, n.Size))
        behind = sum(p.wire.size for p in parts[at + 1 :] if isinstance(p, n.Code))
        return self.lengths - self.payloads + behind

    def _present(self, name: str) -> NDArray[np.bool_]:
        there = np.zeros(self.rows, np.bool_)
        there[self.where(self._slot_of(name))] = True
        return there

    def _looked(self) -> Mask:
        """Rows whose body was looked into."""
        looked = np.ones(self.rows, np.bool_)
        for index, node in enumerate(self.program.layout.messages.values()):
            if node.body is None:
                continue
            body: n.Body = node.body.wire
            of_message = self.row_message[: self.rows] == index
            if body.empty == "absent":
                looked &= ~of_message | (self._lengths(node.body.name) > 0)
            if body.opaque_if:
                full = np.zeros(self.rows, np.int64)
                slot = self._slot_of(body.opaque_if)
                full[self.where(slot)] = self.values(slot)
                looked &= ~of_message | (full == 0)
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


def _absent(rows: int, where: NDArray[np.int64]) -> NDArray[np.bool_]:
    absent = np.ones(rows, np.bool_)
    absent[where] = False
    return absent


def _bitmap(rows: int, where: NDArray[np.int64]) -> pa.Buffer:
    there = np.zeros(rows, np.uint8)
    there[where] = 1
    return pa.py_buffer(np.packbits(there, bitorder="little"))


def _doubles(bits: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Numbers from their IEEE bits, of 4 or 8 bytes."""
    doubles = bits.copy().view(np.float64)
    single = sizes == 4
    doubles[single] = bits[single].astype(np.uint32).view(np.float32).astype(np.float64)
    return doubles
