"""Layout + wanted columns -> a flat program of integers for the kernel.

Every field becomes one or a few operations; a field whose column is not wanted is still checked, but written nowhere.
Where a protocol asks for something that the kernel does not do, the program says "decline" there and the record codec
takes the frame.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from ..codec.frame import kept_fields, smallest, struct_fields
from ..codec.headers import undisputed
from ..kernels import columns as k
from ..kernels import frames as f
from ..kernels.numbers import LITTLE, SIGNED
from ..kernels.words import MAX_WORDS
from ..spec import nodes as n
from ..spec.columns import Column, columns
from ..spec.declare import tag_rows
from ..spec.resolve import Layout, MessageNode
from .automaton import Unsupported, build
from .shorten_program import shorten

Ints = NDArray[np.int64]
NO_LIMIT = k.NO_LIMIT
CELL_PARTS = ("fid", "type", "long", "double", "text", "bytes")
"""The columns of a cell, in the order of their slots."""
_CONTENTS = {
    "bytes": k.RAW,
    "text": k.TEXT,
    "strict_text": k.TEXT,
    "msgpack": k.MSGPACK,
    "msgpack_map": k.MSGPACK_MAP,
    "json": k.NEVER,
}


@dataclass
class Slots:
    """Where a column's entries are: its own slot, the number of its list, and its children."""

    column: Column
    slot: int = -1
    list_id: int = -1
    children: dict[str, Slots] = field(default_factory=dict)


@dataclass
class Program:
    """What the kernel runs, and where it leaves what."""

    layout: Layout
    wanted: tuple[str, ...]
    prog: Ints
    entries: Ints
    tags: Ints
    cells: Ints
    dfa: NDArray[np.int32]
    patterns: Ints
    words: Ints
    word_bytes: NDArray[np.uint8]
    parts: Ints
    magic: NDArray[np.uint8]
    codes: Ints
    code_heads: Ints
    can_search: bool
    slots: dict[str, Slots]
    n_slots: int
    n_lists: int
    element_slots: list[int]
    names: list[str]
    message_codes: list[int]


