"""Protocol -> a Wireshark dissector in Lua.

The declaration becomes Lua tables (names of values, fields, structures, messages), node by node; the Lua in ``lua/``,
which is the same for every protocol, reads those tables. Only the pieces that a declaration needs are written out.
Reading options stay open in the tables and become preferences; an option that decides whether a stream can be cut
into frames at all is settled here.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, assert_never

from ..errors import SpecError
from . import nodes as n
from .luachoices import Choices, as_setting
from .lualinks import Links, role_path
from .luatables import Place, Shape, Tables, assignments, int_type, number_type
from .luatext import FIRST_PIECES, comment, literal, pieces
from .luawires import CHARSETS, Wires
from .plain import undissectable
from .resolve import frames, is_fixed, layout, settings, sides_of, size_of
from .states import state_name, states

TRANSPORTS = {"tcp": ("tcp.port", "ports", "TCP ports"), "tls": ("tls.port", "tls_ports", "TLS ports")}
OWN_PREFERENCES = ("ports", "tls_ports", "any_port", "resume")
OWN_FIELDS = (
    ("malformed.rule", "string", "the rule that is broken"),
    ("malformed.path", "string", "the field that breaks it"),
    ("malformed.offset", "uint32", "the byte of the frame where it is broken"),
    ("note.name", "string", "an oddity that is tolerated"),
    ("raw_text", "bytes", "the bytes of a text that is not UTF-8 or has zero bytes"),
)
"""What the dissector shows besides the fields of the declaration."""
LINK_FIELDS = (
    ("reply_in", "frametype.RESPONSE", "the packet with the reply"),
    ("request_in", "frametype.REQUEST", "the packet with the request"),
)


def dissector(protocol: n.Protocol, name: str = "") -> str:
    """Return the source of a dissector for this protocol, which display filters know by this name.

    Where Wireshark already has a protocol of the name, the dissector takes the prefix ``wl_`` when it is loaded.
    """
    if name and not re.fullmatch("[a-z][a-z0-9_-]*", name):
        raise ValueError(f"{name!r} cannot be the name of a dissector: lower case, letter first")
    for setting in settings(protocol):
        if unknown := undissectable(layout(protocol, **setting)):
            raise SpecError(f"protocol {protocol.name}: dissectors cannot read {unknown} yet")
    return _Writer(protocol, name).write()


class _Writer:
    """Reads the nodes of one protocol; what it has seen decides which pieces of Lua are needed."""

    def __init__(self, protocol: n.Protocol, name: str) -> None:
        self.protocol = protocol
        self.name = name or re.sub("[^a-z0-9_-]", "_", protocol.name.lower())
        self.tables = Tables(self.name)
        self.choices = Choices(protocol)
        self.wires = Wires(self.tables, self.choices)
        self.place = ""
        """The name of the frame that is being read."""
        self.header_fields: set[str] = set()
        every = (*frames(protocol), *protocol.frames.values())
        self.kept = {part.name for frame in every for part in frame.parts if isinstance(part, n.Kept)}

    def write(self) -> str:
        self._claim_own()
        self.links = Links(self.protocol, self.wires, self.choices)
        frame, others = self._frame(self.protocol.frame), []
        for place, other in self.protocol.frames.items():
            self.place = place
            others.append({"place": place, "frame": self._frame(other), "only": self._side_of(place)})
        messages = [self._message(cls) for cls in self.protocol.messages]
        self.choices.used |= {n.SIDE, n.STATE} & self.protocol.options.keys()
        if n.STATE in self.protocol.options:
            self.tables.features.add("states")
        options = [self._option(name) for name in self.protocol.options if name in self.choices.used]
        title = self.protocol.title or self.protocol.name
        tables = [
            *pieces(self.tables.features, FIRST_PIECES),
            f"local NAME, proto = new_proto({literal(self.name)}, {literal(title)})",
            f"local PORTS = {literal(self._ports())}",
            f"local OPTIONS = {literal(options)}",
            *_section("names of values", *assignments("L", self.tables.labels)),
            *_section("fields, as display filters name them", *assignments("F", self.tables.fields)),
            *_section("structures", *(f"local {name} = {text}" for name, text in self.tables.ints.items())),
            "",
            *assignments("T", self.tables.structures),
            *(assignments("CHOICES", self.tables.choices) if self.tables.choices else ()),
            *_section("frame and messages", f"local FRAME = {literal(frame)}"),
            f"local FRAMES, FRAME_ONLY = {literal(others)}, {literal(self._side_of('') or {})}",
            *([f"local STATES = {literal(dict(known))}"] if (known := states(self.protocol)) else ()),
            "",
            "local MESSAGES = {",
            *messages,
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
            f"Where Wireshark has a protocol of this name already, this one is called wl_{name}.",
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
            self.tables.features.add("sides" if name == n.SIDE else "auto")
            self.tables.claim(Place("", name, option.doc), Shape("string"))
        return {
            "name": name,
            "values": None if is_bool else [as_setting(value) for value in values],
            "default": as_setting(option.default if name != n.STATE else n.BEGIN),
            "fallback": option.auto or None,
            "doc": option.doc,
        }

    def _claim_own(self) -> None:
        self.tables.filters |= {f"{self.name}.{own}": "expert" for own in ("malformed", "note", "incomplete")}
        for key, kind, doc in OWN_FIELDS:
            label = key.removesuffix(".name").replace(".", " ")
            self.tables.claim(Place("", key, doc), Shape(kind), label=label)

    def _message(self, cls: Any) -> str:
        about = cls.__message__
        place = Place(about["name"], "")
        declared = [f for f in cls.__wire_fields__ if not self.choices.rules_out(f.only)]
        table = {
            **self._codes(cls),
            "frame": about["frame"] or None,
            "only": self._only_side(cls),
            "name": about["name"],
            "word": about["word"] or None,
            "address": role_path(cls, "address"),
            **self._link(cls),
            "following": self._following(cls) or None,
            "head_least": self.choices.plain(about["head_least"]) or None,
            "head_or": self.choices.plain(about["head_or"]),
            "head_rule": self.choices.plain(about["head_rule"]) if about["head_least"] else None,
            "padding": self._padding(about["padding"]),
            "fields": self._fields([f for f in declared if not f.view_of], place),
            "views": [self.wires.row(f, place) for f in declared if f.view_of] or None,
            "derived": self.wires.derived(cls, place, self.header_fields) or None,
            "lookups": self._lookups(cls) or None,
        }
        return f"    {comment(cls.__doc__ or '')}\n    {literal(table, 1)},"

    def _following(self, cls: Any) -> list[dict[str, Any]]:
        """Return which states may follow a message, in the order in which they are tried."""
        return [
            {"state": state_name(places), "when": when and self.wires.condition(when)}
            for places, when in cls.__message__["then"]
        ]

    def _lookups(self, cls: Any) -> dict[str, Any]:
        """Return what a message looks up in its lists, by name: conditions, lengths and correlations refer to it."""
        found = (made for made in cls.__derived_fields__ if not self.choices.rules_out(made.only))
        return {made.name: self.wires.lookup(cls, made.how) for made in found if isinstance(made.how, n.Lookup)}

    def _codes(self, cls: Any) -> dict[str, Any]:
        """Return what says that a frame has this message."""
        codes = _codes_on_wire(cls)
        if len(self._code_names(cls.__message__["frame"])) > 1:
            self.tables.features.add("codes")
            return {"codes": list(codes)}
        if codes[0] == n.OTHER:
            self.tables.features.add("kept")
            return {"is_other": True}
        return {"code": codes[0]}

    def _code_names(self, place: str) -> list[str]:
        """Return the names of the codes in the header of a frame."""
        frame = self.protocol.frames[place] if place else next(frames(self.protocol))
        return [part.name for part in frame.parts if isinstance(part, n.Code)]

    def _only_side(self, cls: Any) -> dict[str, Any] | None:
        """Return which side sends a message, if the other side's message of this code is another one."""
        codes, here = _codes_on_wire(cls), self._here(cls.__message__["frame"])
        twins = [other for other in here if _codes_on_wire(other) == codes]
        return {"option": n.SIDE, "is": cls.__message__["sent_by"]} if len(twins) > 1 else None

    def _side_of(self, place: str) -> dict[str, Any] | None:
        """Return which side sends a frame, if only one does and that decides how bytes are read."""
        (side, *more) = sides_of(self.protocol.messages, place)
        if more or side == "both" or n.SIDE not in self.protocol.options:
            return None
        return {"option": n.SIDE, "is": side}

    def _here(self, place: str) -> list[Any]:
        """Return the messages of a frame."""
        return [cls for cls in self.protocol.messages if cls.__message__["frame"] == place]

    def _fields(self, declared: list[n.Field], place: Place) -> list[dict[str, Any]]:
        """Return the rows of a message, with those that travel in the header first."""
        ahead = [self.wires.row(f, place) for f in declared if f.name in self.kept]
        return ahead + self.wires.rows([f for f in declared if f.name not in self.kept], place)

    def _link(self, cls: Any) -> dict[str, Any]:
        """Return what ties a request or a reply to its partner."""
        link = self.links.of(cls)
        if link and "links" not in self.tables.features:
            self.tables.features.add("links")
            for key, kind, doc in LINK_FIELDS:
                self.tables.claim(Place("", key, doc), Shape("framenum", labels=kind), label=key.replace("_", " "))
        return link

    def _padding(self, padding: Any) -> Any:
        match padding:
            case n.Choose():
                return self.choices.choose(padding, self._padding)
            case n.Padding(value=value, note=note):
                return {"value": value, "note": note}
            case _:
                return None

    # --- the header of a frame

    def _frame(self, frame: n.Frame | n.Choose) -> Any:
        if isinstance(frame, n.Choose):
            return self.choices.choose(frame, self._frame)
        return [self._part(part) for part in frame.parts]

    def _part(self, part: n.Part | n.Choose) -> Any:
        match part:
            case n.Choose():
                return self.choices.choose(part, self._part)
            case n.Size(wire=n.Choose() as wire) | n.Head(wire=n.Choose() as wire) | n.Code(wire=n.Choose() as wire):
                return self.choices.choose(wire, lambda chosen: self._part(replace(part, wire=chosen)))
            case n.Code(wire=n.Run(length=n.Choose() as length) as wire):
                return self.choices.choose(
                    length, lambda chosen: self._part(replace(part, wire=replace(wire, length=chosen)))
                )
            case n.Magic(value=n.Choose() as value) | n.Trailer(value=n.Choose() as value):
                return self.choices.choose(value, lambda chosen: self._part(replace(part, value=chosen)))
            case n.Until(end=n.Choose() as end):
                return self.choices.choose(end, lambda chosen: self._part(replace(part, end=chosen)))
            case n.Magic(value=value, name=name):
                return self._shown("magic", name, Shape("bytes"), value=value)
            case n.Size(wire=n.Escaped() as escaped):
                return self._escaped(part, escaped)
            case n.Size(wire=str() | n.By() as given, name=name, rule=rule):
                self.tables.features.add("said")
                by = n.By.of(given)
                assert by is not None
                limits = self.choices.members(part, "least", "most", "plus")
                return {"kind": "said", "name": name, "by": self.wires.said(by), "rule": rule, **limits}
            case n.Size(wire=wire):
                return {**self._size("size", part, Shape(number_type(wire))), "wire": self.tables.number(wire)}
            case n.Head(name=name, wire=wire):
                limits = self.choices.members(part, "least", "most", "body_most")
                shown = self._shown("head", name, Shape(int_type(wire)), **limits)
                return {**shown, "wire": self.tables.integer(wire)}
            case n.Code():
                return self._code(part)
            case n.Kept(name=name):
                return self._kept(name)
            case n.Line():
                return self._line(part)
            case n.Trailer(value=value, name=name):
                return self._shown("trailer", name, Shape("bytes"), value=value)
            case n.Until(end=end, name=name, most=most, rule=rule):
                return self._shown("until", name, Shape("bytes"), value=end, most=most, rule=rule)
            case n.Opaque(most=most, name=name):
                self.tables.features.add("opaque")
                return {"kind": "opaque", "name": name, "most": most}
            case n.Ends(most=most, name=name, rule=rule):
                self.tables.features.add("ends")
                return {"kind": "ends", "name": name, "most": most, "rule": rule}
            case _:
                assert_never(part)

    def _shown(self, kind: str, name: str, shape: Shape, doc: str = "", **details: Any) -> dict[str, Any]:
        """Return the table of a part that has a field, with the name of the field where it is another."""
        self.tables.features.add(kind)
        self.header_fields.add(name)
        given = self.tables.claim(Place("frame", name, doc), shape)
        return {"kind": kind, "name": name, "field": given if given != name else None, **details}

    def _code(self, part: n.Code) -> dict[str, Any]:
        wire, here = part.wire, self._here(self.place)
        if isinstance(wire, n.Run):
            self.tables.features |= {"codes", "code_text", "text"}
            shown = self._shown("code", part.name, Shape("string"), "which message")
            texts = [code for cls in here for code in _codes_on_wire(cls) if isinstance(code, bytes)]
            most = wire.most or max(map(len, texts))
            return {**shown, "place": 1, "wire": {"kind": "run", "stop": wire.length}, "most": most}
        if isinstance(wire, n.Varint | n.Digits):
            self.tables.features |= {"codes", "code_number"}
            shown = self._shown("code", part.name, Shape(number_type(wire)), "which message")
            return {**shown, "place": 1, "wire": self.tables.number(wire)}
        places = self._code_names(self.place)
        names: dict[int, str] = {}
        for cls in here if len(places) == 1 else ():
            code, name = _codes_on_wire(cls)[0], cls.__message__["name"]
            if code != n.OTHER:
                names[code] = f"{names[code]} or {name}" if code in names else name
        whole = wire.wire if isinstance(wire, n.Bits) else wire
        base = "HEX" if whole.size == 1 and not whole.signed else ""
        labels = self.tables.names(n.Labels("messages", names), whole) if names else ""
        is_bits = isinstance(wire, n.Bits)
        shape = self.wires.bits_shape(wire, labels, base) if is_bits else Shape(int_type(wire), base, labels)
        shown = self._shown("code", part.name, shape, "which message")
        table = self.wires.bits(wire) if is_bits else self.tables.integer(wire)
        return {**shown, "early": part.early or None, "place": places.index(part.name) + 1, "wire": table}

    def _size(self, kind: str, part: n.Size, shape: Shape, doc: str = "") -> dict[str, Any]:
        limits = self.choices.members(part, "counts", "least", "most", "plus")
        return self._shown(kind, part.name, shape, doc, **limits, rule=part.rule)

    def _escaped(self, part: n.Size, escaped: n.Escaped) -> dict[str, Any]:
        mask = Place("", escaped.mask_key, "mask of the payload, which is shown without it")
        self.tables.claim(mask, Shape("bytes"))
        return {
            **self._size("escaped", part, Shape("uint32"), "bytes that follow the frame's header"),
            "escape": escaped.escape,
            "wide": self._maybe_int(escaped.wide),
            "reserved": list(escaped.reserved) or None,
            "mask_bit": self.choices.plain(escaped.mask_bit),
            "mask_key": escaped.mask_key,
        }

    def _maybe_int(self, wire: Any) -> Any:
        return self.choices.choose(wire, self._maybe_int) if isinstance(wire, n.Choose) else self.tables.integer(wire)

    def _kept(self, name: str) -> dict[str, Any]:
        self.tables.features.add("kept")
        declared = next(f for f in self._here(self.place)[0].__wire_fields__ if f.name == name)
        if not is_fixed(declared):
            self.tables.features.add("loose")
            row = self.wires.row(declared, Place("", ""))
            return {**row, "kind": "kept", "field": None, "loose": True}
        if not isinstance(declared.wire, n.Fixed):  # each message says itself what it is
            return {"kind": "kept", "name": name, "size": size_of(declared.wire)}
        made = self.wires.wire(declared.wire, Place("", declared.key, declared.doc))
        return {"kind": "kept", "name": name, "field": made.field, "size": declared.wire.size}

    def _line(self, line: n.Line) -> dict[str, Any]:
        self._shown("words", line.code, Shape("string"), "the first word of the line")
        words = self.choices.members(line, "window", "fewest", "most", "code", "code_rule", "fold", "skip")
        return {"kind": "line", "separator": line.separator, "stop": line.end, **words}


def _codes_on_wire(cls: Any) -> tuple[Any, ...]:
    """Return the codes of a message; of one that has none, the number that stands for it."""
    about = cls.__message__
    return about["codes"] or (about["code"],)


def _section(title: str, *lines: str) -> list[str]:
    return ["", f"-- {'=' * 64} {title}", "", *lines]
