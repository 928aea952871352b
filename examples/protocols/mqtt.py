"""MQTT 3.1.1, after the OASIS standard of 29 October 2014."""

from __future__ import annotations

from typing import Any

from wirelake import spec as s
from wirelake.spec.conduct import COMPLETE, REFUSED, REPLY, REQUEST, Conduct, Introduction, Part, Selection, When

TEXT, BLOB = s.text(s.be.u16, strict=True), s.blob(s.be.u16)
NO, ONE, QOS = s.within(s.u8, 0, 0, "reserved"), s.within(s.u8, 1, 1, "reserved"), s.within(s.u8, 0, 2, "qos")
REFUSALS = {1: "wrong_version", 2: "wrong_client_id", 3: "unavailable", 4: "bad_login", 5: "not_authorised"}
RETURN_CODE = s.Labels("return_code", {0: "accepted", **REFUSALS})
GRANTED = s.Labels("granted", {0: "qos_0", 1: "qos_1", 2: "qos_2", 0x80: "failure"})


def bits(wire: Any, shift: int, width: int, doc: str, default: int = 0) -> int:
    return s.field(s.bits(wire, shift, width), doc, default=default)


SENT = (("control", "client"), ("control", "server"), ("response", "server"))
IS_ONE = bits(ONE, 1, 2, "always 1", 1)
FROM_CLIENT, FROM_SERVER, REPLY_LINE = ({"kind": kind, "sent_by": side} for kind, side in SENT)


class Packet(s.Message):
    dup: int = bits(NO, 3, 1, "sent before")
    qos: int = bits(NO, 1, 2, "quality of service")
    retain: int = bits(NO, 0, 1, "kept by the server")


class Numbered(Packet):
    packet_id: int = s.field(s.be.u16, "ties packets together", role="correlation", default=1)


class Connect(Packet, code=1, kind="control", sent_by="client"):
    """A client opens the session."""

    protocol_name = s.constant(b"\x00\x04MQTT\x04")
    has_user: int = bits(s.u8, 7, 1, "there is a user name")
    has_password: int = bits(s.u8, 6, 1, "there is a password")
    will_retain: int = bits(s.u8, 5, 1, "the will is retained")
    will_qos: int = bits(QOS, 3, 2, "quality of service of the will")
    has_will: int = bits(s.u8, 2, 1, "there is a will")
    clean_session: int = bits(s.u8, 1, 1, "nothing is resumed", 1)
    reserved: int = bits(NO, 0, 1, "always 0")
    keep_alive: int = s.field(s.be.u16, "longest silence", unit="s", default=0)
    client_id: str = s.field(TEXT, "name of the client", default="")
    will_topic: str | None = s.optional(TEXT, "where the will goes", when=When("has_will"))
    will: bytes | None = s.optional(BLOB, "what is published if the client dies", when=When("has_will"))
    user: str | None = s.optional(TEXT, "who connects", when=When("has_user"))
    password: bytes | None = s.optional(BLOB, "the password", when=When("has_password"))


class Connack(Packet, code=2, kind="control", sent_by="server"):
    reserved: int = bits(NO, 1, 7, "always 0")
    session_present: int = bits(s.u8, 0, 1, "the server knows the session")
    return_code: int = s.field(s.labelled(s.u8, RETURN_CODE), "how it went", role="status", default=0)


class Publish(Packet, code=3):
    """A message on a topic."""

    dup: int = bits(s.u8, 3, 1, "sent before")
    qos: int = bits(QOS, 1, 2, "quality of service")
    retain: int = bits(s.u8, 0, 1, "kept by the server")
    topic: str = s.field(s.text(s.be.u16, strict=True, least=1), "where it goes", role="address", default="t")
    packet_id: int | None = s.optional(s.be.u16, "unless qos is 0", when=When("qos"), role="correlation")
    payload: bytes = s.field(s.rest, "what it says", role="payload", default=b"")


Puback = s.message("Puback", Numbered, code=4, kind="response", doc="A message of quality 1 has come.")
Pubrec = s.message("Pubrec", Numbered, code=5, kind="response", doc="A message of quality 2 has come.")
Pubrel = s.message("Pubrel", Numbered, code=6, kind="request", answer=7, doc="It is let go.", qos=IS_ONE)
Pubcomp = s.message("Pubcomp", Numbered, code=7, kind="response", doc="It is done with.")
WANTED = s.struct("Wanted", topic=s.field(TEXT, "which topics"), qos=s.field(QOS, "the best that is wanted"))
TOPICS = s.field(s.many(s.nested(WANTED), None), "which ones", default=())
GRANTS = s.field(s.many(s.labelled(s.u8, GRANTED), None), "for each topic", default=())
FILTERS = s.field(s.many(TEXT, None), "which ones", default=())
ASKS: dict[str, Any] = {"kind": "request", "sent_by": "client", "qos": IS_ONE}
Subscribe = s.message("Subscribe", Numbered, code=8, answer=9, **ASKS, doc="Asks for topics.", topics=TOPICS)
Suback = s.message("Suback", Numbered, code=9, **REPLY_LINE, doc="What the server grants.", granted=GRANTS)
Unsubscribe = s.message("Unsubscribe", Numbered, code=10, answer=11, **ASKS, doc="No more.", filters=FILTERS)
Unsuback = s.message("Unsuback", Numbered, code=11, **REPLY_LINE, doc="The subscriptions have ended.")
Pingreq = s.message("Pingreq", Packet, code=12, **FROM_CLIENT, doc="The client is alive.")
Pingresp = s.message("Pingresp", Packet, code=13, **FROM_SERVER, doc="So is the server.")
Disconnect = s.message("Disconnect", Packet, code=14, **FROM_CLIENT, doc="The client leaves.")
HEADER = (s.Code("type", s.bits(s.u8, 4, 4)), s.Kept("dup"), s.Kept("qos"), s.Kept("retain"))
BOTH = dict.fromkeys(("publish", "puback", "pubrec", "pubrel", "pubcomp"), "ready")
CLIENT = dict.fromkeys(("subscribe", "unsubscribe", "pingreq"), "ready") | {"disconnect": "over"}
SERVER = dict.fromkeys(("suback", "unsuback", "pingresp"), "ready")
PROTOCOL = s.declare(
    s.Protocol(
        name="mqtt",
        title="MQTT 3.1.1",
        frame=s.Frame((*HEADER, s.Size("remaining_length", s.varint(4), counts="after"))),
        messages=s.messages_in(globals()),
        labels=(RETURN_CODE, GRANTED),
        topics=s.Topics("words", one="+", rest="#", separator="/"),
        ports={"tcp": 1883},
        life_cycle=s.LifeCycle(
            "new",
            client={"new": {"connect": "asked"}, "ready": BOTH | CLIENT, "over": {}},
            server={"asked": {"connack": "ready"}, "ready": BOTH | SERVER},
        ),
        conduct=Conduct(
            parts=(
                Part(REQUEST, "puback", messages=("publish",), when=When("qos", one_of=(1,))),
                Part(REQUEST, "pubrec", messages=("publish",), when=When("qos", one_of=(2,))),
                Part(REPLY, messages=("puback", "pubrec")),
            ),
            heartbeats=(Selection(messages=("pingreq", "pingresp")),),
            introductions=(
                Introduction({"client_id": "client_id", "user": "user"}, messages=("connect",)),
                Introduction({}, COMPLETE, messages=("connack",), when=When("return_code", empty=True)),
                Introduction({}, REFUSED, messages=("connack",), when=When("return_code")),
            ),
        ),
    )
)
