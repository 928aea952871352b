"""Traffic to files: pcap, raw streams, JSON Lines. Written as it is played, so memory does not grow with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from ..capture.pcap import PcapWriter, TcpWriter
from ..codec.content import dump_json
from .simulation import Closed, Connection, Event, Item, Opened
from .traffic import Traffic, is_stream
from .truth import Direction, Truth

_FLUSH_BYTES = 1 << 16


def write_pcap(traffic: Traffic, file: str | Path | BinaryIO, *, truth: Truth | None = None) -> int:
    """A capture of all connections; gives the number of packets. ``truth`` is filled on the way."""
    _check_streams(traffic)
    with _binary(file) as out:
        writer = PcapWriter(out)
        tcp = TcpWriter(writer)
        for item in traffic.timeline(truth):
            _put(tcp, item)
        tcp.finish()
        return writer.packets


def _put(tcp: TcpWriter, item: Item) -> None:
    key = item.connection.number
    match item:
        case Opened():
            tcp.open(key, item.connection.client, item.connection.server, item.ts_us)
        case Event():
            tcp.send(key, item.direction == "to_server", item.frame, item.ts_us)
        case Closed():
            tcp.close(key, item.by == "client", item.how == "reset", item.ts_us)


def write_raw(traffic: Traffic, target: str | Path | BinaryIO, *, truth: Truth | None = None) -> list[Path]:
    """The bytes alone. Into a directory: one file per connection and direction (``0000-casual-to_server.bin``).

    Into a file: one stream of every frame in the order of time, whatever its connection; of one protocol only.
    """
    _check_streams(traffic)
    if not isinstance(target, (str, Path)):
        _write_one(traffic, target, truth)
        return []
    path = Path(target)
    if path.is_dir():
        return _write_many(traffic, path, truth)
    with _binary(path) as out:
        _write_one(traffic, out, truth)
    return [path]


def _write_one(traffic: Traffic, out: BinaryIO, truth: Truth | None) -> None:
    if len(traffic.scenes) > 1:
        raise ValueError("one stream holds one protocol; for several, write into a directory")
    for item in traffic.timeline(truth):
        if isinstance(item, Event):
            out.write(item.frame)


def _write_many(traffic: Traffic, directory: Path, truth: Truth | None) -> list[Path]:
    buffers: dict[Path, bytearray] = {}
    for item in traffic.timeline(truth):
        if not isinstance(item, Event):
            continue
        path = directory / stream_name(item.connection, item.direction)
        buffer = buffers.get(path)
        if buffer is None:
            path.write_bytes(b"")
            buffer = buffers[path] = bytearray()
        buffer += item.frame
        if len(buffer) >= _FLUSH_BYTES:
            _append(path, buffer)
    for path, buffer in buffers.items():
        _append(path, buffer)
    return sorted(buffers)


def stream_name(connection: Connection, direction: Direction) -> str:
    """The file of one direction of a connection."""
    return f"{connection.number:04d}-{connection.protocol.name}-{direction}.bin"


def _append(path: Path, buffer: bytearray) -> None:
    # Opened anew each time: there may be more connections than a process may have files.
    with path.open("ab") as out:
        out.write(buffer)
    buffer.clear()


def write_jsonl(traffic: Traffic, file: str | Path | TextIO, *, truth: Truth | None = None) -> int:
    """One JSON object per message: what ``wirelake decode`` prints, with ``ts`` (us), ``connection``, ``direction``.

    A damaged frame appears as the message that it was, with ``damage`` and, as ``hex``, the bytes that it became.
    """
    lines = 0
    with _text(file) as out:
        for item in traffic.timeline(truth):
            if isinstance(item, Event):
                out.write(dump_json(event_json(item)) + "\n")
                lines += 1
    return lines


def event_json(event: Event) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "ts": event.ts_us,
        "connection": event.connection.name,
        "direction": event.direction,
        **event.message.to_json(),
    }
    if event.damage is not None:
        harm = event.damage
        shown["damage"] = {"kind": harm.kind, "offset": harm.offset, "length": harm.length}
        shown["hex"] = event.frame.hex()
    return shown


def _check_streams(traffic: Traffic) -> None:
    for scene in traffic.scenes:
        if not is_stream(scene.layout):
            raise ValueError(
                f"frames of {scene.layout.protocol.name} without a length cannot be told apart in a stream"
            )


@contextmanager
def _binary(file: str | Path | BinaryIO) -> Iterator[BinaryIO]:
    if isinstance(file, (str, Path)):
        with Path(file).open("wb") as out:
            yield out
    else:
        yield file


@contextmanager
def _text(file: str | Path | TextIO) -> Iterator[TextIO]:
    if isinstance(file, (str, Path)):
        with Path(file).open("w", encoding="utf-8") as out:
            yield out
    else:
        yield file
