"""A declaration with every way to describe bytes that the tutorial's first examples do without.

A gauge sends readings; each has flags in single bits, texts that end where they say, and a sum over all of it.
"""

from __future__ import annotations

from wirelake import spec as s
from wirelake.spec import When

# --- the declaration
LEVEL = s.Labels("level", {0: "calm", 1: "raised", 2: "alarm"})


class Reading(s.Message, code=1):
    """What a gauge sees."""

    is_final: int = s.field(s.bits(s.u8, 7, 1), "no more come")
    level: int = s.field(s.bits(s.labelled(s.u8, LEVEL), 5, 2), "how bad it is")
    channel: int = s.field(s.bits(s.u8, 0, 5), "which input")
    gauge: str = s.field(s.text(b"\0"), "its name, ended by a zero byte", role="address")
    value: int = s.field(s.digits(b";", -9999, 9999), "the number as text, ended by a semicolon")
    reason: str | None = s.optional(s.text(s.varint(2)), "why it is an alarm", when=When("level", one_of=(2,)))
    history: tuple[int, ...] = s.field(s.sized(s.u8, s.many(s.be.u16, None)), "by its length in bytes", default=())
    names: tuple[str, ...] = s.field(s.many(s.text(b"\n"), b"."), "lines, up to a dot", default=())
    more: bytes = s.field(s.rest, "whatever else there is, up to the sum", default=b"")
    crc = s.checksum(s.be.u32, "crc32")


PROTOCOL = s.declare(
    s.Protocol(
        name="packed",
        title="Packed readings",
        frame=s.Frame(
            (
                s.Magic(b"PK"),
                s.Code("kind", s.u8),
                s.Size("length", s.varint(3), counts="after", plus=1),
                s.Trailer(b"\xce"),
            )
        ),
        messages=(Reading,),
        labels=(LEVEL,),
    )
)
