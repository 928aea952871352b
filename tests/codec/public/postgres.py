"""PostgreSQL 3.0: a first packet without a type, perhaps TLS, then typed messages."""

from __future__ import annotations

from wirelake import spec as s
from wirelake.spec.conduct import Conduct, Matching

Z = s.text(b"\0")
CELL = s.blob(s.be.i32, null=-1)


class Setting(s.Struct):
    name: str = s.field(s.text(b"\0", least=1), "which")
    value: str = s.field(Z, "what it is")


class Startup(s.Message, code=196608, frame="opening", kind="control", sent_by="client", then="usual"):
    settings: tuple[Setting, ...] = s.field(s.many(s.nested(Setting), b"\0"), "user, database ...")


class SslRequest(s.Message, code=80877103, frame="opening", kind="control", sent_by="client", then=("opening", "tls")):
    """Asks whether the connection may be encrypted; the server says so in one byte."""


class Encrypted(s.Message, code=80877104, frame="answer", kind="control", sent_by="server", then="raw"): ...


class NotEncrypted(s.Message, code=80877105, frame="refusal", kind="control", sent_by="server", then="usual"): ...


class Tls(s.Message, code=0, frame="tls", kind="event", sent_by="client", then="raw"):
    data: bytes = s.field(s.rest, "the first encrypted bytes")


class Raw(s.Message, code=4, frame="raw", kind="event"):
    data: bytes = s.field(s.rest, "encrypted bytes")


class Query(s.Message, code=ord("Q"), kind="request", sent_by="client", answer=("ready", "failed")):
    sql: str = s.field(Z, "what is asked", role="address")


class Terminate(s.Message, code=ord("X"), kind="control", sent_by="client"): ...


class FromServer(s.Message, sent_by="server", then="usual"): ...


class Authentication(FromServer, code=ord("R"), kind="control"):
    method: int = s.field(s.be.u32, "0 is good")
    data: bytes = s.field(s.rest, "salt ...")


class DataRow(FromServer, code=ord("D"), kind="event"):
    cells: tuple[bytes | None, ...] = s.field(s.many(CELL, s.be.u16), "values")


class Status(FromServer, code=ord("S"), kind="event", as_name="parameter_status"):
    name: str = s.field(Z, "which")
    value: str = s.field(Z, "what it is")


class Notice(s.Struct):
    kind: int = s.field(s.within(s.u8, 1, 255, "notice"), "severity, code, message ...")
    text: str = s.field(Z, "what it says")


class Failed(FromServer, code=ord("E"), kind="response", failure=True):
    notices: tuple[Notice, ...] = s.field(s.many(s.nested(Notice), b"\0"), "what went wrong")


class Ready(FromServer, code=ord("Z"), kind="response"):
    transaction: int = s.field(s.u8, "I, T or E")


class Other(s.Message, code=s.OTHER):
    type: int = s.field(s.u8, "type")
    data: bytes = s.field(s.rest, "what it says")


PROTOCOL = s.declare(
    s.Protocol(
        "postgres",
        "PostgreSQL",
        s.Frame((s.Code("type", s.u8), s.Size("length", s.be.u32, counts="after", plus=-4, least=4, most=1 << 20))),
        s.messages_in(globals()),
        ports={"tcp": 5432},
        frames={
            "opening": s.Frame(
                (s.Size("length", s.be.u32, counts="whole", least=8, most=10000), s.Code("version", s.be.u32))
            ),
            "answer": s.Frame((s.Magic(b"S"), s.Ends(1))),
            "refusal": s.Frame((s.Magic(b"N"), s.Ends(1))),
            "tls": s.Frame((s.Magic(b"\x16\x03"), s.Opaque(16384))),
            "raw": s.Frame((s.Opaque(16384),)),
        },
        begins=("opening", "answer", "refusal", "usual"),
        conduct=Conduct(matching=Matching(in_order=True)),
    )
)
