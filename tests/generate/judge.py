"""Which messages break which rule, found in the events alone: message by message, with plain dictionaries.

It reads life cycles from the declarations and knows the few protocols; it does not know the generator's scripts.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from wirelake.generate import Event

Verdict = tuple[int, str]
"""Number of an event, and the rule it breaks."""


def judge(events: Iterable[Event]) -> list[Verdict]:
    courts: dict[int, Court] = {}
    found = []
    for number, event in enumerate(events):
        court = courts.get(event.connection.number)
        if court is None:
            court = courts[event.connection.number] = COURTS[event.connection.protocol.name](event)
        rule = court.hear(event)
        if rule:
            found.append((number, rule))
    return found


class Court:
    """One connection."""

    def __init__(self, event: Event) -> None:
        self.cycle = event.connection.protocol.life_cycle
        assert self.cycle is not None
        self.state = self.cycle.initial
        self.asked: dict[Any, int] = defaultdict(int)
        self.replied: dict[Any, int] = defaultdict(int)
        self.groups: dict[Any, tuple[int, int] | None] = {}

    def hear(self, event: Event) -> str:
        assert self.cycle is not None
        name = event.message.__message__["name"]
        table = self.cycle.client if event.direction == "to_server" else self.cycle.server
        after = table.get(self.state, {}).get(name)
        request = self.request(event)
        if after is None:
            if request is not None:
                self.asked[request] += 1
            return "state"
        self.state = after
        return self.broken_group(event) or self.broken_pair(event, request)

    def broken_pair(self, event: Event, request: Any) -> str:
        if request is not None:
            self.asked[request] += 1
            return "duplicate_request" if self.is_single and self.asked[request] - self.replied[request] > 1 else ""
        reply = self.reply(event)
        if reply is None:
            return ""
        if not self.asked[reply]:
            return "unexpected_reply"
        if self.replied[reply] >= self.asked[reply]:
            return "duplicate_reply"
        self.replied[reply] += self.is_last(event)
        return ""

    def broken_group(self, event: Event) -> str:
        piece = self.piece(event)
        if piece is None:
            return ""
        key, index, count, name = piece
        group = self.groups.get(key, (0, 0))
        if index == 0:
            broken = group not in (None, (0, 0))
            self.groups[key] = (1, count) if count > 1 else (0, 0)
            return name if broken else ""
        if group is None:
            return ""  # what follows a breach
        if group[0] != index:
            self.groups[key] = None
            return name
        self.groups[key] = (index + 1, group[1]) if index + 1 < group[1] else (0, 0)
        return ""

    # --- what protocols differ in

    is_single = False
    """Whether a correlation may be in use only once."""

    def request(self, event: Event) -> Any:
        """What a reply to it will repeat, from the side of the requester; None if it is no request."""

    def reply(self, event: Event) -> Any:
        """The same of a reply."""

    def is_last(self, event: Event) -> bool:
        return True

    def piece(self, event: Event) -> tuple[Any, int, int, str] | None:
        """Group, index, count (of the first), rule."""


def _back(direction: str) -> str:
    return "to_client" if direction == "to_server" else "to_server"


class Casual(Court):
    is_single = True

    def request(self, event: Event) -> Any:
        facts = event.message.__message__
        return (event.direction, event.message.correlation) if facts["kind"] == "request" and facts["answer"] else None

    def reply(self, event: Event) -> Any:
        is_reply = event.message.__message__["kind"] == "response"
        return (_back(event.direction), event.message.correlation) if is_reply else None


class Mb(Court):
    def request(self, event: Event) -> Any:
        message = event.message
        is_asking = message.__message__["name"] in ("request", "publish") and message.request_id is not None
        return (event.direction, message.request_id) if is_asking else None

    def reply(self, event: Event) -> Any:
        message = event.message
        if message.__message__["name"] != "response" or message.request_id is None:
            return None
        is_error = event.direction == "to_client" and message.payload.startswith((b'{"error"', b"error:"))
        key = (_back(event.direction), message.request_id)
        return None if is_error and self.replied[key] >= self.asked[key] else key


class Ceda(Court):
    def request(self, event: Event) -> Any:
        message = event.message
        name = message.__message__["name"]
        if name == "request" and message.reply_topic and not self._is_later_piece(message):
            return event.direction, message.reply_topic
        return (event.direction, None) if name == "login" and event.direction == "to_server" else None

    def reply(self, event: Event) -> Any:
        name = event.message.__message__["name"]
        if name == "reply":
            return _back(event.direction), event.message.topic
        return (_back(event.direction), None) if name == "login" else None

    def piece(self, event: Event) -> tuple[Any, int, int, str] | None:
        message = event.message
        signature = self._signature(message)
        if signature is None:
            return None
        key = getattr(message, "reply_topic", None) if message.__message__["name"] == "group_pub" else None
        return (event.direction, key or message.topic), *signature, "group_order"

    def _is_later_piece(self, message: Any) -> bool:
        signature = self._signature(message)
        return signature is not None and signature[0] > 0

    def _signature(self, message: Any) -> tuple[int, int] | None:
        for cell in getattr(message, "record", None) or ():
            if cell.fid == 0:
                index = struct.unpack_from("<h", cell.value, 1)[0]
                return index, struct.unpack_from("<h", cell.value, 3)[0] if index == 0 else 0
        return None


class Dsa(Court):
    def request(self, event: Event) -> Any:
        name = event.message.__message__["name"]
        return (
            (event.direction, name.removesuffix("_request"), event.message.request_id) if "_request" in name else None
        )

    def reply(self, event: Event) -> Any:
        name = event.message.__message__["name"]
        if not name.endswith("_response"):
            return None
        return _back(event.direction), name.removesuffix("_response"), event.message.request_id

    def is_last(self, event: Event) -> bool:
        name = event.message.__message__["name"]
        status = event.message.headers.status
        return name in ("set_response", "preflight_response") or (status or 0) >= 0x20

    def piece(self, event: Event) -> tuple[Any, int, int, str] | None:
        page = getattr(getattr(event.message, "headers", None), "page_id", None)
        if not page:
            return None
        key = (event.direction, event.message.request_id)
        return (key, 0, -page, "page_order") if page < 0 else (key, page, 0, "page_order")


COURTS: dict[str, type[Court]] = {"casual": Casual, "mb": Mb, "ceda": Ceda, "dsa": Dsa}
