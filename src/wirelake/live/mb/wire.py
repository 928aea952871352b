"""MB messages as live sessions read and write them: framing, headers, ids, error objects.

Most headers repeat: what was checked once is found again by its bytes. Others are put to the record codec, which reads
them or names the broken rule. So there is one set of rules.
"""

from __future__ import annotations

import random
import re
import struct
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from ...codec import decode, encode
from ...codec.content import dump_json, read_json
from ...errors import DecodeError
from ...protocols import mb
from ...protocols.mb.conduct import SYSTEM
from ...spec.resolve import layout
from ..core.errors import AnswerError, LiveError, RequestTimeout

PUBLISH, REQUEST, RESPONSE = "publish", "request", "response"
VERSION = "1.0.0"
ERROR_PREFIX = b"error:"
LF = b"\n"
MAX_HEADS = 2048
"""How many headers are remembered."""

TO_BROKER = layout(mb.PROTOCOL, framing="tcp", profile="strict")
TO_CLIENT = layout(mb.PROTOCOL, framing="tcp", profile="upstream")
"""How streams are framed; the limits of a frame differ."""
pack_size = struct.Struct(">I").pack

_CLASSES: dict[str, Any] = {PUBLISH: mb.Publish, REQUEST: mb.Request, RESPONSE: mb.Response}
_is_id = re.compile(mb.UUID4.encode()).fullmatch
_is_id_text = re.compile(mb.UUID4).fullmatch
_leading_integer = re.compile(mb.LAX_INTEGER).fullmatch


class MbTcp:
    """Four bytes of length before each message."""

    name = "mb-tcp"

    def wrap(self, body: bytes) -> bytes:
        return pack_size(len(body)) + body


MB_TCP = MbTcp()


