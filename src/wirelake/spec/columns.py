"""Protocol -> the columns of its table: one per distinct field, whatever the reading options.

Fields of the same name and shape share a column; dotted names become nested structures. Types are names here
(``int32``, ``string`` ...), so that Arrow, Spark and the documentation can each spell them their way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from ..errors import SpecError
from . import nodes as n
from .declare import tag_rows
from .resolve import layout, without_choices

ENVELOPE = (
    ("capture", "string", "the file or tap it came from"),
    ("connection", "string", "the connection, the same in every run"),
    ("direction", "string", "to_server or to_client"),
    ("offset", "int64", "first byte of the frame in its stream"),
    ("length", "int32", "bytes of the frame"),
    ("ts", "timestamp", "when the frame was complete"),
    ("order", "int64", "place in the capture of what completed it: with ts, the order of both directions"),
    ("message", "string", "which message"),
    ("code", "int32", "its code on the wire"),
    ("notes", "list<string>", "tolerated oddities that were seen"),
    ("raw_text", "map<string,binary>", "bytes of texts that are not UTF-8, by path"),
)
Options = Mapping[str, Any]
RESERVED = frozenset({"sensor", *(name for name, _, _ in ENVELOPE)})

Kind = Literal["value", "struct", "list", "cells", "order", "option", "word", "derived"]


@dataclass(eq=False)
class Column:
    """A column, or a part of one. ``type`` names the type of a value; lists have one child named ``element``."""

    name: str
    kind: Kind
    type: str = ""
    doc: str = ""
    children: dict[str, Column] = field(default_factory=dict)
    free: bool = False
    how: n.Derived | None = None
    messages: set[int] = field(default_factory=set)
    wire: Any = None
    number: int = -1

    @property
    def is_costly(self) -> bool:
        """Whether MessagePack or JSON is in it, whose values are rendered only when it is asked for.

        Choices are rendered always: nothing else in a table says what they hold.
        """
        own = self.free and not isinstance(self.wire, n.Choice)
        return own or any(child.is_costly for child in self.children.values())

    def shape(self) -> str:
        """Return the type, spelled out."""
        match self.kind:
            case "struct":
                return f"struct<{','.join(f'{c.name}:{c.shape()}' for c in self.children.values())}>"
            case "list":
                return f"list<{self.children['element'].shape()}>"
            case "cells":
                return "list<struct<fid:int32,type:string,long:int64,double:double,text:string,bytes:binary>>"
            case "order":
                return "list<string>"
            case _:
                return self.type


def int_type(wire: n.Int) -> str:
    """Return the signed type that holds every value: engines without unsigned types read these tables too."""
    return _bits_type(wire.size * 8 + (0 if wire.signed else 1))


def _bits_type(bits: int) -> str:
    """Return the signed type that has so many bits, the sign among them."""
    return next((f"int{width}" for width in (16, 32, 64) if bits <= width), "decimal")


@lru_cache(maxsize=64)
def columns(protocol: n.Protocol) -> dict[str, Column]:
    """Return the columns of a protocol's table behind the envelope, by name."""
    known: dict[str, Column] = {}
    defaults = layout(protocol)
    for option, about in protocol.options.items():
        if about.auto:
            _add(known, Column(option, "option", "string", about.doc), "")
    line = next((p for p in defaults.frame.parts if isinstance(p, n.Line)), None)
    if line is not None:
        _add(known, Column(line.code, "word", "string", "the first word of the line"), "")
    for index, cls in enumerate(protocol.messages):
        for column in _of_class(cls, defaults.options):
            column.messages.add(index)
            _add(known, column, f"{cls.__name__}.{column.name}")
    for i, column in enumerate(known.values()):
        column.number = i
    return known


def _of_class(cls: Any, options: Options) -> Iterator[Column]:
    for declared in cls.__wire_fields__:
        if not isinstance(declared.wire, n.Length | n.WireOnly):
            wire = without_choices(declared.wire, options)
            yield _column(declared.column or declared.key, wire, declared.doc, options)
    yield from (_derived(cls, made) for made in cls.__derived_fields__)


def _add(known: dict[str, Column], made: Column, place: str) -> None:
    if made.name in RESERVED:
        remedy = "write column= with another name" if place and made.how is None else "rename it"
        raise SpecError(f"{place or made.name}: the column {made.name!r} is part of every table; {remedy}")
    if made.name in known:
        _merge(known[made.name], made, place or made.name)
    else:
        known[made.name] = made


