"""Layout + wanted columns -> a flat program of integers for the kernel.

Every field becomes one or a few operations; a field whose column is not wanted is still checked, but written nowhere.
Where a protocol asks for something that the kernel does not do, the program says "decline" there and the record codec
takes the frame.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from ..codec.frame import kept_fields, smallest, struct_fields
from ..codec.headers import undisputed
from ..codec.numerals import spell
from ..kernels import columns as k
from ..kernels import frames as f
from ..kernels import numerals as m
from ..kernels.numbers import LITTLE, SIGNED
from ..kernels.words import MAX_WORDS
from ..spec import nodes as n
from ..spec.columns import Column, columns
from ..spec.conditions import asked_around, conditions_of
from ..spec.conduct import When
from ..spec.declare import UNSET, tag_rows
from ..spec.plain import beyond
from ..spec.resolve import Layout, MessageNode, size_of, spare_bytes
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
_SUMS = {
    "crc32": m.CRC32,
    "crc16_modbus": m.CRC16_MODBUS,
    "crc16_ccitt": m.CRC16_CCITT,
    "adler32": m.ADLER32,
    "sum8": m.SUM8,
    "sum16": m.SUM16,
    "xor8": m.XOR8,
}
Scope = dict[str, int]
"""The registers of the fields of a structure that something else asks for."""
Child = Callable[[n.Field], "Slots | None"]


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
        self.constants = b""
        self.depth = 0
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
                for node in layout.nodes:
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
        nodes = self.layout.nodes
        if self.layout.others or self.layout.beginnings or n.OTHER in self.layout.by_code:
            raise Unsupported("frames of several kinds, codes of several parts, or any code")
        if self.layout.loose:
            raise Unsupported("fields without a fixed size in the header")
        if any(
            isinstance(made.how, n.Lookup | n.Empty)
            for cls in self.layout.protocol.messages
            for made in cls.__derived_fields__
        ):
            raise Unsupported("values that are looked up, or said to be absent")
        if any(isinstance(part, n.Line) and part.skip for part in self.layout.frame.parts):
            raise Unsupported("words that are left out")
        line = next((p for p in self.layout.frame.parts if isinstance(p, n.Line)), None)
        for node in nodes:
            self.registers, self.depth = {}, 0
            start = len(self.ops)
            try:
                if self.undecided and node.codes[0] not in undisputed(self.undecided):
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
                words.append([self._constant(node.word.encode()), len(node.word), index, entries[index]])
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
            word_bytes=np.frombuffer(self.constants or b"\0", np.uint8),
            parts=parts,
            magic=magic,
            codes=np.array([_wrapped(node.codes[0]) for node in nodes], np.int64),
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
            and not beyond(self.layout)
            and all(part.most is not None and not isinstance(part.wire, n.Escaped) for part in sizes)
            and not any(
                node.head_or is not None or any(isinstance(x.wire, n.Cells) for x in node.fields)
                for node in self.layout.nodes
            )
        )

    def _message(self, node: MessageNode) -> None:
        if any(isinstance(made.how, n.Lookup) for made in node.derived):
            raise Unsupported("a value that is looked up")
        in_frame = kept_fields(self.layout)
        line = next((p for p in self.layout.frame.parts if isinstance(p, n.Line)), None)
        words = 1 + sum(isinstance(x.wire, n.Word) for x in node.fields)
        if line is not None and line.most is not None and line.most > words:
            raise Unsupported("a line with more words than the message has")
        self._tail()
        scope: Scope = {}
        self._kept(node, scope)
        for kept in (x for x in node.fields if x.name in in_frame):
            scope |= _unsigned(kept)
        rest = tuple(x for x in node.fields if not x.view_of and x.name not in in_frame)
        body = next((x for x in rest if isinstance(x.wire, n.Body)), None)
        plain: list[n.Field] = []
        word = 0
        for declared in rest:
            if isinstance(declared.wire, n.Word):
                word += 1
                self._word(declared.wire, self._of(declared), word, node)
            elif isinstance(declared.wire, n.Tags):
                self._sequence("", tuple(plain), self._of, scope)
                plain = []
                self._tags(declared, node)
            elif declared is not body:
                plain.append(declared)
        self._sequence("", tuple(plain), self._of, scope)
        if body is not None:
            self._body(body, node)
        padding = node.padding.value if node.padding is not None else b""
        if padding.strip(padding[:1]):
            raise Unsupported("padding of different bytes")
        self.emit(k.END, -1, len(padding), padding[0] if padding else 0)

    def _of(self, declared: n.Field) -> Slots | None:
        return self.slots.get(declared.column or declared.key)

    def _constant(self, value: bytes) -> int:
        """Return where these bytes are among the constants."""
        if value not in self.constants:
            self.constants += value
        return self.constants.index(value)

    def _ending(self, value: bytes) -> int:
        """Return place and size of the bytes that end something, as one number."""
        return self._constant(value) << 8 | len(value)

    def _tail(self) -> None:
        """What stands behind the payload."""
        for part in self.layout.frame.parts:
            if isinstance(part, n.Trailer | n.Until):
                value = part.value if isinstance(part, n.Trailer) else part.end
                self.emit(k.CUT, -1, len(value), self._constant(value))

    def _kept(self, node: MessageNode, scope: Scope) -> None:
        """Fields in the frame header, which lies before the cursor."""
        parts = [part for part in self.layout.frame.parts if isinstance(part, n.Kept)]
        fields = [node.field(part.name) for part in parts]
        asked = _asked_of(node.fields)
        if all(isinstance(x.wire, n.Fixed) for x in fields) and not any(map(_is_variable, self.layout.frame.parts)):
            for part, declared in zip(parts, fields, strict=True):
                made = self._of(declared)
                if made is not None:
                    back = self.layout.size_before() - self.layout.size_before(part)
                    self.emit(k.BACK, made.slot, back, declared.wire.size)
            return
        for part, declared in zip(parts, fields, strict=True):
            self.emit(k.SEEK, -1, *self._place(part))
            self._one(declared, self._of(declared), scope, "", asked)
        if parts:
            self.emit(k.SEEK, -1, 0, 1)

    def _place(self, part: n.Kept) -> tuple[int, int]:
        """Return where a part of the header is: so far from the frame's first byte (0) or the payload's (1)."""
        parts = self.layout.frame.parts
        at = parts.index(part)
        if not any(map(_is_variable, parts[:at])):
            return self.layout.size_before(part), 0
        if not any(map(_is_variable, parts[at:])):
            return -sum(map(self.layout.part_size, parts[at:])), 1
        raise Unsupported("a field between two lengths of variable size")

    # --- values

    def _value(self, wire: Any, made: Slots | None, name: str, scope: Scope | None = None, register: int = -1) -> None:
        slot = made.slot if made is not None else -1
        match wire:
            case n.Int() | n.Bits() | n.Varint() | n.Digits():
                self._number(wire, slot, register)
            case n.Bool(lenient=lenient):
                self.emit(k.BOOL, slot, int(lenient), register + 1)
            case _ if register >= 0:
                raise Unsupported("a condition on what is no number")
            case n.Scaled(wire=inner):
                if made is not None and made.column.wire != wire:
                    raise Unsupported("a column of numbers of different units")
                self._number(inner, slot)
            case n.Float(size=size, little=little):
                if made is not None and getattr(made.column.wire, "size", 0) != size:
                    raise Unsupported("a column of floats of different sizes")
                self.emit(k.INT, slot, size, LITTLE if little else 0, 0, 0, -1)
            case n.Fixed(size=size):
                self.emit(k.FIXED, slot, size)
            case n.Run():
                self._run(wire, made, scope)
            case n.Constant(value=value):
                self.emit(k.CONST, -1, self._constant(value), len(value))
            case n.Sized():
                self._sized(wire, made, name, scope)
            case n.Nested(struct=cls):
                self._struct(cls, made, scope)
            case n.Many():
                self._many(wire, made, name, scope)
            case n.Cells():
                self._cells(wire, made, -1)
            case _:
                raise Unsupported(type(wire).__name__)

    def _number(self, wire: Any, slot: int, register: int = -1) -> None:
        match wire:
            case n.Int():
                self._int(wire, slot, register)
            case n.Bits(wire=whole, shift=shift, width=width):
                if width > 63:
                    raise Unsupported("64 bits of an integer")
                packed = whole.size | shift << 8 | width << 16 | size_of(wire) << 24
                self.emit(k.BITS, slot, packed, *_ranged(whole), register)
            case n.Digits(size=size, base=base) if size or base == 8:
                raise Unsupported("digits of a fixed number, or of base 8")
            case n.Varint(ber=ber, wider=wider) if ber or wider:
                raise Unsupported("a number whose first byte says how many follow")
            case n.Varint(most_bytes=most_bytes):
                self.emit(k.VARINT, slot, min(most_bytes, m.MOST_VARINT), _varint_flags(wire), 0, 0, register)
            case n.Digits(low=low, high=high, end=end):
                most, flags = _digits_limits(wire)
                self.emit(k.DIGITS, slot, most, flags, low, high, register, self._ending(end))
            case _:
                raise Unsupported(type(wire).__name__)

    def _int(self, wire: n.Int, slot: int, register: int = -1) -> None:
        self.emit(k.INT, slot, wire.size, *_ranged(wire), register)

    def _run(self, wire: n.Run[Any], made: Slots | None, scope: Scope | None) -> None:
        slot = made.slot if made is not None else -1
        content, least, most, absent = _content(wire)
        if made is not None and made.column.free and getattr(made.column.wire, "content", "") != wire.content:
            raise Unsupported("a column of different free-form values")
        if wire.null is not None and wire.null >= 0:
            raise Unsupported("a length that stands for no value")
        if wire.escapes:
            raise Unsupported("escapes")
        match wire.length:
            case n.Int(low=None, high=None) as number:
                self.emit(k.RUN, slot, number.size, _flags(number) | absent, content, least, most)
            case None:
                self.emit(k.RUN_REST, slot, 0, absent, content, least, most)
            case str() as name if scope is not None and f"apart {name}" in scope:
                self.emit(k.RUN_REG, slot, scope[name], absent, content, least, most)
            case int() as size:
                if content == k.NEVER:
                    raise Unsupported("another character set")
                pad = wire.pad or wire.pad_before
                self.emit(k.PADDED, slot, size, pad[0], int(bool(wire.pad_before)), content)
            case bytes() as end:
                length = self.register("length")
                self.emit(k.FIND, -1, self._constant(end), len(end), length)
                self.emit(k.RUN_REG, slot, length, absent, content, least, most)
                self.emit(k.SKIP, -1, len(end))
            case other:
                length = self.register("length")
                self._size(other, length)
                self.emit(k.RUN_REG, slot, length, absent, content, least, most)
        if wire.end:
            self.emit(k.CONST, -1, self._constant(wire.end), len(wire.end))

    def _size(self, given: Any, register: int) -> None:
        """A length or count that is written before a value."""
        number = n.written(given)
        if number is None:
            raise Unsupported("a length in an earlier field")
        self._number(number, -1, register)
        if isinstance(given, n.By):
            self.emit(k.UNITS, -1, register, given.times, given.plus)

    def _sized(self, wire: n.Sized[Any], made: Slots | None, name: str, around: Scope | None) -> None:
        length, outer = self.register("length"), self.register(f"end {self.depth}")
        self._size(wire.length, length)
        self.emit(k.ENTER, -1, length, outer)
        self.depth += 1
        self._value(wire.inner, made, name, around)
        self.depth -= 1
        self.emit(k.LEAVE, -1, outer)

    def _struct(self, cls: Any, made: Slots | None, around: Scope | None) -> None:
        def child(declared: n.Field) -> Slots | None:
            return made.children.get(declared.column or declared.key) if made is not None else None

        fields = struct_fields(cls, self.layout)
        own = {field.name for field in fields}
        known = {key: register for key, register in (around or {}).items() if not key.startswith("apart ")}
        scope = {key: register for key, register in known.items() if key.removeprefix("unsigned ") not in own}
        self._sequence(f"{cls.__name__}.", fields, child, scope, list(cls.__sum_limits__))

    def _sequence(
        self,
        place: str,
        fields: tuple[n.Field, ...],
        child: Child,
        scope: Scope,
        limits: list[n.SumLimit] | None = None,
    ) -> None:
        """Fields one after the other."""
        asked = _asked_of(fields)
        spare = spare_bytes(fields)
        i = 0
        while i < len(fields):
            declared = fields[i]
            if declared.when is not None and (isinstance(declared.when, n.HeadReaches) or _begins_group(declared)):
                group = [declared]
                while i + len(group) < len(fields) and fields[i + len(group)].when == declared.when:
                    group.append(fields[i + len(group)])
                self._group(declared.when, group, scope, child, limits)
                i += len(group)
                continue
            is_behind = isinstance(declared.wire, n.WireOnly)
            self._conditional(declared, child, scope, place, asked, 0 if is_behind else spare[i])
            i += 1

    def _conditional(
        self, declared: n.Field, child: Child, scope: Scope, place: str, asked: frozenset[str], spare: int
    ) -> None:
        """A field that may depend on others; ``spare`` bytes behind it belong to what follows."""
        made, when = child(declared), declared.when
        if when is None:
            self._narrowed(declared, made, scope, place, asked, spare)
            return
        is_plain = declared.default is None or declared.default is UNSET or declared.default == b""
        is_seen = not isinstance(declared.wire, n.WireOnly | n.Length)
        inner = declared.wire.inner if isinstance(declared.wire, n.Sized) else declared.wire
        if is_seen and (not is_plain or isinstance(inner, n.Nested | n.Cells)):
            raise Unsupported("what an absent field is")
        if declared.name in asked:
            scope[declared.name] = self.register(place + declared.name)
            self.emit(k.SET, -1, scope[declared.name], 0)
        present = self.register(f"{place}{declared.name} present") if f"with {declared.name}" in asked else -1
        if present >= 0:
            self.emit(k.SET, -1, present, 0)
        match when:
            case n.IfLeft():
                self._narrow(spare)
                tests, target = [self.emit(k.IF_LEFT)], 2
                self._narrow(-spare)
            case n.With(field=name):
                known = self.registers.get(f"{place}{name} present")
                if known is None:
                    raise Unsupported("a field that depends on one that is always there")
                tests, target = [self.emit(k.WHEN, -1, known, self._condition(When(name)))], 4
            case When() | n.Every() if all(one.field in scope for one in conditions_of(when)):
                asked_of = [
                    (scope[one.field], self._condition(one, f"unsigned {one.field}" in scope))
                    for one in conditions_of(when)
                ]
                tests, target = [self.emit(k.WHEN, -1, *each) for each in asked_of], 4
            case _:
                raise Unsupported("a condition on what is no number here")
        self._narrowed(declared, made, scope, place, asked, spare)
        if present >= 0:
            self.emit(k.SET, -1, present, 1)
        over = self.emit(k.JUMP)
        for test in tests:
            self.ops[test][target] = len(self.ops)
        if isinstance(when, n.IfLeft):
            self._narrow(-spare)
        if declared.default == b"" and made is not None:
            self.emit(k.EMPTY, made.slot)
        self.ops[over][2] = len(self.ops)

    def _narrowed(
        self, declared: n.Field, made: Slots | None, scope: Scope, place: str, asked: frozenset[str], spare: int
    ) -> None:
        self._narrow(spare)
        self._one(declared, made, scope, place, asked)
        self._narrow(-spare)

    def _narrow(self, size: int) -> None:
        """End the range earlier, by a number of bytes."""
        if size:
            self.emit(k.NARROW, -1, size)

    def _one(self, declared: n.Field, made: Slots | None, scope: Scope, place: str, asked: frozenset[str]) -> None:
        """A field that is there."""
        if f"since {declared.name}" in asked:
            self.emit(k.MARK, -1, self.register(f"{place}{declared.name} begins"))
        if isinstance(declared.wire, n.Length):
            if declared.wire.since:
                raise Unsupported("a length that counts from an earlier field on")
            scope[declared.name] = self.register(place + declared.name)
            self._int(declared.wire.wire, -1, scope[declared.name])
            scope[f"apart {declared.name}"] = scope[declared.name]
        elif isinstance(declared.wire, n.Checksum):
            wire, since = declared.wire.wire, declared.wire.since
            if not isinstance(wire, n.Int):
                raise Unsupported("a sum as text")
            begin = self.registers.get(f"{place}{since} begins", -1) if since else -1
            if since and begin < 0:
                raise Unsupported("a sum from a field in the frame on")
            self.emit(k.SUM, -1, _SUMS[declared.wire.kind], wire.size, _flags(wire), begin)
        elif declared.name in asked:
            scope[declared.name] = self.register(place + declared.name)
            scope |= _unsigned(declared)
            self._value(declared.wire, made, declared.name, scope, scope[declared.name])
        else:
            self._value(declared.wire, made, declared.name, scope)

    def _condition(self, when: When, unsigned: bool = False) -> int:
        """Return where a condition on a number is in the tables."""
        numbers = [*when.one_of, *when.none_of]
        if when.prefix or not all(isinstance(number, int) for number in numbers):
            raise Unsupported("a condition on what is no number")
        low, high = (0, (1 << 64) - 1) if unsigned else (-(1 << 63), (1 << 63) - 1)
        least = low if when.least is None else when.least
        most = high if when.most is None else when.most
        if any(not low <= number <= high for number in (*map(int, numbers), least, most)):
            raise Unsupported("a condition on what the number never is")
        turned = 1 << 63 if unsigned else 0
        bare = (2 if when.empty else int(when.is_bare)) | (4 if unsigned else 0)
        start = len(self.cells)
        self.cells += [least - turned, most - turned, _wrapped(when.bits), bare]
        for values in (when.one_of, when.none_of):
            self.cells += [len(values), *(_wrapped(int(value)) for value in values)]
        return start

    def _group(
        self,
        when: n.Condition,
        group: list[n.Field],
        scope: Scope,
        child: Child,
        limits: list[n.SumLimit] | None,
    ) -> None:
        """Fields under one condition; without it, runs with a default of no bytes are empty, others absent."""
        match when:
            case When(field=name, off=off) if len(off) in (1, 2) and name in scope:
                first, second = (*off, *off)[:2]
                test = self.emit(k.JUMP_IN, -1, scope[name], first, second, 0)
                target = 5
            case n.HeadReaches(size=size):
                test = self.emit(k.HEAD_REACHES, -1, size, 0)
                target = 3
            case _:
                raise Unsupported("lengths under another condition than one or two numbers")
        lengths: dict[str, int] = {}
        pending = list(limits or [])
        for declared in group:
            if isinstance(declared.wire, n.Length):
                scope[declared.name] = self.register(declared.name)
                lengths[declared.wire.of] = scope[declared.name]
                self._int(declared.wire.wire, -1, scope[declared.name])
                scope[f"apart {declared.name}"] = scope[declared.name]
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

    def _many(self, wire: n.Many[Any], made: Slots | None, name: str, around: Scope | None) -> None:
        list_id = made.list_id if made is not None else self._list()
        least = smallest(wire.element, self.layout)
        size = flags = ending = 0
        if wire.null is not None and wire.null >= 0:
            raise Unsupported("a count that stands for no value")
        if wire.until is not None:
            raise Unsupported("a list that ends with a certain element")
        match wire.count:
            case n.Int() as count:
                size, flags = count.size, _flags(count)
                if count.low is not None or count.high is not None:
                    raise Unsupported("a count with limits")
            case n.Varint() | n.Digits() | n.By():
                # Registers count from 1 here: 0 is "until the end".
                size, flags = self.register("length") + 1, k.COUNTED
                self._size(wire.count, size - 1)
            case None | bytes() as end:
                if end is not None:
                    flags, ending = k.ENDED, self._ending(end)
            case int() as fixed:
                size = -fixed
            case _:
                raise Unsupported("a count in an earlier field")
        if self.depth >= k.MAX_NESTING:
            raise Unsupported("lists in lists in lists")
        if least < 1:
            raise Unsupported("elements that may have no bytes")
        self.depth += 1
        at = self.emit(k.LIST, made.slot if made is not None else -1, size, flags, least, list_id, 0, ending)
        self._value(wire.element, made.children["element"] if made is not None else None, name, around)
        self.emit(k.NEXT, -1, ending)
        self.ops[at][6] = len(self.ops)
        self.depth -= 1

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
        shown = (made.key for made in node.derived if made.how == n.OrderOf(declared.name))
        order = next((self.slots[name] for name in shown if name in self.slots), None)
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
        parts = self.layout.frame.parts
        for part in parts:
            row: list[int]
            match part:
                case n.Magic(value=value):
                    row = [f.MAGIC, len(value), 0, len(magic)]
                    magic += value
                case n.Size(wire=n.Escaped(escape=escape, wide=wide), least=least, plus=0):
                    # While the dialect is not known, a wide length is left to the search for it.
                    row = [f.ESCAPED, 1, _flags(wide), least, escape, -1 if self.undecided else wide.size]
                case n.Size(wire=wire, counts=counts, least=least, most=most, plus=plus):
                    limits = [least, most if most is not None else NO_LIMIT, plus]
                    whole = f.WHOLE if counts == "whole" else 0
                    match wire:
                        case n.Int():
                            row = [f.SIZE_WHOLE if whole else f.SIZE_AFTER, wire.size, _flags(wire), *limits]
                        case n.Varint(most_bytes=most_bytes, ber=False, wider=()):
                            row = [f.VARINT, 1, _varint_flags(wire) | whole, *limits, min(most_bytes, m.MOST_VARINT)]
                        case n.Digits(low=low, high=high, end=end) if end:
                            digits, flags = _digits_limits(wire)
                            limits = [max(least, low), min(limits[1], high), plus]
                            row = [f.DIGITS, 1, flags | whole, *limits, digits, len(magic) << 8 | len(end)]
                            magic += end
                        case _:
                            raise Unsupported(f"a length that is {wire!r}")
                case n.Head(wire=wire, least=least, most=most, body_most=body_most):
                    limit = body_most if body_most is not None else NO_LIMIT
                    row = [f.HEAD, wire.size, _flags(wire), least, most, limit]
                case n.Code(wire=n.Int() as wire):
                    row = [f.CODE, wire.size, _flags(wire), 0, -1, wire.size]
                case n.Code(wire=n.Bits(wire=whole_wire, shift=shift, width=width) as wire) if width < 64:
                    row = [f.CODE, size_of(wire), _flags(whole_wire), shift, (1 << width) - 1, whole_wire.size]
                case n.Kept():
                    row = [f.KEPT, self.layout.part_size(part)]
                case n.Line():
                    row = [f.ONLY, 0]
                case n.Trailer(value=value):
                    row = [f.TAIL, 0, 0, len(value)]
                case n.Until(end=end, most=most):
                    row = [f.UNTIL, 0, 0, most, len(magic), len(end)]
                    magic += end
                case _:
                    raise Unsupported(f"{part!r} in a frame")
            rows.append(row + [0] * (f.NUMBERS_PER_PART - len(row)))
        if not any(isinstance(part, n.Code | n.Line) for part in parts):
            rows.append([f.ONLY] + [0] * (f.NUMBERS_PER_PART - 1))
        return np.array(rows, np.int64).reshape(-1), np.frombuffer(magic or b"\0", np.uint8)


def _begins_group(declared: n.Field) -> bool:
    """Return whether a field is a length that is there under a condition, as is what it is the length of."""
    return isinstance(declared.wire, n.Length) and isinstance(declared.when, When) and bool(declared.when.off)


def _asked_of(fields: tuple[n.Field, ...]) -> frozenset[str]:
    """What later fields ask of earlier ones: the value of ``x``, where it begins, whether it is there."""
    asked: set[str] = set()
    for declared in fields:
        asked |= {one.field.partition(".")[0] for one in conditions_of(declared.when)}
        asked |= asked_around(declared.wire)
        if isinstance(declared.when, n.With):
            asked.add(f"with {declared.when.field}")
        if isinstance(declared.wire, n.Checksum) and declared.wire.since:
            asked.add(f"since {declared.wire.since}")
    return frozenset(asked)


def _is_variable(part: n.Part) -> bool:
    """Whether a part of the header has no fixed size."""
    return isinstance(part, n.Size) and not isinstance(part.wire, n.Int)


def _varint_flags(wire: n.Varint) -> int:
    order = (m.LENIENT if wire.lenient else 0) | (m.HIGH_FIRST if wire.high_first else 0)
    short = m.OF_32_BITS if wire.signed == "twos" and wire.most_bytes == 5 else 0
    return order | short | (m.ZIGZAG if wire.signed == "zigzag" else 0)


def _digits_limits(wire: n.Digits) -> tuple[int, int]:
    """Return the most digits that the kernel reads, and flags."""
    most = m.MOST_DIGITS[wire.base]
    if wire.lenient:
        most = min(most, 4 * max(len(spell(wire, wire.low)), len(spell(wire, wire.high))) - 1)
    flags = (m.LENIENT if wire.lenient else 0) | (m.HEX if wire.base == 16 else 0)
    return most, flags | (m.MAY_BE_NEGATIVE if wire.low < 0 else 0)


def _ranged(wire: n.Int) -> tuple[int, int, int]:
    """Return flags, lowest and highest value of an integer."""
    if wire.low is None and wire.high is None:
        return _flags(wire), 0, 0
    low = wire.low if wire.low is not None else -NO_LIMIT
    high = wire.high if wire.high is not None else NO_LIMIT
    return _flags(wire) | k.RANGED, low, high


def _flags(wire: n.Int) -> int:
    return (SIGNED if wire.signed else 0) | (LITTLE if wire.little else 0)


def _content(wire: n.Run[Any]) -> tuple[int, int, int, int]:
    content = _CONTENTS[wire.content]
    if wire.content == "strict_text" and wire.charset != "utf-8":
        content = k.NEVER
    most = wire.most if wire.most is not None else NO_LIMIT
    absent = k.MAY_BE_EMPTY if wire.null_if_empty or wire.absent_if_empty else 0
    return content, wire.least, most, absent


def _unsigned(declared: n.Field) -> Scope:
    """Return a mark for a number that registers may hold as a negative one."""
    match declared.wire:
        case n.Int(size=8, signed=False):
            return {f"unsigned {declared.name}": 1}
        case _:
            return {}


def _wrapped(code: int) -> int:
    return code if code < 1 << 63 else code - (1 << 64)
