"""CEDA on the wire: how payloads are framed in both dialects, and how one peer's bytes become payloads again.

A payload is what follows the frame header: the type byte and its part. Over WebSocket a message is a payload, and the
transport frames it. Unlike the reader of captures, this one never searches: where the framing is lost, the connection
has to be closed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Literal

from ...codec import codec_for
from ...codec.detect import detector_for
from ...codec.frame import apply_mask, read_header
from ...errors import DecodeError, EncodeError, Incomplete
from ...protocols import ceda as p
from ...spec.resolve import Layout, layout
from ..core.link import Framing, Link
from .records import cells, is_record

CEDA4, CEDA4_WS = "ceda4", "ceda4-ws"
AUTO = "auto"
HEARTBEAT, SUBSCRIBE, UNSUBSCRIBE, LOGIN, LOGOUT = 0x01, 0x11, 0x12, 0x13, 0x14
PUBLISH, REQUEST, REPLY, P2P, GROUP_PUB = 0x61, 0x62, 0x63, 0x64, 0x65
Do = p.ControlCode

NAMES: dict[int, str] = {cls.__message__["code"]: cls.__message__["name"] for cls in p.PROTOCOL.messages}
"""Names of message types, as the life cycle has them."""
MAX_PAYLOAD = {CEDA4: p.MAX_PAYLOAD, CEDA4_WS: 65531}
"""What a live endpoint sends; the deployed one cannot build a longer frame."""
JAVA_NAME_BYTES = 127
"""The deployed reader takes the length of a name for a signed number."""
_DISPUTED = frozenset((LOGOUT, GROUP_PUB))
_SHORT = tuple(bytes((0x82, length)) for length in range(p.EXTENDED))


class CedaFraming:
    """Frames of one dialect over TCP."""

    def __init__(self, name: str, order: Literal["little", "big"]) -> None:
        self.name = name
        self.order = order

    def wrap(self, body: bytes) -> bytes:
        length = len(body)
        if length < p.EXTENDED:
            return _SHORT[length] + body
        return b"\x82\x7e" + length.to_bytes(2, self.order) + body


CEDA_TCP = CedaFraming(CEDA4_WS, "big")
"""What every known peer speaks, and our ends by default."""
CEDA_TCP_DOCUMENT = CedaFraming(CEDA4, "little")
FRAMINGS = {CEDA4: CEDA_TCP_DOCUMENT, CEDA4_WS: CEDA_TCP}


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
    """Refuses what a live endpoint does not send."""
    most = MAX_PAYLOAD[dialect]
    if len(payload) > most:
        raise EncodeError(
            f"the payload has {len(payload)} bytes, at most {most} can be sent",
            rule="frame_limit",
            path="payload_length",
        )


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


class Reader:
    """What one peer sends: a stream in any pieces -> payloads. Finds out the dialect, and makes the link speak it.

    ``dialect`` is the proved one, None while both read everything alike; ``error`` says where the framing was lost.
    """

    __slots__ = ("_fallback", "_held", "_link", "_need", "dialect", "error")

    def __init__(self, link: Link, dialect: str = AUTO) -> None:
        self._link = link
        self._fallback = dialect_of(link.framing)
        self._held = bytearray()
        self._need = 0
        self.dialect: str | None = None if dialect == AUTO else dialect
        self.error: DecodeError | None = None
        if not is_stream(link.framing):
            self.dialect = CEDA4_WS

    @property
    def reading(self) -> str:
        """The dialect to read with: the proved one, or the one that is configured."""
        return self.dialect or self._fallback

    @property
    def pending(self) -> int:
        return len(self._held)

    def clear(self) -> None:
        self._held = bytearray()

    def read(self, data: bytes) -> Iterator[list[bytes]]:
        """The payloads that these bytes complete. Those of one list are to be read in the dialect known then."""
        if self.error is not None:
            return
        held = self._held
        if held:
            held += data
            if len(held) < self._need:
                return
            data = bytes(held)
            held.clear()
        at, end = 0, len(data)
        while at < end:
            found, at = self._plain(data, at, end)
            if found and (self.dialect is None or at >= end):
                yield found
                found = []
            if at < end:
                payload, stop = self._doubtful(data, at, end)
                if payload is not None:
                    found.append(payload)
                if found:
                    yield found
                if stop == at:
                    break
                at = stop
        if at < end and self.error is None:
            held += data[at:]

    def _plain(self, data: bytes, at: int, end: int) -> tuple[list[bytes], int]:
        """The frames that need no thought, as many as there are one after the other."""
        found: list[bytes] = []
        is_open = self.dialect is None
        is_big = self.dialect == CEDA4_WS
        last = end - 2
        while at < last:
            length = data[at + 1]
            start = at + 2
            if length >= 126:
                if length != 126 or is_open or at + 4 > end:
                    break
                length = data[start] << 8 | data[at + 3] if is_big else data[at + 3] << 8 | data[start]
                if length < 126:
                    break
                start = at + 4
            stop = start + length
            if stop > end or data[at] != 0x82 or not length:
                break
            payload = data[start:stop]
            if is_open and payload[0] in _DISPUTED and is_telling(payload):
                break
            found.append(payload)
            at = stop
        return found, at

    def _doubtful(self, data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
        """The payload of a frame that must be looked at closely, and where the frame ends; the same place if that
        cannot be said yet, or never.
        """
        try:
            if self.dialect is None:
                verdict = detector_for((layout_of(CEDA4), layout_of(CEDA4_WS))).detect(data, at, end)
                if verdict.wait:
                    self._need = _least(data, at, end)
                    return None, at
                if verdict.layout is not None:
                    self._prove(verdict.layout.options["dialect"])
            header = read_header(layout_of(self.reading), data, at, end)
        except Incomplete as error:
            self._need = error.needed
            return None, at
        except DecodeError as error:
            self.error = error.locate("ceda", "", data[at : at + 16])
            return None, at
        stop = at + header.length
        if header.mask_at is None:
            return data[at + header.payload - 1 : stop], stop
        key = at + header.mask_at
        return apply_mask(data[key + 4 : stop], data[key : key + 4]), stop

    def _prove(self, dialect: str) -> None:
        self.dialect = dialect
        self._link.framing = FRAMINGS[dialect]


def is_telling(payload: bytes) -> bool:
    """Whether a short logout or group_pub shows its dialect. Quick, since a peer may send any number that do not."""
    if payload[0] == LOGOUT:
        return len(payload) > 1
    return is_clean_group_pub(payload, False) != is_clean_group_pub(payload, True)


def is_clean_group_pub(payload: bytes, has_key: bool) -> bool:
    """Whether this reading finds nothing that real senders never produce."""
    try:
        at = 1
        for skip in (0, 3, 0, 0) if has_key else (0, 3, 0):
            start = at + (skip if at > 1 else 0) + 1
            at = start + payload[start - 1]
            if at > len(payload):
                return False
            payload[start:at].decode()
    except (IndexError, UnicodeDecodeError):
        return False
    if not is_record(payload, at):
        return False
    heads = [(fid, payload[at + offset] & 15) for fid, _, offset, _ in cells(payload[at:])]
    return len({fid for fid, _ in heads}) == len(heads) and all(low > 1 and not low & 1 for _, low in heads)


def _least(data: bytes, at: int, end: int) -> int:
    """The fewest bytes with which more can be said about a frame whose length can be read in two ways."""
    if end - at < 4 or data[at + 1] != p.EXTENDED:
        return 0
    low, high = data[at + 2], data[at + 3]
    return 4 + min(low << 8 | high, high << 8 | low)
