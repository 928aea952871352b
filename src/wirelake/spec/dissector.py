"""Protocol -> a Wireshark dissector in Lua.

The declaration becomes Lua tables (names of values, fields, structures, messages), node by node; the Lua in ``lua/``,
which is the same for every protocol, reads those tables. Only the pieces that a declaration needs are written out.
Reading options stay open in the tables and become preferences; an option that decides whether a stream can be cut
into frames at all is settled here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, assert_never

from ..errors import SpecError
from . import nodes as n
from .declare import tag_rows
from .luatext import Fields, Ref, Shape, assignments, comment, index, int_type, literal, pieces
from .resolve import layout

TRANSPORTS = {"tcp": ("tcp.port", "ports", "TCP ports"), "tls": ("tls.port", "tls_ports", "TLS ports")}
CHARSETS = ("utf-8", "gbk", "gb18030", "euc-kr", "iso-8859-1", "iso-8859-15", "windows-1251", "windows-1252")
OWN_PREFERENCES = ("ports", "tls_ports", "any_port")
OWN_FIELDS = (
    ("malformed.rule", "string", "the rule that is broken"),
    ("malformed.path", "string", "the field that breaks it"),
    ("malformed.offset", "uint32", "the byte of the frame where it is broken"),
    ("note.name", "string", "an oddity that is tolerated"),
    ("raw_text", "bytes", "the bytes of a text that is not UTF-8 or has zero bytes"),
)
"""What the dissector tells besides the fields of the declaration."""


def dissector(protocol: n.Protocol) -> str:
    """The source of a dissector for this protocol."""
    return _Writer(protocol).write()


# --- the writer


@dataclass(frozen=True)
class Place:
    """Where in the declaration the writer is: names of fields begin with ``key``."""

    message: str
    key: str
    doc: str = ""

    def inner(self, name: str, doc: str) -> Place:
        return Place(self.message, f"{self.key}.{name}" if self.key else name, doc)


class _Writer:
    """Reads the nodes of one protocol; what it has seen decides which pieces of Lua are needed."""

    def __init__(self, protocol: n.Protocol) -> None:
        self.protocol = protocol
        self.name = re.sub("[^a-z0-9_-]", "_", protocol.name.lower())
        self.settled = _streaming(protocol)
        self.fields = Fields(self.name)
        self.labels: dict[str, str] = {}
        self.ints: dict[str, str] = {}
        self.tables: dict[str, str] = {}
        self.options_used: set[str] = set()
        self.features: set[str] = set()
        self.parts: set[str] = set()

    def write(self) -> str:
        self._claim_own()
        frame = self._frame(self.protocol.frame)
        messages = [self._message(cls) for cls in self.protocol.messages]
        options = [self._option(name) for name in self.protocol.options if name in self.options_used]
        tables = [
            f"local NAME = {literal(self.name)}",
            f"local TITLE = {literal(self.protocol.title or self.protocol.name)}",
            f"local PORTS = {literal(self._ports())}",
            f"local OPTIONS = {literal(options)}",
            "",
            "-- ================================================================ names of values",
            "",
            *assignments("L", self.labels),
            "",
            "-- ================================================================ fields, as display filters name them",
            "",
            *assignments("F", self.fields.lines),
            "",
            "-- ================================================================ structures",
            "",
            *(f"local {name} = {text}" for name, text in self.ints.items()),
            "",
            *assignments("T", self.tables),
            "",
            "-- ================================================================ frame and messages",
            "",
            f"local FRAME = {literal(frame)}",
            "",
            "local MESSAGES = {",
            *(line for cls, made in zip(self.protocol.messages, messages, strict=True) for line in _entry(cls, made)),
            "}",
        ]
        return "\n".join([*self._introduction(), "", *tables, "", *pieces(self.features)]) + "\n"

    def _introduction(self) -> list[str]:
        name = self.name
        decode_as = f"Analyze > Decode As... (tshark: -d tcp.port==PORT,{name})"
        lines = [
            f"{self.protocol.title or name}: a Wireshark dissector, made from its declaration by `wirelake dissector`.",
            "",
            f"To install, put this file as {name}.lua into the folder that Help > About Wireshark > Folders calls",
            "Personal Lua Plugins, and restart Wireshark; or for one run: "
            f"tshark -X lua_script:{name}.lua -r capture.pcap",
            f"Ports are a preference (Edit > Preferences > Protocols > {name.upper()}); any other port: {decode_as}.",
            f"Fields are named {name}.<name in the specification>; {name}.malformed finds what breaks a rule.",
            "Works with Wireshark 4.0 and newer.",
        ]
        return [f"-- {line}".rstrip() for line in lines]

    def _ports(self) -> list[dict[str, str]]:
        declared = {"tcp": "", **{kind: str(port) for kind, port in self.protocol.ports.items()}}
        return [
            {"name": name, "title": title, "table": table, "range": declared[kind]}
            for kind, (table, name, title) in TRANSPORTS.items()
            if kind in declared
        ]

    def _option(self, name: str) -> dict[str, Any]:
        option = self.protocol.options[name]
        if name in OWN_PREFERENCES or not re.fullmatch("[a-z0-9_.]+", name):
            raise SpecError(f"the option {name!r} cannot be the name of a preference")
        values = option.values or CHARSETS
        is_bool = all(isinstance(value, bool) for value in values)
        if option.auto:
            self.features.add("auto")
            self.fields.claim(name, Shape("string"), option.doc)
        return {
            "name": name,
            "values": None if is_bool else [_setting(value) for value in values],
            "default": _setting(option.default),
            "fallback": option.auto or None,
            "doc": option.doc,
        }

    def _claim_own(self) -> None:
        """What the dissector tells besides the fields of the declaration."""
        self.fields.filters |= {f"{self.name}.{own}": "expert" for own in ("malformed", "note", "incomplete")}
        for key, kind, doc in OWN_FIELDS:
            self.fields.claim(key, Shape(kind), doc, label=key.removesuffix(".name").replace(".", " "))

    # --- choices

    def _choice(self, node: n.Choose, write: Any) -> Any:
        """What ``write`` makes of each case, left open for the preferences unless the option is settled here."""
        if node.option in self.settled:
            return write(node.cases[self.settled[node.option]])
        if node.option not in self.protocol.options:
            raise SpecError(f"a choice depends on the option {node.option!r}, which is not declared")
        self.options_used.add(node.option)
        cases = {_setting(case): _maybe(write, value) for case, value in node.cases.items()}
        return {"choose": node.option, "cases": cases}

    def _plain(self, value: Any) -> Any:
        """A number or text that may depend on an option."""
        match value:
            case n.Choose():
                return self._choice(value, self._plain)
            case n.Setting(option=option) if option not in self.settled:
                self.options_used.add(option)
                return {"setting": option}
            case n.Setting(option=option):
                return self.settled[option]
            case _:
                return value

    def _only(self, only: tuple[str, Any] | None) -> dict[str, Any] | None:
        if only is None or only[0] in self.settled:
            return None
        self.options_used.add(only[0])
        return {"option": only[0], "is": _setting(only[1])}

    def _ruled_out(self, only: tuple[str, Any] | None) -> bool:
        return only is not None and only[0] in self.settled and self.settled[only[0]] != only[1]

    # --- the frame

    def _frame(self, frame: n.Frame | n.Choose) -> Any:
        if isinstance(frame, n.Choose):
            return self._choice(frame, self._frame)
        return [self._part(part) for part in frame.parts]

    def _part(self, part: n.Part | n.Choose) -> Any:
        match part:
            case n.Choose():
                return self._choice(part, self._part)
            case (
                n.Size(wire=n.Choose() as choice)
                | n.Head(wire=n.Choose() as choice)
                | n.Code(wire=n.Choose() as choice)
            ):
                return self._choice(choice, lambda wire: self._part(replace(part, wire=wire)))
            case n.Magic(value=value, name=name):
                self.features.add("magic")
                return {"kind": "magic", **self._shown(name, Shape("bytes")), "value": value}
            case n.Size(wire=n.Escaped() as escaped):
                return self._escaped(part, escaped)
            case n.Size(name=name, wire=wire):
                shown = self._shown(name, Shape(int_type(wire, wire.signed)))
                return {"kind": "size", **shown, **self._size(part), "wire": self._int(wire)}
            case n.Head(name=name, wire=wire, least=least, most=most, body_most=body_most):
                self.features.add("head")
                shown = self._shown(name, Shape(int_type(wire, wire.signed)))
                limits = {"least": least, "most": most, "body_most": self._plain(body_most)}
                return {"kind": "head", **shown, **limits, "wire": self._int(wire)}
            case n.Code():
                return self._code(part)
            case n.Kept(name=name):
                return self._kept(name)
            case n.Line():
                return self._line(part)
            case _:
                assert_never(part)

    def _shown(self, name: str, shape: Shape, doc: str = "") -> dict[str, Any]:
        """The name of a part, and that of its field where it is another."""
        self.parts.add(name)
        given = self.fields.claim(name, shape, doc, "frame")
        return {"name": name, "field": given if given != name else None}

    def _code(self, part: n.Code) -> dict[str, Any]:
        self.features.add("code")
        wire = part.wire
        names = {cls.__message__["code"]: cls.__message__["name"] for cls in self.protocol.messages}
        base = "HEX" if wire.size == 1 and not wire.signed else ""
        shape = Shape(int_type(wire, wire.signed), base, self._labels(n.Labels("messages", names), wire))
        shown = self._shown(part.name, shape, "which message")
        return {"kind": "code", **shown, "early": part.early or None, "wire": self._int(wire)}

    def _size(self, part: n.Size) -> dict[str, Any]:
        return {"counts": part.counts, "least": part.least or None, "most": self._plain(part.most), "rule": part.rule}

    def _escaped(self, part: n.Size, escaped: n.Escaped) -> dict[str, Any]:
        self.features.add("escaped")
        self.fields.claim(escaped.mask_key, Shape("bytes"), "mask of the payload, which is shown without it")
        return {
            "kind": "escaped",
            **self._shown(part.name, Shape("uint32"), "bytes that follow the frame's header"),
            **self._size(part),
            "escape": escaped.escape,
            "wide": self._maybe_int(escaped.wide),
            "reserved": list(escaped.reserved) or None,
            "mask_bit": self._plain(escaped.mask_bit),
            "mask_key": escaped.mask_key,
        }

    def _kept(self, name: str) -> dict[str, Any]:
        self.features.add("kept")
        declared = next(f for f in self.protocol.messages[0].__wire_fields__ if f.name == name)
        made = self._wire(declared.wire, Place("", declared.key, declared.doc))
        return {"kind": "kept", "name": name, "field": made.field, "size": declared.wire.size}

    def _line(self, line: n.Line) -> dict[str, Any]:
        self.features.add("words")
        self._shown(line.code, Shape("string"), "the first word of the line")
        return {
            "kind": "line",
            "separator": line.separator,
            "stop": line.end,
            "window": line.window,
            "fewest": line.fewest,
            "most": self._plain(line.most),
            "code": line.code,
            "code_rule": line.code_rule,
            "fold": line.fold or None,
        }

    # --- messages and structures

    def _message(self, cls: Any) -> dict[str, Any]:
        about = cls.__message__
        place = Place(about["name"], "")
        declared = [f for f in cls.__wire_fields__ if not self._ruled_out(f.only)]
        return {
            "code": about["code"],
            "name": about["name"],
            "word": about["word"] or None,
            "address": _address(cls),
            "head_least": self._plain(about["head_least"]) or None,
            "head_or": self._plain(about["head_or"]),
            "head_rule": self._plain(about["head_rule"]) if about["head_least"] else None,
            "padding": self._padding(about["padding"]),
            "fields": [self._row(f, place) for f in declared if not f.view_of],
            "views": [self._row(f, place) for f in declared if f.view_of] or None,
            "derived": self._derived_rows(cls, place, self.parts) or None,
        }

    def _padding(self, padding: Any) -> Any:
        match padding:
            case n.Choose():
                return self._choice(padding, self._padding)
            case n.Padding(value=value, note=note):
                return {"value": value, "note": note}
            case _:
                return None

    def _row(self, declared: n.Field, place: Place) -> dict[str, Any]:
        doc = f"{declared.doc} [{declared.unit}]" if declared.unit else declared.doc
        made = self._wire(declared.wire, place.inner(declared.key, doc))
        return {
            "name": declared.name,
            "key": declared.key if declared.key != declared.name else None,
            "field": made.field or None,
            "only": self._only(declared.only),
            "when": self._condition(declared.when),
            "wire": made.wire,
        }

    def _struct(self, cls: Any, place: Place) -> Ref:
        """A table for the fields of a structure at this place; equal ones are written once."""
        declared = [f for f in cls.__wire_fields__ if not self._ruled_out(f.only)]
        limits = [self._limit(limit, declared) for limit in cls.__sum_limits__]
        return self._shared(
            place,
            {
                "fields": [self._row(f, place) for f in declared],
                "limits": limits or None,
                "derived": self._derived_rows(cls, place, set()) or None,
            },
        )

    def _limit(self, limit: n.SumLimit, declared: Iterable[n.Field]) -> dict[str, Any]:
        lengths = [f.name for f in declared if isinstance(f.wire, n.Length) and f.wire.of in limit.fields]
        return {"lengths": lengths, "most": limit.most, "rule": limit.rule}

    def _shared(self, place: Place, table: Any) -> Ref:
        text = literal(table)
        name, number = place.key, 1
        while self.tables.get(name, text) != text:
            number += 1
            name = f"{place.key}~{number}"
        self.tables[name] = text
        return Ref(f"T{index(name)}")

    def _condition(self, when: n.Condition | None) -> dict[str, Any] | None:
        match when:
            case None:
                return None
            case n.Unless(field=name, values=values):
                return {"kind": "unless", "field": name, "values": list(values)}
            case n.HeadReaches(size=size):
                return {"kind": "head_reaches", "size": size}
            case n.IfLeft():
                return {"kind": "if_left"}
            case n.With(field=name):
                return {"kind": "with", "field": name}
            case _:
                assert_never(when)

    # --- wires

    def _wire(self, wire: Any, place: Place) -> Made:
        """The table of a wire node, and the name of its field."""
        option = _open_option(wire)
        if option:
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
            case n.Length(wire=inner):
                made = self._int_wire(inner, place)
                return Made({"kind": "length", "wire": made.wire}, made.field)
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
        if option in self.settled:
            return self._wire(_with(wire, option, self.settled[option]), place)
        if option not in self.protocol.options:
            raise SpecError(f"{place.key} depends on the option {option!r}, which is not declared")
        settings = [setting for setting in self.protocol.options[option].values if setting != "auto"]
        made = {_setting(setting): self._wire(_with(wire, option, setting), place) for setting in settings}
        self.options_used.add(option)
        names = {setting: one.field for setting, one in made.items()}
        is_one = len(set(map(literal, names.values()))) == 1
        return Made(
            {"choose": option, "cases": {setting: one.wire for setting, one in made.items()}},
            next(iter(names.values())) if is_one else {"choose": option, "cases": names},
        )

    def _simple(self, kind: str, shape: Shape, place: Place, **details: Any) -> Made:
        self.features.add(kind)
        return Made({"kind": kind, **details}, self._claim(place, shape))

    def _claim(self, place: Place, shape: Shape, suffix: str = "", doc: str = "", label: str = "") -> str:
        return self.fields.claim(place.key + suffix, shape, doc or place.doc, place.message, label)

    def _int(self, wire: n.Int, bits: list[dict[str, Any]] | None = None) -> Any:
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

    def _maybe_int(self, wire: Any) -> Any:
        return self._choice(wire, self._maybe_int) if isinstance(wire, n.Choose) else self._int(wire)

    def _int_wire(self, wire: n.Int, place: Place) -> Made:
        labels = wire.labels
        if labels is None:
            return Made(self._int(wire), self._claim(place, Shape(int_type(wire, wire.signed))))
        if not labels.bits:
            shape = Shape(int_type(wire, wire.signed), "", self._labels(labels, wire))
            return Made(self._int(wire), self._claim(place, shape))
        name = self._claim(place, Shape(int_type(wire, False), "HEX"))
        bits = (self._bit(mask, label, wire, place) for mask, label in labels.names.items())
        return Made(self._int(wire, [bit for bit in bits if bit is not None]), name)

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
        return {"field": self._claim(place, shape, f".{label.lower()}", label=label), "at": at, "size": size}

    def _labels(self, labels: n.Labels, wire: n.Int) -> str:
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

    def _run(self, wire: n.Run[Any], place: Place) -> Made:
        self.features.add("run")
        match wire.content:
            case "bytes":
                shape = Shape("bytes")
            case "text" | "strict_text":
                self.features.add("text")
                shape = Shape("string")
            case "msgpack" | "msgpack_map":
                self.features.add("msgpack")
                shape = Shape("string")
            case "json":
                self.features |= {"json", "text"}
                shape = Shape("string")
            case _:
                assert_never(wire.content)
        name = self._claim(place, shape)
        length, beside = self._prefix(wire.length, place, name, "_length", "bytes that follow")
        table = {
            "kind": "run",
            "content": wire.content,
            "length": length,
            "length_field": beside,
            "least": wire.least or None,
            "most": wire.most,
            "empty": "null" if wire.null_if_empty else "absent" if wire.absent_if_empty else None,
            "charset": self._plain(wire.charset) if wire.charset != "utf-8" else None,
            "errors": self._plain(wire.errors) if wire.errors != "strict" else None,
        }
        return Made(table, name)

    def _prefix(self, wire: Any, place: Place, name: str, suffix: str, doc: str) -> tuple[Any, str | None]:
        """A length or count that is written before a value. Its field is named after the value's, or else told."""
        if not isinstance(wire, n.Int):
            return wire, None
        given = self._claim(place, Shape(int_type(wire, wire.signed)), suffix, doc)
        return self._int(wire), None if given == name + suffix else given

    def _many(self, wire: n.Many[Any], place: Place) -> Made:
        element = self._wire(wire.element, place)
        name = element.field or place.key
        count, beside = self._prefix(wire.count, place, name, "_count", "elements that follow")
        return Made({"kind": "many", "count": count, "count_field": beside, "element": element.wire}, name)

    def _cells(self, wire: n.Cells[Any], place: Place) -> Made:
        self.features |= {"cells", "run"}
        head = int_type(wire.head, False)
        every = (1 << wire.head.size * 8) - 1
        names = dict(enumerate(kind.name for kind in wire.types))
        kinds = self._labels(n.Labels(f"{place.key} types", names), wire.head)
        number = Shape(head, mask=every >> wire.id_shift << wire.id_shift)
        flag = Shape("bool", mask=wire.flag_mask, width=wire.head.size * 8)
        shown = [
            self._claim(place, number, ".fid", "number of the field"),
            self._claim(place, Shape(head, "", kinds, wire.type_mask << wire.type_shift), ".type", "type of the field"),
            self._claim(place, flag, ".group_bit", "the bit that no sender sets"),
        ]
        types = [self._cell_type(kind, place) for kind in wire.types]
        table = {
            "kind": "cells",
            "head": self._int(wire.head),
            "shown": shown,
            "id_shift": wire.id_shift,
            "type_shift": wire.type_shift,
            "type_mask": wire.type_mask,
            "flag_mask": wire.flag_mask,
            "id_max": wire.id_max,
            "types": types,
        }
        return Made(self._shared(place, table), place.key)

    def _cell_type(self, kind: n.CellType, place: Place) -> dict[str, Any]:
        if kind.wire is None:
            return {"name": kind.name}
        name = kind.name.lower()
        made = self._wire(kind.wire, place.inner(name, f"value of type {kind.name}"))
        return {"name": kind.name, "field": made.field, "wire": made.wire}

    def _signature(self, wire: n.Signature[Any], place: Place) -> Made:
        self.features.add("signature")
        forms = [
            {"size": form.size, "first": form.first, "struct": self._struct(form.struct, place)} for form in wire.forms
        ]
        table = {"kind": "signature", "cells": wire.cells, "fid": wire.fid, "lead": wire.kind, "forms": forms}
        return Made(self._shared(place.inner("forms", ""), table), "")

    def _tags(self, wire: n.Tags[Any], place: Place) -> Made:
        self.features |= {"tags", "bool"}
        rows = tag_rows(wire.struct)
        titles = n.Labels(place.key, {row.code: row.title or row.name for row in rows})
        names = self._labels(titles, n.Int(1, signed=False, little=False))
        table = {
            "kind": "tags",
            "code_field": self._claim(place, Shape("uint8", "HEX", names), "_code", "which header"),
            "anywhere": self._plain(wire.anywhere),
            "demand": self._plain(wire.demand),
            "waived": wire.waived,
            "rows": [self._tag(row, place) for row in rows],
        }
        return Made(self._shared(place, table), place.key)

    def _tag(self, row: n.Tag, place: Place) -> dict[str, Any]:
        here = place.inner(row.name, row.doc)
        made = self._wire(row.wire, here) if row.wire is not None else Made(None, self._claim(here, Shape("bool")))
        return {
            "code": row.code,
            "name": row.name,
            "field": made.field or None,
            "wire": made.wire,
            "allowed": sorted(row.allowed),
            "required": sorted(row.required) or None,
        }

    def _word(self, wire: n.Word[Any], place: Place) -> Made:
        self.features.add("words")
        is_small = wire.number and wire.high is not None and wire.high < 1 << 32 and (wire.low or 0) >= 0
        table = {
            "kind": "word",
            "pattern": self._plain(wire.pattern),
            "rule": wire.rule,
            "most": self._plain(wire.most),
            "number": wire.number or None,
            "low": wire.low,
            "high": wire.high,
            "parts_most": wire.parts_most,
            "optional": wire.optional or None,
            "codes": sorted(wire.only) if wire.only is not None else None,
            "only_rule": wire.only_rule or None,
        }
        name = self._claim(place, Shape("uint32" if is_small else "double" if wire.number else "string"))
        return Made(self._shared(place, table), name)

    def _body(self, wire: n.Body, place: Place) -> Made:
        self.features |= {"body", "text"} if wire.text else {"body"}
        empty_if = wire.empty_if
        table = {
            "kind": "body",
            "text": wire.text or None,
            "exactly": wire.exactly,
            "most": self._plain(wire.most),
            "most_rule": wire.most_rule if wire.most is not None else None,
            "empty": wire.empty if wire.empty != "read" else None,
            "empty_if": {"field": empty_if.field, "limit": empty_if.limit} if empty_if is not None else None,
            "opaque_if": wire.opaque_if,
            "prefix": wire.prefix or None,
            "prefix_rule": wire.prefix_rule or None,
            "prefix_needs": list(wire.prefix_needs) or None,
        }
        return Made(table, self._claim(place, Shape("string" if wire.text else "bytes")))

    # --- computed values

    def _derived_rows(self, cls: Any, place: Place, shown: set[str]) -> list[dict[str, Any]]:
        """Those that no part of the frame's header shows anyway."""
        return [
            self._derived(made, place)
            for made in cls.__derived_fields__
            if made.name not in shown and not self._ruled_out(made.only)
        ]

    def _derived(self, made: n.DerivedField, place: Place) -> dict[str, Any]:
        kind, shape, details = _how(made.how)
        return {
            "field": self._claim(place.inner(made.name, made.doc), shape),
            "only": self._only(made.only),
            "how": {"kind": kind, **details},
        }


