"""CEDA on the wire: how payloads are framed in both dialects, and how one peer's bytes become payloads again.

A payload is what follows the frame header: the type byte and its part. Over WebSocket a message is a payload, and the
transport frames it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from ...codec import codec_for
from ...codec.quick_dialects import QuickDialects
from ...codec.topics import has_wildcards
from ...errors import EncodeError
from ...protocols import ceda as p
from ...spec.resolve import Layout, layout
from ..core.link import Framing, Link

CEDA4, CEDA4_WS = "ceda4", "ceda4-ws"
AUTO = "auto"
HEARTBEAT, SUBSCRIBE, UNSUBSCRIBE, LOGIN, LOGOUT = 0x01, 0x11, 0x12, 0x13, 0x14
PUBLISH, REQUEST, REPLY, P2P, GROUP_PUB = 0x61, 0x62, 0x63, 0x64, 0x65
Do = p.ControlCode

assert p.PROTOCOL.topics is not None
TOPICS = p.PROTOCOL.topics
NAMES: dict[int, str] = {cls.__message__["code"]: cls.__message__["name"] for cls in p.PROTOCOL.messages}
"""Names of message types, as the life cycle has them."""
MAX_PAYLOAD = {CEDA4: p.MAX_PAYLOAD, CEDA4_WS: 65531}
"""What a live endpoint sends; the deployed one cannot build a longer frame."""
JAVA_NAME_BYTES = 127
"""The deployed reader takes the length of a name for a signed number."""
_SHORT = tuple(bytes((0x82, length)) for length in range(p.EXTENDED))


@dataclass(eq=False, slots=True)
class CedaFraming:
    """Frames of one dialect over TCP."""

    name: str
    order: Literal["little", "big"]

    def wrap(self, body: bytes) -> bytes:
        length = len(body)
        if length < p.EXTENDED:
            return _SHORT[length] + body
        return b"\x82\x7e" + length.to_bytes(2, self.order) + body


CEDA_TCP = CedaFraming(CEDA4_WS, "big")
"""What every known peer speaks, and our ends by default."""
CEDA_TCP_DOCUMENT = CedaFraming(CEDA4, "little")
FRAMINGS = {CEDA4: CEDA_TCP_DOCUMENT, CEDA4_WS: CEDA_TCP}


def is_pattern(text: str) -> bool:
    return has_wildcards(TOPICS, text)


def is_stream(framing: Framing) -> bool:
    """Whether these frames are ours, not those of WebSocket."""
    return isinstance(framing, CedaFraming)


def dialect_of(framing: Framing) -> str:
    """The dialect in which payloads are written: over WebSocket always the deployed one."""
    return framing.name if is_stream(framing) else CEDA4_WS


@lru_cache(maxsize=64)
def layout_of(dialect: str, charset: str = "utf-8", errors: str = "strict") -> Layout:
    return layout(p.PROTOCOL, dialect=dialect, charset=charset, errors=errors)


def decode_payload(payload: bytes, dialect: str, charset: str = "utf-8", errors: str = "strict") -> Any:
    """The message in a payload, by the record codec; DecodeError says what is wrong with it, and in which scope."""
    return codec_for(layout_of(dialect, charset, errors)).decode(FRAMINGS[dialect].wrap(payload))


def check_sendable(payload: bytes, dialect: str) -> None:
    most = MAX_PAYLOAD[dialect]
    if len(payload) > most:
        text = f"the payload has {len(payload)} bytes, at most {most} can be sent"
        raise EncodeError(text, rule="frame_limit", path="payload_length")


def java_warning(payload: bytes, names: tuple[bytes, ...] = ()) -> str:
    """Why the deployed reader would have trouble with this payload; empty if it would not."""
    if any(len(name) > JAVA_NAME_BYTES for name in names):
        return f"a name of more than {JAVA_NAME_BYTES} bytes cannot be read by Java peers"
    kind, size = payload[0], len(payload)
    if (kind in (SUBSCRIBE, UNSUBSCRIBE, LOGIN) and size < 2 + 4) or (
        kind >= PUBLISH and size < 1 + (8 if kind == PUBLISH else 16)
    ):
        return "a message this short is held back by Java peers"
    return ""


class Reader(QuickDialects):
    """What one peer sends: a stream in any pieces -> payloads. Finds out the dialect, and makes the link speak it."""

    __slots__ = ("_link",)

    def __init__(self, link: Link, dialect: str = AUTO) -> None:
        known = None if dialect == AUTO else dialect
        layouts = {name: layout_of(name) for name in FRAMINGS}
        super().__init__(layouts, dialect_of(link.framing), known if is_stream(link.framing) else CEDA4_WS)
        self._link = link

    def prove(self, dialect: str) -> None:
        super().prove(dialect)
        self._link.framing = FRAMINGS[dialect]
