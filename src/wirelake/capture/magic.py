"""How capture files begin."""

from __future__ import annotations

from .tap_format import MAGIC

HEAD_BYTES = 8
PCAP = {
    b"\xd4\xc3\xb2\xa1": ("<", False),
    b"\xa1\xb2\xc3\xd4": (">", False),
    b"\x4d\x3c\xb2\xa1": ("<", True),
    b"\xa1\xb2\x3c\x4d": (">", True),
}
"""Byte order, and whether times have nanoseconds."""
PCAPNG = b"\x0a\x0d\x0d\x0a"


def magic_kind(head: bytes) -> str | None:
    """Return the kind of capture that begins with these bytes, if any does."""
    if head[:4] in PCAP:
        return "pcap"
    if head[:4] == PCAPNG:
        return "pcapng"
    return "tap" if head[: len(MAGIC)] == MAGIC[:HEAD_BYTES] else None
