"""Traffic to files: pcap, tap, raw streams, JSON Lines. Written as it is played, so memory does not grow with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from os import devnull
from pathlib import Path
from random import Random
from typing import Any, BinaryIO, TextIO

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
    """A capture of all connections; gives the number of packets. ``truth`` is filled on the way.

    With ``rotate_bytes`` (the most that a file has) or ``files`` (so many, about equal) it is a set: for ``calls.pcap``
    the files ``calls-0000.pcap``, ``calls-0001.pcap`` and so on.
    """
    _check_streams(traffic)
    if rotate_bytes is None and files is None:
        with _binary(file) as out:
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
        chance = Random(f"{traffic.seed} line")
        line = Line(writer, chance, disorder=dials.disorder, gaps=dials.gaps, truth=truth)
    tcp = TcpWriter(writer, line)
    for item in traffic.timeline(truth):
        _put(tcp, item)
    tcp.finish()
    if line is not None:
        line.finish()
    return writer.packets


def _count_packets(traffic: Traffic) -> int:
    """Found by playing it all once into nothing."""
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
    """A tap file of all connections, or a set in a directory; gives the paths. ``truth`` is filled on the way.

    The set's id comes of the seed, so that the same traffic is the same bytes.
    """
    _check_streams(traffic)
    set_id = blake2b(f"{traffic.seed} {traffic.start_us} tap".encode(), digest_size=16).digest()
    chance, gaps = Random(f"{traffic.seed} line"), traffic.dials.gaps
    numbers: dict[int, int] = {}
    with TapWriter(target, rotate_bytes=rotate_bytes, rotate_us=rotate_us, set_id=set_id) as writer:
        for item in traffic.timeline(truth):
            one = item.connection
            match item:
                case Opened():
                    numbers[one.number] = writer.open(one.client, one.server, item.ts_us, one.protocol.name)
                case Event() if gaps and chance.random() < gaps:
                    _miss(writer, numbers[one.number], item, truth)
                case Event():
                    writer.data(numbers[one.number], DIRECTIONS.index(item.direction), item.ts_us, item.frame)
                case Closed():
                    writer.close(numbers.pop(one.number), item.ts_us, item.how)
        return writer.paths


def _miss(writer: TapWriter, number: int, event: Event, truth: Truth | None) -> None:
    direction = DIRECTIONS.index(event.direction)
    if truth is not None:
        offset = writer.offset(number, direction)
        truth.missing.append(Missing(event.connection.number, event.direction, offset, len(event.frame)))
    writer.skip(number, direction, len(event.frame))


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