class Lowering:
    def __init__(self, layout: Layout, wanted: tuple[str, ...], undecided: tuple[Layout, ...] = ()) -> None:
        self.layout = layout
        self.undecided = undecided
        self.wanted = wanted
        self.table = columns(layout.protocol)
        self.ops: list[list[int]] = []
        self.tags: list[int] = []
        self.cells: list[int] = []
        self.patterns: list[str] = []
        self.n_slots = 0
        self.n_lists = 0
        self.element_slots: list[int] = []
        self.slots: dict[str, Slots] = {}
        self.registers: dict[str, int] = {}
        # Columns that others are derived from are filled too, but not shown.
        needed = set(wanted)
        for name in wanted:
            how = self.table[name].how
            for attribute in ("field", "less"):
                path = getattr(how, attribute, "")
                if path:
                    needed.add(self._column_of(path))
            if isinstance(how, n.Present):
                for node in layout.messages.values():
                    if node.body is not None:
                        needed.add(self._column_of(node.body.name))
                        if node.body.wire.opaque_if:
                            needed.add(self._column_of(node.body.wire.opaque_if))
        for name in self.table:
            if name in needed:
                self.slots[name] = self._assign(self.table[name], in_list=False)

    def _column_of(self, path: str) -> str:
        """The top-level column that holds the field at a path."""
        first = path.partition(".")[0]
        for cls in self.layout.protocol.messages:
            for declared in cls.__wire_fields__:
                if declared.name == first:
                    name: str = declared.column or declared.key
                    return name
        raise AssertionError(f"no field {path}")

    # --- slots

    def _slot(self, in_list: bool) -> int:
        self.n_slots += 1
        if in_list:
            self.element_slots.append(self.n_slots - 1)
        return self.n_slots - 1

    def _assign(self, column: Column, in_list: bool) -> Slots:
        made = Slots(column)
        match column.kind:
            case "value":
                made.slot = self._slot(in_list)
            case "struct":
                made.children = {name: self._assign(child, in_list) for name, child in column.children.items()}
            case "list":
                made.slot, made.list_id = self._slot(in_list), self._list()
                made.children = {"element": self._assign(column.children["element"], True)}
            case "cells":
                made.slot, made.list_id = self._slot(in_list), self._list()
                slots = [self._slot(True) for _ in CELL_PARTS]
                made.children = {"first": Slots(column, slots[0])}
            case "order":
                made.slot, made.list_id = self._slot(in_list), self._list()
                made.children = {"keys": Slots(column, self._slot(True))}
            case "option" | "word" | "derived":
                pass
            case _:
                assert_never(column.kind)
        return made

    def _list(self) -> int:
        self.n_lists += 1
        return self.n_lists - 1

    # --- operations

    def emit(self, op: int, slot: int = -1, *operands: int) -> int:
        row = [op, slot, *operands]
        self.ops.append(row + [0] * (8 - len(row)))
        return len(self.ops) - 1

    def register(self, name: str) -> int:
        if name not in self.registers:
            self.registers[name] = len(self.registers)
        if len(self.registers) > k.REGISTERS:
            raise Unsupported("too many registers")
        return self.registers[name]

    def lower(self) -> Program:
        entries: list[int] = []
        words: list[list[int]] = []
        word_bytes = b""
        nodes = list(self.layout.messages.values())
        line = next((p for p in self.layout.frame.parts if isinstance(p, n.Line)), None)
        for node in nodes:
            self.registers = {}
            start = len(self.ops)
            try:
                if self.undecided and node.code not in undisputed(self.undecided):
                    raise Unsupported("dialects differ")
                self._message(node)
            except Unsupported:
                del self.ops[start:]
                self.emit(k.DECLINE)
            entries.append(start)
        if line is not None:
            most = line.most if line.most is not None else MAX_WORDS
            entries.append(self.emit(k.LINE, -1, line.separator[0], line.end[0], line.window, line.fewest, most))
            self.emit(k.WORD_CODE)
        ops, entries = shorten(self.ops, entries)
        if line is not None:
            for index, node in enumerate(nodes):
                words.append([len(word_bytes), len(node.word), index, entries[index]])
                word_bytes += node.word.encode()
            # Which message it is, the line itself says.
            entries = entries[-1:] * len(nodes)
        dfa, patterns = build(self.patterns)
        parts, magic = self._parts()
        return Program(
            layout=self.layout,
            wanted=self.wanted,
            prog=np.array(ops, np.int64).reshape(-1),
            entries=np.array(entries, np.int64),
            tags=np.array(self.tags or [0], np.int64),
            cells=np.array(self.cells or [0], np.int64),
            dfa=dfa,
            patterns=patterns,
            words=np.array(words, np.int64).reshape(-1),
            word_bytes=np.frombuffer(word_bytes or b"\0", np.uint8),
            parts=parts,
            magic=magic,
            codes=np.array([_wrapped(node.code) for node in nodes], np.int64),
            code_heads=np.array([node.head_least for node in nodes], np.int64),
            can_search=self._can_search(),
            slots=self.slots,
            n_slots=self.n_slots,
            n_lists=self.n_lists,
            element_slots=self.element_slots,
            names=[node.name for node in nodes],
            message_codes=[node.code for node in nodes],
        )

    def _can_search(self) -> bool:
        """Whether what the kernel takes for no header is none, and whatever it accepts is clean."""
        sizes = [part for part in self.layout.frame.parts if isinstance(part, n.Size)]
        return (
            not self.undecided
            and all(part.most is not None and not isinstance(part.wire, n.Escaped) for part in sizes)
            and not any(
                node.head_or is not None or any(isinstance(x.wire, n.Cells) for x in node.fields)
                for node in self.layout.messages.values()
            )
        )

    def _message(self, node: MessageNode) -> None:
        in_frame = kept_fields(self.layout)
        line = next((p for p in self.layout.frame.parts if isinstance(p, n.Line)), None)
        words = 1 + sum(isinstance(x.wire, n.Word) for x in node.fields)
        if line is not None and line.most is not None and line.most > words:
            raise Unsupported("a line with more words than the message has")
        self._kept(node)
        rest = tuple(x for x in node.fields if not x.view_of and x.name not in in_frame)
        word = 0
        body: n.Field | None = None
        i = 0
        while i < len(rest):
            declared = rest[i]
            if isinstance(declared.wire, n.Word):
                word += 1
                self._word(declared.wire, self._of(declared), word, node)
            elif isinstance(declared.wire, n.Body):
                body = declared
            elif isinstance(declared.wire, n.Tags):
                self._tags(declared, node)
            elif declared.when is not None:
                group = [declared]
                while i + len(group) < len(rest) and rest[i + len(group)].when == declared.when:
                    group.append(rest[i + len(group)])
                self._group(declared.when, group, {})
                i += len(group) - 1
            else:
                self._value(declared.wire, self._of(declared), declared.name)
            i += 1
        if body is not None:
            self._body(body, node)
        padding = node.padding.value if node.padding is not None else b""
        if padding.strip(padding[:1]):
            raise Unsupported("padding of different bytes")
        self.emit(k.END, -1, len(padding), padding[0] if padding else 0)

    def _of(self, declared: n.Field) -> Slots | None:
        return self.slots.get(declared.column or declared.key)

    def _kept(self, node: MessageNode) -> None:
        """Fields in the frame header: the cursor stands behind it, so they are read by going back."""
        for part in self.layout.frame.parts:
            if isinstance(part, n.Kept):
                # Kept fields have a fixed place before the payload; the frame reader leaves room for them.
                self._kept_ops(node, part)

    def _kept_ops(self, node: MessageNode, part: n.Kept) -> None:
        if any(isinstance(p, n.Size) and isinstance(p.wire, n.Escaped) for p in self.layout.frame.parts):
            raise Unsupported("a kept field beside an escaped length")
        declared = node.field(part.name)
        made = self._of(declared)
        if made is not None:
            back = self.layout.size_before() - self.layout.size_before(part)
            self.emit(k.BACK, made.slot, back, declared.wire.size)

    # --- values

    def _value(self, wire: Any, made: Slots | None, name: str, scope: dict[str, int] | None = None) -> None:
        slot = made.slot if made is not None else -1
        match wire:
            case n.Int():
                self._int(wire, slot)
            case n.Bool(lenient=lenient):
                self.emit(k.BOOL, slot, int(lenient))
            case n.Float(size=size, little=little):
                self.emit(k.INT, slot, size, LITTLE if little else 0, 0, 0, -1)
            case n.Fixed(size=size):
                self.emit(k.FIXED, slot, size)
            case n.Run(length=length):
                content, least, most, absent = _content(wire)
                if isinstance(length, n.Int):
                    self.emit(k.RUN, slot, length.size, _flags(length) | absent, content, least, most)
                elif length is None:
                    self.emit(k.RUN_REST, slot, 0, absent, content, least, most)
                else:
                    assert scope is not None
                    self.emit(k.RUN_REG, slot, scope[length], absent, content, least, most)
            case n.Nested(struct=cls):
                self._struct(cls, made)
            case n.Many():
                self._many(wire, made, name)
            case n.Cells():
                self._cells(wire, made, -1)
            case _:
                raise Unsupported(type(wire).__name__)

    def _int(self, wire: n.Int, slot: int, register: int = -1) -> None:
        flags = _flags(wire)
        low, high = 0, 0
        if wire.low is not None or wire.high is not None:
            flags |= k.RANGED
            low = wire.low if wire.low is not None else -NO_LIMIT
            high = wire.high if wire.high is not None else NO_LIMIT
        self.emit(k.INT, slot, wire.size, flags, low, high, register)

    def _struct(self, cls: Any, made: Slots | None) -> None:
        fields = struct_fields(cls, self.layout)
        used = {x.when.field for x in fields if isinstance(x.when, n.Unless)}
        scope: dict[str, int] = {}
        limits = list(cls.__sum_limits__)
        i = 0
        while i < len(fields):
            declared = fields[i]
            if declared.when is not None:
                group = [declared]
                while i + len(group) < len(fields) and fields[i + len(group)].when == declared.when:
                    group.append(fields[i + len(group)])
                self._group(declared.when, group, scope, made, limits)
                i += len(group)
                continue
            child = made.children.get(declared.column or declared.key) if made is not None else None
            if declared.name in used:
                scope[declared.name] = self.register(f"{cls.__name__}.{declared.name}")
                assert isinstance(declared.wire, n.Int)
                self._int(declared.wire, child.slot if child else -1, scope[declared.name])
            elif isinstance(declared.wire, n.Length):
                scope[declared.name] = self.register(f"{cls.__name__}.{declared.name}")
                self._int(declared.wire.wire, -1, scope[declared.name])
            else:
                self._value(declared.wire, child, declared.name, scope)
            i += 1

    def _group(
        self,
        when: n.Condition,
        group: list[n.Field],
        scope: dict[str, int],
        made: Slots | None = None,
        limits: list[n.SumLimit] | None = None,
    ) -> None:
        """Fields under one condition; without it, runs with a default of no bytes are empty, others absent."""
        match when:
            case n.Unless(field=name, values=values):
                first, second = (*values, *values)[:2]
                test = self.emit(k.JUMP_IN, -1, scope[name], first, second, 0)
                target = 5
            case n.HeadReaches(size=size):
                test = self.emit(k.HEAD_REACHES, -1, size, 0)
                target = 3
            case _:
                raise Unsupported("a field that depends on what is left")

        def child(declared: n.Field) -> Slots | None:
            if made is not None:
                return made.children.get(declared.column or declared.key)
            return self._of(declared) if limits is None else None

        lengths: dict[str, int] = {}
        pending = list(limits or [])
        for declared in group:
            if isinstance(declared.wire, n.Length):
                scope[declared.name] = self.register(declared.name)
                lengths[declared.wire.of] = scope[declared.name]
                self._int(declared.wire.wire, -1, scope[declared.name])
                for limit in list(pending):
                    if all(name in lengths for name in limit.fields):
                        if len(limit.fields) != 2:
                            raise Unsupported("a limit on more than two runs")
                        self.emit(k.SUM_MOST, -1, *(lengths[name] for name in limit.fields), limit.most)
                        pending.remove(limit)
            else:
                self._value(declared.wire, child(declared), declared.name, scope)
        over = self.emit(k.JUMP, -1, 0)
        self.ops[test][target] = len(self.ops)
        for declared in group:
            slots = child(declared)
            if declared.default == b"" and slots is not None:
                self.emit(k.EMPTY, slots.slot)
        self.ops[over][2] = len(self.ops)

    def _many(self, wire: n.Many[Any], made: Slots | None, name: str) -> None:
        list_id = made.list_id if made is not None else self._list()
        least = smallest(wire.element, self.layout)
        match wire.count:
            case n.Int() as count:
                size, flags = count.size, _flags(count)
            case None:
                size, flags = 0, 0
                if least < 1:
                    raise Unsupported("elements without bytes until the end")
            case int() as number:
                size, flags = -number, 0
            case _:
                assert_never(wire.count)
        at = self.emit(k.LIST, made.slot if made is not None else -1, size, flags, least, list_id, 0)
        self._value(wire.element, made.children["element"] if made is not None else None, name)
        self.emit(k.NEXT)
        self.ops[at][6] = len(self.ops)

    def _cells(self, wire: n.Cells[Any], made: Slots | None, closer: int) -> None:
        table = len(self.cells)
        self.cells += [wire.head.size, _flags(wire.head), wire.id_shift, wire.type_shift, wire.type_mask]
        self.cells += [wire.flag_mask, wire.id_max]
        for kind in wire.types:
            match kind.wire:
                case n.Int(size=size) as number:
                    self.cells += [k.KIND_INT, size, _flags(number), 0]
                case n.Float(size=size, little=little):
                    self.cells += [k.KIND_FLOAT, size, LITTLE if little else 0, 0]
                case n.Run(length=n.Int() as length, content=content, most=most, charset="utf-8", errors="strict"):
                    code = k.KIND_BYTES if content == "bytes" else k.KIND_TEXT
                    self.cells += [code, length.size, _flags(length), most or NO_LIMIT]
                case _:
                    self.cells += [k.KIND_ODD, 0, 0, 0]
        list_id = made.list_id if made is not None else self._list()
        first = made.children["first"].slot if made is not None else -1
        slot = made.slot if made is not None else -1
        self.emit(k.CELLS, slot, table, first, list_id, closer)

    def _tags(self, declared: n.Field, node: MessageNode) -> None:
        wire: n.Tags[Any] = declared.wire
        made = self._of(declared)
        table = [[k.KIND_ODD, 0, 0, -1, 0, -1] for _ in range(256)]
        required = -1
        for row in tag_rows(wire.struct):
            if wire.demand and node.code in row.required:
                if required >= 0:
                    raise Unsupported("more than one required tag")
                required = row.code
            if not wire.anywhere and node.code not in row.allowed:
                continue
            slot = made.children[row.name].slot if made is not None else -1
            path = f"{declared.name}.{row.name}"
            register = self.register(path) if self._asked(path, node, wire, row.name) else -1
            match row.wire:
                case None:
                    table[row.code] = [k.KIND_FLAG, 0, 0, slot, 0, register]
                case n.Int(size=size) as number:
                    table[row.code] = [k.KIND_INT, size, _flags(number), slot, 0, register]
                case n.Run(length=n.Int() as length, content="text", most=most):
                    table[row.code] = [k.KIND_TEXT, length.size, _flags(length), slot, most or NO_LIMIT, register]
                case _:
                    pass
        start = len(self.tags)
        self.tags += [number for row_ in table for number in row_]
        shown = (slots for slots in self.slots.values() if isinstance(slots.column.how, n.OrderOf))
        order = next((slots for slots in shown if slots.column.how == n.OrderOf(declared.name)), None)
        waiver = self.registers.get(f"{declared.name}.{wire.waived}", -1)
        self.emit(
            k.TAGS,
            order.slot if order else -1,
            start,
            order.children["keys"].slot if order else -1,
            order.list_id if order else 0,
            required,
            waiver,
        )

    def _asked(self, path: str, node: MessageNode, wire: n.Tags[Any], name: str) -> bool:
        """Whether something else depends on this tag."""
        body = node.body.wire if node.body is not None else None
        return name == wire.waived or (body is not None and body.opaque_if == path)

    # --- bodies

    def _body(self, declared: n.Field, node: MessageNode) -> None:
        wire: n.Body = declared.wire
        made = self._of(declared)
        if declared.when is not None:
            # A body that depends on another field: plain only if it is not there.
            self.emit(k.DECLINE)
            return
        exactly = wire.exactly if wire.exactly is not None else -1
        most = wire.most if wire.most is not None else -1
        self.emit(k.BODY, made.slot if made is not None else -1, exactly, most)
        if not node.views:
            self.emit(k.END_VIEWS)
            return
        skips: list[tuple[int, int]] = []
        if wire.opaque_if in self.registers:
            skips.append((self.emit(k.IF_REG, -1, self.registers[wire.opaque_if], 0), 3))
        if wire.empty == "absent":
            skips.append((self.emit(k.IF_EMPTY, -1, 0), 2))
        elif wire.empty == "refused" or wire.empty_if is not None:
            self.emit(k.DECLINE_IF_LESS, -1, 1)
        signature = next((v.wire for v in node.views if isinstance(v.wire, n.Signature)), None)
        for view in node.views:
            if isinstance(view.wire, n.Signature):
                continue
            slots = self._of(view)
            if isinstance(view.wire, n.Cells):
                self._cells(view.wire, slots, signature.fid if signature else -1)
            elif isinstance(view.wire, n.Run) and view.wire.content == "json":
                self.emit(k.DECLINE)
            else:
                self._value(view.wire, slots, view.name)
        over = self.emit(k.JUMP, -1, 0)
        for at, operand in skips:
            self.ops[at][operand] = len(self.ops)
        if skips:
            self.emit(k.END_VIEWS)
        self.ops[over][2] = len(self.ops)

    def _word(self, wire: n.Word[Any], made: Slots | None, index: int, node: MessageNode) -> None:
        pattern = wire.quick or wire.pattern
        if wire.quick is None and (wire.number or wire.parts_most is not None):
            raise Unsupported("a word that holds numbers, without a pattern of plain cases")
        if pattern not in self.patterns:
            build([pattern])
            self.patterns.append(pattern)
        flags = (k.OPTIONAL if wire.optional else 0) | (k.NUMBER if wire.number else 0)
        if wire.only is not None and node.code not in wire.only:
            flags |= k.FORBIDDEN
        most = wire.most if wire.most is not None else NO_LIMIT
        low = wire.low if wire.low is not None else -NO_LIMIT
        high = wire.high if wire.high is not None else NO_LIMIT
        self.emit(
            k.WORD, made.slot if made is not None else -1, index, self.patterns.index(pattern), most, flags, low, high
        )

    # --- frame headers

    def _parts(self) -> tuple[Ints, NDArray[np.uint8]]:
        rows: list[list[int]] = []
        magic = b""
        for part in self.layout.frame.parts:
            match part:
                case n.Magic(value=value):
                    rows.append([f.MAGIC, len(value), 0, len(magic), 0, 0])
                    magic += value
                case n.Size(wire=n.Escaped(escape=escape, wide=wide), least=least):
                    # While the dialect is not known, a wide length is left to the search for it.
                    rows.append([f.ESCAPED, 1, _flags(wide), least, escape, -1 if self.undecided else wide.size])
                case n.Size(wire=wire, counts=counts, least=least, most=most):
                    kind = f.SIZE_WHOLE if counts == "whole" else f.SIZE_AFTER
                    limit = most if most is not None else NO_LIMIT
                    rows.append([kind, wire.size, _flags(wire), least, limit, 0])
                case n.Head(wire=wire, least=least, most=most, body_most=body_most):
                    limit = body_most if body_most is not None else NO_LIMIT
                    rows.append([f.HEAD, wire.size, _flags(wire), least, most, limit])
                case n.Code(wire=wire):
                    rows.append([f.CODE, wire.size, _flags(wire), 0, 0, 0])
                case n.Kept(name=name):
                    rows.append([f.KEPT, next(iter(self.layout.messages.values())).field(name).wire.size, 0, 0, 0, 0])
                case n.Line():
                    rows.append([f.LINE, 0, 0, 0, 0, 0])
                case n.Trailer() | n.Until() | n.Ends():
                    raise AssertionError(f"{part!r} is for the exact reader")
                case _:
                    assert_never(part)
        return np.array(rows, np.int64).reshape(-1), np.frombuffer(magic or b"\0", np.uint8)


def _flags(wire: n.Int) -> int:
    return (SIGNED if wire.signed else 0) | (LITTLE if wire.little else 0)


def _content(wire: n.Run[Any]) -> tuple[int, int, int, int]:
    content = _CONTENTS[wire.content]
    most = wire.most if wire.most is not None else NO_LIMIT
    absent = k.MAY_BE_EMPTY if wire.null_if_empty or wire.absent_if_empty else 0
    return content, wire.least, most, absent


def _wrapped(code: int) -> int:
    return code if code < 1 << 63 else code - (1 << 64)
