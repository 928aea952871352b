"""Read capture files (pcap, pcapng, tap, raw) in windows; each window gives Chunks.

>>> from wirelake.capture.read import open_capture
>>> from wirelake.capture.tcp import Tracker
>>> tracker = Tracker()
>>> for chunks in open_capture("monday.pcap", tracker):                            # doctest: +SKIP
...     print(len(chunks), [connection.id for connection in chunks.connections])

A Tracker keeps the connections from window to window and from file to file. Reading can stop after any window: what
``reader.mark()`` and ``tracker.snapshot()`` give, pickled or not, is all that is needed to go on there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from ...errors import CaptureError

if TYPE_CHECKING:
    from ..chunks import Chunks, Counts
    from ..tcp import Tracker

__all__ = ["KINDS", "Reader", "kind_of", "open_capture"]

KINDS = ("pcap", "pcapng", "tap", "raw")
RAW_NAMES = (".bin", ".raw")
WINDOW = 16 << 20
_HEAD_BYTES = 8


class Reader(Protocol):
    """Iterating gives the Chunks of one window after the other."""

    kind: str
    size: int
    """Bytes of the file as it is stored."""
    position: int
    """How far it was read, in bytes of the file as it is unpacked."""
    counts: Counts

    def __iter__(self) -> Iterator[Chunks]: ...

    def mark(self) -> Any:
        """Where another Reader goes on, with ``start=``; its position is a place to ``stop`` at."""


def open_capture(
    path: str | os.PathLike[str],
    tracker: Tracker,
    *,
    kind: str | None = None,
    start: Any = None,
    stop: int | None = None,
    window: int = WINDOW,
    growing: bool = False,
) -> Reader:
    """A Reader of a capture. ``kind`` is found out if it is not given; raw streams must be named so, or end in .bin or
    .raw. The file may be compressed by gzip; ``path`` may be a URI that pyarrow knows. Of a file that still grows a
    last packet that is not whole is left for later; otherwise it is taken for what there is of it.
    """
    # What reads needs numpy, what is only written does not.
    from .files import open_binary, size_of

    text = os.fspath(path)
    size = size_of(path)
    source = open_binary(path)
    head = _head(source, text)
    kind = kind or kind_of(text, head)
    how: dict[str, Any] = {"size": size, "start": start, "stop": stop, "window": window}
    try:
        match kind:
            case "pcap" | "pcapng":
                if kind != _kind_by_magic(head):
                    raise _no_capture(text, head, kind)
                from .pcap import PacketReader

                return PacketReader(source, text, kind, tracker, growing=growing, **how)
            case "tap":
                from .tap import TapReader

                return TapReader(source, tracker.taps, path=text, **how)
            case "raw":
                from .raw import RawReader

                return RawReader(source, text, **how)
            case _:
                raise CaptureError(f"there is no kind {kind!r} of captures; there are {', '.join(KINDS)}", path=text)
    except ValueError as error:
        raise CaptureError(str(error), path=text) from error


def kind_of(path: str, head: bytes) -> str:
    """The kind of a capture by its first bytes; else by its name."""
    found = _kind_by_magic(head)
    if found is None and path.removesuffix(".gz").endswith(RAW_NAMES):
        return "raw"
    if found is None:
        raise _no_capture(path, head)
    return found


def _kind_by_magic(head: bytes) -> str | None:
    from ..write.tap import MAGIC
    from .pcap import PCAP, PCAPNG

    if head[:4] in PCAP:
        return "pcap"
    if head[:4] == PCAPNG:
        return "pcapng"
    return "tap" if head[: len(MAGIC)] == MAGIC[:_HEAD_BYTES] else None


def _no_capture(path: str, head: bytes, kind: str | None = None) -> CaptureError:
    wanted = f"no {kind} file" if kind else "no pcap, pcapng or tap file"
    if not head:
        return CaptureError(f"{wanted}: it is empty", path=path)
    return CaptureError(f"{wanted}: it begins with {head.hex(' ')}", path=path)


def _head(source: Any, path: str) -> bytes:
    from .files import unreadable

    try:
        head = bytearray()
        while len(head) < _HEAD_BYTES and (more := source.read(_HEAD_BYTES - len(head))):
            head += more
        source.seek(0)
    except OSError as error:
        raise unreadable(path, error) from error
    return bytes(head)
