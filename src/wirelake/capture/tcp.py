"""TCP connections, over windows and over files: segments in the order of their capture -> Chunks.

What is decided, and when (the kernel in ``kernels/tcp.py`` does it):

* A hole is kept open until its bytes come; it is given up, and told as a gap, when the connection ends, when more than
  4 MiB or 4096 segments are held behind it, when the peer has acknowledged it and two seconds of capture time have
  passed since the first segment behind it, or when nothing more comes at all. What a packet had on the wire but not in
  the capture (snap length) is a gap at once, if it is its turn.
* Of bytes that were captured twice the first ones count.
* A connection that began before the capture begins with its first segment that carries something. Bytes from before
  that place, which come a little later, are not taken; they are counted as early.
* A SYN with another number begins another connection, a repeated or late one does not. An end is remembered for two
  minutes; what comes until then without a SYN belongs to the old connection and is counted as repeated.
* The time of a chunk is that of the packet that made it readable.
"""

from __future__ import annotations

import socket
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .chunks import Chunks, Connection, connection_id

if TYPE_CHECKING:
    from .read.tap import TapConnections, TapSnapshot

Integers = NDArray[np.int64]

_FLOWS = 1 << 10
_NODES = 1 << 10
_TIDY_FROM = 1 << 13
ENDED = ("", "", "closed", "reset")


@lru_cache(maxsize=1)
def kernels() -> Any:
    """The kernels; numba takes a second to load."""
    try:
        from ..kernels import packets, tcp
    except ImportError as error:
        raise ImportError(f"reading captures needs numba ({error}); pip install 'wirelake[columnar]'") from error
    return _Kernels(packets, tcp)


class _Kernels(NamedTuple):
    packets: Any
    tcp: Any


class _Name(NamedTuple):
    """What stays the same of a connection."""

    id: str
    client: str
    server: str
    client_port: int
    server_port: int
    first_us: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """All that a Tracker knows at some place of a capture, the bytes of held segments included."""

    ports: frozenset[int]
    keys: NDArray[np.uint64]
    flows: Integers
    ways: Integers
    nodes: Integers
    holding: Integers
    now: Integers
    names: list[_Name | None]
    held: NDArray[np.uint8]
    taps: TapSnapshot | None = None

    def only(self, ids: Collection[str]) -> Snapshot:
        """The same of these connections alone."""
        wanted = ids if isinstance(ids, (set, frozenset, dict)) else set(ids)
        numbers = [number for number, name in enumerate(self.names) if name is not None and name.id in wanted]
        taps = self.taps.only(set(wanted)) if self.taps is not None else None
        return replace(_selected(self, np.array(numbers, np.int64)), taps=taps)


