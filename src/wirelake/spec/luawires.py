"""The nodes of messages as Lua tables: fields, structures, and every kind of value."""

from __future__ import annotations

import codecs
from dataclasses import dataclass, fields, replace
from itertools import count
from typing import Any

from ..errors import SpecError
from . import nodes as n
from .columns import value_of
from .conduct import When
from .declare import snake_case, tag_rows
from .derive import element_names
from .luachoices import Choices, as_setting, open_option, with_setting
from .luatables import Place, Shape, Tables, int_type, number_type
from .luatext import Ref, literal
from .resolve import spare_bytes
from .timeforms import SIZES, pieces_of

_FEATURES: dict[n.Content, set[str]] = {
    "bytes": {"run"},
    "text": {"run", "text"},
    "strict_text": {"run", "text"},
    "msgpack": {"run", "msgpack"},
    "msgpack_map": {"run", "msgpack"},
    "json": {"run", "json", "text"},
}

CHARSETS = (
    *("utf-8", "gbk", "gb18030", "euc-kr", "iso-8859-1", "iso-8859-2", "iso-8859-15", "windows-1250", "windows-1251"),
    *("windows-1252", "ascii", "utf-16-le", "utf-16-be", "cp437", "cp866", "cp037"),
)
"""The character sets that Wireshark knows."""
_BY_CODEC = {codecs.lookup(name).name: name for name in CHARSETS}


@dataclass(frozen=True)
class Made:
    """The Lua table of a wire node, and the name of its field: none for what has only parts, a choice where the type
    depends on an option.
    """

    wire: Any
    field: Any


