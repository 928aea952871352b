"""RADIUS over TCP: attributes that say their type and how long they are."""

from __future__ import annotations

from wirelake import spec as s
from wirelake.spec import Lookup

TYPES = s.Labels("attribute", {1: "user_name", 2: "user_password", 4: "nas_address", 18: "reply_message", 26: "vendor"})


class Attribute(s.Struct):
    type: int = s.field(s.labelled(s.u8, TYPES), "what it is")
    value: bytes = s.field(s.blob(s.By(s.u8, plus=-2)), "its value")


class Packet(s.Message):
    identifier: int = s.field(s.u8, "ties the reply to the request", role="correlation")
    authenticator: bytes = s.field(s.fixed(16), "proves who sent it")
    attributes: tuple[Attribute, ...] = s.field(s.many(s.nested(Attribute), None), "what it says")


class AccessRequest(Packet, code=1, kind="request", answer=(2, 3, 11), sent_by="client"):
    user = s.derived(Lookup("attributes", 1), "who asks", role="address")


class AccessAccept(Packet, code=2, kind="response", sent_by="server"): ...


class AccessReject(Packet, code=3, kind="response", sent_by="server", failure=True): ...


class AccessChallenge(Packet, code=11, kind="response", sent_by="server"): ...


class AccountingRequest(Packet, code=4, kind="request", answer=5, sent_by="client"): ...


class AccountingResponse(Packet, code=5, kind="response", sent_by="server"): ...


PROTOCOL = s.declare(
    s.Protocol(
        name="radsec",
        title="RADIUS over TCP",
        frame=s.Frame(
            (
                s.Code("code_", s.u8),
                s.Kept("identifier"),
                s.Size("length", s.be.u16, counts="whole", least=20, most=4096),
            )
        ),
        messages=s.messages_in(globals()),
        labels=(TYPES,),
        ports={"tcp": 2083},
    )
)
