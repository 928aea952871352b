"""Captures that went into a lake: which file, what its content begins with, and how far it was read."""

from __future__ import annotations

import hashlib

import msgspec

from .validation import Count, Int64, Text

HEAD_BYTES = 1 << 16
SMALLEST_MARK = 32
"""A pcap file with the head of one packet has 40 bytes."""


class Input(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A capture as it was when it was read. What is said of its content is said of the uncompressed bytes."""

    path: Text
    size: Count
    """Bytes of the file as it is stored, compressed or not; with ``mtime_us`` it tells an unchanged file."""
    mtime_us: Int64 | None
    head: Text
    """Hash of the first ``head_bytes`` bytes of its content: the same whatever it is called, and if it grows."""
    head_bytes: Count
    position: Count = 0
    """How far its content was read. The reader's own count, set with ``read_to``."""
    length: Count = 0
    """How many bytes its content had then: behind the position, an incomplete packet may wait for its rest."""
    behind: Text = ""
    """The first bytes behind the position, in hex, if they are no packet: reading goes on when they have changed."""
    kind: Text = ""
    first_us: Int64 | None = None
    """The time of its first packet: captures are read in this order."""
    is_bare: bool = False
    """It held nothing but its head, which is the same in many files."""
    marks: tuple[Text, ...] = ()
    """Hashes of its first 32, 64, 128 … bytes, while these are fewer than ``head_bytes``: a file that has only a part
    of this content is told by them.
    """
    origin: Text = ""
    """The same in all records of one capture, whatever it was called at the time; empty for a bare one."""

    sensor: Text = ""
    """The place where it was captured."""
    name: Text = ""
    """What it was called when it was first read: with ``first_us``, its place in the order of its sensor."""
    part: Text = ""
    """Where this part of the capture begins, if what is before it went to another sensor."""

    @property
    def key(self) -> str:
        """What it is recorded under."""
        return f"{self.path}#{self.part}" if self.part else self.path

    def read_to(self, position: int, length: int = 0, behind: str = "") -> Input:
        return msgspec.structs.replace(self, position=position, length=max(position, length), behind=behind)


def head_hash(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def marks(content: bytes) -> tuple[str, ...]:
    sizes = (SMALLEST_MARK << n for n in range(16))
    parts = (content[:size] for size in sizes if size < len(content))
    return tuple(hashlib.blake2b(part, digest_size=8).hexdigest() for part in parts)
