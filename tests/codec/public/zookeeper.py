"""ZooKeeper: records of jute behind a length."""

from __future__ import annotations

from wirelake import spec as s
from wirelake.spec.conduct import Conduct, Matching

STRING, BUFFER = s.text(s.be.i32, null=-1), s.blob(s.be.i32, null=-1)
XID = s.within(s.be.u32, 1, 2**32 - 1, "xid")
ERRORS = s.Labels("error", {0: "ok", -4: "connection_loss", -101: "no_node", -110: "node_exists", -112: "expired"})


class Connect(s.Message, code=1000, frame="connect", kind="request", answer="connected", sent_by="client"):
    zxid: int = s.field(s.be.i64, "last one seen")
    timeout: int = s.field(s.be.i32, "wanted", unit="ms", role="timeout")
    session: int = s.field(s.be.i64, "0: a new one")
    password: bytes | None = s.field(BUFFER, "of the session")
    read_only: bool = s.field(s.bool8, "may be read-only", default=False, when=s.IfLeft())


class Connected(s.Message, code=1001, frame="connected", kind="response", sent_by="server"):
    timeout: int = s.field(s.be.i32, "granted", unit="ms")
    session: int = s.field(s.be.i64, "its id")
    password: bytes | None = s.field(BUFFER, "of the session")
    read_only: bool = s.field(s.bool8, "is read-only", default=False, when=s.IfLeft())


class Request(s.Message, kind="request", answer="reply", sent_by="client"):
    xid: int = s.field(XID, "ties the reply to the request; the highest for pings", role="correlation")


class Acl(s.Struct):
    permissions: int = s.field(s.be.i32, "1 read, 2 write, 4 create, 8 delete, 16 admin")
    scheme: str | None = s.field(STRING, "of the id")
    id: str | None = s.field(STRING, "who")


class Create(Request, code=1):
    path: str | None = s.field(STRING, "of the node", role="address")
    data: bytes | None = s.field(BUFFER, "what it holds")
    acl: tuple[Acl, ...] | None = s.field(s.many(s.nested(Acl), s.be.i32, null=-1), "who may what")
    flags: int = s.field(s.be.i32, "1 ephemeral, 2 sequential")


class Delete(Request, code=2):
    path: str | None = s.field(STRING, "of the node", role="address")
    version: int = s.field(s.be.i32, "-1: any")


class OnPath(Request):
    path: str | None = s.field(STRING, "of the node", role="address")
    watch: bool = s.field(s.bool8, "tell when it changes")


class Exists(OnPath, code=3): ...


class GetData(OnPath, code=4): ...


class GetChildren(OnPath, code=8): ...


class SetData(Request, code=5):
    path: str | None = s.field(STRING, "of the node", role="address")
    data: bytes | None = s.field(BUFFER, "what it is to hold")
    version: int = s.field(s.be.i32, "-1: any")


class Ping(Request, code=11): ...


class Close(Request, code=-11): ...


class Other(Request, code=s.OTHER):
    type: int = s.field(s.be.i32, "which request")
    data: bytes = s.field(s.rest, "not declared")


class Reply(s.Message, code=1002, frame="reply", kind="response", sent_by="server", good=(0,)):
    xid: int = s.field(XID, "of the request; the highest: an event", role="correlation")
    zxid: int = s.field(s.be.i64, "of the last change")
    error: int = s.field(s.labelled(s.be.i32, ERRORS), "how it went", role="status")
    data: bytes = s.field(s.rest, "as the request says")


LENGTH = s.Size("length", s.be.i32, counts="after", most=1 << 20)
PROTOCOL = s.declare(
    s.Protocol(
        name="zookeeper",
        title="ZooKeeper",
        frame=s.Frame((LENGTH, s.Kept("xid"), s.Code("type", s.be.i32))),
        frames={
            "connect": s.Frame((LENGTH, s.Magic(bytes(4), "version"))),
            "connected": s.Frame((LENGTH, s.Magic(bytes(4), "version"))),
            "reply": s.Frame((LENGTH,)),
        },
        messages=s.messages_in(globals()),
        labels=(ERRORS,),
        ports={"tcp": 2181},
        conduct=Conduct(matching=Matching(in_order=True)),
    )
)
