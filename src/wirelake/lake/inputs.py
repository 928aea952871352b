"""Captures that went into a lake: which file, a hash of its first bytes, and how far it was read."""

from __future__ import annotations

import hashlib
import os
from typing import Literal

import msgspec
from pyarrow import fs

from ..errors import LakeError
from .store import errors
from .validation import Count, Int64, Text

HEAD_BYTES = 1 << 16

Change = Literal["new", "same", "grown", "changed"]


class Input(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A capture as it was when it was read."""

    path: Text
    size: Count
    """Bytes of the file when it was examined."""
    mtime_us: Int64 | None
    head: Text
    """Hash of its first ``head_bytes`` bytes: identifies the file, whatever it is called and however it grows."""
    head_bytes: Count
    position: Count = 0
    """How far it was read, in bytes of the uncompressed file. The reader's own count, set with ``read_to``."""

    sensor: Text = ""
    """The place where it was captured."""
    first_us: Int64 | None = None
    """The time of its first packet, which decides its place among the captures of its sensor."""

    part: Text = ""
    """Tells captures apart that had the same path one after the other, and parts of one that went to two sensors."""

    @property
    def key(self) -> str:
        """What it is recorded under."""
        return f"{self.path}#{self.part}" if self.part else self.path

    def read_to(self, position: int) -> Input:
        return msgspec.structs.replace(self, position=position)

    @property
    def identity(self) -> str:
        """The same for a capture that was moved or copied."""
        return f"{self.head}:{self.head_bytes}"


def examine(path: str | os.PathLike[str], before: Input | None = None) -> tuple[Input, Change]:
    """Return a capture as it is now, and how it compares with ``before``.

    ``same``: nothing to do. ``grown``: the same file with more bytes, to be read on from ``before.position``.
    ``changed``: another file under that name, or one that became shorter. Takes a local path or a URI.
    """
    text = os.fspath(path)
    with errors(text, "cannot be read"):
        files, place = fs.FileSystem.from_uri(text if "://" in text else os.path.abspath(text))
        info = files.get_file_info(place)
        if info.type == fs.FileType.NotFound:
            raise LakeError(text, "there is no such file")
        if not info.is_file:
            raise LakeError(text, "is not a file")
        with files.open_input_stream(place) as stream:
            start = bytes(stream.read(HEAD_BYTES))
    mtime = None if info.mtime_ns is None else info.mtime_ns // 1000
    now = Input(text, info.size, mtime, _hash(start), len(start))
    change = _change(before, now, start)
    return (now if before is None or change == "changed" else now.read_to(before.position)), change


def _change(before: Input | None, now: Input, start: bytes) -> Change:
    if before is None:
        return "new"
    if now.size < before.size or _hash(start[: before.head_bytes]) != before.head:
        return "changed"
    return "grown" if now.size > before.size else "same"


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
