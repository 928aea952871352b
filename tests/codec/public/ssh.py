"""SSH 2.0 (RFC 4253): a line for each side, packets in the clear up to NEWKEYS, then encrypted bytes."""

from __future__ import annotations

from wirelake import spec as s

NAMES = s.text(s.be.u32)


class Banner(s.Message, code=1000, kind="control", frame="banner", then="usual"):
    version: str = s.field(s.text(b"-"), "2.0")
    software: str = s.field(s.rest_text, "and a comment")


class Packet(s.Message):
    length: int = s.field(s.be.u32, "bytes that follow it", column="packet_length")
    padding_size: int = s.field(s.within(s.u8, 4, 255, "padding"), "bytes of padding")


class KexInit(Packet, code=20, kind="control"):
    cookie: bytes = s.field(s.fixed(16), "random")
    kex: str = s.field(NAMES, "key exchange")
    host_keys: str = s.field(NAMES, "of the server")
    ciphers_up: str = s.field(NAMES)
    ciphers_down: str = s.field(NAMES)
    macs_up: str = s.field(NAMES)
    macs_down: str = s.field(NAMES)
    compression_up: str = s.field(NAMES)
    compression_down: str = s.field(NAMES)
    languages_up: str = s.field(NAMES)
    languages_down: str = s.field(NAMES)
    follows: bool = s.field(s.bool8, "whether a guess follows")
    reserved: int = s.field(s.be.u32, "0")
    padding: bytes = s.field(s.blob("padding_size"), "random")


class NewKeys(Packet, code=21, kind="control", then="encrypted"):
    padding: bytes = s.field(s.blob("padding_size"), "random")


class Disconnect(Packet, code=1, kind="control"):
    reason: int = s.field(s.be.u32, "number", role="status")
    text: str = s.field(NAMES, "in words")
    language: str = s.field(NAMES, "of the text")
    padding: bytes = s.field(s.blob("padding_size"), "random")


class Other(Packet, code=s.OTHER, kind="event"):
    type: int = s.field(s.u8, "which message")
    data: bytes = s.field(s.blob(s.By("length", plus=-2, less="padding_size")), "what it says")
    padding: bytes = s.field(s.blob("padding_size"), "random")


class Encrypted(s.Message, code=1001, kind="event", frame="encrypted"):
    data: bytes = s.field(s.rest, "packets nobody can read")


PROTOCOL = s.declare(
    s.Protocol(
        "ssh",
        "SSH",
        s.Frame(
            (
                s.Kept("length"),
                s.Kept("padding_size"),
                s.Code("type", s.u8),
                s.Size("behind", s.By("length", plus=-2), counts="after", most=35000),
            )
        ),
        s.messages_in(globals()),
        ports={"tcp": 22},
        frames={
            "banner": s.Frame((s.Magic(b"SSH-"), s.Until(b"\r\n", 255))),
            "encrypted": s.Frame((s.Opaque(16384),)),
        },
    )
)
