"""Description -> Python source of a decoder for complete, ordinary frames.

The generated function judges a whole frame, header and all. It answers with the message, or with None (or any error)
for "look closely": then walk.py reads the frame again and says what is the matter. So no rule is named here, and
nothing that is accepted here may be refused there.

Fixed-size neighbours are read by one ``struct`` call, also across the end of a structure; a run of bytes costs one
length check and one slice. The source of a decoder is its ``__doc__``.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, assert_never

import msgspec
from msgpack import unpackb

from ..errors import DecodeError
from ..spec import nodes as n
from ..spec.declare import Cell, tag_rows
from ..spec.resolve import Layout, MessageNode
from .content import MAX_DEPTH, may_hold_timestamp, no_extension, read_json, read_msgpack
from .frame import kept_fields, smallest, struct_fields
from .numbers import FORMATS, byte_order, code_bytes, code_position, unpacker
from .walk import read_signature

UNSET = msgspec.UNSET
Quick = Callable[[bytes, int], Any]
DOUBTS = (struct.error, ValueError, TypeError, IndexError, KeyError, OverflowError, DecodeError)
"""What a generated decoder may raise instead of answering None."""


@lru_cache(maxsize=64)
def compile_layout(layout: Layout) -> Quick:
    """A function ``(frame, length) -> message or None``."""
    line = next((p for p in layout.frame.parts if isinstance(p, n.Line)), None)
    if line is not None:
        return _line_decoder(layout, line)
    by_code = {code: _MessageSource(layout, node).compile() for code, node in layout.messages.items()}
    part, start = code_position(layout)
    stop = start + part.wire.size
    makers = {code_bytes(part, code): made for code, made in by_code.items()}
    escaped = next((p for p in layout.frame.parts if isinstance(p, n.Size) and isinstance(p.wire, n.Escaped)), None)
    if escaped is not None:
        return _escaped_decoder(layout, escaped, makers, start, stop)

    def decode(frame: bytes, length: int) -> Any:
        return makers[frame[start:stop]](frame, length)

    return decode


def _escaped_decoder(layout: Layout, size: n.Size, makers: dict[bytes, Quick], start: int, stop: int) -> Quick:
    """Messages are compiled for the short header; a wide one is the same frame with the surplus cut out."""
    magic = b"".join(p.value for p in layout.frame.parts if isinstance(p, n.Magic))
    at, escape, wide = len(magic), size.wire.escape, size.wire.wide
    read_wide = unpacker(wide)
    surplus, least, most = wide.size, size.least, size.most if size.most is not None else 1 << 62

    def decode(frame: bytes, length: int) -> Any:
        if not frame.startswith(magic):
            return None
        short = frame[at]
        if short < escape:
            if short != length - at - 1 or short < least:
                return None
            return makers[frame[start:stop]](frame, length)
        (value,) = read_wide(frame, at + 1)
        if short != escape or value != length - at - 1 - surplus or not max(escape, least) <= value <= most:
            return None
        return makers[frame[start + surplus : stop + surplus]](frame[surplus:], length)

    return decode


class _Source:
    """Python source under construction, with the objects that it names."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"unpackb": _unpackb, "UNSET": UNSET, "from_bytes": int.from_bytes}
        self.depth = 1
        self.counter = 0
        # The cursor is `p + offset`, or just `offset` while everything so far had a fixed size.
        self.dynamic = False
        self.offset = 0
        self.pending: list[tuple[str, str]] = []
        self.pending_order = ""
        self.doubts: list[str] = []

    def emit(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, stem: str) -> str:
        self.counter += 1
        return f"{stem}{self.counter}"

    def give(self, stem: str, value: Any) -> str:
        name = self.fresh(stem)
        self.names[name] = value
        return name

    def made(self, name: str) -> Quick:
        """The function whose source is complete now."""
        source = "def decode(b, n):\n" + "\n".join(self.lines) + "\n"
        namespace = dict(self.names)
        exec(compile(source, f"<wirelake {self.layout.protocol.name} {name}>", "exec"), namespace)
        made: Quick = namespace["decode"]
        made.__doc__ = source
        return made

    # --- fixed-size neighbours

    def queue(self, order: str, form: str, variable: str) -> None:
        if self.pending and order and self.pending_order and order != self.pending_order:
            self.flush()
        self.pending_order = self.pending_order or order
        self.pending.append((form, variable))

    def queue_size(self, part: n.Size) -> None:
        """The frame's length, which must be that of the frame at hand."""
        size = self.integer(part.wire)
        counted = 0 if part.counts == "whole" else self.layout.size_before(part) + self.layout.part_size(part)
        self.doubt(f"{size} != n - {counted}" if counted else f"{size} != n")
        self.bounds(part, size)

    def doubt(self, condition: str) -> None:
        """Leaves the frame to a closer look if the condition holds for what is being read."""
        self.doubts.append(condition)

    def flush(self) -> None:
        if not self.pending:
            self.settle_doubts()
            return
        shape = struct.Struct((self.pending_order or ">") + "".join(form for form, _ in self.pending))
        variables = [variable for _, variable in self.pending if variable]
        self.pending, self.pending_order = [], ""
        if variables:
            unpack = self.give("s", shape.unpack_from)
            self.emit(f"{', '.join(variables)}, = {unpack}(b, {self.cursor()})")
        else:
            self.doubt(f"{self.cursor(shape.size)} > n")
        self.offset += shape.size
        self.settle_doubts()

    def settle_doubts(self) -> None:
        if self.doubts:
            self.emit(f"if {' or '.join(self.doubts)}: return None")
            self.doubts = []

    def cursor(self, more: int = 0) -> str:
        offset = self.offset + more
        if not self.dynamic:
            return str(offset)
        return f"p + {offset}" if offset else "p"

    def here(self) -> str:
        """The cursor as a constant or as a variable that stays."""
        self.flush()
        if not self.dynamic:
            return str(self.offset)
        start = self.fresh("a")
        self.emit(f"{start} = {self.cursor()}")
        return start

    def settle(self) -> None:
        """Makes `p` the cursor."""
        self.flush()
        if not self.dynamic or self.offset:
            self.emit(f"p = {self.cursor()}")
        self.dynamic, self.offset = True, 0

    # --- values

    def value(self, wire: Any) -> str:
        """Emits the reading of one value; gives the expression that holds it."""
        match wire:
            case n.Int():
                return self.integer(wire)
            case n.Bool(lenient=lenient):
                variable = self.fresh("v")
                self.queue("", "B", variable)
                if not lenient:
                    self.doubt(f"{variable} > 1")
                return f"{variable} != 0"
            case n.Float():
                variable = self.fresh("v")
                self.queue(byte_order(wire), "f" if wire.size == 4 else "d", variable)
                return variable
            case n.Fixed(size=size):
                variable = self.fresh("v")
                self.queue("", f"{size}s", variable)
                return variable
            case n.Run():
                return self.run(wire)
            case n.Nested(struct=cls):
                return self.struct(cls)
            case n.Many():
                return self.many(wire)
            case n.Cells():
                self.settle()
                variable = self.fresh("v")
                self.emit(f"{variable} = {self.give('cells', cells_reader(wire))}(b, p, n)")
                self.emit(f"if {variable} is None: return None")
                self.emit("p = n")
                return variable
            case n.Length(wire=inner):
                variable = self.integer(inner)
                if inner.signed:
                    self.doubt(f"{variable} < 0")
                return variable
            case _:
                raise AssertionError(f"{wire!r} is not a wire node")

    def integer(self, wire: n.Int, variable: str = "") -> str:
        variable = variable or self.fresh("v")
        if wire.size == 3:
            self.queue("", "3s", variable)
            self.flush()
            self.emit(
                f"{variable} = from_bytes({variable}, {'little' if wire.little else 'big'!r}, signed={wire.signed})"
            )
        else:
            self.queue(byte_order(wire), FORMATS[wire.size, wire.signed], variable)
        self.within(wire, variable)
        return variable

    def within(self, wire: n.Int | n.Word[Any], variable: str) -> None:
        if wire.low is not None:
            self.doubt(f"{variable} < {wire.low}")
        if wire.high is not None:
            self.doubt(f"{variable} > {wire.high}")

    def run(self, wire: n.Run[Any], scope: dict[str, str] | None = None) -> str:
        if wire.length is None:
            self.settle()
            start, stop = "p", "n"
            self.bounds(wire, "n - p")
        else:
            length = (scope or {})[wire.length] if isinstance(wire.length, str) else self.integer(wire.length)
            start, stop = self.here(), "p"
            self.emit(f"p = {start} + {length}")
            self.dynamic, self.offset = True, 0
            self.doubt("p > n")
            if isinstance(wire.length, n.Int) and wire.length.signed:
                self.doubt(f"{length} < 0")
            self.bounds(wire, length)
        self.settle_doubts()
        made = self.content(wire, start, stop)
        if wire.length is None:
            self.emit("p = n")
        return made

    def bounds(self, wire: n.Run[Any] | n.Size, length: str) -> None:
        if wire.least:
            self.doubt(f"{length} < {wire.least}")
        if wire.most is not None:
            self.doubt(f"{length} > {wire.most}")

    def content(self, wire: n.Run[Any], start: str, stop: str) -> str:
        variable = self.fresh("v")
        raw = f"b[{start}:{stop}]"
        match wire.content:
            case "bytes":
                read = raw
            case "text" | "strict_text":
                read = f"{raw}.decode({decoding(wire)})"
            case "msgpack":
                read = f"unpackb({raw})"
            case "msgpack_map":
                read = f"{self.give('unpack_map', _unpack_map)}({raw})"
            case "json":
                read = f"{self.give('read_json', read_json)}({raw})"
            case _:
                assert_never(wire.content)
        if wire.null_if_empty or wire.absent_if_empty:
            read = f"{read} if {start} < {stop} else UNSET"
        self.emit(f"{variable} = {read}")
        return variable

    def struct(self, cls: Any) -> str:
        """An expression, so that fixed-size values around a structure's end are read together."""
        fields = struct_fields(cls, self.layout)
        made = self.fields(fields)
        for limit in cls.__sum_limits__:
            total = " + ".join(f"len({made[name]})" for name in limit.fields)
            self.emit(f"if {total} > {limit.most}: return None")
        values = {f.name: made[f.name] for f in fields if not isinstance(f.wire, n.Length)}
        return f"{self.give(cls.__name__, cls)}({_arguments(cls, values)})"

    def fields(self, fields: tuple[n.Field, ...]) -> dict[str, str]:
        """Emits the reading of fields in order; neighbours under one condition share one branch."""
        made: dict[str, str] = {}
        i = 0
        while i < len(fields):
            field = fields[i]
            if field.when is None or self.always(field.when):
                made[field.name] = self.scoped(field.wire, made)
                i += 1
                continue
            group = [field]
            # IfLeft is asked anew before each field: the one before may have taken the last bytes.
            while (
                not isinstance(field.when, n.IfLeft)
                and i + len(group) < len(fields)
                and fields[i + len(group)].when == field.when
            ):
                group.append(fields[i + len(group)])
            self.branch(field.when, group, made)
            i += len(group)
        return made

    def always(self, when: n.Condition) -> bool:
        """Whether a condition holds for every frame of this message."""
        return False

    def scoped(self, wire: Any, made: dict[str, str]) -> str:
        return self.run(wire, made) if isinstance(wire, n.Run) and isinstance(wire.length, str) else self.value(wire)

    def branch(self, when: n.Condition, group: list[n.Field], made: dict[str, str]) -> None:
        self.settle()
        match when:
            case n.Unless(field=name, values=values):
                test = f"{made[name]} not in {values!r}"
            case n.HeadReaches(size=size):
                test = f"h >= {size}"
            case n.IfLeft():
                test = "p < n"
            case n.With(field=name):
                test = f"{made[name]} is not None"
            case _:
                assert_never(when)
        kept = {field.name: self.fresh("c") for field in group if not isinstance(field.wire, n.Length)}
        self.emit(f"if {test}:")
        self.depth += 1
        inner = dict(made)
        for field in group:
            inner[field.name] = self.scoped(field.wire, inner)
        self.settle()
        for name, variable in kept.items():
            self.emit(f"{variable} = {inner[name]}")
        self.depth -= 1
        self.emit("else:")
        self.depth += 1
        for field in group:
            if field.name in kept:
                default = field.default if field.default is not ... else None
                self.emit(f"{kept[field.name]} = {'UNSET' if default is UNSET else repr(default)}")
        self.depth -= 1
        made.update(kept)

    def many(self, wire: n.Many[Any]) -> str:
        variable = self.fresh("v")
        element = wire.element
        if wire.count is None:
            self.settle()
            self.emit(f"{variable} = []")
            self.emit("while p < n:")
            self.loop_body(element, variable)
            return f"tuple({variable})"
        if isinstance(wire.count, n.Int):
            count = self.integer(wire.count)
            self.settle()
            least = smallest(element, self.layout)
            negative = f"{count} < 0 or " if wire.count.signed else ""
            self.emit(f"if {negative}{count} * {least} > n - p: return None")
        else:
            count = str(wire.count)
            self.settle()
        if isinstance(element, n.Int) and element.size != 3 and element.low is None and element.high is None:
            form = FORMATS[element.size, element.signed]
            unpack = self.give("unpack", struct.unpack_from)
            self.emit(f"{variable} = {unpack}(f'{byte_order(element)}{{{count}}}{form}', b, p)")
            self.emit(f"p += {count} * {element.size}")
            self.emit("if p > n: return None")
            return variable
        self.emit(f"{variable} = []")
        self.emit(f"for _ in range({count}):")
        self.loop_body(element, variable)
        return f"tuple({variable})"

    def loop_body(self, element: Any, variable: str) -> None:
        self.depth += 1
        made = self.value(element)
        self.settle()
        self.emit(f"{variable}.append({made})")
        self.depth -= 1