class Wires:
    """Writes fields and structures; the tables that it needs are shared with the rest of the dissector."""

    def __init__(self, tables: Tables, choices: Choices) -> None:
        self.tables = tables
        self.choices = choices
        self._open: dict[n.Choice[Any], dict[str, Any]] = {}

    def row(self, declared: n.Field, place: Place) -> dict[str, Any]:
        doc = f"{declared.doc} [{declared.unit}]" if declared.unit else declared.doc
        made = self.wire(declared.wire, place.inner(declared.key, doc))
        return {
            "name": declared.name,
            "key": declared.key if declared.key != declared.name else None,
            "field": made.field or None,
            "only": self.choices.only(declared.only),
            "when": declared.when and self.condition(declared.when),
            "wire": made.wire,
        }

    def rows(self, declared: list[n.Field], place: Place) -> list[dict[str, Any]]:
        """Return the rows of fields that follow each other."""
        rows = [self.row(field, place) for field in declared]
        for row, spare in zip(rows, spare_bytes(tuple(declared)), strict=True):
            row["spare"] = spare or None
        return rows

    def condition(self, when: n.Condition) -> dict[str, Any]:
        if isinstance(when, n.Every):
            return {"kind": "every", "conditions": [self.condition(one) for one in when.conditions]}
        if isinstance(when, n.Begins):
            self.tables.features.add("begins")
        if not isinstance(when, When):
            return _as_table(when)
        self.tables.features.add("when")
        compared = {name: _halved(getattr(when, name)) or None for name in ("one_of", "none_of")}
        limits = {name: _halved(getattr(when, name)) for name in ("least", "most")}
        bits = _halves(when.bits) if when.bits else None
        return {**_as_table(when), **compared, **limits, "bits": bits, "bare": when.is_bare or None}

    def _struct(self, cls: Any, place: Place) -> Ref:
        """Return a table for the fields of a structure at this place."""
        declared = [f for f in cls.__wire_fields__ if not self.choices.rules_out(f.only)]
        table = {
            "fields": self.rows(declared, place),
            "limits": [_limit(limit, declared) for limit in cls.__sum_limits__] or None,
            "derived": self.derived(cls, place, set()) or None,
        }
        return self.tables.share(place, table)

    def wire(self, wire: Any, place: Place) -> Made:
        """Return the table of a wire node, and the name of its field."""
        if option := open_option(wire):
            return self._chosen_wire(option, wire, place)
        match wire:
            case n.Int():
                return self._int_wire(wire, place)
            case n.Bool(lenient=lenient):
                return self._simple("bool", Shape("bool"), place, lenient=lenient or None)
            case n.Float(size=size, little=little):
                return self._simple("float", Shape("float" if size == 4 else "double"), place, size=size, little=little)
            case n.Fixed(size=size):
                return self._simple("fixed", Shape("guid" if size == 16 else "bytes"), place, size=size)
            case n.Run():
                return self._run(wire, place)
            case n.Bits():
                return self._bits(wire, place)
            case n.Varint() | n.Digits():
                return Made(self.tables.number(wire), self.tables.claim(place, Shape(number_type(wire))))
            case n.Scaled(form=form) if form:
                return self._written_time(wire, place)
            case n.Scaled(wire=number, per=per, epoch=epoch):
                shape = Shape("double" if epoch is None else "absolute_time")
                return self._simple("scaled", shape, place, wire=self.tables.number(number), per=per, epoch=epoch)
            case n.Constant(value=value, rule=rule):
                return self._simple("constant", Shape("bytes"), place, value=value, rule=rule)
            case n.Checksum():
                return self._checksum(wire, place)
            case n.Sized():
                return self._sized(wire, place)
            case n.Choice():
                return self._choice(wire, place)
            case n.Length(wire=inner, since=since):
                made = self._int_wire(inner, place)
                return Made({"kind": "length", "wire": made.wire, "since": since or None}, made.field)
            case n.Align(size=size):
                return self._simple("align", Shape("bytes"), place, size=size)
            case n.Nested(struct=struct):
                return Made({"kind": "nested", "struct": self._struct(struct, place)}, "")
            case n.Many():
                return self._many(wire, place)
            case n.Cells():
                return self._cells(wire, place)
            case n.Signature():
                return self._signature(wire, place)
            case n.Tags():
                return self._tags(wire, place)
            case n.Word():
                return self._word(wire, place)
            case n.Body():
                return self._body(wire, place)
            case _:
                raise SpecError(f"{place.key}: {wire!r} is not a wire node")

    def _chosen_wire(self, option: str, wire: Any, place: Place) -> Made:
        """A node that depends on an option: one table for each setting, and one field if they are of one type."""
        if option in self.choices.settled:
            return self.wire(with_setting(wire, option, self.choices.settled[option]), place)
        if option not in self.choices.options:
            raise SpecError(f"{place.key} depends on the option {option!r}, which is not declared")
        settings = [setting for setting in self.choices.options[option].values if setting != "auto"]
        made = {as_setting(setting): self.wire(with_setting(wire, option, setting), place) for setting in settings}
        self.choices.used.add(option)
        names = {setting: each.field for setting, each in made.items()}
        is_one = len(set(map(literal, names.values()))) == 1
        return Made(
            {"choose": option, "cases": {setting: each.wire for setting, each in made.items()}},
            next(iter(names.values())) if is_one else {"choose": option, "cases": names},
        )

    def _simple(self, kind: str, shape: Shape, place: Place, **details: Any) -> Made:
        self.tables.features.add(kind)
        return Made({"kind": kind, **details}, self.tables.claim(place, shape))

    def _int_wire(self, wire: n.Int, place: Place) -> Made:
        labels = wire.labels
        if labels is None or not labels.bits:
            names = self.tables.names(labels, wire) if labels is not None else ""
            return Made(self.tables.integer(wire), self.tables.claim(place, Shape(int_type(wire), labels=names)))
        name = self.tables.claim(place, Shape(int_type(wire, unsigned=True), "HEX"))
        bits = (self._bit(mask, label, wire, place) for mask, label in labels.names.items())
        return Made(self.tables.integer(wire, [bit for bit in bits if bit is not None]), name)

    def _bit(self, mask: int, label: str, wire: n.Int, place: Place) -> dict[str, Any] | None:
        """A flag is shown in the bytes that hold it: Wireshark's masks have 32 bits only, numbers may have more. No
        bits, and bits further apart, have no item of their own.
        """
        lowest = ((mask & -mask).bit_length() - 1) // 8
        size = (mask.bit_length() + 7) // 8 - lowest
        if mask <= 0 or size > 4 or lowest + size > wire.size:
            return None
        at = lowest if wire.little else wire.size - lowest - size
        shape = Shape("bool", mask=mask >> lowest * 8, width=size * 8)
        return {"field": self.tables.claim(place, shape, f".{label.lower()}", label=label), "at": at, "size": size}

    def bits(self, wire: n.Bits) -> dict[str, Any]:
        """Return the table of some bits. Wireshark's masks have 32 bits only: wider numbers are taken apart by us."""
        self.tables.features.add("bits")
        masked = wire.wire.size <= 4 or None
        shared = self.tables.integer(wire.wire)
        return {"kind": "bits", "wire": shared, "shift": wire.shift, "width": wire.width, "masked": masked}

    def bits_shape(self, wire: n.Bits, labels: str = "", base: str = "") -> Shape:
        mask = (1 << wire.width) - 1 << wire.shift if wire.wire.size <= 4 else 0
        return Shape(int_type(wire.wire, unsigned=True), base, labels, mask)

    def _bits(self, wire: n.Bits, place: Place) -> Made:
        labels = wire.wire.labels
        names = self.tables.names(labels, wire.wire) if labels is not None and not labels.bits else ""
        return Made(self.bits(wire), self.tables.claim(place, self.bits_shape(wire, names)))

    def _written_time(self, wire: n.Scaled[Any], place: Place) -> Made:
        """A time as text: the text has an item of its own, the time one behind it."""
        self.tables.features.add("forms")
        text = self.wire(wire.wire, place.inner("text", "the time as it is written"))
        pieces = [
            {"text": piece.text or None, "kind": piece.directive or None, "size": SIZES.get(piece.directive)}
            for piece in pieces_of(wire.form)
        ]
        table = {"kind": "written_time", "wire": text.wire, "text": text.field, "pieces": pieces}
        return Made(table, self.tables.claim(place, Shape("absolute_time")))

    def _checksum(self, wire: n.Checksum, place: Place) -> Made:
        self.tables.features.add(wire.kind)
        shape = Shape(number_type(wire.wire), "HEX" if isinstance(wire.wire, n.Int) else "")
        inner = self.tables.number(wire.wire)
        return self._simple("checksum", shape, place, wire=inner, sum=wire.kind, since=wire.since or None)

    def _sized(self, wire: n.Sized[Any], place: Place) -> Made:
        self.tables.features.add("sized")
        inner = self.wire(wire.inner, place)
        length = self._earlier(wire.length)
        if not length:
            number = n.written(wire.length)
            given = self.tables.claim(place, Shape(number_type(number)), "_length", "bytes that follow")
            length = {"length": self.tables.number(number), "length_field": given, **_units(wire.length)}
        return Made({"kind": "sized", **length, "inner": inner.wire}, inner.field)

    def _choice(self, wire: n.Choice[Any], place: Place) -> Made:
        """A choice inside of itself is the same one: its tables are named, and its fields have the same names."""
        self.tables.features.add("choice")
        if wire in self._open:
            return Made(self._open[wire], place.key)
        names = (f"{place.key}~{i}" if i else place.key for i in count())
        name = next(name for name in names if name not in self.tables.choices)
        table = {"kind": "choice", "name": name, "depth": wire.depth, "tag": wire.tag and wire.tag.size}
        self._open[wire] = table
        self.tables.choices[name] = ""  # its place
        if wire.tag is None:
            inside = self.wire(wire.known[None], place)
            self.tables.choices[name] = literal({"only": {"field": inside.field or None, "wire": inside.wire}})
            del self._open[wire]
            return Made(table, place.key)
        tag = self.wire(wire.tag, place.inner("tag", "which value follows"))
        cases = {case: self._case(inner, place) for case, inner in wire.known.items()}
        known = {"tag": tag.wire, "tag_field": tag.field, "cases": cases}
        self.tables.choices[name] = literal(known)
        del self._open[wire]
        return Made(table, place.key)

    def _case(self, wire: Any, place: Place) -> Any:
        """Return what follows a tag; false where nothing does."""
        if wire is None:
            return False
        made = self.wire(wire, place.inner("value", "as the tag says"))
        return {"field": made.field or None, "wire": made.wire}

    def _run(self, wire: n.Run[Any], place: Place) -> Made:
        self.tables.features |= _FEATURES[wire.content]
        name = self.tables.claim(place, Shape("bytes" if wire.content == "bytes" else "string"))
        length, beside = self._prefix(wire.length, place, name, "_length", "bytes that follow")
        table = {
            "kind": "run",
            "content": wire.content,
            **(self._earlier(wire.length) or {"length": length, "length_field": beside, **_units(wire.length)}),
            **self._filled(wire),
            "stop": self._stop(wire.length),
            "behind": self._feature("behind", wire.end) if wire.end else None,
            "escapes": self._escapes(wire.escapes) if wire.escapes else None,
            **self.choices.members(wire, "least", "most", "null"),
            "empty": "null" if wire.null_if_empty else "absent" if wire.absent_if_empty else None,
            **self.choices.members(replace(wire, charset=_charset(wire.charset)), "charset", "errors"),
        }
        return Made(table, name)

    def _prefix(self, wire: Any, place: Place, name: str, suffix: str, doc: str) -> tuple[Any, str | None]:
        """Return a length or count before a value, and the name of its field unless it follows the value's name."""
        if isinstance(wire, bytes):
            return None, None
        number = n.written(wire)
        if number is None:
            return wire, None
        given = self.tables.claim(place, Shape(number_type(number)), suffix, doc)
        return self.tables.number(number), None if given == name + suffix else given

    def _filled(self, wire: n.Run[Any]) -> dict[str, Any]:
        """Return what a value of a fixed size is filled up with."""
        if not isinstance(wire.length, int):
            return {}
        self.tables.features.add("filled")
        return {
            "length": None,
            "fixed": wire.length,
            "pad": wire.pad or wire.pad_before,
            "before": bool(wire.pad_before) or None,
        }

    def _earlier(self, given: Any, name: str = "length") -> dict[str, Any]:
        """Return what says that an earlier field holds a length or count; nothing if it is written with the value."""
        by = n.By.of(given)
        if by is None:
            return {}
        self.tables.features.add("by")
        return {name: by.field, **self._by(by)}

    def said(self, by: n.By) -> dict[str, Any]:
        """Return the table of a length that fields of the header say."""
        self.tables.features.add("by")
        return {"field": by.field, **self._by(by)}

    def _by(self, by: n.By) -> dict[str, Any]:
        other = n.By.of(by.otherwise)
        more = {"less": by.less or None, "otherwise": {"field": other.field, **self._by(other)} if other else None}
        return {**_units(by), "per": by.per if by.per != 1 else None, **more}

    def _stop(self, length: Any) -> bytes | None:
        """Return the bytes that end a value."""
        return self._feature("stop", length) if isinstance(length, bytes) else None

    def _feature(self, feature: str, value: bytes) -> bytes:
        self.tables.features.add(feature)
        return value

    def _escapes(self, escapes: tuple[tuple[bytes, bytes], ...]) -> dict[str, Any]:
        self.tables.features |= {"escapes", "text"}
        return {"begin": escapes[0][0][:1], "size": len(escapes[0][0]), "known": dict(escapes)}

    def _many(self, wire: n.Many[Any], place: Place) -> Made:
        element = self.wire(wire.element, place)
        name = element.field or place.key
        number, beside = self._prefix(wire.count, place, name, "_count", "elements that follow")
        counts = self._earlier(wire.count, "count") or {"count": number, "count_field": beside, **_units(wire.count)}
        ends: dict[str, Any] = {"stop": self._stop(wire.count), "null": wire.null}
        if wire.until is not None:
            self.tables.features.add("last")
            ends |= {"last": self.condition(wire.until), "or_end": wire.or_end or None}
        return Made({"kind": "many", **counts, **ends, "element": element.wire}, name)

    def _cells(self, wire: n.Cells[Any], place: Place) -> Made:
        self.tables.features |= {"cells", "run"}
        table = {
            "kind": "cells",
            "head": self.tables.integer(wire.head),
            "shown": self._cell_head(wire, place),
            **self.choices.members(wire, "id_shift", "type_shift", "type_mask", "flag_mask", "id_max"),
            "types": [self._cell_type(kind, place) for kind in wire.types],
        }
        return Made(self.tables.share(place, table), place.key)

    def _cell_head(self, wire: n.Cells[Any], place: Place) -> list[str]:
        """Claim the fields that share the bits of a cell's head."""
        head, bits = int_type(wire.head, unsigned=True), wire.head.size * 8
        names = n.Labels(f"{place.key} types", dict(enumerate(kind.name for kind in wire.types)))
        number = Shape(head, mask=((1 << bits) - 1) >> wire.id_shift << wire.id_shift)
        kind = Shape(head, "", self.tables.names(names, wire.head), wire.type_mask << wire.type_shift)
        flag = Shape("bool", mask=wire.flag_mask, width=bits)
        return [
            self.tables.claim(place, number, ".fid", "number of the field"),
            self.tables.claim(place, kind, ".type", "type of the field"),
            self.tables.claim(place, flag, ".group_bit", "the bit that no sender sets"),
        ]

    def _cell_type(self, kind: n.CellType, place: Place) -> dict[str, Any]:
        if kind.wire is None:
            return {"name": kind.name}
        made = self.wire(kind.wire, place.inner(kind.name.lower(), f"value of type {kind.name}"))
        return {"name": kind.name, "field": made.field, "wire": made.wire}

    def _signature(self, wire: n.Signature[Any], place: Place) -> Made:
        self.tables.features.add("signature")
        forms = [
            {"size": form.size, "first": form.first, "struct": self._struct(form.struct, place)} for form in wire.forms
        ]
        table = {"kind": "signature", "cells": wire.cells, "fid": wire.fid, "lead": wire.kind, "forms": forms}
        return Made(self.tables.share(place.inner("forms", ""), table), "")

    def _tags(self, wire: n.Tags[Any], place: Place) -> Made:
        self.tables.features |= {"tags", "bool"}
        rows = tag_rows(wire.struct)
        titles = n.Labels(place.key, {row.code: row.title or row.name for row in rows})
        names = self.tables.names(titles, n.Int(1, signed=False, little=False))
        table = {
            "kind": "tags",
            "code_field": self.tables.claim(place, Shape("uint8", "HEX", names), "_code", "which header"),
            "anywhere": self.choices.plain(wire.anywhere),
            "demand": self.choices.plain(wire.demand),
            "waived": wire.waived,
            "rows": [self._tag(row, place) for row in rows],
        }
        return Made(self.tables.share(place, table), place.key)

    def _tag(self, row: n.Tag, place: Place) -> dict[str, Any]:
        here = place.inner(row.name, row.doc)
        made = self.wire(row.wire, here) if row.wire is not None else Made(None, self.tables.claim(here, Shape("bool")))
        return {
            "code": row.code,
            "name": row.name,
            "field": made.field or None,
            "wire": made.wire,
            "allowed": sorted(row.allowed),
            "required": sorted(row.required) or None,
        }

    def _word(self, wire: n.Word[Any], place: Place) -> Made:
        self.tables.features.add("words")
        is_small = wire.number and wire.high is not None and wire.high < 1 << 32 and (wire.low or 0) >= 0
        is_wide = wire.number and not is_small and wire.high is not None and (wire.low or 0) >= 0
        table = {
            "kind": "word",
            **self.choices.members(wire, "pattern", "rule", "most", "number", "low", "high", "parts_most", "optional"),
            "all": wire.all or None,
            "wide": str(wire.high) if is_wide else None,
            "codes": sorted(wire.only) if wire.only is not None else None,
            "only_rule": wire.only_rule or None,
        }
        kind = "uint32" if is_small else "uint64" if is_wide else "double" if wire.number else "string"
        name = self.tables.claim(place, Shape(kind))
        return Made(self.tables.share(place, table), name)

    def _body(self, wire: n.Body, place: Place) -> Made:
        self.tables.features |= {"body", "text"} if wire.text else {"body"}
        table = {
            "kind": "body",
            **self.choices.members(wire, "text", "exactly", "most"),
            "most_rule": wire.most_rule if wire.most is not None else None,
            **self.choices.members(wire, "empty"),
            "empty_if": wire.empty_if and {"field": wire.empty_if.field, "limit": wire.empty_if.limit},
            **self.choices.members(wire, "opaque_if", "prefix", "prefix_rule", "prefix_needs"),
        }
        return Made(table, self.tables.claim(place, Shape("string" if wire.text else "bytes")))

    def derived(self, cls: Any, place: Place, shown: set[str]) -> list[dict[str, Any]]:
        """Return the derived values that no part of the frame's header shows anyway."""
        return [
            self._derived(cls, made, place)
            for made in cls.__derived_fields__
            if made.name not in shown and not self.choices.rules_out(made.only)
        ]

    def _derived(self, cls: Any, made: n.DerivedField, place: Place) -> dict[str, Any]:
        how = made.how
        if isinstance(how, n.Lookup):
            return self._lookup(cls, made, how, place)
        kind = "string" if isinstance(how, n.OrderOf) else "uint32" if isinstance(how, n.Lengths) else "bool"
        return {
            "field": self.tables.claim(place.inner(made.name, made.doc), Shape(kind)),
            "only": self.choices.only(made.only),
            "how": _as_table(how),
        }

    def _lookup(self, cls: Any, made: n.DerivedField, how: n.Lookup, place: Place) -> dict[str, Any]:
        """Return the row of what a list says under a key: its type is that of the value that is found."""
        here, wire = place.inner(made.name, made.doc), value_of(cls, how)
        number = how.number or isinstance(wire, n.Int | n.Bits | n.Varint | n.Digits)
        is_text = isinstance(wire, n.Run) and wire.content != "bytes"
        kind = "int64" if number else "string" if is_text else "bytes"
        self.tables.features |= {"lookup", "text"} if is_text else {"lookup"}
        field = self.tables.claim(here, Shape(kind))
        return {"name": made.name, "field": field, "only": self.choices.only(made.only), "how": self.lookup(cls, how)}

    def lookup(self, cls: Any, how: n.Lookup) -> dict[str, Any]:
        """Return the table of what a list says under a key, with the names of the fields of its elements."""
        first, second = element_names(_element(cls, how))[:2]
        return {**_as_table(how), "key": None, "keys": list(how.keys), "first": first, "value": how.value or second}


