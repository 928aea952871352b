"""MQTT 5: properties."""

from __future__ import annotations

from wirelake import spec as s
from wirelake.spec import When

STRING, BINARY, VAR = s.text(s.be.u16), s.blob(s.be.u16), s.varint(4)


class UserProperty(s.Struct):
    key: str = s.field(STRING, "name")
    value: str = s.field(STRING, "value")


PROPERTY = s.choice(
    s.u8,
    {
        **dict.fromkeys((1, 23, 25, 36, 37, 40, 41, 42), s.u8),
        **dict.fromkeys((19, 33, 34, 35), s.be.u16),
        **dict.fromkeys((2, 17, 24, 39), s.be.u32),
        **dict.fromkeys((3, 8, 18, 21, 26, 28, 31), STRING),
        **dict.fromkeys((9, 22), BINARY),
        11: VAR,
        38: s.nested(UserProperty),
    },
)
PROPERTIES = s.sized(VAR, s.many(PROPERTY, None))


class Plain(s.Message):
    dup: int = s.field(s.bits(s.u8, 3, 1), "again", default=0)
    qos: int = s.field(s.bits(s.u8, 1, 2), "quality", default=0)
    retain: int = s.field(s.bits(s.u8, 0, 1), "keep", default=0)


class Connect(Plain, code=1, kind="control", sent_by="client"):
    mqtt = s.constant(b"\0\4MQTT\5")
    with_user: int = s.field(s.bits(s.u8, 7, 1), "user name")
    with_password: int = s.field(s.bits(s.u8, 6, 1), "password")
    will_retain: int = s.field(s.bits(s.u8, 5, 1), "retain")
    will_qos: int = s.field(s.bits(s.u8, 3, 2), "quality")
    with_will: int = s.field(s.bits(s.u8, 2, 1), "will")
    clean_start: int = s.field(s.bits(s.u8, 1, 1), "clean")
    zero: int = s.field(s.bits(s.u8, 0, 1), "0", default=0)
    keep_alive: int = s.field(s.be.u16, "seconds", unit="s")
    properties: tuple[s.Tagged, ...] = s.field(PROPERTIES, "of the connection")
    client: str = s.field(STRING, "client id")
    will_properties: tuple[s.Tagged, ...] = s.optional(PROPERTIES, "of the will", when=When("with_will"), default=())
    will_topic: str | None = s.optional(STRING, "topic of the will", when=When("with_will"))
    will_payload: bytes | None = s.optional(BINARY, "the will", when=When("with_will"))
    user: str | None = s.optional(STRING, "user name", when=When("with_user"))
    password: bytes | None = s.optional(BINARY, "password", when=When("with_password"))


class Connack(Plain, code=2, kind="control", good=(0,), sent_by="server"):
    session_present: int = s.field(s.u8, "1 if so")
    reason: int = s.field(s.u8, "why", role="status")
    properties: tuple[s.Tagged, ...] = s.field(PROPERTIES, "of the connection")


class Publish(Plain, code=3, kind="event"):
    topic: str = s.field(STRING, "where", role="address")
    packet: int | None = s.optional(s.be.u16, "packet id", when=When("qos"))
    properties: tuple[s.Tagged, ...] = s.field(PROPERTIES, "of the message")
    payload: bytes = s.field(s.rest, "what", role="payload")


class Subscription(s.Struct):
    filter: str = s.field(STRING, "which topics")
    options: int = s.field(s.u8, "quality and more")


class Subscribe(Plain, code=8, kind="request", answer=9, sent_by="client"):
    packet: int = s.field(s.be.u16, "packet id", role="correlation")
    properties: tuple[s.Tagged, ...] = s.field(PROPERTIES, "of the request")
    filters: tuple[Subscription, ...] = s.field(s.many(s.nested(Subscription), None), "which topics")


class Suback(Plain, code=9, kind="response", sent_by="server"):
    packet: int = s.field(s.be.u16, "packet id", role="correlation")
    properties: tuple[s.Tagged, ...] = s.field(PROPERTIES, "of the reply")
    reasons: bytes = s.field(s.rest, "one for each filter")


class Disconnect(Plain, code=14, kind="control"):
    reason: int | None = s.optional(s.u8, "why", when=s.IfLeft())
    properties: tuple[s.Tagged, ...] | None = s.optional(PROPERTIES, "more", when=s.IfLeft())


PROTOCOL = s.declare(
    s.Protocol(
        name="mqtt5",
        title="MQTT 5",
        frame=s.Frame(
            (
                s.Code("type", s.bits(s.u8, 4, 4)),
                s.Kept("dup"),
                s.Kept("qos"),
                s.Kept("retain"),
                s.Size("length", s.varint(4), counts="after", most=1 << 20),
            )
        ),
        messages=s.messages_in(globals()),
        ports={"tcp": 1883},
        topics=s.Topics("words", one="+", rest="#", separator="/"),
    )
)