class _MessageSource(_Source):
    def __init__(self, layout: Layout, node: MessageNode) -> None:
        super().__init__(layout)
        self.node = node
        self.total = "n"

    def compile(self) -> Quick:
        values = self.message()
        constructor = self.give("Message", self.node.cls)
        layout = self.give("layout", self.layout)
        meta = {"wire_length": self.total, "layout": layout}
        if self.node.padding is not None:
            meta["notes"] = "notes"
        arguments = _arguments(self.node.cls, values | meta)
        self.emit(f"return {constructor}({arguments})")
        return self.made(self.node.name)

    def always(self, when: n.Condition) -> bool:
        return isinstance(when, n.HeadReaches) and when.size <= self.node.head_least

    def message(self) -> dict[str, str]:
        values = self.header()
        in_frame = kept_fields(self.layout)
        rest = tuple(f for f in self.node.fields if not f.view_of and f.name not in in_frame)
        plain = tuple(f for f in rest if not isinstance(f.wire, n.Body | n.Tags))
        values |= self.fields(plain)
        for field in rest:
            if isinstance(field.wire, n.Tags):
                values[field.name] = self.tags(field.wire)
            elif isinstance(field.wire, n.Body):
                self.body(field, values)
        if self.node.body is None:
            self.flush()
            self.finish()
        return values

    def header(self) -> dict[str, str]:
        values: dict[str, str] = {}
        for part in self.layout.frame.parts:
            match part:
                case n.Magic(value=value):
                    variable = self.fresh("m")
                    self.queue("", f"{len(value)}s", variable)
                    self.doubt(f"{variable} != {value!r}")
                case n.Size(wire=n.Escaped()):
                    # Magic and length were judged already. A wide frame comes with its surplus cut out: shorter than
                    # what it was.
                    self.pending, self.doubts = [], []
                    self.offset = 1 + sum(len(p.value) for p in self.layout.frame.parts if isinstance(p, n.Magic))
                    self.total = "total"
                    self.emit("total, n = n, len(b)")
                case n.Size():
                    self.queue_size(part)
                case n.Code(wire=wire):
                    self.queue("", f"{wire.size}x", "")
                case n.Head(wire=wire):
                    self.integer(wire, "h")
                    self.doubt(f"h < {max(part.least, self.node.head_least)} or h > {part.most} or h > n")
                    if part.body_most is not None:
                        self.doubt(f"n - h > {part.body_most}")
                case n.Kept(name=name):
                    values[name] = self.value(self.node.field(name).wire)
                case n.Line():
                    pass
                case _:
                    assert_never(part)
        return values

    def finish(self) -> None:
        """Behind the last field: nothing, or the padding that a peer is known to add."""
        padding = self.node.padding
        if padding is None:
            self.emit(f"if {self.cursor()} != n: return None")
            return
        self.emit("notes = ()")
        self.emit(f"if {self.cursor()} != n:")
        self.emit(f"    if b[{self.cursor()}:] != {padding.value!r}: return None")
        self.emit(f"    notes = {(padding.note,)!r}")

    def tags(self, wire: n.Tags[Any]) -> str:
        """A loop with one branch per tag that this message may have; what a message must have comes first."""
        rows = [row for row in tag_rows(wire.struct) if wire.anywhere or self.node.code in row.allowed]
        rows.sort(key=lambda row: self.node.code not in row.required)
        found = {row.name: self.fresh("t") for row in rows}
        for field in wire.struct.__wire_fields__:
            if field.name in found:
                self.emit(f"{found[field.name]} = {field.default!r}")
        order = self.fresh("o")
        self.emit(f"{order} = []")
        self.settle()
        self.emit("while p < h:")
        self.depth += 1
        self.emit("c = b[p]")
        for i, row in enumerate(rows):
            self.emit(f"{'elif' if i else 'if'} c == {row.code}:")
            self.depth += 1
            self.tag(row, found[row.name])
            self.emit(f"{order}.append({row.name!r})")
            self.depth -= 1
        self.emit("else: return None" if rows else "return None")
        self.depth -= 1
        self.emit("if p != h: return None")
        for row in rows:
            if wire.demand and self.node.code in row.required:
                waived = f" and not ({found[wire.waived]} or 0) > 0" if wire.waived in found else ""
                self.emit(f"if {found[row.name]} is None{waived}: return None")
        table = self.give(wire.struct.__name__, wire.struct)
        variable = self.fresh("v")
        self.emit(f"{variable} = {table}({_arguments(wire.struct, found | {'order': f'tuple({order})'})})")
        return variable

    def tag(self, row: n.Tag, variable: str) -> None:
        """One tag behind its code; whether it ended in time is asked when all are read."""
        match row.wire:
            case None:
                self.emit(f"{variable} = True")
                self.emit("p += 1")
            case n.Int(size=1, signed=False):
                self.emit(f"{variable} = b[p + 1]")
                self.emit("p += 2")
            case n.Int(size=size) as number:
                unpack = self.give("s", unpacker(number))
                self.emit(f"{variable}, = {unpack}(b, p + 1)")
                self.emit(f"p += {1 + size}")
            case n.Run(length=n.Int(size=size) as length, content="text", most=most):
                unpack = self.give("s", unpacker(length))
                self.emit(f"{variable}, = {unpack}(b, p + 1)")
                if most is not None:
                    self.emit(f"if {variable} > {most}: return None")
                self.emit(f"a = p + {1 + size}")
                self.emit(f"p = a + {variable}")
                self.emit(f"{variable} = b[a:p].decode()")
            case _:
                self.emit("return None")

    def body(self, field: n.Field, values: dict[str, str]) -> None:
        wire: n.Body = field.wire
        self.settle()
        if field.when is not None:
            assert isinstance(field.when, n.With)
            self.emit(f"if {values[field.when.field]} is not None: return None")
            self.emit("if p != n: return None")
            return
        variable = self.fresh("v")
        if wire.exactly is not None:
            self.emit(f"if n - p != {wire.exactly}: return None")
        if wire.most is not None:
            self.emit(f"if n - p > {wire.most}: return None")
        self.emit(f"{variable} = b[p:n]")
        values[field.name] = variable
        self.views(wire, values)

    def views(self, body: n.Body, values: dict[str, str]) -> None:
        views = self.node.views
        if not views:
            return
        tests = [f"{_path(values, body.opaque_if)}"] if body.opaque_if else []
        unread = " or ".join(tests)
        if body.empty == "absent":
            unread = f"{unread} or p == n" if unread else "p == n"
        elif body.empty == "refused" or body.empty_if is not None:
            self.emit("if p == n: return None")
        kept = {view.name: self.fresh("w") for view in views}
        if unread:
            self.emit(f"if {unread}:")
            self.depth += 1
            for view in views:
                default = view.default
                self.emit(f"{kept[view.name]} = {'UNSET' if default is UNSET else repr(default)}")
            self.depth -= 1
            self.emit("else:")
            self.depth += 1
        if body.prefix:
            self.emit(f"if b.startswith({body.prefix!r}, p): return None")
        inner: dict[str, str] = {}
        for view in views:
            if isinstance(view.wire, n.Signature):
                found = self.give("signature", _signature_reader(view.wire, self.layout))
                inner[view.name] = f"{found}({inner[view.wire.cells]})"
            else:
                inner[view.name] = self.value(view.wire)
        self.settle()
        self.emit("if p != n: return None")
        for view in views:
            self.emit(f"{kept[view.name]} = {inner[view.name]}")
        if unread:
            self.depth -= 1
        values |= kept


