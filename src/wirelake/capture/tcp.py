"""TCP connections, over windows and over files: segments in the order of their capture -> Chunks.

What is decided, and when (the kernel in ``kernels/tcp.py`` does it):

* A hole stays open until its bytes come. It is given up, and becomes a gap, when the connection ends, when more than
  16 MiB are held behind it, when the peer has acknowledged it and two seconds of capture time have
  passed since the first segment behind it or both directions have sent their FIN, or when nothing more comes at all.
  When more than 64 MiB or 1048576 segments are held altogether, the acknowledged hole that has waited longest is given
  up, else the one that has waited longest. What a packet had on the wire but not in the capture (snap length) is a gap
  at once, if it is its turn.
* Of two segments that overlap, the one that begins first counts, else the one that came first; bytes that a chunk had
  stay. Bytes behind a FIN are taken: it was not the end.
* A connection that began before the capture begins with its first segment that carries something. Bytes from before
  that place, which come a little later, are not taken; they are counted as early.
* A SYN with another number begins another connection, a repeated or late one does not. An end is remembered for two
  minutes; what comes until then without a SYN is counted as repeated, or as outside if it lies behind the end.
* A RST counts if its number lies in the window of its receiver. New bytes behind it are a connection of their own that
  begins there; RSTs end that one only when both directions have carried something.
* The time of a chunk is that of the packet that made it readable. A time stamp before 1970 or behind 2099 moves no
  clock: the chunk of such a packet has the time STRANGE, or that of the clock if it fills a hole.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Collection
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..kernels import tcp_rows as rows
from .chunks import Chunks, Connection, Counts, Ints, connection_id
from .fragments import Fragments
from .lazy_kernels import packets, tcp, tcp_held
from .read.tap import TapConnections
from .tcp_state import ID, NAME, NAME_FIRST_US, TrackerState, id_of, words_of

_FLOWS = 1 << 10
_NODES = 1 << 10
_TIDY_FROM = 1 << 13
_AT_ONCE = 1 << 12
"""Rows that are Python numbers at a time: these take ten times the memory."""
ENDED = ("", "", "closed", "reset")


class HeldAccounts(NamedTuple):
    """Directions that hold segments: for each the id of its connection, TO_SERVER or TO_CLIENT, bytes, holes."""

    connections: list[str]
    directions: Ints
    bytes: Ints
    holes: Ints


class Tracker:
    """The connections of one or more captures that are read one after the other.

    ``ports`` are those of servers: they show which side called where the beginning of a connection was not captured.
    """

    def __init__(self, state: TrackerState | None = None, *, ports: Collection[int] | None = None) -> None:
        state = state or TrackerState.empty()
        self.ports = frozenset(ports) if ports is not None else frozenset(state.ports)
        self._is_server = np.zeros(1 << 16, np.uint8)
        self._is_server[[port for port in self.ports if 0 <= port < 1 << 16]] = 1
        self.taps = TapConnections(state.taps)
        """The same for tap files, which are no packets."""
        self.fragments = Fragments(state.fragments)
        self._go_on(state)

    def _go_on(self, state: TrackerState) -> None:
        self.count = state.count
        self.keys, self._flows, self._streams = state.keys.copy(), state.flows.copy(), state.streams.copy()
        self._flows[rows.STAMP :: rows.FLOW] = 0  # windows are counted anew
        self._now, self._holding = state.now.copy(), np.append(state.holding, np.zeros(64, np.int64))
        self._now[rows.WINDOW] = 0
        self._now[rows.SEED] = secrets.randbits(62)
        self._names = state.names.copy()
        self.held = state.held
        """The bytes of held segments: they belong to the front of the next window."""
        self._nodes = state.nodes.copy()
        self._now[rows.FREE] = len(self._nodes)
        self._add_nodes(_NODES)
        self._streams[rows.LISTED :: rows.STREAM] = 0
        tcp_held.list_all(self._streams, self._nodes, self._holding, len(state.holding), self._now)
        self.table = np.empty(0, np.int32)
        self.grow()
        self._tidy_at = max(_TIDY_FROM, 2 * self.count)

    # --- for readers

    def grow(self) -> None:
        """Make room for more flows."""
        room = max(_FLOWS, 2 * self.count)
        self.keys = _longer(self.keys, room * packets.KEY)
        self._flows = _longer(self._flows, room * rows.FLOW)
        self._names = _longer(self._names, room * NAME)
        self._streams = _longer(self._streams, room * 2 * rows.STREAM)
        slots = 1 << (2 * room - 1).bit_length()
        self.table = np.full(slots, -1, np.int32)
        packets.fill_table(self.keys, self.count, self.table)

    def tidy(self) -> None:
        """Drop what is forgotten, now and then: between windows, and without any effect on what comes."""
        if len(self._nodes) > _TIDY_FROM * rows.NODE and 8 * int(self._now[rows.USED]) * rows.NODE < len(self._nodes):
            self._go_on(self._state().select(np.arange(self.count)))
        if self.count < self._tidy_at:
            return
        flows = self._flows[: self.count * rows.FLOW].reshape(-1, rows.FLOW)
        phase = flows[:, rows.PHASE]
        is_old = self._now[rows.CLOCK] - flows[:, rows.QUIET_SINCE] > rows.MEMORY_US
        is_dropped = (phase == rows.NONE) | (is_old & ((phase != rows.OPEN) | (flows[:, rows.BEYOND_SYN] == 0)))
        if 4 * int(is_dropped.sum()) > self.count:
            # As if one run had ended and another had gone on.
            self._go_on(self._state().select(np.flatnonzero(~is_dropped)))
        self._tidy_at = max(_TIDY_FROM, 2 * self.count)

    def begin_file(self) -> None:
        """Begin another file: bytes that are still held have no position in it."""
        self._nodes[rows.POSITION :: rows.NODE] = -1

    def feed(self, data: NDArray[np.uint8], segments: Ints, count: int, shift: int, counts: Counts) -> Chunks:
        """Take the segments of a window. ``data`` is what they lie in, with the held bytes in front; ``shift`` leads
        from a place in it to a position in the file. Bytes that are in no chunk are added to ``counts``.
        """
        chunks, seen = self._begin_window(count, shift)
        done = 0
        while True:
            done = tcp.track(
                segments, done, count, self.keys, self._is_server, self._flows, self._streams, self._nodes,
                self._holding, chunks, seen, self._now,
            )  # fmt: skip
            if done == count:
                break
            chunks, seen = self._make_room(chunks, seen)
        return self._end_window(data, chunks, seen, counts)

    # --- for everybody

    def finish(self) -> Chunks:
        """Release what is held: nothing more comes, and holes become gaps."""
        chunks, seen = self._begin_window(0, 0)
        chunks, seen = self._make_room(chunks, seen)
        tcp.give_up_all(self._flows, self._streams, self._nodes, self._holding, chunks, seen, self._now)
        self.fragments.clear()
        return self._end_window(self.held, chunks, seen, Counts())

    def state(self) -> TrackerState:
        """Return what is known now; later packets do not change it."""
        flows = self._flows[: self.count * rows.FLOW].reshape(-1, rows.FLOW)
        return self._state().select(np.flatnonzero(flows[:, rows.PHASE] != rows.NONE))

    def held_accounts(self) -> HeldAccounts:
        """Return what is held behind holes: no chunk has had these bytes yet."""
        holding = self._holding[: int(self._now[rows.HOLDING])]
        holes = np.empty(len(holding), np.int64)
        tcp_held.count_holes(self._streams, self._nodes, holding, len(holding), holes)
        sides, flows = holding // rows.STREAM & 1, holding // rows.STREAM >> 1
        names = self._names.reshape(-1, NAME)[flows].tolist()
        direction = sides ^ self._flows[flows * rows.FLOW + rows.CLIENT]
        held = self._streams[holding + rows.HELD_BYTES]
        return HeldAccounts([id_of(*name[:ID]) for name in names], direction, held, holes)

    # --- inside

    def _state(self) -> TrackerState:
        """Return the present arrays, not copied."""
        return TrackerState(
            tuple(sorted(self.ports)), self.count, self.keys, self._flows, self._streams, self._nodes, self._holding,
            self._now, self._names, self.held, self.taps.state(), self.fragments.state(),
        )  # fmt: skip

    def _begin_window(self, count: int, shift: int) -> tuple[Ints, Ints]:
        now = self._now
        now[rows.WINDOW] += 1
        now[[rows.CHUNKS, rows.SEENS, rows.REPEATED, rows.MISSING, rows.EARLY, rows.OUTSIDE]] = 0
        now[rows.SHIFT] = shift
        room = 2 * (count + int(now[rows.USED])) + 64
        return np.empty(room * rows.CHUNK, np.int64), np.empty((1024 + int(now[rows.HOLDING])) * rows.SEEN, np.int64)

    def _make_room(self, chunks: Ints, seen: Ints) -> tuple[Ints, Ints]:
        """Enlarge everything that may have become short."""
        used, holding = int(self._now[rows.USED]), int(self._now[rows.HOLDING])
        if len(self._nodes) // rows.NODE - used < 64:
            self._add_nodes(len(self._nodes) // rows.NODE)
        if len(self._holding) - holding < 64:
            self._holding = _longer(self._holding, 2 * len(self._holding))
        if len(chunks) // rows.CHUNK - int(self._now[rows.CHUNKS]) < 2 * used + 64:
            chunks = _longer(chunks, len(chunks) + len(chunks) // 2 + 2 * (used + 64) * rows.CHUNK)
        if len(seen) // rows.SEEN - int(self._now[rows.SEENS]) < holding + 64:
            seen = _longer(seen, 2 * len(seen) + (holding + 64) * rows.SEEN)
        return chunks, seen

    def _add_nodes(self, count: int) -> None:
        """Add unused nodes; they are a list, too, and the new ones come first."""
        begin = len(self._nodes)
        self._nodes = _longer(self._nodes, begin + count * rows.NODE)
        places = np.arange(begin, len(self._nodes), rows.NODE)
        self._nodes[places[:-1] + rows.FOLLOWING] = places[1:]
        self._nodes[places[-1] + rows.FOLLOWING] = self._now[rows.FREE] if self._now[rows.FREE] < begin else -1
        self._now[rows.FREE] = begin

    def _end_window(self, data: NDArray[np.uint8], chunks: Ints, seen: Ints, counts: Counts) -> Chunks:
        now = self._now
        tcp.note_connections(self._flows, seen, now)
        self.held = np.empty(int(now[rows.HELD_TOTAL]), np.uint8)
        tcp_held.keep_held(data, self._nodes, self.held)
        made = chunks[: int(now[rows.CHUNKS]) * rows.CHUNK].reshape(-1, rows.CHUNK)
        counts.repeated_bytes += int(now[rows.REPEATED])
        counts.missing_bytes += int(now[rows.MISSING])
        counts.early_bytes += int(now[rows.EARLY])
        counts.outside_bytes += int(now[rows.OUTSIDE])
        connections = self._connections(seen[: int(now[rows.SEENS]) * rows.SEEN].reshape(-1, rows.SEEN))
        return Chunks(data, connections, *np.ascontiguousarray(made[:, : rows.CHUNK_POSITION + 1].T))

    def _connections(self, seen: Ints) -> list[Connection]:
        """Return the connections of a window, and name the new ones."""
        connections = []
        for begin in range(0, len(seen), _AT_ONCE):
            part = seen[begin : begin + _AT_ONCE]
            flows = part[:, rows.SEEN_FLOW]
            all_names, keys = self._names.reshape(-1, NAME), self.keys.reshape(-1, packets.KEY)[flows].tolist()
            names = dict(zip(flows.tolist(), map(tuple, all_names[flows].tolist()), strict=True))
            connections += [_connection(names, key, *row) for key, row in zip(keys, part.tolist(), strict=True)]
            all_names[list(names)] = list(names.values())
        return connections


def _connection(
    names: dict[int, tuple[int, ...]], key: list[int], flow: int, before: int, phase: int, client: int, is_whole: int,
    first_us: int, sequence: int, last_us: int, ended_us: int, *_: int,
) -> Connection:  # fmt: skip
    ends = _ends(*key[: packets.KEY_PORTS + 1])
    (here, port), (there, other_port) = ends[client], ends[1 - client]
    if before == rows.NEW:
        text = f"{ends[0][0]}|{ends[0][1]}|{ends[1][0]}|{ends[1][1]}|{first_us}|{sequence}"
        if any(names[flow]) and names[flow][NAME_FIRST_US] == max(first_us, -1):
            # A second connection at the same moment, or without times: it has another id.
            text += f"|{id_of(*names[flow][:ID])}"
        identity = connection_id(there, text)
        names[flow] = (*words_of(identity), max(first_us, -1))
    else:
        identity = id_of(*names[flow][:ID])
    ended = ENDED[phase]
    return Connection(
        identity, here, there, port, other_port, _time(first_us), _time(last_us), bool(is_whole), ended,
        _time(ended_us) if ended else None, is_over=before == rows.OVER,
    )  # fmt: skip


def _ends(a: int, b: int, c: int, d: int, ports: int) -> list[tuple[str, int]]:
    """Return address and port of side 0 and of side 1."""
    is_six = bool(ports & packets.IPV6)
    return [(_address(a, b, is_six), ports >> 16 & 0xFFFF), (_address(c, d, is_six), ports & 0xFFFF)]


@lru_cache(maxsize=1 << 14)
def _address(first: int, second: int, is_six: bool) -> str:
    """Return an address as text; its words are as they lay in memory."""
    if not is_six:
        return socket.inet_ntop(socket.AF_INET, first.to_bytes(4, "little"))
    return socket.inet_ntop(socket.AF_INET6, first.to_bytes(8, "little") + second.to_bytes(8, "little"))


def _time(ts: int) -> int | None:
    return ts if ts >= 0 else None


def _longer(array: NDArray[Any], length: int) -> NDArray[Any]:
    longer = np.zeros(length, array.dtype)  # takes no memory before it is used
    longer[: len(array)] = array
    return longer
