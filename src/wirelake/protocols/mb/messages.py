"""MB Server Node messages: one header line, LF, payload. The actions are publish, request and response.

Two reading profiles: ``strict`` is the published rules, ``upstream`` accepts exactly what the known broker accepts.
"""

from __future__ import annotations

from typing import Any

from ...spec import UNSET, Body, Line, Message, Run, Size, be, choose, field, messages_in, number, optional, view, word

MAX_HEADER_WINDOW = 367
MAX_PAYLOAD = 16384
MAX_FRAME = 16751
MAX_RECEIVED = 16 * 1024 * 1024
MAX_TIMEOUT_MS = 3_600_000
MAX_VERSION_NUMBER = 9_007_199_254_740_991

PUBLISH, REQUEST, RESPONSE = 1, 2, 3

LEVEL = "[A-Za-z][0-9A-Za-z]*"
TOPIC = rf"{LEVEL}(?:\.{LEVEL}){{0,4}}"

_NUMBER = "(0|[1-9][0-9]*)"
_PRE = "(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_BUILD = "[0-9A-Za-z-]+"
SEMVER = rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_PRE}(?:\.{_PRE})*)?(?:\+{_BUILD}(?:\.{_BUILD})*)?"
PLAIN_VERSION = r"(?:0|[1-9][0-9]{0,3})\.(?:0|[1-9][0-9]{0,3})\.(?:0|[1-9][0-9]{0,3})"

_HEX = "[0-9a-f]"
UUID4 = rf"{_HEX}{{8}}-{_HEX}{{4}}-4{_HEX}{{3}}-[89ab]{_HEX}{{3}}-{_HEX}{{12}}"
ANY_UUID = rf"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"

# What JavaScript calls white space, as the known broker's number and version reading skips it.
_SPACE = "[\t\x0b\x0c\r \xa0\ufeff\u2028\u2029\u1680\u2000-\u200a\u202f\u205f\u3000]*"
LAX_SEMVER = rf"{_SPACE}v?{SEMVER}{_SPACE}"
DIGITS = "([0-9]{1,7})"
LAX_INTEGER = rf"{_SPACE}([+-]?(?:0[xX][0-9a-fA-F]+|(?!0[xX])[0-9]+))(?s:.*)"

VERSION = word(
    choose("profile", strict=SEMVER, upstream=LAX_SEMVER),
    "version",
    most=choose("profile", strict=20, upstream=256),
    parts_most=MAX_VERSION_NUMBER,
    quick=PLAIN_VERSION,
)
ID = choose("profile", strict=UUID4, upstream=ANY_UUID)


class MbMessage(Message):
    """The header line and what follows it."""

    topic: str = field(word(TOPIC, "topic", most=255), "where it is routed", role="address")
    version: str = field(VERSION, "semantic version of the payload's format", role="version")
    request_id: str | None = optional(
        word(ID, "request_id", optional=True),
        "ties a response to its request",
        published="requestId",
        role="correlation",
        default=None,
    )
    parent_request_id: str | None = optional(
        word(ID, "parent_request_id", optional=True),
        "the request this one serves",
        published="parentRequestId",
        default=None,
    )
    timeout: int | None = optional(
        number(
            choose("profile", strict=DIGITS, upstream=LAX_INTEGER),
            "timeout",
            1,
            MAX_TIMEOUT_MS,
            optional=True,
            only=frozenset({REQUEST}),
            only_rule="timeout_not_allowed",
            quick="[1-9][0-9]{0,5}",
        ),
        "how long the requester waits",
        unit="ms",
        role="timeout",
        default=None,
    )
    payload: bytes = field(
        Body(
            text=True,
            most=choose("profile", strict=MAX_PAYLOAD, upstream=None),
            most_rule="payload_too_large",
            empty="absent",
            prefix=b"error:",
            prefix_rule="payload_error_object",
            prefix_needs=("code", "message", "timestamp"),
        ),
        "any octets, often JSON",
        role="payload",
        default=b"",
    )
    json: Any = view(
        Run(None, "json"), "the payload read as JSON", of="payload", only=("json_payload", True), default=UNSET
    )


class Publish(MbMessage, code=PUBLISH, word="publish", kind="event"):
    """Data for everyone who subscribed the topic."""


class Request(MbMessage, code=REQUEST, word="request", kind="request", answer=RESPONSE):
    """A question to the one service that the broker picks; the broker itself replies on system topics."""


class Response(MbMessage, code=RESPONSE, word="response", kind="response"):
    """The reply to a request or to a publish with an id."""


LINE = Line(
    b":",
    b"\n",
    MAX_HEADER_WINDOW,
    fewest=3,
    most=choose("profile", strict=6, upstream=None),
    code="action",
    code_rule="action",
    fold=True,
)
LENGTH = Size(
    "length",
    be.u32,
    counts="after",
    most=choose("profile", strict=MAX_FRAME, upstream=MAX_RECEIVED),
    rule="frame_too_large",
)

MESSAGES = messages_in(globals())