def _arguments(cls: Any, values: dict[str, str]) -> str:
    """How a record is made of these values: by position as far as that goes, which is quicker than by name."""
    given = []
    for name in cls.__match_args__:  # those that can be given by position
        if name not in values:
            break
        given.append(values[name])
    positional = cls.__struct_fields__[: len(given)]
    return ", ".join(given + [f"{name}={value}" for name, value in values.items() if name not in positional])


def _path(values: dict[str, str], path: str) -> str:
    first, _, rest = path.partition(".")
    return f"{values[first]}.{rest}" if rest else values[first]


# --- pieces that are loops of their own


def _unpackb(raw: bytes) -> Any:
    if len(raw) > MAX_DEPTH:
        return read_msgpack(raw)
    if 0xFF in raw and may_hold_timestamp(raw):
        raise ValueError
    return unpackb(raw, strict_map_key=False, ext_hook=no_extension)


def _unpack_map(raw: bytes) -> Any:
    value = _unpackb(raw)
    if type(value) is not dict:
        raise ValueError
    return value


def _signature_reader(wire: n.Signature[Any], layout: Layout) -> Callable[[tuple[Cell, ...]], Any]:
    fid = wire.fid

    def read(cells: tuple[Cell, ...]) -> Any:
        for cell in cells:
            if cell.fid == fid:
                return read_signature(wire, cells, layout)
        return None

    return read