def _units(given: Any) -> dict[str, Any]:
    """Return what a number before a value is multiplied by, and what is added to it."""
    if not isinstance(given, n.By):
        return {}
    return {"times": given.times if given.times != 1 else None, "plus": given.plus or None}


def _charset(given: Any) -> Any:
    """Return the name that Wireshark's dissectors have for a character set; a choice is made later."""
    if not isinstance(given, str):
        return given
    if codecs.lookup(given).name not in _BY_CODEC:
        raise SpecError(f"a dissector cannot show texts in {given}; it knows {', '.join(CHARSETS)}")
    return _BY_CODEC[codecs.lookup(given).name]


def _element(cls: Any, how: n.Lookup) -> Any:
    """Return the structure of the elements in which something is looked up."""
    wire = next(f.wire for f in cls.__wire_fields__ if f.name == how.field)
    while isinstance(wire, n.Sized):
        wire = wire.inner
    return wire.element.struct


def _as_table(node: n.Condition | n.Derived) -> dict[str, Any]:
    """Return a node whose Lua table has its name and its attributes, less those that have their defaults."""
    values = {f.name: value for f in fields(node) if (value := getattr(node, f.name)) != f.default}
    return {"kind": snake_case(type(node).__name__), **values}


def _halves(number: int) -> dict[str, int]:
    """Return both halves of 64 bits, which are more than a number of Lua tells apart."""
    return {"high": number >> 32, "low": number & 0xFFFFFFFF}


def _halved(value: Any) -> Any:
    """Return what a condition compares with, large numbers as their halves."""
    if isinstance(value, tuple):
        return [_halved(int(each) if isinstance(each, bool) else each) for each in value]
    return _halves(value) if isinstance(value, int) and abs(value) > _EXACT else value


_EXACT = 1 << 53
"""Numbers in Lua are of double precision."""


def _limit(limit: n.SumLimit, declared: list[n.Field]) -> dict[str, Any]:
    lengths = [f.name for f in declared if isinstance(f.wire, n.Length) and f.wire.of in limit.fields]
    return {"lengths": lengths, "most": limit.most, "rule": limit.rule}
