"""Description -> Python source of a decoder for complete, ordinary frames.

The generated function answers with the message, or with None (or any error) for "look closely": then walk.py reads the frame again and
says what is the matter. So no rule is named here, and nothing that is accepted here may be refused there.

Fixed-size neighbours are read by one ``struct`` call; a run of bytes costs one length check and one slice.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any, assert_never

import msgpack
import msgspec

from ..errors import DecodeError
from ..spec import nodes as n
from ..spec.declare import Cell, tag_rows
from ..spec.resolve import Layout, MessageNode
from .content import MAX_DEPTH, _no_extension, read_json, read_msgpack
from .frame import kept_fields, smallest, struct_fields
from .walk import read_signature

UNSET = msgspec.UNSET
Quick = Callable[[bytes, int], Any]
DOUBTS = (struct.error, ValueError, TypeError, IndexError, KeyError, OverflowError, DecodeError)
"""What a generated decoder may raise instead of answering None."""

_FORMATS = {(1, False): "B", (1, True): "b", (2, False): "H", (2, True): "h", (4, False): "I", (4, True): "i", (8, False): "Q", (8, True): "q"}  # fmt: skip


def compile_layout(layout: Layout) -> Quick | None:
    """A function ``(frame, length) -> message or None`` for frames whose header has been judged; None if it cannot be made."""
    line = next((p for p in layout.frame.parts if isinstance(p, n.Line)), None)
    if line is not None:
        return _line_decoder(layout, line)
    by_code: dict[int, Quick] = {code: _MessageSource(layout, node).compile() for code, node in layout.messages.items()}
    code_part, at = _code_position(layout)
    escaped = next(
        (p.wire for p in layout.frame.parts if isinstance(p, n.Size) and isinstance(p.wire, n.Escaped)), None
    )
    read_code = struct.Struct(_order(code_part.wire) + _FORMATS[code_part.wire.size, code_part.wire.signed]).unpack_from
    if escaped is None:

        def decode(frame: bytes, length: int) -> Any:
            found = by_code.get(read_code(frame, at)[0])
            return found(frame, length) if found is not None else None

        return decode
    escape, wide, mask_bit = escaped.escape, escaped.wide.size, escaped.mask_bit

    def decode_escaped(frame: bytes, length: int) -> Any:
        # Messages are compiled for the short header; a wide one is the same frame with the surplus cut out.
        short = frame[at - 1]
        if short & 0x80 and mask_bit:
            return None
        if short == escape:
            found = by_code.get(frame[at + wide])
            return found(frame[wide:], length) if found is not None else None
        found = by_code.get(frame[at])
        return found(frame, length) if found is not None else None

    return decode_escaped


def _code_position(layout: Layout) -> tuple[n.Code, int]:
    at = 0
    for part in layout.frame.parts:
        match part:
            case n.Magic(value=value):
                at += len(value)
            case n.Size(wire=n.Escaped()):
                at += 1
            case n.Size(wire=wire) | n.Head(wire=wire):
                at += wire.size
            case n.Code():
                return part, at
            case n.Kept(name=name):
                at += next(iter(layout.messages.values())).field(name).wire.size
            case n.Line():
                pass
            case _:
                assert_never(part)
    raise AssertionError("a frame without a code has a header line")


def _order(wire: n.Int | n.Float) -> str:
    return "<" if wire.little else ">"


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
        self.end = "n"

    def emit(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, stem: str) -> str:
        self.counter += 1
        return f"{stem}{self.counter}"

    def give(self, stem: str, value: Any) -> str:
        name = self.fresh(stem)
        self.names[name] = value
        return name

    # --- fixed-size neighbours

    def queue(self, order: str, form: str, variable: str) -> None:
        if self.pending and order and self.pending_order and order != self.pending_order:
            self.flush()
        self.pending_order = self.pending_order or order
        self.pending.append((form, variable))

    def flush(self) -> None:
        if not self.pending:
            return
        shape = struct.Struct((self.pending_order or ">") + "".join(form for form, _ in self.pending))
        variables = [variable for _, variable in self.pending if variable]
        self.pending, self.pending_order = [], ""
        if variables:
            unpack = self.give("s", shape.unpack_from)
            self.emit(f"{', '.join(variables)}, = {unpack}(b, {self.cursor()})")
            if self.end != "n":
                self.emit(f"if {self.cursor(shape.size)} > {self.end}: return None")
        else:
            self.emit(f"if {self.cursor(shape.size)} > {self.end}: return None")
        self.offset += shape.size

    def cursor(self, more: int = 0) -> str:
        offset = self.offset + more
        if not self.dynamic:
            return str(offset)
        return f"p + {offset}" if offset else "p"

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
                self.flush()
                if not lenient:
                    self.emit(f"if {variable} > 1: return None")
                return f"{variable} != 0"
            case n.Float():
                variable = self.fresh("v")
                self.queue(_order(wire), "f" if wire.size == 4 else "d", variable)
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
                self.emit(f"{variable} = {self.give('cells', cells_reader(wire))}(b, p, {self.end})")
                self.emit(f"if {variable} is None: return None")
                self.emit(f"p = {self.end}")
                return variable
            case n.Length(wire=inner):
                variable = self.integer(inner)
                self.flush()
                if inner.signed:
                    self.emit(f"if {variable} < 0: return None")
                return variable
            case _:
                raise AssertionError(f"{wire!r} is not a wire node")

    def integer(self, wire: n.Int) -> str:
        variable = self.fresh("v")
        if wire.size == 3:
            self.queue("", "3s", variable)
            self.flush()
            self.emit(
                f"{variable} = from_bytes({variable}, {'little' if wire.little else 'big'!r}, signed={wire.signed})"
            )
        else:
            self.queue(_order(wire), _FORMATS[wire.size, wire.signed], variable)
        if wire.low is not None or wire.high is not None:
            self.flush()
            low = wire.low if wire.low is not None else -(1 << 64)
            high = wire.high if wire.high is not None else 1 << 64
            self.emit(f"if not {low} <= {variable} <= {high}: return None")
        return variable

    def run(self, wire: n.Run[Any], scope: dict[str, str] | None = None) -> str:
        if wire.length is None:
            self.settle()
            start, size = "p", f"{self.end} - p"
            if wire.least or wire.most is not None:
                self.bounds(wire, f"({size})")
            stop = self.end
        else:
            length = (scope or {})[wire.length] if isinstance(wire.length, str) else self.integer(wire.length)
            self.settle()
            start = self.fresh("a")
            self.emit(f"{start} = p")
            self.emit(f"p += {length}")
            negative = isinstance(wire.length, n.Int) and wire.length.signed
            self.emit(f"if p > {self.end}{f' or {length} < 0' if negative else ''}: return None")
            self.bounds(wire, length)
            stop = "p"
        made = self.content(wire, start, stop)
        if wire.length is None:
            self.emit(f"p = {self.end}")
        return made

    def bounds(self, wire: n.Run[Any], length: str) -> None:
        if wire.least:
            self.emit(f"if {length} < {wire.least}: return None")
        if wire.most is not None:
            self.emit(f"if {length} > {wire.most}: return None")

    def content(self, wire: n.Run[Any], start: str, stop: str) -> str:
        variable = self.fresh("v")
        raw = f"b[{start}:{stop}]"
        match wire.content:
            case "bytes":
                read = raw
            case "text" | "strict_text":
                read = f"{raw}.decode()"
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
        fields = struct_fields(cls, self.layout)
        made = self.fields(fields)
        for limit in cls.__sum_limits__:
            total = " + ".join(f"len({made[name]})" for name in limit.fields)
            self.flush()
            self.emit(f"if {total} > {limit.most}: return None")
        self.flush()
        arguments = ", ".join(made[f.name] for f in fields if not isinstance(f.wire, n.Length))
        variable = self.fresh("v")
        self.emit(f"{variable} = {self.give(cls.__name__, cls)}({arguments})")
        return variable

    def fields(self, fields: tuple[n.Field, ...]) -> dict[str, str]:
        """Emits the reading of fields in order; neighbours under one condition share one branch."""
        made: dict[str, str] = {}
        i = 0
        while i < len(fields):
            field = fields[i]
            if field.when is None:
                made[field.name] = self.scoped(field.wire, made)
                i += 1
                continue
            group = [field]
            while i + len(group) < len(fields) and fields[i + len(group)].when == field.when:
                group.append(fields[i + len(group)])
            self.branch(field.when, group, made)
            i += len(group)
        return made

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
                test = f"p < {self.end}"
            case n.With(field=name):
                test = f"{made[name]} is not None"
            case _:
                assert_never(when)
        kept = {field.name: self.fresh("c") for field in group}
        self.emit(f"if {test}:")
        self.depth += 1
        inner = dict(made)
        for field in group:
            inner[field.name] = self.scoped(field.wire, inner)
        self.settle()
        for field in group:
            self.emit(f"{kept[field.name]} = {inner[field.name]}")
        self.depth -= 1
        self.emit("else:")
        self.depth += 1
        for field in group:
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
            self.emit(f"while p < {self.end}:")
            self.loop_body(element, variable)
            return f"tuple({variable})"
        if isinstance(wire.count, n.Int):
            count = self.integer(wire.count)
            self.settle()
            least = smallest(element, self.layout)
            negative = f"{count} < 0 or " if wire.count.signed else ""
            self.emit(f"if {negative}{count} * {least} > {self.end} - p: return None")
        else:
            count = str(wire.count)
            self.settle()
        if isinstance(element, n.Int) and element.size != 3 and element.low is None and element.high is None:
            form = _FORMATS[element.size, element.signed]
            unpack = self.give("unpack", struct.unpack_from)
            self.emit(f"{variable} = {unpack}(f'{_order(element)}{{{count}}}{form}', b, p)")
            self.emit(f"p += {count} * {element.size}")
            self.emit(f"if p > {self.end}: return None")
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
        arguments = self.message()
        constructor = self.give("Message", self.node.cls)
        layout = self.give("layout", self.layout)
        self.emit(f"return {constructor}({arguments}wire_length={self.total}, layout={layout})")
        source = "def decode(b, n):\n" + "\n".join(self.lines) + "\n"
        namespace = dict(self.names)
        exec(compile(source, f"<wirelake {self.layout.protocol.name} {self.node.name}>", "exec"), namespace)
        made: Quick = namespace["decode"]
        made.__doc__ = source
        return made

    def message(self) -> str:
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
            self.emit(f"if {self.cursor()} != {self.end}: return None")
        return "".join(f"{name}={value}, " for name, value in values.items())

    def header(self) -> dict[str, str]:
        values: dict[str, str] = {}
        for part in self.layout.frame.parts:
            match part:
                case n.Magic(value=value):
                    self.queue("", f"{len(value)}x", "")
                case n.Size(wire=n.Escaped()):
                    self.queue("", "1x", "")
                    self.flush()
                    # A wide frame comes with the surplus of its length cut out: shorter than what it was.
                    self.total = "total"
                    self.emit("total, n = n, len(b)")
                case n.Size(wire=wire) | n.Code(wire=wire):
                    self.queue("", f"{wire.size}x", "")
                case n.Head(wire=wire):
                    self.queue(_order(wire), _FORMATS[wire.size, wire.signed], "h")
                case n.Kept(name=name):
                    values[name] = self.value(self.node.field(name).wire)
                case n.Line():
                    pass
                case _:
                    assert_never(part)
        return values

    def tags(self, wire: n.Tags[Any]) -> str:
        self.settle()
        variable = self.fresh("v")
        reader = self.give("tags", tags_reader(wire, self.node))
        self.emit(f"{variable} = {reader}(b, p, h)")
        self.emit(f"if {variable} is None: return None")
        self.emit("p = h")
        return variable

    def body(self, field: n.Field, values: dict[str, str]) -> None:
        wire: n.Body = field.wire
        self.settle()
        if field.when is not None:
            assert isinstance(field.when, n.With)
            self.emit(f"if {values[field.when.field]} is not None: return None")
            self.emit(f"if p != {self.end}: return None")
            return
        variable = self.fresh("v")
        if wire.exactly is not None:
            self.emit(f"if {self.end} - p != {wire.exactly}: return None")
        if wire.most is not None:
            self.emit(f"if {self.end} - p > {wire.most}: return None")
        self.emit(f"{variable} = b[p:{self.end}]")
        values[field.name] = variable
        self.views(wire, values)

    def views(self, body: n.Body, values: dict[str, str]) -> None:
        views = self.node.views
        if not views:
            return
        tests = [f"{_path(values, body.opaque_if)}"] if body.opaque_if else []
        unread = " or ".join(tests)
        if body.empty == "absent":
            unread = f"{unread} or p == {self.end}" if unread else f"p == {self.end}"
        elif body.empty == "refused":
            self.emit(f"if p == {self.end}: return None")
        elif body.empty_if is not None:
            self.emit(f"if p == {self.end}: return None")
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
        self.emit(f"if p != {self.end}: return None")
        for view in views:
            self.emit(f"{kept[view.name]} = {inner[view.name]}")
        if unread:
            self.depth -= 1
        values |= kept


def _path(values: dict[str, str], path: str) -> str:
    first, _, rest = path.partition(".")
    return f"{values[first]}.{rest}" if rest else values[first]


# --- pieces that are loops of their own


def _unpackb(raw: bytes) -> Any:
    if len(raw) > MAX_DEPTH:
        return read_msgpack(raw)
    return msgpack.unpackb(raw, strict_map_key=False, ext_hook=_no_extension)


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


def cells_reader(wire: n.Cells[Any]) -> Callable[[bytes, int, int], tuple[Cell, ...] | None]:
    head = struct.Struct(_order(wire.head) + _FORMATS[wire.head.size, False]).unpack_from
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
            case n.Int(size=size, signed=signed) as number:
                unpack = struct.Struct(_order(number) + _FORMATS[size, signed]).unpack_from
                readers.append((kind.name, unpack, size, False, False, 0))
            case n.Float(size=size) as real:
                unpack = struct.Struct(_order(real) + ("f" if size == 4 else "d")).unpack_from
                readers.append((kind.name, unpack, size, False, False, 0))
            case n.Run(length=n.Int() as length, content=content, most=most):
                unpack = struct.Struct(_order(length) + _FORMATS[length.size, False]).unpack_from
                readers.append((kind.name, unpack, length.size, True, content != "bytes", most or 1 << 62))
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


def tags_reader(wire: n.Tags[Any], node: MessageNode) -> Callable[[bytes, int, int], Any]:
    table = wire.struct
    rows: dict[int, tuple[str, Any, int, bool, int]] = {}
    for row in tag_rows(table):
        if not wire.anywhere and node.code not in row.allowed:
            continue
        match row.wire:
            case None:
                rows[row.code] = (row.name, None, 0, False, 0)
            case n.Int(size=size, signed=signed) as number:
                unpack = struct.Struct(_order(number) + _FORMATS[size, signed]).unpack_from
                rows[row.code] = (row.name, unpack, size, False, 0)
            case n.Run(length=n.Int() as length, content="text", most=most):
                unpack = struct.Struct(_order(length) + _FORMATS[length.size, False]).unpack_from
                rows[row.code] = (row.name, unpack, length.size, True, most or 1 << 62)
            case _:
                pass
    required = [row.name for row in tag_rows(table) if wire.demand and node.code in row.required]
    empty = table() if not required else None
    waived = wire.waived

    def read(b: bytes, p: int, end: int) -> Any:
        if p == end and empty is not None:
            return empty
        values: dict[str, Any] = {}
        order = []
        while p < end:
            name, unpack, size, is_text, most = rows[b[p]]
            p += 1
            if unpack is None:
                values[name] = True
            else:
                (value,) = unpack(b, p)
                p += size
                if is_text:
                    start = p
                    p += value
                    if value > most:
                        return None
                    value = b[start:p].decode()
                values[name] = value
            order.append(name)
        if p != end:
            return None
        for name in required:
            if name not in values and not (waived and (values.get(waived) or 0) > 0):
                return None
        return table(**values, order=tuple(order))

    return read


# --- header lines: one regular expression for the whole line


def _line_decoder(layout: Layout, line: n.Line) -> Quick | None:
    nodes = {node.word: node for node in layout.messages.values()}
    some = next(iter(nodes.values()))
    words = [f for f in some.fields if isinstance(f.wire, n.Word)]
    body = some.body
    pattern = f"({'|'.join(re.escape(word) for word in nodes)})"
    separator = re.escape(line.separator.decode())
    tail = ""
    for i, field in enumerate(words):
        part = f"{separator}({_uncaptured(field.wire.quick or field.wire.pattern)}){'?' if field.wire.optional else ''}"
        if i + 2 > line.fewest:
            pattern += f"(?:{part}"
            tail += ")?"
        else:
            pattern += part
    match = re.compile((pattern + tail + re.escape(line.end.decode())).encode()).match
    head = sum(p.wire.size for p in layout.frame.parts if isinstance(p, n.Size))
    makers = {word.encode(): node.cls for word, node in nodes.items()}
    limits = [(i + 2, f.wire.most) for i, f in enumerate(words) if f.wire.most is not None]
    numbers = [i + 1 for i, f in enumerate(words) if f.wire.number]
    forbidden = {
        word.encode(): [i + 1 for i, f in enumerate(words) if f.wire.only is not None and node.code not in f.wire.only]
        for word, node in nodes.items()
    }
    window, most = line.window, body.wire.most if body else None
    views = some.views
    if len(views) > 1 or any(not isinstance(v.wire, n.Run) or v.wire.content != "json" for v in views):
        return None
    prefix = body.wire.prefix if body else b""

    def decode(frame: bytes, length: int) -> Any:
        found = match(frame, head)
        if found is None:
            return None
        at = found.end()
        if at - head > window or (most is not None and length - at > most):
            return None
        for group, limit in limits:
            if found.end(group) - found.start(group) > limit:
                return None
        word, *values = found.groups()
        for i in forbidden[word]:
            if values[i - 1]:
                return None
        made = [value.decode() if value is not None else None for value in values]
        for i in numbers:
            if made[i - 1] is not None:
                made[i - 1] = int(made[i - 1])
        payload = frame[at:]
        if views and payload:
            if payload.startswith(prefix):
                return None
            return makers[word](*made, payload, read_json(payload), wire_length=length, layout=layout)
        return makers[word](*made, payload, wire_length=length, layout=layout)

    return decode


def _uncaptured(pattern: str) -> str:
    return re.sub(r"(?<!\\)\((?!\?)", "(?:", pattern)


# --- frame headers


def compile_measure(layout: Layout) -> Callable[[bytes | bytearray, int, int], int]:
    """A function ``(buffer, start, end) -> length``: of a frame that is all there and whose header is good, else 0 (look closely)."""
    size = next((p for p in layout.frame.parts if isinstance(p, n.Size)), None)
    if size is None:
        return lambda buffer, start, end: 0
    if isinstance(size.wire, n.Escaped):
        return _measure_escaped(layout, size, size.wire)
    order = _order(size.wire)
    form, names = order, []
    for part in layout.frame.parts:
        match part:
            case n.Magic(value=value):
                form += f"{len(value)}s"
                names.append(part)
            case n.Size(wire=wire) | n.Head(wire=wire):
                form += _FORMATS[wire.size, wire.signed]
                names.append(part)
            case n.Code(wire=wire, early=early):
                form += _FORMATS[wire.size, wire.signed] if early else f"{wire.size}x"
                if early:
                    names.append(part)
            case n.Kept(name=name):
                form += f"{next(iter(layout.messages.values())).field(name).wire.size}x"
            case n.Line():
                pass
            case _:
                assert_never(part)
    shape = struct.Struct(form)
    unpack, header_size = shape.unpack_from, shape.size
    least, most = size.least, size.most if size.most is not None else 1 << 62
    counted = 0 if size.counts == "whole" else _end_of(layout, size)
    head = next((p for p in layout.frame.parts if isinstance(p, n.Head)), None)
    magic = next((p.value for p in layout.frame.parts if isinstance(p, n.Magic)), None)
    size_at = names.index(size)
    magic_at = next((i for i, p in enumerate(names) if isinstance(p, n.Magic)), -1)
    head_at = names.index(head) if head is not None else -1
    code_at = next((i for i, p in enumerate(names) if isinstance(p, n.Code)), -1)
    head_least = {code: node.head_least for code, node in layout.messages.items()}
    body_most = (head.body_most if head is not None else None) or 1 << 62

    def measure(buffer: bytes | bytearray, start: int, end: int) -> int:
        if end - start < header_size:
            return 0
        values = unpack(buffer, start)
        value: int = values[size_at]
        if value < least or value > most or (magic_at >= 0 and values[magic_at] != magic):
            return 0
        length = value + counted
        if length > end - start or length < header_size:
            return 0
        if head is not None:
            reach = values[head_at]
            if not head.least <= reach <= head.most or reach > length or length - reach > body_most:
                return 0
            if reach < head_least.get(values[code_at], 1 << 62):
                return 0
        return length

    return measure


def _end_of(layout: Layout, size: n.Size) -> int:
    at = 0
    for part in layout.frame.parts:
        match part:
            case n.Magic(value=value):
                at += len(value)
            case n.Size(wire=wire) | n.Head(wire=wire) | n.Code(wire=wire):
                at += wire.size
            case n.Kept(name=name):
                at += next(iter(layout.messages.values())).field(name).wire.size
            case _:
                pass
        if part is size:
            return at
    raise AssertionError("the size is a part of the frame")


def _measure_escaped(layout: Layout, size: n.Size, wire: n.Escaped) -> Callable[[bytes | bytearray, int, int], int]:
    magic = b"".join(p.value for p in layout.frame.parts if isinstance(p, n.Magic))
    at = len(magic)
    least, escape = max(size.least, 1), wire.escape

    def measure(buffer: bytes | bytearray, start: int, end: int) -> int:
        if end - start <= at or not buffer.startswith(magic, start):
            return 0
        short: int = buffer[start + at]
        if not least <= short < escape or short + at + 1 > end - start:
            return 0
        return short + at + 1

    return measure
