"""What ties a message to its partner, for a dissector: which messages ask, which reply, and by what they find each
other. Gold matches by the same declaration.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import nodes as n
from .conduct import REPLY, REQUEST, Part, Selection
from .luachoices import Choices
from .luawires import Wires
from .roles import with_roles

IN_ORDER = 0
"""The group of all requests and replies that find each other by their order."""


class Links:
    """The steps of each message in exchanges; the last one whose conditions hold counts."""

    def __init__(self, protocol: n.Protocol, wires: Wires, choices: Choices) -> None:
        self.conduct = protocol.conduct
        self.wires = wires
        self.choices = choices
        self.messages = {cls.__message__["name"]: cls for cls in protocol.messages}
        self.replies = {code for cls in protocol.messages for code in cls.__message__["answers"]}
        self.in_order = protocol.conduct.matching.in_order

    def of(self, cls: Any) -> dict[str, Any]:
        """Return the members of a message's table that say how it is linked; none if it is not."""
        steps = [step for step in self._steps(cls) if step]
        path = role_path(cls, "correlation")
        if not any("group" in step for step in steps) or not (path or self.in_order):
            return {}
        return {"correlation": path, "in_order": self.in_order or None, "steps": steps}

    def _steps(self, cls: Any) -> Iterator[dict[str, Any]]:
        about = cls.__message__
        if about["answer"] is not None:
            yield self._asks(about["answer"])
        elif about["code"] in self.replies:
            yield {"reply": True, "group": self._group(about["code"])}
        for part in self.conduct.parts:
            if not part.messages or about["name"] in part.messages:
                yield self._step(cls, part)
        for quiet in self.conduct.no_reply:
            if about["kind"] == "request" and (not quiet.messages or about["name"] in quiet.messages):
                yield self._when(quiet)

    def _step(self, cls: Any, part: Part) -> dict[str, Any]:
        when = self._when(part)
        if part.part == REPLY:
            return {"reply": True, "group": self._group(cls.__message__["code"]), **when}
        if part.part != REQUEST:
            return when
        named = self.messages.get(part.reply)
        code = named.__message__["code"] if named is not None else cls.__message__["answer"]
        return {**self._asks(code), **when}

    def _when(self, selection: Selection) -> dict[str, Any]:
        """Return what says when a step counts."""
        conditions = [self.wires.condition(condition) for condition in selection.conditions]
        return {"when": conditions or None, "only": self.choices.only(selection.only)}

    def _asks(self, code: int | None) -> dict[str, Any]:
        """Return the step of a request, if a reply could be found."""
        reply = next((cls for cls in self.messages.values() if cls.__message__["code"] == code), None)
        if reply is None or not (self.in_order or role_path(reply, "correlation")):
            return {}
        return {"group": self._group(reply.__message__["code"])}

    def _group(self, code: int) -> int:
        """Return what stands for all replies that may come in the place of each other."""
        if self.in_order:
            return IN_ORDER
        group = {code}
        pairs = self.conduct.matching.instead
        while grown := {other for pair in pairs if group & set(pair) for other in pair} - group:
            group |= grown
        return min(group)


def role_path(cls: Any, role: n.Role) -> str | None:
    """Return the path of the field that has this role."""
    chains = (chain for chain in with_roles(cls) if chain[-1].role == role)
    return next((".".join(field.name for field in chain) for chain in chains), None)