@dataclass(frozen=True)
class Made:
    """The Lua table of a wire node, and the name of its field: none for what has only parts, a choice where the type
    depends on an option.
    """

    wire: Any
    field: Any


def _how(how: n.Derived) -> tuple[str, Shape, dict[str, Any]]:
    match how:
        case n.FrameLength(less=less):
            return "frame_length", Shape("uint32"), {"less": less or None}
        case n.PayloadLength():
            return "payload_length", Shape("uint32"), {}
        case n.LengthOf(field=name):
            return "length_of", Shape("uint32"), {"field": name}
        case n.AtLeast(field=name, limit=limit):
            return "at_least", Shape("bool"), {"field": name, "limit": limit}
        case n.Present(field=name):
            return "present", Shape("bool"), {"field": name}
        case n.Empty(field=name):
            return "empty", Shape("bool"), {"field": name}
        case n.OrderOf(field=name):
            return "order_of", Shape("string"), {"field": name}
        case n.Wide(limit=limit):
            return "wide", Shape("bool"), {"limit": limit}
        case n.Masked():
            return "masked", Shape("bool"), {}
        case _:
            assert_never(how)


# --- what the writer needs to know


def _streaming(protocol: n.Protocol) -> dict[str, Any]:
    """The options that must be set so that frames say how long they are; a stream cannot be cut without that."""
    if _has_size(protocol, {}):
        return {}
    for name, option in protocol.options.items():
        for value in option.values:
            if _has_size(protocol, {name: value}):
                return {name: value}
    raise ValueError(f"frames of {protocol.name} without a length cannot be told apart in a stream")