class Fault(Exception):
    """Why a message is refused: what the error answer says. ``id`` is that of a header which is bad otherwise."""

    def __init__(self, code: str, text: str, details: dict[str, Any] | None = None, id: bytes | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.details = details
        self.id = id

    def object(self, clock: Clock) -> dict[str, Any]:
        made: dict[str, Any] = {"code": self.code, "message": self.text, "timestamp": clock.stamp.decode()}
        if self.details is not None:
            made["details"] = self.details
        return made

    def payload(self, clock: Clock) -> bytes:
        """Form A of an error."""
        return write_json({"error": self.object(clock)})


_DETAILS = {
    "topic": ("topic", 1), "version": ("version", 2), "request_id": ("requestId", 3),
    "parent_request_id": ("parentRequestId", 4),
}  # fmt: skip
"""By rule: what the details of a fault call the field, and which one it is."""


def header_fault(line: bytes | None, error: DecodeError) -> Fault:
    """Return the reply to a header that the codec refuses; ``line`` is None if there is no line end."""
    fields = line.decode("utf-8", "replace").split(":") if line is not None else []
    details: dict[str, Any] | None
    match error.rule:
        case "action":
            details = {"validActions": [PUBLISH, REQUEST, RESPONSE]}
        case "topic" | "version" | "request_id" | "parent_request_id":
            key, place = _DETAILS[error.rule]
            details = {key: fields[place]}
        case "timeout_not_allowed":
            details = {"action": fields[0].lower()}
        case "timeout":
            details = {"timeout": leading_integer(fields[5])}
        case _:
            details = None
    known = fields[3] if len(fields) > 3 and _is_id_text(fields[3]) else None
    return Fault("MALFORMED_MESSAGE", error.detail, details, known.encode() if known is not None else None)


def leading_integer(text: str) -> int | float | None:
    """The number at the front of a text as JavaScript reads it, None if there is none."""
    found = _leading_integer(text)
    if found is None:
        return None
    digits = found[1]
    value = int(digits, 16 if "x" in digits.lower() else 10)
    return plain_number(value)


def plain_number(value: int | float) -> int | float | None:
    """A number as JavaScript would write it: whole ones without a point, None for those beyond a double's range."""
    try:
        real = float(value)
    except OverflowError:
        return None
    if real - real != 0:
        return None
    return int(real) if real.is_integer() and abs(real) <= 1 << 53 else real


class Head:
    """Action, topic and version, which many messages share; with what is written for them again and again."""

    __slots__ = ("action", "answer", "counted", "forward", "is_publish", "is_system", "name", "topic", "version")

    def __init__(self, action: str, topic: str, version: str) -> None:
        self.action = action
        self.topic = topic
        self.version = version
        self.name = topic.lower()
        self.is_system = self.name.startswith(SYSTEM)
        self.is_publish = action == PUBLISH and not self.is_system
        self.counted = f"router.{action}.count"
        self.forward = f"{action}:{topic}:{version}:".encode()
        self.answer = f"response:{topic}:{version}:".encode()


Parsed = tuple[Head, bytes | None, bytes | None, int | None, int]
"""Head, request id, parent id, timeout in ms, and where the line end is."""


class Heads:
    """Reads headers by the strict rules."""

    def __init__(self) -> None:
        self.known: dict[bytes, Head] = {}

    def parse(self, data: bytes, start: int, stop: int) -> Parsed:
        """The header of the message from ``start`` to ``stop``; raises Fault."""
        window = start + mb.MAX_HEADER_WINDOW
        end = data.find(LF, start, window if window < stop else stop)
        line = data[start:end]
        if end >= 0:
            head = self.known.get(line)
            if head is not None:
                return head, None, None, None, end
            if line[-37:-36] == b":":
                head = self.known.get(line[:-37])
                if head is not None and _is_id(line, len(line) - 36):
                    return head, line[-36:], None, None, end
        try:
            message = decode("mb", line + LF if end >= 0 else data[start:stop], profile="strict")
        except DecodeError as error:
            raise header_fault(line if end >= 0 else None, error) from None
        head = self._remember(line, type(message).__name__.lower())
        rid, parent = (word.encode() if word else None for word in (message.request_id, message.parent_request_id))
        return head, rid, parent, message.timeout, end

    def _remember(self, line: bytes, action: str) -> Head:
        words = line.split(b":", 3)[:3]
        front = b":".join(words)
        if front not in self.known:
            if len(self.known) >= MAX_HEADS:
                self.known.clear()
            self.known[front] = Head(action, words[1].decode(), words[2].decode())
        return self.known[front]


def add_ids(front: bytes, rid: str | None = None, parent: str | None = None, timeout_ms: int | None = None) -> bytes:
    """Return a header line without its end, as short as its values allow. ``front`` is action, topic and version."""
    if parent is None and timeout_ms is None:
        return front if rid is None else front + b":" + rid.encode()
    fields = [front, (rid or "").encode(), (parent or "").encode()]
    return b":".join(fields if timeout_ms is None else [*fields, b"%d" % timeout_ms])


@lru_cache(maxsize=MAX_HEADS)
def front(action: str, topic: str, version: str = VERSION) -> bytes:
    """Return action, topic and version as they are written; EncodeError if the codec refuses them."""
    encode(_CLASSES[action](topic=topic, version=version))
    return f"{action}:{topic}:{version}".encode()


class Ids:
    """Random UUIDs of version 4 as text, made many at a time."""

    BATCH = 256
    _TEMPLATE = b"________-____-4___-____-____________\n"
    _PLACES = tuple((i, at) for i, at in enumerate(at for at, c in enumerate(_TEMPLATE[:-1]) if c != 0x2D) if i != 12)
    _VARIANT = bytes.maketrans(b"0123456789abcdef", b"89ab" * 4)

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.ready: list[bytes] = []

    def take(self) -> bytes:
        if not self.ready:
            digits = self._chance.randbytes(16 * self.BATCH).hex().encode()
            made = bytearray(self._TEMPLATE * self.BATCH)
            for i, at in self._PLACES:  # digit by digit, each for all ids at once
                column = digits[i::32]
                made[at :: len(self._TEMPLATE)] = column.translate(self._VARIANT) if i == 16 else column
            self.ready = bytes(made).split()
        return self.ready.pop()


def write_json(value: Any) -> bytes:
    try:
        return dump_json(value).encode()
    except ValueError:
        return dump_json(_finite(value)).encode()


def _finite(value: Any) -> Any:
    """Numbers that JSON cannot write become null, as JavaScript does it."""
    match value:
        case dict():
            return {key: _finite(item) for key, item in value.items()}
        case list():
            return [_finite(item) for item in value]
        case float():
            return plain_number(value)
        case _:
            return value


def timestamp(seconds: float) -> str:
    """A time of day in UTC with milliseconds and Z."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


@dataclass(slots=True)
class Clock:
    """What time it is in the call that is going on, for all parts of a session."""

    epoch: float = 0.0
    now: float = 0.0
    second: int = -1
    _stamped: tuple[float, float] | None = None
    _stamp: bytes = b""

    @property
    def stamp(self) -> bytes:
        """The time of day, made once for each call."""
        if self._stamped != (self.now, self.epoch):
            self._stamped = (self.now, self.epoch)
            self._stamp = timestamp(self.epoch + self.now).encode()
        return self._stamp

    def shown(self, then: float) -> str:
        return timestamp(self.epoch + then)


def read_error(payload: bytes) -> LiveError | None:
    """The error that a payload is: an object with the key "error", or one behind ``error:``."""
    is_marked = payload.startswith(ERROR_PREFIX)
    if not is_marked and b'"error"' not in payload:
        return None
    try:
        found = read_json(payload[len(ERROR_PREFIX) :] if is_marked else payload)
    except DecodeError:
        found = None
    found = found if isinstance(found, dict) else {}
    if is_marked:
        if not all(found.get(key) for key in ("code", "message", "timestamp")):
            return AnswerError("MALFORMED_MESSAGE", "what follows error: is no error object")
    else:
        found = found["error"] if isinstance(found.get("error"), dict) else {}
        if not isinstance(found.get("code"), str) or not isinstance(found.get("message"), str):
            return None
    code, message = str(found["code"]), str(found["message"])
    if code == "TIMEOUT":
        return RequestTimeout(f"no answer in time: {message}")
    return AnswerError(code, message, found.get("details"))
