"""Description -> Python source of a decoder for complete, ordinary frames.

The generated function judges a whole frame, header and all. It answers with the message, or with None (or any error)
for "look closely": then walk.py reads the frame again and says what is the matter. So no rule is named here, and
nothing that is accepted here may be refused there.

Fixed-size neighbours are read by one ``struct`` call, also across the end of a structure; a run of bytes costs one
length check and one slice. The source of a decoder is its ``__doc__``.
"""

from __future__ import annotations

import struct
from functools import lru_cache, partial
from typing import Any, assert_never

import msgspec

from ..errors import DecodeError
from ..spec import nodes as n
from ..spec.declare import tag_rows
from ..spec.plain import beyond
from ..spec.resolve import Layout, MessageNode
from .compile_fields import Quick, Source, arguments, default_of
from .frame import kept_fields
from .lines import compile_line
from .numbers import code_bytes, code_position, unpacker
from .walk import read_signature

UNSET = msgspec.UNSET
DOUBTS = (struct.error, ValueError, TypeError, IndexError, KeyError, OverflowError, DecodeError)
"""What a generated decoder may raise instead of answering None."""


@lru_cache(maxsize=64)
def compile_layout(layout: Layout, clean: bool = False) -> Quick:
    """Return a function ``(frame, length) -> message or None``; with ``clean`` it may raise UncleanError.

    Of a layout that holds what is not compiled, it says None to every frame: the exact reader reads them all.
    """
    if beyond(layout):
        return lambda frame, length: None
    line = next((p for p in layout.frame.parts if isinstance(p, n.Line)), None)
    if line is not None:
        return compile_line(layout, line)
    by_code = {code: _MessageSource(layout, node, clean).compile() for code, node in layout.by_code.items()}
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


class _MessageSource(Source):
    def __init__(self, layout: Layout, node: MessageNode, clean: bool) -> None:
        super().__init__(layout, clean)
        self.node = node
        self.total = "n"

    def compile(self) -> Quick:
        values = self.message()
        constructor = self.give("Message", self.node.cls)
        layout = self.give("layout", self.layout)
        meta = {"wire_length": self.total, "layout": layout}
        if self.node.padding is not None:
            meta["notes"] = "notes"
        self.emit(f"return {constructor}({arguments(self.node.cls, values | meta)})")
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
                    self.doubt(f"{self.queue('', f'{len(value)}s')} != {value!r}")
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
                case n.Trailer() | n.Until() | n.Ends() | n.Opaque():
                    raise AssertionError(f"{part!r} is for the exact reader")
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
        with self.block("while p < h:"):
            self.emit("c = b[p]")
            for i, row in enumerate(rows):
                with self.block(f"{'elif' if i else 'if'} c == {row.code}:"):
                    self.tag(row, found[row.name])
                    self.emit(f"{order}.append({row.name!r})")
            self.emit("else: return None" if rows else "return None")
        self.emit("if p != h: return None")
        for row in rows:
            if wire.demand and self.node.code in row.required:
                waived = f" and not ({found[wire.waived]} or 0) > 0" if wire.waived in found else ""
                self.emit(f"if {found[row.name]} is None{waived}: return None")
        table = self.give(wire.struct.__name__, wire.struct)
        variable = self.fresh("v")
        self.emit(f"{variable} = {table}({arguments(wire.struct, found | {'order': f'tuple({order})'})})")
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
        unread = [_path(values, body.opaque_if)] if body.opaque_if else []
        if body.empty == "absent":
            unread.append("p == n")
        elif body.empty == "refused" or body.empty_if is not None:
            self.emit("if p == n: return None")
        kept = {view.name: self.fresh("w") for view in views}
        values |= kept
        if not unread:
            self.read_views(body, kept)
            return
        with self.block(f"if {' or '.join(unread)}:"):
            self.keep(kept, {view.name: default_of(view) for view in views})
        with self.block("else:"):
            self.read_views(body, kept)

    def read_views(self, body: n.Body, kept: dict[str, str]) -> None:
        if body.prefix:
            self.emit(f"if b.startswith({body.prefix!r}, p): return None")
        inner: dict[str, str] = {}
        for view in self.node.views:
            if isinstance(view.wire, n.Signature):
                read = self.give("signature", partial(read_signature, view.wire, self.layout))
                inner[view.name] = f"{read}({inner[view.wire.cells]})"
            else:
                inner[view.name] = self.value(view.wire)
        self.settle()
        self.emit("if p != n: return None")
        self.keep(kept, inner)


def _path(values: dict[str, str], path: str) -> str:
    first, _, rest = path.partition(".")
    return f"{values[first]}.{rest}" if rest else values[first]
