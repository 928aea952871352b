"""Traffic to files: pcap, tap, raw streams, JSON Lines. Written as it is played, so memory does not grow with it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from hashlib import blake2b
from os import devnull
from pathlib import Path
from random import Random
from typing import IO, Any, AnyStr, BinaryIO, TextIO

from ..capture.write.pcap import PcapWriter, RotatingPcapWriter
from ..capture.write.tap import TapWriter
from ..capture.write.tcp import TcpWriter
from ..codec.content import dump_json
from .line import Line
from .simulation import Closed, Connection, Event, Item, Opened
from .traffic import Traffic, is_stream
from .truth import Direction, Missing, Truth

_FLUSH_BYTES = 1 << 16
DIRECTIONS: tuple[Direction, ...] = ("to_server", "to_client")


def write_pcap(
    traffic: Traffic,
    file: str | Path | BinaryIO,
    *,
    truth: Truth | None = None,
    rotate_bytes: int | None = None,
    files: int | None = None,
) -> int:
    """Write a capture of all connections and fill ``truth``; return the number of packets.

    ``rotate_bytes`` (the largest size of a file) or ``files`` (how many, about equal in size) makes it a set:
    ``calls.pcap`` becomes ``calls-0000.pcap``, ``calls-0001.pcap`` and so on.
    """
    _check_streams(traffic)
    if rotate_bytes is None and files is None:
        with _opened(file, "wb") as out:
            return _play_packets(traffic, PcapWriter(out), truth)
    if not isinstance(file, (str, Path)):
        raise ValueError("a set of captures needs a name")
    share = None if files is None else -(-_count_packets(traffic) // files)
    with RotatingPcapWriter(Path(file), file_bytes=rotate_bytes, file_packets=share) as writer:
        return _play_packets(traffic, writer, truth)


def _play_packets(traffic: Traffic, writer: PcapWriter, truth: Truth | None) -> int:
    dials = traffic.dials
    line = None
    if dials.disorder or dials.gaps:
        line = Line(writer, Random(f"{traffic.seed} line"), dials.disorder, dials.gaps, truth)
    tcp = TcpWriter(writer, line)
    for item in traffic.timeline(truth):
        _put(tcp, item)
    tcp.finish()
    if line is not None:
        line.finish()
    return writer.packets


def _count_packets(traffic: Traffic) -> int:
    """Count the packets by playing it all once into nothing."""
    with open(devnull, "wb") as nowhere:
        return _play_packets(traffic, PcapWriter(nowhere), None)


def _put(tcp: TcpWriter, item: Item) -> None:
    key = item.connection.number
    match item:
        case Opened():
            tcp.open(key, item.connection.client, item.connection.server, item.ts_us)
        case Event():
            tcp.send(key, item.direction == "to_server", item.frame, item.ts_us)
        case Closed():
            tcp.close(key, item.by == "client", item.how == "reset", item.ts_us)


def write_tap(
    traffic: Traffic,
    target: str | Path,
    *,
    truth: Truth | None = None,
    rotate_bytes: int | None = None,
    rotate_us: int | None = None,
) -> list[Path]:
    """Write a tap file of all connections, or a set in a directory, and fill ``truth``; return the paths.

    The seed makes the id of the set, so that the same traffic is the same bytes.
    """
    _check_streams(traffic)
    set_id = blake2b(f"{traffic.seed} {traffic.start_us} tap".encode(), digest_size=16).digest()
    chance, gaps = Random(f"{traffic.seed} line"), traffic.dials.gaps
    numbers: dict[int, int] = {}
    with TapWriter(target, rotate_bytes=rotate_bytes, rotate_us=rotate_us, set_id=set_id) as writer:
        for item in traffic.timeline(truth):
            peers = item.connection
            match item:
                case Opened():
                    numbers[peers.number] = writer.open(peers.client, peers.server, item.ts_us, peers.protocol.name)
                case Event() if gaps and chance.random() < gaps:
                    _miss(writer, numbers[peers.number], item, truth)
                case Event():
                    writer.data(numbers[peers.number], DIRECTIONS.index(item.direction), item.ts_us, item.frame)
                case Closed():
                    writer.close(numbers.pop(peers.number), item.ts_us, item.how)
        return writer.paths


def _miss(writer: TapWriter, number: int, event: Event, truth: Truth | None) -> None:
    direction = DIRECTIONS.index(event.direction)
    if truth is not None:
        offset = writer.offset(number, direction)
        truth.missing.append(Missing(event.connection.number, event.direction, offset, len(event.frame)))
    writer.skip(number, direction, len(event.frame))


def write_raw(traffic: Traffic, target: str | Path | BinaryIO, *, truth: Truth | None = None) -> list[Path]:
    """Write the bytes alone. Into a directory: one file per connection and direction (``0000-casual-to_server.bin``).

    Into a file: one stream of every frame in the order of time, whatever its connection; of one protocol only.
    """
    _check_streams(traffic)
    if isinstance(target, (str, Path)) and Path(target).is_dir():
        return _write_streams(traffic, Path(target), truth)
    if len(traffic.scenes) > 1:
        raise ValueError("one stream holds one protocol; for several, write into a directory")
    with _opened(target, "wb") as out:
        for item in traffic.timeline(truth):
            if isinstance(item, Event):
                out.write(item.frame)
    return [Path(target)] if isinstance(target, (str, Path)) else []


def _write_streams(traffic: Traffic, directory: Path, truth: Truth | None) -> list[Path]:
    buffers: dict[Path, bytearray] = {}
    for item in traffic.timeline(truth):
        if not isinstance(item, Event):
            continue
        path = directory / stream_name(item.connection, item.direction)
        if path not in buffers:
            path.write_bytes(b"")
        buffer = buffers.setdefault(path, bytearray())
        buffer += item.frame
        if len(buffer) >= _FLUSH_BYTES:
            _append(path, buffer)
    for path, buffer in buffers.items():
        _append(path, buffer)
    return sorted(buffers)


def stream_name(connection: Connection, direction: Direction) -> str:
    """Return the name of the file of one direction of a connection."""
    return f"{connection.number:04d}-{connection.protocol.name}-{direction}.bin"


def _append(path: Path, buffer: bytearray) -> None:
    # Opened anew each time: there may be more connections than a process may have files.
    with path.open("ab") as out:
        out.write(buffer)
    buffer.clear()


def write_jsonl(traffic: Traffic, file: str | Path | TextIO, *, truth: Truth | None = None) -> int:
    """Write what ``wirelake decode`` prints for each message, with ``ts`` (us), ``connection`` and ``direction``.

    A corrupted frame appears as the message that it was, with ``damage`` and, as ``hex``, the bytes that it became.
    """
    lines = 0
    with _opened(file, "w") as out:
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
    if (change := event.corruption) is not None:
        shown["damage"] = {"kind": change.kind, "offset": change.offset, "length": change.length}
        shown["hex"] = event.frame.hex()
    return shown


def _check_streams(traffic: Traffic) -> None:
    for scene in traffic.scenes:
        if not is_stream(scene.layout):
            raise ValueError(
                f"frames of {scene.layout.protocol.name} without a length cannot be told apart in a stream"
            )


def _opened(file: str | Path | IO[AnyStr], mode: str) -> AbstractContextManager[Any]:
    """Open a file that is named; leave one that is open already to the caller."""
    if not isinstance(file, (str, Path)):
        return nullcontext(file)
    return Path(file).open(mode, encoding=None if "b" in mode else "utf-8")