def _has_size(protocol: n.Protocol, options: Mapping[str, Any]) -> bool:
    return any(isinstance(part, n.Size) for part in layout(protocol, **options).frame.parts)


def _address(cls: Any) -> str | None:
    """The path of the field that says where a message goes."""
    for declared in cls.__wire_fields__:
        wire = declared.wire
        if declared.role == "address":
            return str(declared.name)
        inner = wire.struct if isinstance(wire, n.Nested | n.Tags) else None
        found = _address(inner) if inner is not None else None
        if found is not None:
            return f"{declared.name}.{found}"
    return None


def _open_option(node: Any) -> str:
    """The option on which the shape of a value depends, if any. Words, bodies and tables keep their choices inside."""
    match node:
        case n.Choose(option=option):
            return option
        case n.Int() | n.Bool() | n.Float() | n.Fixed() | n.Run() | n.Length() | n.Many():
            return next(filter(None, (_open_option(getattr(node, f.name)) for f in fields(node))), "")
        case _:
            return ""


def _with(node: Any, option: str, setting: Any) -> Any:
    """The node with one option set."""
    match node:
        case n.Choose(option=name, cases=cases) if name == option:
            return _with(cases[setting], option, setting)
        case n.Int() | n.Bool() | n.Float() | n.Fixed() | n.Run() | n.Length() | n.Many():
            return replace(node, **{f.name: _with(getattr(node, f.name), option, setting) for f in fields(node)})
        case _:
            return node


def _setting(value: Any) -> Any:
    """A setting as preferences have it: true or false, or a word."""
    return value if isinstance(value, bool) else str(value)


def _maybe(write: Any, value: Any) -> Any:
    return None if value is None else write(value)


def _entry(cls: Any, message: dict[str, Any]) -> Iterator[str]:
    yield f"    {comment(cls.__doc__ or '')}"
    yield f"    {literal(message, 1)},"
