"""Read capture files (pcap, pcapng, tap, raw) in windows; each window gives Chunks.

>>> from wirelake.capture.read import open_capture
>>> from wirelake.capture.tcp import Tracker
>>> tracker = Tracker()
>>> for chunks in open_capture("monday.pcap", tracker):                            # doctest: +SKIP
...     print(len(chunks), [connection.id for connection in chunks.connections])

A Tracker keeps the connections from window to window and from file to file. Reading can stop after any window: all
that is needed to go on there is what ``reader.resume_point()`` and ``tracker.state()`` return.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ...errors import CaptureError
from ..magic import HEAD_BYTES, magic_kind
from .files import WINDOW_BYTES, CaptureFile, open_binary
from .unpack import without_suffix

if TYPE_CHECKING:
    from ..chunks import Chunks, Counts
    from ..tcp import Tracker

KINDS = ("pcap", "pcapng", "tap", "raw")
RAW_NAMES = (".bin", ".raw")
LARGEST_BLOCK = 1 << 26
"""Of pcapng."""

Interface = tuple[int, int, int, int]
"""Link type, snap length, unit of time (as the kernel wants it), seconds to add."""


@dataclass(frozen=True, slots=True)
class PacketFormat:
    """What earlier bytes of a pcap or pcapng file say about later packets."""

    is_big: bool = False
    is_nano: bool = False
    largest: int = LARGEST_BLOCK
    interfaces: tuple[Interface, ...] = ()
    last_us: int = -1
    """For packets that have no time of their own."""


@dataclass(frozen=True, slots=True)
class TapHead:
    """The head of a tap file."""

    set_id: bytes
    number: int
    seed: int
    """The CRC-32 with which those of all records begin."""


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """A place in a capture file between two packets or records. Raw files need no more than the position.

    ``is_torn``: the packet here is incomplete, and was taken for what there was of it. ``behind``: the bytes here are
    no packet, and reading ended with them; these are the first of them, in hex.
    """

    position: int
    packets: PacketFormat | None = None
    tap: TapHead | None = None
    seen: int = 0
    """How many bytes of the file there were: behind the position, an incomplete packet may wait for its rest."""
    is_torn: bool = False
    behind: str = ""


class Reader(Protocol):
    """Iterating gives the Chunks of each window."""

    kind: str
    position: int
    """How far it was read, in bytes of the unpacked file."""
    counts: Counts
    source: CaptureFile

    def __iter__(self) -> Iterator[Chunks]: ...

    def resume_point(self) -> ResumePoint:
        """Return where another Reader goes on, with ``start=``; its position is a place to ``stop`` at."""


def open_capture(
    path: str | os.PathLike[str],
    tracker: Tracker,
    *,
    kind: str | None = None,
    start: ResumePoint | None = None,
    stop: int | None = None,
    window: int = WINDOW_BYTES,
    growing: bool = False,
) -> Reader:
    """Return a Reader of a capture. Its first bytes say of which ``kind`` it is; raw files must be named so, or end in
    .bin or .raw. The file may be compressed by gzip, zstd or xz; ``path`` may be a URI that pyarrow knows. In a
    ``growing`` file, an incomplete last packet is left for later; otherwise it is taken for what there is of it, up to
    ``stop``. A reader that goes on after all begins with that packet.
    """
    source = CaptureFile(open_binary(path), os.fspath(path), stop=stop, window=window)
    kind = kind_at(source, kind)
    try:
        match kind:
            case "pcap" | "pcapng":
                from .pcap import PacketReader

                return PacketReader(source, kind, tracker, start, growing)
            case "tap":
                from .tap import TapReader

                return TapReader(source, tracker.taps, start)
            case "raw":
                from .raw import RawReader

                return RawReader(source, start)
            case _:
                raise AssertionError(kind)
    except ValueError as error:
        raise CaptureError(str(error), path=source.path) from error


def kind_of(path: str) -> str:
    """Return the kind of a capture by its first bytes, else by its name; raise CaptureError if it is none."""
    with open_binary(path) as file:
        return kind_at(CaptureFile(file, path))


def kind_at(source: CaptureFile, kind: str | None = None) -> str:
    """Return the kind of a capture that was just opened, and check the one that is given."""
    if kind is not None and kind not in KINDS:
        raise CaptureError(f"{kind!r} is not a kind of captures; choose {', '.join(KINDS)}", path=source.path)
    head = source.head(HEAD_BYTES)
    found = magic_kind(head)
    if found is None and without_suffix(source.path).endswith(RAW_NAMES):
        found = "raw"
    if (kind in ("pcap", "pcapng") and kind != found) or (kind is None and found is None):
        raise _not_a_capture(source, head, kind)
    source.seek(0)
    return kind or found or ""


def _not_a_capture(source: CaptureFile, head: bytes, kind: str | None) -> CaptureError:
    wanted = f"not a {kind} file" if kind else "not a pcap, pcapng or tap file"
    reason = f"it begins with {head.hex(' ')}" if head else source.broken or "it is empty"
    return CaptureError(f"{wanted}: {reason}", path=source.path)
