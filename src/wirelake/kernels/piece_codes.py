"""The integers that the walk over messages in pieces reads and writes. Nothing here needs numba."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

NONE = -1
SLOTS = 8
QUIET_US = 60_000_000
"""A group that gets no piece for so long is forgotten."""
BROKEN = -1
"""In place of the next piece: the group is broken, and what still comes of it is ignored."""

GROUP, PIECE, CLOSES = range(3)
FINE, FIRST_IS_MISSING, WRONG_PIECE, OTHER_MESSAGE, FIRST_TOO_SOON, NO_PIECE = range(6)


class PieceRows(NamedTuple):
    """What the walk reads. ``piece`` is -1 for a message that is whole; ``key`` must stay the same within a group;
    ``ends`` says that the stream of the group ends with the row."""

    role: np.ndarray
    slot: np.ndarray
    piece: np.ndarray
    pieces: np.ndarray
    key: np.ndarray
    ends: np.ndarray
    ts: np.ndarray
    length: np.ndarray


class Groups(NamedTuple):
    """What the walk writes, by row. Of groups: the next piece, how many there are, bytes and time so far.

    Of pieces: whether the message is complete with it, its bytes, and what is wrong, with the piece that should come
    (``expected``, ``of`` so many).
    """

    live: np.ndarray
    next: np.ndarray
    total: np.ndarray
    bytes: np.ndarray
    last_us: np.ndarray
    whole: np.ndarray
    fault: np.ndarray
    expected: np.ndarray
    of: np.ndarray
    since: np.ndarray