def decoding(wire: n.Run[Any]) -> str:
    """The arguments of ``decode`` that read this text; none for strict UTF-8."""
    return "" if (wire.charset, wire.errors) == ("utf-8", "strict") else f"{wire.charset!r}, {wire.errors!r}"


def cells_reader(wire: n.Cells[Any]) -> Callable[[bytes, int, int], tuple[Cell, ...] | None]:
    head = unpacker(wire.head)
    head_size = wire.head.size
    id_shift, type_shift, type_mask, flag_mask, id_max = (
        wire.id_shift,
        wire.type_shift,
        wire.type_mask,
        wire.flag_mask,
        wire.id_max,
    )
    readers: list[tuple[str, Any, int, bool, bool, int]] = []
    for kind in wire.types:
        match kind.wire:
            case None:
                readers.append((kind.name, None, 0, False, False, 0))
            case n.Int(size=size) as number:
                unpack = unpacker(number)
                readers.append((kind.name, unpack, size, False, False, 0))
            case n.Float(size=size) as real:
                unpack = struct.Struct(byte_order(real) + ("f" if size == 4 else "d")).unpack_from
                readers.append((kind.name, unpack, size, False, False, 0))
            case n.Run(length=n.Int() as length, content=content, most=most):
                unpack = unpacker(length)
                # A text in another character set gets a closer look.
                plain = content == "bytes" or not decoding(kind.wire)
                readers.append(
                    (kind.name, unpack, length.size, True, content != "bytes", (most or 1 << 62) if plain else -1)
                )
            case _:
                raise AssertionError(f"{kind!r} is not a cell type")

    def read(b: bytes, p: int, end: int) -> tuple[Cell, ...] | None:
        found = []
        while p < end:
            (bits,) = head(b, p)
            p += head_size
            fid = bits >> id_shift
            if bits & flag_mask or fid > id_max:
                return None
            name, unpack, size, is_run, is_text, most = readers[bits >> type_shift & type_mask]
            if unpack is None:
                found.append(Cell(fid, name))
                continue
            (value,) = unpack(b, p)
            p += size
            if is_run:
                if value > most:
                    return None
                start = p
                p += value
                value = b[start:p].decode() if is_text else b[start:p]
            elif value != value:
                return None
            found.append(Cell(fid, name, value))
        return tuple(found) if p == end else None

    return read


