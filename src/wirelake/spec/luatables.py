"""The tables of a dissector that many places share: fields of the display filter, names of values, integers,
structures. Equal ones are written once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, assert_never

from . import nodes as n
from .luatext import Ref, index, literal

T = TypeVar("T")


@dataclass(frozen=True)
class Place:
    """Where in the declaration the writer is: names of fields begin with ``key``."""

    message: str
    key: str
    doc: str = ""

    def inner(self, name: str, doc: str) -> Place:
        return Place(self.message, f"{self.key}.{name}" if self.key else name, doc)


@dataclass(frozen=True)
class Shape:
    """What kind of ProtoField it is. Two fields of one name share it if their shapes are equal."""

    type: str
    base: str = ""
    labels: str = ""
    mask: int = 0
    width: int = 0


class Tables:
    """What was written so far, by name. ``features`` says which pieces of Lua are needed."""

    def __init__(self, protocol: str) -> None:
        self.protocol = protocol
        self.fields: dict[str, str] = {}
        self.labels: dict[str, str] = {}
        self.ints: dict[str, str] = {}
        self.structures: dict[str, str] = {}
        self.choices: dict[str, str] = {}
        self.features: set[str] = set()
        self.filters: dict[str, str] = {}
        self._shapes: dict[str, Shape] = {}

    def claim(self, place: Place, shape: Shape, suffix: str = "", doc: str = "", label: str = "") -> str:
        """Return the name under which the tables refer to the field at this place."""
        key, family = place.key + suffix, _family(shape.type)
        # One name in a filter can have only one type. Where it is another one, each message has a name of its own.
        is_other = self.filters.setdefault(self._filter_name(key), family) != family
        own = f"{place.message}.{key}" if is_other else key
        name = _numbered(own, shape, self._shapes)
        if name not in self._shapes:
            self._shapes[name] = shape
            possible = [self._filter_name(own), self._filter_name(f"{own}.{shape.type}")]
            shown = next((one for one in possible if self.filters.setdefault(one, family) == family), possible[-1])
            arguments = _arguments(label or key.rsplit(".", 1)[-1], shape, doc or place.doc)
            filter_name = f"NAME .. {literal(shown.removeprefix(self.protocol))}"
            self.fields[name] = f"ProtoField.{shape.type}({', '.join((filter_name, *arguments))})"
        return name

    def _filter_name(self, name: str) -> str:
        return _as_filter(f"{self.protocol}.{name}")

    def integer(self, wire: n.Int, bits: list[dict[str, Any]] | None = None) -> Any:
        """Return the table of an integer. A plain one has a name, so that tables stay short."""
        table = {"kind": "int", "size": wire.size, "signed": wire.signed, "little": wire.little and wire.size > 1}
        is_bound = wire.low is not None or wire.high is not None
        if is_bound or bits:
            limits = {"low": wire.low, "high": wire.high, "rule": wire.rule if is_bound else None}
            return {**table, **limits, "bits": bits or None}
        order = "" if wire.size == 1 else "_le" if wire.little else "_be"
        name = f"{'i' if wire.signed else 'u'}{wire.size * 8}{order}"
        self.ints[name] = literal(table)
        return Ref(name)

    def number(self, wire: n.Number) -> Any:
        """Return the table of a number of any kind."""
        match wire:
            case n.Int():
                return self.integer(wire)
            case n.Varint(most_bytes=most, wider=wider, lenient=lenient) if wider:
                self.features |= {"varint", "wider"}
                known = [
                    {"first": byte, "size": inner.size if inner else 0, "little": (inner and inner.little) or None}
                    for byte, inner in wider
                ]
                return {
                    "kind": "varint",
                    "most": most,
                    "lenient": lenient or None,
                    "wider": known,
                    "wide": _is_wide(wire) or None,
                    "signed": n.limits(wire)[0] < 0 or None,
                }
            case n.Varint(most_bytes=most, high_first=high_first, lenient=lenient, ber=ber, signed=signed):
                self.features |= {"varint", *(["ber"] if ber else []), *(["signed"] if signed else [])}
                order = {"high_first": high_first or None, "lenient": lenient or None, "ber": ber or None}
                wide = _is_wide(wire) or None
                bits = wire.bits if signed == "twos" and wire.bits == 32 else None
                return {"kind": "varint", "most": most, **order, "wide": wide, "signed": signed or None, "bits": bits}
            case n.Digits(end=end, base=base, lenient=lenient):
                self.features.add("digits")
                form = {8: "o", 10: "d", 16: "x"}[base]
                limits = {"low": f"{wire.low:{form}}", "high": f"{wire.high:{form}}", "lenient": lenient or None}
                signs = {"signed": wire.low < 0 or None, "wide": _is_wide(wire) or None}
                pads = {"pad": wire.pad or wire.pad_before or None, "before": bool(wire.pad_before) or None}
                size = wire.size or None
                return {"kind": "digits", "stop": end, "size": size, "base": base, **limits, **signs, **pads}
            case _:
                assert_never(wire)

    def names(self, labels: n.Labels, wire: n.Int) -> str:
        """Add names of values; negative narrow ones are written as Wireshark compares them: 32 bits without sign."""
        wide = wire.size > 4
        text = literal({code if wide or code >= 0 else code + (1 << 32): name for code, name in labels.names.items()})
        return _add(self.labels, "L", labels.name, text)

    def share(self, place: Place, table: Any) -> Ref:
        return Ref(_add(self.structures, "T", place.key, literal(table)))


def _add(members: dict[str, str], table: str, key: str, text: str) -> str:
    name = _numbered(key, text, members)
    members[name] = text
    return f"{table}{index(name)}"


def _numbered(key: str, value: T, known: Mapping[str, T]) -> str:
    """Return the key itself, or with a number if it stands for another value already."""
    name, number = key, 1
    while known.get(name, value) != value:
        number += 1
        name = f"{key}~{number}"
    return name


def _arguments(label: str, shape: Shape, doc: str) -> Iterator[str]:
    yield literal(label)
    match shape.type:
        case "string":
            yield "base.UNICODE"
        case "bytes":
            yield "base.NONE"
        case "absolute_time":
            yield "base.UTC"
        case "guid" | "float" | "double":
            pass
        case "framenum":
            yield from ("base.NONE", shape.labels, "0")
        case "bool":
            yield from (str(shape.width) if shape.mask else "base.NONE", "nil", f"0x{shape.mask:x}")
        case _:
            yield from (f"base.{shape.base or 'DEC'}", shape.labels or "nil", f"0x{shape.mask:x}")
    if doc:
        yield literal(" ".join(doc.split()))


def _family(type_name: str) -> str:
    """Return what stands for all types that one filter name may have: integers of up to 32 bits are one family."""
    return re.sub("int(8|16|24)$", "int32", type_name)


def _as_filter(text: str) -> str:
    return re.sub("[^A-Za-z0-9_.-]", "_", text)


def int_type(wire: n.Int, *, unsigned: bool = False) -> str:
    """Return the ProtoField type that holds such an integer."""
    bits = next(width for width in (8, 16, 24, 32, 64) if wire.size * 8 <= width)
    return f"{'int' if wire.signed and not unsigned else 'uint'}{bits}"


def number_type(wire: n.Number) -> str:
    """Return the ProtoField type that holds such a number."""
    if isinstance(wire, n.Int):
        return int_type(wire)
    sign = "int" if n.limits(wire)[0] < 0 else "uint"
    return f"{sign}{64 if _is_wide(wire) else 32}"


def _is_wide(wire: n.Varint | n.Digits) -> bool:
    """Return whether a number may take more than 32 bits."""
    if isinstance(wire, n.Varint):
        return wire.most_bytes > 4
    return not -(1 << 31) <= wire.low <= wire.high < 1 << (31 if wire.low < 0 else 32)


def assignments(table: str, members: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of a table, member by member."""
    yield f"local {table} = {{}}"
    for name, text in members.items():
        yield f"{table}{index(name)} = {text}"
