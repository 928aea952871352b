"""Network Block Device: the fixed newstyle handshake, requests, and structured replies."""

from __future__ import annotations

from wirelake import spec as s
from wirelake.spec import When

ERRORS = s.Labels("error", {0: "ok", 1: "not_permitted", 5: "io", 12: "no_memory", 22: "invalid", 28: "no_space"})
HANDLE = s.field(s.be.u64, "ties the reply to the request", role="correlation")


class Greeting(s.Message, code=1, frame="greeting", kind="control", sent_by="server"):
    flags: int = s.field(s.be.u16, "1 fixed newstyle, 2 no zeroes")


class ClientFlags(s.Message, code=2, frame="client_flags", kind="control", sent_by="client"):
    flags: int = s.field(s.u8, "1 fixed newstyle, 2 no zeroes", column="client_flags")


class Option(s.Message, code=3, frame="option", kind="control", sent_by="client"):
    option: int = s.field(s.be.u32, "3 list, 6 info, 7 go, 8 structured replies")
    data: bytes = s.field(s.blob(s.be.u32, most=1 << 16), "of the option")


class OptionReply(s.Message, code=4, frame="option_reply", kind="control", sent_by="server"):
    option: int = s.field(s.be.u32, "which option")
    type: int = s.field(s.be.u32, "1 ack, 2 server, 3 info, from 2**31 on an error")
    data: bytes = s.field(s.blob(s.be.u32, most=1 << 16), "of the reply")


class Request(s.Message, code=5, kind="request", answer=("simple_reply", "chunk"), sent_by="client"):
    flags: int = s.field(s.be.u16, "1 to the disk")
    command: int = s.field(s.be.u16, "0 read, 1 write, 2 disconnect, 3 flush, 4 trim")
    handle: int = HANDLE
    offset: int = s.field(s.be.u64, "first byte", column="first")
    size: int = s.field(s.be.u32, "how many bytes")
    data: bytes | None = s.optional(s.blob("size"), "what is written", when=When("command", one_of=(1,)))


class SimpleReply(s.Message, code=6, frame="simple_reply", kind="response", good=(0,), sent_by="server"):
    """Reads are replied to in chunks, since only the request knows how many bytes would follow here."""

    error: int = s.field(s.labelled(s.be.u32, ERRORS), "how it went", role="status")
    handle: int = HANDLE


class Chunk(s.Message, code=7, frame="chunk", kind="response", sent_by="server"):
    flags: int = s.field(s.be.u16, "1 the last one")
    chunk: int = s.field(s.be.u16, "0 none, 1 data, 2 hole, from 2**15 on an error")
    handle: int = HANDLE
    data: bytes = s.field(s.blob(s.be.u32, most=1 << 26), "of the chunk")


END = s.Ends(1 << 26)
PROTOCOL = s.declare(
    s.Protocol(
        name="nbd",
        title="NBD",
        frame=s.Frame((s.Magic(b"\x25\x60\x95\x13"), END)),
        frames={
            "greeting": s.Frame((s.Magic(b"NBDMAGICIHAVEOPT"), END)),
            "option": s.Frame((s.Magic(b"IHAVEOPT"), END)),
            "option_reply": s.Frame((s.Magic(bytes.fromhex("0003e889045565a9")), END)),
            "simple_reply": s.Frame((s.Magic(b"\x67\x44\x66\x98"), END)),
            "chunk": s.Frame((s.Magic(b"\x66\x8e\x33\xef"), END)),
            "client_flags": s.Frame((s.Magic(bytes(3)), END)),
        },
        messages=s.messages_in(globals()),
        labels=(ERRORS,),
        ports={"tcp": 10809},
    )
)
