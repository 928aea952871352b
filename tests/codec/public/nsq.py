"""NSQ TCP protocol V2, https://nsq.io/clients/tcp_protocol_spec.html"""

from __future__ import annotations

from wirelake import spec as s
from wirelake.spec.conduct import Conduct, Matching

NAME = s.word(r"[.a-zA-Z0-9_-]{1,64}(?:#ephemeral)?", "name")


class Magic2(s.Message, code=101, word="  V2", kind="control", sent_by="client", frame="hello"): ...


class Identify(s.Message, code=102, word="IDENTIFY", kind="request", answer=("response", "error"), sent_by="client"):
    body: bytes = s.field(s.blob(s.be.u32), "JSON", role="payload")


class Sub(s.Message, code=103, word="SUB", kind="request", answer=("response", "error"), sent_by="client"):
    topic: str = s.field(NAME, "", role="address")
    channel: str = s.field(NAME, "")


class Pub(s.Message, code=104, word="PUB", kind="request", answer=("response", "error"), sent_by="client"):
    topic: str = s.field(NAME, "", role="address")
    body: bytes = s.field(s.blob(s.be.u32), "", role="payload")


class Mpub(s.Message, code=105, word="MPUB", kind="request", answer=("response", "error"), sent_by="client"):
    topic: str = s.field(NAME, "", role="address")
    bodies: tuple[bytes, ...] = s.field(s.sized(s.be.u32, s.many(s.blob(s.be.u32), s.be.u32)), "")


class Rdy(s.Message, code=106, word="RDY", kind="event", sent_by="client"):
    count: int = s.field(s.number("([0-9]+)", "count", 0, 2500), "")


class Fin(s.Message, code=107, word="FIN", kind="event", sent_by="client"):
    id: str = s.field(s.word("[0-9a-f]{16}", "id"), "")


class Nop(s.Message, code=109, word="NOP", kind="control", sent_by="client"): ...


class Cls(s.Message, code=110, word="CLS", kind="request", answer=("response", "error"), sent_by="client"): ...


class Response(s.Message, code=0, frame="server", kind="response", sent_by="server"):
    data: str = s.field(s.rest_text, "")


class Error(s.Message, code=1, frame="server", kind="response", failure=True, sent_by="server"):
    data: str = s.field(s.rest_text, "")


class Delivery(s.Message, code=2, frame="server", kind="event", sent_by="server"):
    when: int = s.field(s.be.i64, "ns")
    attempts: int = s.field(s.be.u16, "")
    id: bytes = s.field(s.fixed(16), "", column="delivery_id")
    body: bytes = s.field(s.rest, role="payload")


PROTOCOL = s.declare(
    s.Protocol(
        "nsq",
        "NSQ",
        s.Frame(
            (s.Line(b" ", b"\n", window=256, fewest=1, most=None, code="command", code_rule="command"), s.Ends(1 << 24))
        ),
        messages=s.messages_in(globals()),
        ports={"tcp": 4150},
        frames={
            "hello": s.Frame((s.Magic(b"  V2"), s.Ends(4))),
            "server": s.Frame((s.Size("size", s.be.u32, counts="after"), s.Code("type", s.be.u32))),
        },
        conduct=Conduct(matching=Matching(in_order=True)),
    )
)
