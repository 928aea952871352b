"""Messages to bytes, quickly: what a declaration says is compiled once into one function per message.

It serves layouts whose messages are made of numbers, texts, bytes, lists and structures, behind a frame header of a
code, kept fields and a length. What it cannot write as it is (a number out of range, a text instead of bytes, a layout
with more than that) goes to the encoder of records, which writes it or names the fault: there is one set of rules.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from ..spec import nodes as n
from ..spec.conduct import When
from ..spec.plain import beyond
from ..spec.resolve import Layout, MessageNode
from .encoder import encode_frame
from .frame import kept_fields, struct_fields
from .headers import NO_LIMIT

Encode = Callable[[Any], bytes]
_FORMATS = {(1, False): "B", (1, True): "b", (2, False): "H", (2, True): "h", (4, False): "I", (4, True): "i"}
_FORMATS |= {(8, False): "Q", (8, True): "q"}
DOUBTS = (struct.error, TypeError, AttributeError, ValueError, KeyError, IndexError, OverflowError, UnicodeEncodeError)


class Unsuited(Exception):
    """The declaration has something that is not compiled."""


def encoder_for(layout: Layout) -> Encode:
    """Return a function that writes messages of a layout."""
    compiled: dict[type, Encode | None] = {}

    def encode(message: Any) -> bytes:
        kind = type(message)
        if kind not in compiled:
            compiled[kind] = _compile(layout, message)
        quick = compiled[kind]
        if quick is not None:
            try:
                return quick(message)
            except DOUBTS:
                pass
        return encode_frame(layout, message)

    return encode


def _compile(layout: Layout, message: Any) -> Encode | None:
    node = layout.messages.get(message.__message__["code"])
    if node is None or node.cls is not type(message) or beyond(layout):
        return None
    try:
        return _Compiler(layout, node).compile()
    except Unsuited:
        return None


class _Compiler:
    """Writes the source of one function: numbers that follow each other are packed together."""

    def __init__(self, layout: Layout, node: MessageNode) -> None:
        self.layout, self.node = layout, node
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self._format, self._values = ">", list[str]()
        self._count = 0

    def compile(self) -> Encode:
        in_frame = kept_fields(self.layout)
        for field in self.node.fields:
            if field.view_of or field.name in in_frame:
                continue
            if field.when is not None:
                raise Unsuited
            self._write(field.wire, f"m.{field.name}", 1)
        source = self._whole() if self._count else self._fixed_whole()
        exec(compile("\n".join(["def write(m):", *source]), f"<encoder of {self.node.name}>", "exec"), self.names)
        return self.names["write"]  # type: ignore[no-any-return]

    def _whole(self) -> list[str]:
        self._flush(1)
        form, values, least, most = self._header("len(body)")
        self.names["head"] = struct.Struct(form).pack
        return [
            " out = []",
            " add = out.append",
            *self.lines,
            " body = b''.join(out)",
            f" if not {least} <= len(body) <= {most}: raise ValueError",
            f" return head({', '.join(values)}) + body",
        ]

    def _fixed_whole(self) -> list[str]:
        """A message of a size that is known is packed at once."""
        size = struct.calcsize(self._format)
        form, values, least, most = self._header(str(size))
        if not least <= size <= most:
            raise Unsuited
        self.names["pack"] = struct.Struct(form + self._format[1:]).pack
        return [*self.lines, f" return pack({', '.join([*values, *self._values])})"]

    def _header(self, body_size: str) -> tuple[str, list[str], int, int]:
        """Return the format of the header, its values, and the limits of the size of what follows."""
        form, values = ">", list[str]()
        least, most = 0, NO_LIMIT
        for place, part in enumerate(self.layout.frame.parts):
            match part:
                case n.Code(wire=wire):
                    form += self._letter(wire)
                    values.append(str(self.node.codes[0]))
                case n.Kept(name=name) if name not in self.layout.loose:
                    size = self._fixed(self.node.field(name).wire)
                    form += f"{size}s"
                    values.append(self._sized(f"m.{name}", size, 1))
                case n.Size(wire=n.Int() as wire, counts="after") if place == len(self.layout.frame.parts) - 1:
                    form += self._letter(wire)
                    values.append(body_size)
                    least, most = part.least, NO_LIMIT if part.most is None else part.most
                case _:
                    raise Unsuited
        return form, values, least, most

    def _letter(self, wire: n.Int) -> str:
        if wire.little or (wire.size, wire.signed) not in _FORMATS:
            raise Unsuited
        return _FORMATS[wire.size, wire.signed]

    def _fixed(self, wire: Any) -> int:
        if not isinstance(wire, n.Fixed):
            raise Unsuited
        return wire.size

    def _sized(self, value: str, size: int, depth: int) -> str:
        """Return a name for bytes of that size; struct would pad what is too short."""
        name = f"fixed{len(self.lines)}"
        self.lines.append(f"{' ' * depth}{name} = {value}")
        self.lines.append(f"{' ' * depth}if type({name}) is not bytes or len({name}) != {size}: raise TypeError")
        return name

    def _pack(self, letter: str, value: str) -> None:
        self._format += letter
        self._values.append(value)

    def _flush(self, depth: int) -> None:
        if self._values:
            name = f"pack{self._count}"
            self._count += 1
            self.names[name] = struct.Struct(self._format).pack
            self.lines.append(f"{' ' * depth}add({name}({', '.join(self._values)}))")
            self._format, self._values = ">", []

    def _write(self, wire: Any, value: str, depth: int) -> None:
        match wire:
            case n.Int():
                if wire.low is not None or wire.high is not None:
                    raise Unsuited
                self._pack(self._letter(wire), value)
            case n.Bool():
                self._pack("?", value)
            case n.Fixed(size=size):
                self._pack(f"{size}s", self._sized(value, size, depth))
            case n.Run(length=n.Int() as length, content="text" | "bytes" as content, least=0, most=None):
                self._run(length, content, value, depth)
            case n.Nested(struct=cls):
                self._struct(cls, value, depth)
            case n.Many(element=element, count=n.Int() as count):
                self._pack(self._letter(count), f"len({value})")
                self._flush(depth)
                item = f"x{depth}"
                self.lines.append(f"{' ' * depth}for {item} in {value}:")
                self._write(element, item, depth + 1)
                self._flush(depth + 1)
            case _:
                raise Unsuited

    def _run(self, length: n.Int, content: str, value: str, depth: int) -> None:
        name = self._text(value, depth) if content == "text" else self._bytes(value, depth)
        self._pack(self._letter(length), f"len({name})")
        self._flush(depth)
        self.lines.append(f"{' ' * depth}add({name})")

    def _text(self, value: str, depth: int) -> str:
        return self._keep(f"{value}.encode('utf-8', 'surrogateescape')", depth)

    def _bytes(self, value: str, depth: int) -> str:
        name = self._keep(value, depth)
        self.lines.append(f"{' ' * depth}if type({name}) is not bytes: raise TypeError")
        return name

    def _keep(self, value: str, depth: int) -> str:
        """Return a name for a value."""
        name = f"raw{self._count}"
        self._count += 1
        self.lines.append(f"{' ' * depth}{name} = {value}")
        return name

    def _struct(self, cls: Any, value: str, depth: int) -> None:
        """Fields under a condition stand at the end of a structure, all under the same one."""
        for limit in cls.__sum_limits__:
            sizes = " + ".join(f"len({value}.{name})" for name in limit.fields)
            self.lines.append(f"{' ' * depth}if {sizes} > {limit.most}: raise ValueError")
        fields = struct_fields(cls, self.layout)
        always = [field for field in fields if field.when is None]
        rest = fields[len(always) :]
        if any(field.when is not None for field in fields[: len(always)]) or len({field.when for field in rest}) > 1:
            raise Unsuited
        for field in always:
            if isinstance(field.wire, n.Length):
                raise Unsuited
            self._write(field.wire, f"{value}.{field.name}", depth)
        if rest:
            self._flush(depth)
            self._conditional(rest, value, depth)

    def _conditional(self, fields: Any, value: str, depth: int) -> None:
        when = fields[0].when
        if not isinstance(when, When) or not when.off:
            raise Unsuited
        self.lines.append(f"{' ' * depth}if {value}.{when.field} not in {when.off!r}:")
        for field in fields:
            match field.wire:
                case n.Length(of=of, wire=wire):
                    self._pack(self._letter(wire), f"len({value}.{of})")
                case n.Run(content="bytes", length=str()):
                    self._flush(depth + 1)
                    self.lines.append(f"{' ' * (depth + 1)}add({self._bytes(f'{value}.{field.name}', depth + 1)})")
                case _:
                    raise Unsuited
        self._flush(depth + 1)
        unset = " or ".join(
            f"{value}.{field.name} != {field.default!r}" for field in fields if not isinstance(field.wire, n.Length)
        )
        self.lines.append(f"{' ' * depth}elif {unset}: raise ValueError")
