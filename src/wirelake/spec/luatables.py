"""The tables of a dissector that many places share: fields, names of values, integers, structures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from . import nodes as n
from .luatext import Fields, Ref, Shape, index, literal


@dataclass(frozen=True)
class Place:
    """Where in the declaration the writer is: names of fields begin with ``key``."""

    message: str
    key: str
    doc: str = ""

    def inner(self, name: str, doc: str) -> Place:
        return Place(self.message, f"{self.key}.{name}" if self.key else name, doc)


class Tables:
    """What was written so far; equal tables are written once. ``features`` says which pieces of Lua are needed."""

    def __init__(self, name: str) -> None:
        self.fields = Fields(name)
        self.labels: dict[str, str] = {}
        self.ints: dict[str, str] = {}
        self.structures: dict[str, str] = {}
        self.features: set[str] = set()

    def claim(self, place: Place, shape: Shape, suffix: str = "", doc: str = "", label: str = "") -> str:
        return self.fields.claim(place.key + suffix, shape, doc or place.doc, place.message, label)

    def integer(self, wire: n.Int, bits: list[dict[str, Any]] | None = None) -> Any:
        """A plain integer has a name, so that tables stay short."""
        table = {"kind": "int", "size": wire.size, "signed": wire.signed, "little": wire.little and wire.size > 1}
        is_bound = wire.low is not None or wire.high is not None
        if is_bound or bits:
            limits = {"low": wire.low, "high": wire.high, "rule": wire.rule if is_bound else None}
            return {**table, **limits, "bits": bits or None}
        order = "" if wire.size == 1 else "_le" if wire.little else "_be"
        name = f"{'i' if wire.signed else 'u'}{wire.size * 8}{order}"
        self.ints[name] = literal(table)
        return Ref(name)

    def names(self, labels: n.Labels, wire: n.Int) -> str:
        """A table of names. Wireshark compares narrow numbers as 32 bits without sign: negative ones are written so."""
        wide = wire.size > 4
        text = literal(
            {value if wide or value >= 0 else value + (1 << 32): name for value, name in labels.names.items()}
        )
        name, number = labels.name, 1
        while self.labels.get(name, text) != text:
            number += 1
            name = f"{labels.name}~{number}"
        self.labels[name] = text
        return f"L{index(name)}"

    def share(self, place: Place, table: Any) -> Ref:
        text = literal(table)
        name, number = place.key, 1
        while self.structures.get(name, text) != text:
            number += 1
            name = f"{place.key}~{number}"
        self.structures[name] = text
        return Ref(f"T{index(name)}")


def assignments(table: str, members: Mapping[str, str]) -> Iterator[str]:
    """A table, member by member."""
    yield f"local {table} = {{}}"
    for name, text in members.items():
        yield f"{table}{index(name)} = {text}"