class Tracker:
    """The connections of one or more captures that are read one after the other.

    ``ports`` are those of servers: they tell who called whom where the beginning of a connection was not captured.
    """

    def __init__(self, snapshot: Snapshot | None = None, *, ports: Collection[int] | None = None) -> None:
        if snapshot is None:
            snapshot = _nothing()
        self.ports = frozenset(ports) if ports is not None else snapshot.ports
        self._is_server = np.zeros(1 << 16, np.uint8)
        self._is_server[[port for port in self.ports if 0 <= port < 1 << 16]] = 1
        self._taps: TapConnections | None = None
        self._tap_snapshot = snapshot.taps
        self._go_on(snapshot)

    def _go_on(self, snapshot: Snapshot) -> None:
        self.count = len(snapshot.names)
        self.keys, self._flows, self._ways = snapshot.keys.copy(), snapshot.flows.copy(), snapshot.ways.copy()
        self._now, self._holding = snapshot.now.copy(), np.append(snapshot.holding, np.zeros(64, np.int64))
        self._names = list(snapshot.names)
        self.held = snapshot.held
        """The bytes of held segments: they belong to the front of the next window."""
        self._nodes = snapshot.nodes.copy()
        self._now[kernels().tcp.FREE] = len(self._nodes)
        self._add_nodes(_NODES)
        self.table = np.empty(0, np.int32)
        self.grow()
        self._tidy_at = max(_TIDY_FROM, 2 * self.count)

    @property
    def taps(self) -> TapConnections:
        """The same for tap files, which are no packets."""
        if self._taps is None:
            from .read.tap import TapConnections

            self._taps = TapConnections(self._tap_snapshot)
        return self._taps

    # --- for readers

    def grow(self) -> None:
        """Makes room for more flows."""
        kernel = kernels()
        room = max(_FLOWS, 2 * self.count)
        self.keys = _longer(self.keys, room * kernel.packets.KEY)
        self._flows = _longer(self._flows, room * kernel.tcp.FLOW)
        self._ways = _longer(self._ways, room * 2 * kernel.tcp.WAY)
        slots = 1 << (2 * room - 1).bit_length()
        self.table = np.full(slots, -1, np.int32)
        kernel.packets.fill_table(self.keys, self.count, self.table)

    def tidy(self) -> None:
        """Drops what is forgotten, now and then: between windows, and without any effect on what comes."""
        if self.count < self._tidy_at:
            return
        tcp = kernels().tcp
        flows = self._flows[: self.count * tcp.FLOW].reshape(-1, tcp.FLOW)
        phase = flows[:, tcp.PHASE]
        is_old = self._now[tcp.CLOCK] - flows[:, tcp.QUIET_SINCE] > tcp.MEMORY_US
        is_dropped = (phase == tcp.NONE) | (is_old & ((phase != tcp.OPEN) | (flows[:, tcp.BEYOND_SYN] == 0)))
        if 4 * int(is_dropped.sum()) > self.count:
            # As if one run had ended and another had gone on.
            self._go_on(_selected(self._state(), np.flatnonzero(~is_dropped)))
        self._tidy_at = max(_TIDY_FROM, 2 * self.count)

    def begin_file(self) -> None:
        """Another file begins: bytes that are still held have no position in it."""
        kernels().tcp.forget_positions(self._ways, self._nodes, self._holding, self._now)

    def feed(self, data: NDArray[np.uint8], segments: Integers, count: int, shift: int) -> tuple[Chunks, Found]:
        """Takes the segments of a window. ``data`` is what they lie in, with the held bytes in front; ``shift`` leads
        from a place in it to a position in the file.
        """
        tcp = kernels().tcp
        chunks, seen = self._begin_window(count, shift)
        done = 0
        while True:
            done = tcp.track(
                segments, done, count, self.keys, self._is_server, self._flows, self._ways, self._nodes, self._holding,
                chunks, seen, self._now,
            )  # fmt: skip
            if done == count:
                break
            chunks, seen = self._make_room(chunks, seen)
        return self._end_window(data, chunks, seen)

    # --- for everybody

    def finish(self) -> Chunks:
        """Nothing more comes: what is held is released, holes become gaps."""
        tcp = kernels().tcp
        chunks, seen = self._begin_window(0, 0)
        chunks, seen = self._make_room(chunks, seen)
        tcp.give_up_all(self._flows, self._ways, self._nodes, self._holding, chunks, seen, self._now)
        return self._end_window(self.held, chunks, seen)[0]

    def snapshot(self) -> Snapshot:
        """What is known now; later packets do not change it."""
        tcp = kernels().tcp
        flows = self._flows[: self.count * tcp.FLOW].reshape(-1, tcp.FLOW)
        return _selected(self._state(), np.flatnonzero(flows[:, tcp.PHASE] != tcp.NONE))

    # --- inside

    def _state(self) -> Snapshot:
        """As it is, not copied."""
        taps = self._taps.snapshot() if self._taps is not None else self._tap_snapshot
        return Snapshot(
            self.ports, self.keys, self._flows, self._ways, self._nodes, self._holding, self._now, self._names,
            self.held, taps,
        )  # fmt: skip

    def _begin_window(self, count: int, shift: int) -> tuple[Integers, Integers]:
        tcp = kernels().tcp
        now = self._now
        now[tcp.WINDOW] += 1
        now[[tcp.CHUNKS, tcp.SEENS, tcp.REPEATED, tcp.MISSING, tcp.EARLY]] = 0
        now[tcp.SHIFT] = shift
        self._names.extend([None] * (self.count - len(self._names)))
        room = count + 4 * int(now[tcp.USED]) + 64
        return np.empty(room * tcp.CHUNK, np.int64), np.empty((1024 + int(now[tcp.HOLDING])) * tcp.SEEN, np.int64)

    def _make_room(self, chunks: Integers, seen: Integers) -> tuple[Integers, Integers]:
        """More of everything that may have become short."""
        tcp = kernels().tcp
        used, holding = int(self._now[tcp.USED]), int(self._now[tcp.HOLDING])
        if len(self._nodes) // tcp.NODE - used < tcp.MOST_HELD + 16:
            self._add_nodes(len(self._nodes) // tcp.NODE + tcp.MOST_HELD)
        if len(self._holding) - holding < 64:
            self._holding = _longer(self._holding, 2 * len(self._holding))
        if len(chunks) // tcp.CHUNK - int(self._now[tcp.CHUNKS]) < 8 * used + 64:
            chunks = _longer(chunks, 2 * len(chunks) + 8 * (used + 64) * tcp.CHUNK)
        if len(seen) // tcp.SEEN - int(self._now[tcp.SEENS]) < holding + 64:
            seen = _longer(seen, 2 * len(seen) + (holding + 64) * tcp.SEEN)
        return chunks, seen

    def _add_nodes(self, count: int) -> None:
        """Unused nodes are a list, too; the new ones come first."""
        tcp = kernels().tcp
        begin = len(self._nodes)
        self._nodes = _longer(self._nodes, begin + count * tcp.NODE)
        places = np.arange(begin, len(self._nodes), tcp.NODE)
        self._nodes[places[:-1] + tcp.FOLLOWING] = places[1:]
        self._nodes[places[-1] + tcp.FOLLOWING] = self._now[tcp.FREE] if self._now[tcp.FREE] < begin else -1
        self._now[tcp.FREE] = begin

    def _end_window(self, data: NDArray[np.uint8], chunks: Integers, seen: Integers) -> tuple[Chunks, Found]:
        tcp = kernels().tcp
        now = self._now
        tcp.tell(self._flows, seen, now)
        self.held = np.empty(int(now[tcp.HELD_TOTAL]), np.uint8)
        tcp.keep_held(data, self._ways, self._nodes, self._holding, now, self.held)
        rows = chunks[: int(now[tcp.CHUNKS]) * tcp.CHUNK].reshape(-1, tcp.CHUNK)
        found = Found(int(now[tcp.REPEATED]), int(now[tcp.MISSING]), int(now[tcp.EARLY]))
        return Chunks(
            data,
            self._connections(seen[: int(now[tcp.SEENS]) * tcp.SEEN].reshape(-1, tcp.SEEN)),
            rows[:, tcp.CHUNK_CONNECTION].astype(np.int32),
            rows[:, tcp.CHUNK_DIRECTION].astype(np.int8),
            rows[:, tcp.CHUNK_OFFSET].copy(),
            rows[:, tcp.CHUNK_LENGTH].copy(),
            rows[:, tcp.CHUNK_TS].copy(),
            rows[:, tcp.CHUNK_START].copy(),
            rows[:, tcp.CHUNK_POSITION].copy(),
        ), found

    def _connections(self, seen: Integers) -> list[Connection]:
        tcp = kernels().tcp
        connections = []
        for flow, before, phase, client, is_whole, first_us, sequence, last_us, ended_us, *_ in seen.tolist():
            if before == tcp.NEW:
                self._names[flow] = self._name(flow, client, first_us, sequence)
            name = self._names[flow]
            assert name is not None
            ended = ENDED[phase]
            ended_us = _time(ended_us) if ended else None
            connections.append(
                Connection(
                    name.id, name.client, name.server, name.client_port, name.server_port, name.first_us,
                    _time(last_us), bool(is_whole), ended, ended_us, is_over=before == tcp.OVER,
                )
            )  # fmt: skip
        return connections

    def _name(self, flow: int, client: int, first_us: int, sequence: int) -> _Name:
        packets = kernels().packets
        *words, ports = self.keys[flow * packets.KEY : flow * packets.KEY + packets.KEY_PORTS + 1].tolist()
        is_six = bool(ports & packets.IPV6)
        ends = [
            (_address(*words[:2], is_six), ports >> 16 & 0xFFFF),
            (_address(*words[2:], is_six), ports & 0xFFFF),
        ]
        text = f"{ends[0][0]}|{ends[0][1]}|{ends[1][0]}|{ends[1][1]}|{first_us}|{sequence}"
        before = self._names[flow]
        if before is not None and before.first_us == _time(first_us):
            # A second one at the same moment, or without times: it has another id.
            text += f"|{before.id}"
        (here, port), (there, other_port) = ends[client], ends[1 - client]
        identity = connection_id(f"{there}|{other_port}", text)
        return _Name(identity, here, there, port, other_port, _time(first_us))


class Found(NamedTuple):
    """Bytes of a window that are in no chunk, or in no packet."""

    repeated: int
    missing: int
    early: int


@lru_cache(maxsize=1 << 14)
def _address(first: int, second: int, is_six: bool) -> str:
    """An address as text; its words are as they lay in memory."""
    if not is_six:
        return socket.inet_ntop(socket.AF_INET, first.to_bytes(4, "little"))
    return socket.inet_ntop(socket.AF_INET6, first.to_bytes(8, "little") + second.to_bytes(8, "little"))


def _time(ts: int) -> int | None:
    return ts if ts >= 0 else None


def _longer(array: NDArray[Any], length: int) -> NDArray[Any]:
    made = np.zeros(length, array.dtype)
    made[: len(array)] = array
    return made


def _nothing() -> Snapshot:
    tcp = kernels().tcp
    nothing = np.empty(0, np.int64)
    now = np.zeros(tcp.NOW, np.int64)
    now[tcp.CLOCK], now[tcp.DUE] = -1, tcp.NEVER
    return Snapshot(
        frozenset(), np.empty(0, np.uint64), nothing, nothing, nothing, nothing, now, [], np.empty(0, np.uint8)
    )


def _selected(state: Snapshot, numbers: Integers) -> Snapshot:
    """A copy with these flows only, numbered anew in the same order."""
    packets, tcp = kernels()
    count = len(state.names)
    keys = state.keys[: count * packets.KEY].reshape(-1, packets.KEY)[numbers].reshape(-1)
    flows = state.flows[: count * tcp.FLOW].reshape(-1, tcp.FLOW)[numbers].reshape(-1)
    ways = state.ways[: 2 * count * tcp.WAY].reshape(-1, 2 * tcp.WAY)[numbers].reshape(-1)
    new_number = np.full(count, -1, np.int64)
    new_number[numbers] = np.arange(len(numbers))
    row = 2 * tcp.WAY
    holding = state.holding[: int(state.now[tcp.HOLDING])]
    holding = holding[new_number[holding // row] >= 0]
    holding = new_number[holding // row] * row + holding % row
    sizes = ways[holding + tcp.HELD_BYTES]
    nodes = np.empty(int(ways[holding + tcp.HELD].sum()) * tcp.NODE, np.int64)
    held = np.empty(int(sizes.sum()), np.uint8)
    tcp.copy_held(state.held, ways, state.nodes, holding, len(holding), nodes, held)
    now = state.now.copy()
    now[tcp.HOLDING], now[tcp.USED], now[tcp.HELD_TOTAL] = len(holding), len(nodes) // tcp.NODE, len(held)
    names = [state.names[number] for number in numbers.tolist()]
    return Snapshot(state.ports, keys, flows, ways, nodes, holding, now, names, held, state.taps)
