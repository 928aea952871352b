"""MySQL client/server protocol 4.1"""

from __future__ import annotations

from wirelake import spec as s
from wirelake.spec import When
from wirelake.spec.conduct import Conduct, Matching

Z = s.text(b"\0")
INTEGER = s.compact({0xFC: s.le.u16, 0xFD: s.le.u24, 0xFE: s.le.u64})


class Handshake(s.Message, code=10, frame="greeting", kind="control", sent_by="server"):
    version: str = s.field(Z)
    thread: int = s.field(s.le.u32)
    salt: bytes = s.field(s.fixed(8))
    filler = s.constant(b"\0")
    capabilities: int = s.field(s.le.u16)
    charset: int = s.field(s.u8)
    status: int = s.field(s.le.u16)
    capabilities_high: int = s.field(s.le.u16)
    auth_length: int = s.field(s.u8)
    reserved = s.constant(bytes(10))
    salt2: bytes = s.field(s.fixed(13))
    plugin: str = s.field(Z)


class Login(s.Message, code=1000, frame="login", kind="control", sent_by="client"):
    capabilities: int = s.field(s.le.u32, column="client_capabilities")
    most: int = s.field(s.le.u32)
    charset: int = s.field(s.u8)
    reserved = s.constant(bytes(23))
    user: str = s.field(Z)
    auth: bytes = s.field(s.blob(s.u8))
    database: str | None = s.optional(Z, when=When("capabilities", bits=8))
    plugin: str | None = s.optional(Z, when=When("capabilities", bits=0x80000))
    attributes: bytes = s.field(s.rest)


class AuthData(s.Message, code=1001, kind="control", sent_by="client"):
    number: int = s.field(s.u8)
    data: bytes = s.field(s.rest)


class Command(s.Message, frame="command", sent_by="client", kind="request", answer=("ok", "error", "result_set")): ...


class Query(Command, code=3):
    sql: str = s.field(s.rest_text)


class Quit(s.Message, frame="command", code=1, sent_by="client", kind="control"): ...


class Ping(Command, code=14): ...


class InitDb(Command, code=2):
    schema: str = s.field(s.rest_text)


class FromServer(s.Message, sent_by="server", frame="server"):
    number: int = s.field(s.u8)


class Ok(FromServer, code=0, kind="response"):
    affected: int = s.field(INTEGER)
    inserted: int = s.field(INTEGER)
    state: int = s.field(s.le.u16)
    warnings: int = s.field(s.le.u16)
    more: bytes = s.field(s.rest)


class Error(FromServer, code=0xFF, kind="response", failure=True):
    error: int = s.field(s.le.u16, role="status")
    marked: bytes = s.field(s.fixed(6))
    text: str = s.field(s.rest_text)


class Eof(FromServer, code=0xFE, kind="event"):
    rest: bytes = s.field(s.rest)


class ResultSet(FromServer, code=s.OTHER, kind="response", as_name="result_set"):
    type: int = s.field(s.u8)
    rest: bytes = s.field(s.rest)


LENGTH = s.Size("length", s.le.u24, counts="after", plus=1)
PROTOCOL = s.declare(
    s.Protocol(
        "mysql",
        "MySQL",
        s.Frame((LENGTH, s.Kept("number"))),
        messages=s.messages_in(globals()),
        ports={"tcp": 3306},
        frames={
            "greeting": s.Frame((LENGTH, s.Magic(b"\0\x0a"))),
            "server": s.Frame((LENGTH, s.Kept("number"), s.Code("type", s.u8))),
            "login": s.Frame((LENGTH, s.Magic(b"\1"))),
            "command": s.Frame((LENGTH, s.Magic(b"\0"), s.Code("type", s.u8))),
        },
        conduct=Conduct(matching=Matching(in_order=True)),
    )
)