# --- header lines: one regular expression for the whole line


def _look_closely(frame: bytes, length: int) -> None:
    """The decoder where none can be made."""


def _line_decoder(layout: Layout, line: n.Line) -> Quick:
    some = next(iter(layout.messages.values()))
    words = [f.wire for f in some.fields if isinstance(f.wire, n.Word)]
    if any(wire.quick is None and (wire.number or wire.parts_most is not None) for wire in words):
        return _look_closely
    if some.body is None or any(not isinstance(v.wire, n.Run) or v.wire.content != "json" for v in some.views):
        return _look_closely
    return _LineSource(layout, line, words, some).compile()


class _LineSource(_Source):
    """A decoder for all messages: they differ in their first word, and in which other words they may have."""

    def __init__(self, layout: Layout, line: n.Line, words: list[n.Word[Any]], some: MessageNode) -> None:
        super().__init__(layout)
        self.line, self.words, self.some = line, words, some

    def compile(self) -> Quick:
        head = self.size()
        given = [self.fresh("g") for _ in self.words]
        self.emit(f"e = b.find({self.line.end!r}, {head}, {head + self.line.window})")
        self.emit("if e < 0: return None")
        self.emit(f"m = {self.give('match', self.pattern().fullmatch)}(b[{head}:e].decode())")
        self.emit("if m is None: return None")
        self.emit(f"w, {', '.join(given)}, = m.groups()")
        self.limits(given, head)
        for wire, variable in zip(self.words, given, strict=True):
            self.word(wire, variable)
        values = dict(zip((f.name for f in self.some.fields), given, strict=False))
        self.payload(values)
        makers = self.give("makers", {node.word: node.cls for node in self.layout.messages.values()})
        arguments = _arguments(self.some.cls, values | {"wire_length": "n", "layout": self.give("layout", self.layout)})
        self.emit(f"return {makers}[w]({arguments})")
        return self.made("line")

    def size(self) -> int:
        """The length before the line, if there is one; gives where the line begins."""
        for part in self.layout.frame.parts:
            if isinstance(part, n.Size):
                self.queue_size(part)
        self.flush()
        return self.offset

    def pattern(self) -> re.Pattern[str]:
        separator = re.escape(self.line.separator.decode())
        text = f"({'|'.join(re.escape(node.word) for node in self.layout.messages.values())})"
        tail = ""
        for i, wire in enumerate(self.words):
            part = f"{separator}({_uncaptured(wire.quick or wire.pattern)}){'?' if wire.optional else ''}"
            if i + 2 > self.line.fewest:
                text += f"(?:{part}"
                tail += ")?"
            else:
                text += part
        return re.compile(text + tail)

    def limits(self, given: list[str], head: int) -> None:
        """Words may be too long only if the line is at least as long."""
        limited = {
            variable: wire.most for wire, variable in zip(self.words, given, strict=True) if wire.most is not None
        }
        if limited:
            tests = " or ".join(f"len({variable} or '') > {most}" for variable, most in limited.items())
            self.emit(f"if e > {head + min(limited.values())} and ({tests}): return None")

    def word(self, wire: n.Word[Any], variable: str) -> None:
        refusing = {node.word for node in self.layout.messages.values() if wire.only and node.code not in wire.only}
        if not refusing and not wire.number:
            return
        self.emit(f"if {variable} is not None:")
        self.depth += 1
        if refusing:
            self.emit(f"if w in {self.give('refusing', frozenset(refusing))}: return None")
        if wire.number:
            self.emit(f"{variable} = int({variable})")
            self.within(wire, variable)
            self.settle_doubts()
        self.depth -= 1

    def payload(self, values: dict[str, str]) -> None:
        body = self.some.body
        assert body is not None
        if body.wire.most is not None:
            self.emit(f"if n - e > {body.wire.most + len(self.line.end)}: return None")
        values[body.name] = variable = self.fresh("v")
        self.emit(f"{variable} = b[e + {len(self.line.end)}:]")
        for view in self.some.views:
            if body.wire.prefix:
                self.emit(f"if {variable}.startswith({body.wire.prefix!r}): return None")
            values[view.name] = f"{self.give('read_json', read_json)}({variable}) if {variable} else UNSET"


def _uncaptured(pattern: str) -> str:
    return re.sub(r"(?<!\\)\((?!\?)", "(?:", pattern)
