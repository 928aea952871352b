"""memcached binary protocol."""

from __future__ import annotations

from wirelake import spec as s

STATUS = s.Labels("status", {0: "ok", 1: "not_found", 2: "exists", 0x81: "unknown_command"})


class Packet(s.Message):
    key_length: int = s.field(s.be.u16, "of the key")
    extras_length: int = s.field(s.u8, "of the extras")
    data_type: int = s.field(s.u8, "0", default=0)
    status: int = s.field(s.labelled(s.be.u16, STATUS), "0 in requests", role="status")
    opaque: int = s.field(s.be.u32, "comes back", role="correlation")
    cas: int = s.field(s.be.u64, "version of the item")


class Keyed(Packet):
    extras: bytes = s.field(s.blob("extras_length"), "by operation")
    key: str = s.field(s.text("key_length"), "which item", role="address")
    value: bytes = s.field(s.rest, "its value", role="payload")


class Get(Keyed, code=(0x80, 0), kind="request", answer="get_reply"):
    pass


class GetReply(Keyed, code=(0x81, 0), kind="response", good=(0,)):
    pass


class Set(Keyed, code=(0x80, 1), kind="request", answer="set_reply"):
    pass


class SetReply(Keyed, code=(0x81, 1), kind="response", good=(0,)):
    pass


PROTOCOL = s.declare(
    s.Protocol(
        name="memcached_binary",
        title="memcached binary",
        frame=s.Frame(
            (
                s.Code("magic", s.u8),
                s.Code("opcode", s.u8),
                s.Kept("key_length"),
                s.Kept("extras_length"),
                s.Kept("data_type"),
                s.Kept("status"),
                s.Size("body", s.be.u32, counts="after", plus=12, most=1 << 24),
                s.Kept("opaque"),
                s.Kept("cas"),
            )
        ),
        messages=s.messages_in(globals()),
        labels=(STATUS,),
        ports={"tcp": 11211},
    )
)
