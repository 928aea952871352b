"""hpfeeds: honeypots publish on the channels of a broker. After the Honeynet Project's description of the protocol."""

from __future__ import annotations

from wirelake.spec import Code, Frame, Message, Protocol, Size, be, declare, field, fixed, rest, rest_text, text, u8


class Error(Message, code=0, kind="control", sent_by="server"):
    text: str = field(rest_text, "what went wrong")


class Info(Message, code=1, kind="control", sent_by="server"):
    broker: str = field(text(u8), "name of the broker")
    nonce: bytes = field(rest, "goes into the digest of the login")


class Auth(Message, code=2, kind="control", sent_by="client"):
    ident: str = field(text(u8), "who logs in")
    digest: bytes = field(fixed(20), "SHA-1 of nonce and secret")


class Publish(Message, code=3):
    ident: str = field(text(u8), "who publishes")
    channel: str = field(text(u8), "where", role="address")
    payload: bytes = field(rest, "what", role="payload")


class Subscribe(Message, code=4, kind="control", sent_by="client"):
    ident: str = field(text(u8), "who subscribes")
    channel: str = field(rest_text, "to what", role="address")


FRAME = Frame((Size("length", be.u32, counts="whole", least=5, most=1 << 20), Code("opcode", u8)))
MESSAGES = (Error, Info, Auth, Publish, Subscribe)
PROTOCOL = declare(Protocol("hpfeeds", "hpfeeds", FRAME, MESSAGES, ports={"tcp": 10000}))
