"""The header of a frame as Lua tables, part by part."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, assert_never

from . import nodes as n
from .luachoices import Choices
from .luatables import Place, Tables
from .luatext import Shape, int_type
from .luawires import Wires


class Header:
    """Writes the parts of a frame header; ``shown`` are the names of those that have fields."""

    def __init__(self, protocol: n.Protocol, wires: Wires) -> None:
        self.messages = protocol.messages
        self.wires = wires
        self.tables: Tables = wires.tables
        self.choices: Choices = wires.choices
        self.shown: set[str] = set()

    def frame(self, frame: n.Frame | n.Choose) -> Any:
        if isinstance(frame, n.Choose):
            return self.choices.choose(frame, self.frame)
        return [self._part(part) for part in frame.parts]

    def _part(self, part: n.Part | n.Choose) -> Any:
        match part:
            case n.Choose():
                return self.choices.choose(part, self._part)
            case (
                n.Size(wire=n.Choose() as choice)
                | n.Head(wire=n.Choose() as choice)
                | n.Code(wire=n.Choose() as choice)
            ):
                return self.choices.choose(choice, lambda wire: self._part(replace(part, wire=wire)))
            case n.Magic(value=value, name=name):
                self.tables.features.add("magic")
                return {"kind": "magic", **self._field(name, Shape("bytes")), "value": value}
            case n.Size(wire=n.Escaped() as escaped):
                return self._escaped(part, escaped)
            case n.Size(name=name, wire=wire):
                shown = self._field(name, Shape(int_type(wire, wire.signed)))
                return {"kind": "size", **shown, **self._size(part), "wire": self.tables.integer(wire)}
            case n.Head(name=name, wire=wire, least=least, most=most, body_most=body_most):
                self.tables.features.add("head")
                shown = self._field(name, Shape(int_type(wire, wire.signed)))
                limits = {"least": least, "most": most, "body_most": self.choices.plain(body_most)}
                return {"kind": "head", **shown, **limits, "wire": self.tables.integer(wire)}
            case n.Code():
                return self._code(part)
            case n.Kept(name=name):
                return self._kept(name)
            case n.Line():
                return self._line(part)
            case _:
                assert_never(part)

    def _field(self, name: str, shape: Shape, doc: str = "") -> dict[str, Any]:
        """The name of a part, and that of its field where it is another."""
        self.shown.add(name)
        given = self.tables.fields.claim(name, shape, doc, "frame")
        return {"name": name, "field": given if given != name else None}

    def _code(self, part: n.Code) -> dict[str, Any]:
        self.tables.features.add("code")
        wire = part.wire
        names = {cls.__message__["code"]: cls.__message__["name"] for cls in self.messages}
        base = "HEX" if wire.size == 1 and not wire.signed else ""
        shape = Shape(int_type(wire, wire.signed), base, self.tables.names(n.Labels("messages", names), wire))
        shown = self._field(part.name, shape, "which message")
        return {"kind": "code", **shown, "early": part.early or None, "wire": self.tables.integer(wire)}

    def _size(self, part: n.Size) -> dict[str, Any]:
        return {
            "counts": part.counts,
            "least": part.least or None,
            "most": self.choices.plain(part.most),
            "rule": part.rule,
        }

    def _escaped(self, part: n.Size, escaped: n.Escaped) -> dict[str, Any]:
        self.tables.features.add("escaped")
        self.tables.fields.claim(escaped.mask_key, Shape("bytes"), "mask of the payload, which is shown without it")
        return {
            "kind": "escaped",
            **self._field(part.name, Shape("uint32"), "bytes that follow the frame's header"),
            **self._size(part),
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
        declared = next(f for f in self.messages[0].__wire_fields__ if f.name == name)
        made = self.wires.wire(declared.wire, Place("", declared.key, declared.doc))
        return {"kind": "kept", "name": name, "field": made.field, "size": declared.wire.size}

    def _line(self, line: n.Line) -> dict[str, Any]:
        self.tables.features.add("words")
        self._field(line.code, Shape("string"), "the first word of the line")
        return {
            "kind": "line",
            "separator": line.separator,
            "stop": line.end,
            "window": line.window,
            "fewest": line.fewest,
            "most": self.choices.plain(line.most),
            "code": line.code,
            "code_rule": line.code_rule,
            "fold": line.fold or None,
        }
