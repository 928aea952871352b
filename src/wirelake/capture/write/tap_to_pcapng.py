"""Export tap files as packets: every connection of a tap becomes a TCP connection of a pcapng file.

Handshakes, sequence numbers, acknowledgements and ends are made up, as a tap does not record them; the bytes of the
streams, their times and the addresses are those of the tap. Bytes that were not recorded are missing segments.
"""

from __future__ import annotations

import heapq
import ipaddress
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from ... import __version__
from ...errors import CaptureError
from ..chunks import TO_SERVER, Chunks, Connection
from ..read import unpack
from ..read.files import CaptureFile, open_binary
from ..read.tap import TapConnections, TapReader
from ..tap_format import FILE_HEAD, FILE_HEAD_BYTES, MAGIC
from .pcap import PcapngWriter
from .tap import private
from .tcp import Address, TcpWriter

WINDOW = 4 << 20
CLOCK_US = 1_000_000
"""Times that go back by less are made equal; a clock that was set back further is followed."""
SUFFIXES = (".tap", *(f".tap{packed}" for packed in unpack.SUFFIXES))
UNKNOWN = ("192.0.2.1", "192.0.2.2")
"""Client and server whose addresses are not known: addresses that are nobody's (RFC 5737)."""

_Event = tuple[int, Callable[[int], None]]
"""A time, and what to write then; the function gets the time that the packets show."""


@dataclass
class Exported:
    """What an export wrote, and notes about what it read."""

    files: int = 0
    connections: int = 0
    packets: int = 0
    bytes: int = 0
    """Of streams."""
    missing_bytes: int = 0
    undecodable: list[str] = field(default_factory=list)
    """Notes about ranges that are no records."""
    notes: list[str] = field(default_factory=list)


def export_pcapng(inputs: Sequence[str | Path], out: BinaryIO | Path) -> Exported:
    """Write taps (files, or directories of them) as one pcapng file, in the order of time.

    A file is not touched before the taps have been found.
    """
    summary = Exported()
    sets = _sets(inputs, summary)
    if not isinstance(out, Path):
        _write(sets, out, summary)
    else:
        with open(out, "wb", buffering=1 << 20, opener=private) as file:
            _write(sets, file, summary)
    return summary


def _write(sets: list[list[_File]], out: BinaryIO, summary: Exported) -> None:
    writer = PcapngWriter(out, application=f"wirelake {__version__}")
    packets = _Packets(TcpWriter(writer, step_us=0), summary)
    for ts_us, write in heapq.merge(*(packets.events(files) for files in sets), key=itemgetter(0)):
        write(packets.time(ts_us))
    packets.tcp.finish()
    summary.packets = writer.packets


# --- files


class _File(NamedTuple):
    number: int
    path: str
    first_us: int


def _sets(inputs: Iterable[str | Path], summary: Exported) -> list[list[_File]]:
    """Return the files, those of one set together and in their order."""
    sets: dict[bytes, list[_File]] = defaultdict(list)
    for path in dict.fromkeys(path for given in inputs for path in _paths(str(given))):
        with open_binary(path) as file:
            head = CaptureFile(file, path).head(FILE_HEAD_BYTES)
        if head[: len(MAGIC)] != MAGIC[: len(head)]:
            raise CaptureError("not a tap file", path=path)
        if len(head) < FILE_HEAD_BYTES:
            summary.notes.append(f"{path}: nothing was written to it yet")
            continue
        *_, number, set_id, first_us = FILE_HEAD.unpack(head[: FILE_HEAD.size])
        sets[set_id].append(_File(number, path, first_us))
    summary.files = sum(map(len, sets.values()))
    return [sorted(files) for files in sets.values()]


def _paths(given: str) -> list[str]:
    path = Path(given)
    if not path.is_dir():
        return [given]
    paths = sorted(str(file) for file in path.iterdir() if file.name.endswith(SUFFIXES))
    if not paths:
        raise CaptureError(f"the directory has no files {', '.join('*' + suffix for suffix in SUFFIXES)}", path=given)
    return paths


# --- what happened, in the order of time


class _Packets:
    """Taps to packets."""

    def __init__(self, tcp: TcpWriter, summary: Exported) -> None:
        self.tcp = tcp
        self._summary = summary
        self._keys: dict[str, int] = {}
        self._now_us = 0

    def time(self, ts_us: int) -> int:
        """Return the time that packets show for what happened then."""
        if ts_us < self._now_us - CLOCK_US:
            self.tcp.finish()
            self._now_us = ts_us
        self._now_us = max(self._now_us, ts_us)
        return self._now_us

    def events(self, files: list[_File]) -> Iterator[_Event]:
        """Yield what the files of one set hold."""
        connections, summary = TapConnections(), self._summary
        last: dict[str, int] = {}
        for file in files:
            with open_binary(file.path) as source:
                reader = TapReader(CaptureFile(source, file.path, window=WINDOW), connections)
                for chunks in reader:
                    yield from sorted(self._window(chunks, last, files[0].first_us), key=itemgetter(0))
            summary.missing_bytes += reader.counts.missing_bytes
            summary.undecodable += [f"{file.path}: {note}" for note in reader.counts.notes]
            if reader.counts.broken:
                summary.notes.append(f"{file.path}: {reader.counts.broken}")

    def _window(self, chunks: Chunks, last: dict[str, int], first_us: int) -> Iterator[_Event]:
        """Yield what a window holds, of each connection in the order of its streams; ``last`` has the last time of each
        connection that is open.
        """
        connections = chunks.connections
        for known in connections:
            if known.id not in last:
                last[known.id] = max(known.first_us or 0, first_us)
                yield last[known.id], partial(self._open, known)
        for which, direction, _, length, ts, start, _ in np.stack(chunks.columns(), axis=1).tolist():
            known = connections[which]
            at = last[known.id] = max(ts, last[known.id])
            data = b"" if start < 0 else chunks.data[start : start + length].tobytes()
            yield at, partial(self._send, known, direction == TO_SERVER, length, data)
        for known in connections:
            if known.ended:
                yield max(known.ended_us or 0, last.pop(known.id)), partial(self._close, known)

    def _open(self, connection: Connection, now: int) -> None:
        key = self._keys[connection.id] = self._summary.connections
        self._summary.connections += 1
        self.tcp.open(key, *_addresses(connection), now, connection.is_whole)

    def _send(self, connection: Connection, from_client: bool, length: int, data: bytes, now: int) -> None:
        key = self._keys[connection.id]
        if data:
            self._summary.bytes += length
            self.tcp.send(key, from_client, data, now)
        else:
            self.tcp.skip(key, from_client, length, now)

    def _close(self, connection: Connection, now: int) -> None:
        self.tcp.close(self._keys.pop(connection.id), True, connection.ended == "reset", now)


def _addresses(connection: Connection) -> tuple[Address, Address]:
    """Return addresses that packets can have: both of the same kind."""
    client, server = _address(connection.client, UNKNOWN[0]), _address(connection.server, UNKNOWN[1])
    if client.version != server.version:
        client, server = _wide(client), _wide(server)
    return (str(client), connection.client_port), (str(server), connection.server_port)


_Ip = ipaddress.IPv4Address | ipaddress.IPv6Address


def _address(text: str, otherwise: str) -> _Ip:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return ipaddress.ip_address(otherwise)
    return (address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None) or address


def _wide(address: _Ip) -> _Ip:
    return ipaddress.IPv6Address(f"::ffff:{address}") if address.version == 4 else address
