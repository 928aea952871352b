"""What depends on the options of a protocol: left open for the preferences, unless a stream settles it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from ..errors import SpecError
from . import nodes as n
from .resolve import layout


class Choices:
    """The options of one protocol, and which of them the dissector needs."""

    def __init__(self, protocol: n.Protocol) -> None:
        self.options = protocol.options
        self.settled = _streaming_options(protocol)
        self.used: set[str] = set()

    def choose(self, node: n.Choose, write: Any) -> Any:
        """Return what ``write`` makes of each case, left open for the preferences unless the option is settled."""
        if node.option in self.settled:
            return write(node.cases[self.settled[node.option]])
        if node.option not in self.options:
            raise SpecError(f"a choice depends on the option {node.option!r}, which is not declared")
        self.used.add(node.option)
        cases = {as_setting(case): None if value is None else write(value) for case, value in node.cases.items()}
        return {"choose": node.option, "cases": cases}

    def plain(self, value: Any) -> Any:
        """Return a number or text that may depend on an option."""
        match value:
            case n.Choose():
                return self.choose(value, self.plain)
            case n.Setting(option=option) if option not in self.settled:
                self.used.add(option)
                return {"setting": option}
            case n.Setting(option=option):
                return self.settled[option]
            case _:
                return value

    def members(self, node: Any, *names: str) -> dict[str, Any]:
        """Return these attributes of a node, less those that have their defaults."""
        defaults = {f.name: f.default for f in fields(node)}
        return {name: self.plain(value) for name in names if (value := getattr(node, name)) != defaults[name]}

    def only(self, only: tuple[str, Any] | None) -> dict[str, Any] | None:
        if only is None or only[0] in self.settled:
            return None
        self.used.add(only[0])
        return {"option": only[0], "is": as_setting(only[1])}

    def rules_out(self, only: tuple[str, Any] | None) -> bool:
        return only is not None and only[0] in self.settled and self.settled[only[0]] != only[1]


def _streaming_options(protocol: n.Protocol) -> dict[str, Any]:
    """Return the options that make frames say how long they are; a stream cannot be cut without that."""
    if _has_size(protocol, {}):
        return {}
    for setting in ({name: value} for name, option in protocol.options.items() for value in option.values):
        if _has_size(protocol, setting):
            return setting
    raise ValueError(f"frames of {protocol.name} without a length cannot be told apart in a stream")


def _has_size(protocol: n.Protocol, options: Mapping[str, Any]) -> bool:
    return any(isinstance(part, n.Limiting) for part in layout(protocol, **options).frame.parts)


_WITH_CHOICES = (n.Int, n.Bits, n.Bool, n.Float, n.Fixed, n.Run, n.Length, n.Many, n.Sized, n.Scaled)
"""Values of which a part may depend on an option. Words, bodies and tables keep their choices inside."""


def open_option(node: Any) -> str:
    """Return the option on which the shape of a value depends."""
    match node:
        case n.Choose(option=option):
            return option
        case _ if isinstance(node, _WITH_CHOICES):
            return next(filter(None, (open_option(getattr(node, f.name)) for f in fields(node))), "")
        case _:
            return ""


def with_setting(node: Any, option: str, setting: Any) -> Any:
    """Return the node with one option set."""
    match node:
        case n.Choose(option=name, cases=cases) if name == option:
            return with_setting(cases[setting], option, setting)
        case _ if isinstance(node, _WITH_CHOICES):
            return replace(node, **{f.name: with_setting(getattr(node, f.name), option, setting) for f in fields(node)})
        case _:
            return node


def as_setting(value: Any) -> Any:
    """Return a setting as preferences have it: true or false, or a word."""
    return value if isinstance(value, bool) else str(value)
