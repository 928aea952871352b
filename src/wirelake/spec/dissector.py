"""Protocol -> a Wireshark dissector in Lua.

The declaration becomes Lua tables (names of values, fields, structures, messages), node by node; the Lua in ``lua/``,
which is the same for every protocol, reads those tables. Only the pieces that a declaration needs are written out.
Reading options stay open in the tables and become preferences; an option that decides whether a stream can be cut
into frames at all is settled here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ..errors import SpecError
from . import nodes as n
from .luachoices import Choices, as_setting
from .luaheader import Header
from .luatables import Place, Tables, assignments
from .luatext import Shape, comment, literal, pieces
from .luawires import Wires

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


class _Writer:
    """Reads the nodes of one protocol; what it has seen decides which pieces of Lua are needed."""

    def __init__(self, protocol: n.Protocol) -> None:
        self.protocol = protocol
        self.name = re.sub("[^a-z0-9_-]", "_", protocol.name.lower())
        self.tables = Tables(self.name)
        self.choices = Choices(protocol)
        self.wires = Wires(self.tables, self.choices)
        self.header = Header(protocol, self.wires)

    def write(self) -> str:
        self._claim_own()
        frame = self.header.frame(self.protocol.frame)
        messages = [self._message(cls) for cls in self.protocol.messages]
        options = [self._option(name) for name in self.protocol.options if name in self.choices.used]
        tables = [
            f"local NAME = {literal(self.name)}",
            f"local TITLE = {literal(self.protocol.title or self.protocol.name)}",
            f"local PORTS = {literal(self._ports())}",
            f"local OPTIONS = {literal(options)}",
            "",
            "-- ================================================================ names of values",
            "",
            *assignments("L", self.tables.labels),
            "",
            "-- ================================================================ fields, as display filters name them",
            "",
            *assignments("F", self.tables.fields.lines),
            "",
            "-- ================================================================ structures",
            "",
            *(f"local {name} = {text}" for name, text in self.tables.ints.items()),
            "",
            *assignments("T", self.tables.structures),
            "",
            "-- ================================================================ frame and messages",
            "",
            f"local FRAME = {literal(frame)}",
            "",
            "local MESSAGES = {",
            *(line for cls, made in zip(self.protocol.messages, messages, strict=True) for line in _entry(cls, made)),
            "}",
        ]
        return "\n".join([*self._introduction(), "", *tables, "", *pieces(self.tables.features)]) + "\n"

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
            self.tables.features.add("auto")
            self.tables.fields.claim(name, Shape("string"), option.doc)
        return {
            "name": name,
            "values": None if is_bool else [as_setting(value) for value in values],
            "default": as_setting(option.default),
            "fallback": option.auto or None,
            "doc": option.doc,
        }

    def _claim_own(self) -> None:
        """What the dissector tells besides the fields of the declaration."""
        self.tables.fields.filters |= {f"{self.name}.{own}": "expert" for own in ("malformed", "note", "incomplete")}
        for key, kind, doc in OWN_FIELDS:
            self.tables.fields.claim(key, Shape(kind), doc, label=key.removesuffix(".name").replace(".", " "))

    def _message(self, cls: Any) -> dict[str, Any]:
        about = cls.__message__
        place = Place(about["name"], "")
        declared = [f for f in cls.__wire_fields__ if not self.choices.rules_out(f.only)]
        return {
            "code": about["code"],
            "name": about["name"],
            "word": about["word"] or None,
            "address": _address(cls),
            "head_least": self.choices.plain(about["head_least"]) or None,
            "head_or": self.choices.plain(about["head_or"]),
            "head_rule": self.choices.plain(about["head_rule"]) if about["head_least"] else None,
            "padding": self._padding(about["padding"]),
            "fields": [self.wires.row(f, place) for f in declared if not f.view_of],
            "views": [self.wires.row(f, place) for f in declared if f.view_of] or None,
            "derived": self.wires.derived(cls, place, self.header.shown) or None,
        }

    def _padding(self, padding: Any) -> Any:
        match padding:
            case n.Choose():
                return self.choices.choose(padding, self._padding)
            case n.Padding(value=value, note=note):
                return {"value": value, "note": note}
            case _:
                return None


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


def _entry(cls: Any, message: dict[str, Any]) -> Iterator[str]:
    yield f"    {comment(cls.__doc__ or '')}"
    yield f"    {literal(message, 1)},"