def _merge(old: Column, new: Column, where: str) -> None:
    kind = "value" if old.kind == "word" else old.kind  # of a message that takes every word, the word is a field
    if kind != new.kind or old.type != new.type or old.free != new.free:
        raise SpecError(
            f"{where}: another field of that name is {old.shape()}, this one {new.shape()}; give one of them column="
        )
    old.messages |= new.messages
    for name, child in new.children.items():
        if name in old.children:
            _merge(old.children[name], child, f"{where}.{name}")
        elif old.kind == "list":
            raise SpecError(f"{where}: lists of different elements; give one of them column=")
        else:
            old.children[name] = child


def _column(name: str, wire: Any, doc: str, options: Options) -> Column:
    match wire:
        case n.Sized(inner=inner_wire):
            return _column(name, inner_wire, doc, options)
        case n.Nested(struct=cls):
            children = {child.name: child for child in _of_class(cls, options)}
            return Column(name, "struct", "", doc or (cls.__doc__ or "").strip(), children)
        case n.Many(element=element):
            inner = _column("element", element, doc, options)
            return Column(name, "list", "", doc, {"element": inner}, wire=wire)
        case n.Cells():
            return Column(name, "cells", "", doc, wire=wire)
        case n.Choice():
            return Column(name, "value", "string", doc, free=True, wire=wire)
        case n.Signature(forms=forms):
            made = Column(name, "struct", "", doc, wire=wire)
            for child in (child for form in forms for child in _of_class(form.struct, options)):
                made.children.setdefault(child.name, child)
            return made
        case n.Tags(struct=table):
            rows = (_column(row.name, row.wire or n.Bool(), row.doc, options) for row in tag_rows(table))
            return Column(name, "struct", "", doc, {row.name: row for row in rows}, wire=wire)
        case _:
            free = isinstance(wire, n.Run) and wire.content in ("msgpack", "msgpack_map", "json")
            return Column(name, "value", _type(name, wire), doc, free=free, wire=wire)


def _type(name: str, wire: Any) -> str:
    """Return the type of a single value."""
    match wire:
        case n.Int():
            return int_type(wire)
        case n.Bits(width=width):
            return _bits_type(width + 1)
        case n.Varint(bits=bits, signed=signed):
            return _bits_type(bits + (not signed))
        case n.Digits(low=low, high=high):
            return _bits_type(max((low + 1).bit_length(), high.bit_length()) + 1)
        case n.Bool():
            return "bool"
        case n.Scaled(epoch=epoch):
            return "double" if epoch is None else "timestamp"
        case n.Float():
            return "double"
        case n.Fixed() | n.Body() | n.Run(content="bytes"):
            return "binary"
        case n.Word(number=True, low=low, high=high):
            return "int32" if high is None else _bits_type(max(32, (low or 0).bit_length() + 1, high.bit_length() + 1))
        case n.Word() | n.Run():
            return "string"
        case _:
            raise SpecError(f"{name}: {wire!r} has no column")


def _derived(cls: Any, made: n.DerivedField) -> Column:
    if isinstance(made.how, n.Lookup):
        return Column(made.name, "derived", _looked_up(cls, made.how), made.doc, how=made.how)
    if isinstance(made.how, n.OrderOf):
        return Column(made.name, "order", "", made.doc, how=made.how)
    return Column(made.name, "derived", "int32" if isinstance(made.how, n.Lengths) else "bool", made.doc, how=made.how)


def _looked_up(cls: Any, how: n.Lookup) -> str:
    """Return the type of what a list says under a key."""
    if how.number:
        return "int64"
    wire = value_of(cls, how)
    return _type(how.field, wire) if wire is not None else "string"


def value_of(cls: Any, how: n.Lookup) -> Any:
    """Return the wire type of what a list says under a key; None if it is not there."""
    wire = next((f.wire for f in cls.__wire_fields__ if f.name == how.field), None)
    while isinstance(wire, n.Sized):
        wire = wire.inner
    struct = getattr(getattr(wire, "element", None), "struct", None)
    if not isinstance(wire, n.Many) or struct is None:
        return None
    fields = [f for f in struct.__wire_fields__ if not isinstance(f.wire, n.Length | n.WireOnly)]
    return next((f.wire for i, f in enumerate(fields) if f.name == how.value or (not how.value and i == 1)), None)
