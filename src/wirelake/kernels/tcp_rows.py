"""The rows of the TCP kernels: what each number of a connection, a direction, a held segment and a chunk is."""

from __future__ import annotations

PATIENCE_US = 2_000_000
"""How long a hole stays open after the first segment behind it, if the peer has acknowledged the missing bytes."""
MEMORY_US = 120_000_000
"""How long an ended connection is remembered, and one that never got beyond its SYN."""
MOST_HELD_BYTES = 16 << 20
"""The most that is held of a direction; beyond that, its first hole is given up. No receiver has a window so large that
missing bytes could still come."""
MOST_HELD_OF_ALL, MOST_HELD_BYTES_OF_ALL = 1 << 20, 64 << 20
"""The most segments and bytes that are held of all directions; beyond that, the hole is given up whose turn would come
first."""

# A connection.
PHASE, CLIENT, WHOLE, BEGAN_US, BEGAN_SEQUENCE, LAST_US, ENDED_US, QUIET_SINCE = range(8)
STAMP, LOCAL, BEYOND_SYN, CARRIED, BEGAN_CLOCK, SCALES, GOES_ON = range(8, 15)
"""CLIENT: its side; QUIET_SINCE: the clock at the last packet or at the end; STAMP: the window that saw it last, and
LOCAL its number there; CARRIED: it had payload; SCALES: a byte for each side, the code of the scale in its SYN, 0 if
that was not seen; GOES_ON: it is what came behind a reset."""
FLOW = 16
NONE, OPEN, CLOSED, RESET = range(4)

# A direction.
FIRST, KNOWN, NEXT, FINISH, ACKED, HEAD, TAIL, HELD = range(8)
HELD_BYTES, HELD_SINCE, INITIAL, LISTED, IS_FINISHED, DUE_AT, OFFERED, EMITTED_US = range(8, 16)
"""FIRST: sequence number of offset 0; NEXT: the offset that is expected; FINISH: that of the FIN; ACKED: that up to
which the peer acknowledged; INITIAL: the sequence number of the SYN; LISTED: one more than its place in the heap of
directions that hold segments, 0 if it is not there; DUE_AT: when its first hole is given up; OFFERED: FLAGS
of the segment that acknowledged last, with its window; -1 if there was none; EMITTED_US: the time of its last chunk."""
STREAM = 16
JITTER_US = 5_000_000
"""Packets may be captured so much out of order: a chunk has no earlier time than the one before it."""
UNKNOWN, GUESSED, SURE = range(3)
"""GUESSED: from a packet without payload; payload that comes first from before that place moves it there."""
UNACKNOWLEDGED = 1 << 60
"""Added to DUE_AT while the peer has not acknowledged the missing bytes: they may still come."""
AT_ONCE = -1
"""DUE_AT of a hole that nobody will fill."""

# A held segment. A FIN is held, too, as one without bytes, the last of its list. A list is a skip list: a node of level
# n has links 1 to n, each to the next node of at least that level; the first of the list has all.
OFFSET, FOLLOWING, LINKS = 0, 1, 2
LEVELS = 9
SIZE, PLACE, POSITION, HELD_AT, LEVEL = range(LINKS + LEVELS, LINKS + LEVELS + 5)
NODE = 16
LEVEL_BITS = 2
"""One node in 4 has the next level. Offset and lower links lie side by side: a search in a long list waits for memory
more than for anything else."""

# A chunk.
CHUNK_CONNECTION, CHUNK_DIRECTION, CHUNK_OFFSET, CHUNK_LENGTH, CHUNK_TS, CHUNK_START, CHUNK_POSITION = range(7)
CHUNK = 8

# A connection that was seen in this window: its flow, what it was before (GOING_ON, NEW or OVER), its row as it is now.
SEEN_FLOW, SEEN_BEFORE, SEEN_ROW = 0, 1, 2
GOING_ON, NEW, OVER = 0, 1, 2
SEEN = 16

# What belongs to no connection.
CLOCK, DUE, HOLDING, FREE, USED, CHUNKS, SEENS, WINDOW, SHIFT = range(9)
REPEATED, MISSING, EARLY, HELD_TOTAL, ELSEWHERE, ELSEWHERE_BYTES, OUTSIDE, SEED = range(9, 17)
"""CLOCK: the latest time so far; DUE: when the next hole may be given up; HOLDING: how many directions hold segments;
FREE: the first unused node; SHIFT: from a place in the buffer to the position in the file; EARLY: bytes before the
first segment of a connection that began before the capture; ELSEWHERE: segments that are held by connections which a
part of the state leaves out; OUTSIDE: bytes that no receiver takes; SEED: a number that no capture knows,
for the levels of nodes."""
NOW = 24
NEVER = 1 << 62
