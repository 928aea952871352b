"""casual messages as live sessions read and write them: framing, ids, times, codes.

The record codec decodes and encodes; this adds what depends on the connection: the unit of times.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from ...codec import codec_for
from ...codec.quick_encoder import encoder_for
from ...errors import EncodeError
from ...protocols import casual
from ...protocols.casual import NIL, NULL_XID, Buffer, Xid
from ...protocols.casual.messages import XA_FLAGS, XA_RETURN, XATMI_ERROR, XATMI_EVENTS, XATMI_FLAGS
from ...spec.resolve import layout

__all__ = ["NIL", "NULL_XID", "Buffer", "Xid"]

LAYOUT = layout(casual.PROTOCOL)
HEADER_BYTES = 32
VERSION = 1000
CASUAL_FORMAT = 42
"""The format of xids that casual domains make."""
MAX_SERVICE_NAME, MAX_QUEUE_NAME = 127, 128
DOCUMENT, LATE = "document", "late"
PROFILES = (DOCUMENT, LATE)
MOST_TIME = (1 << 63) - 1
NANOSECONDS_FROM = 10**17
"""Absolute times from here on are nanoseconds, whatever the profile says."""

TPNOREPLY, TPNOTRAN, TPNOTIME = map(XATMI_FLAGS.code, ("TPNOREPLY", "TPNOTRAN", "TPNOTIME"))
TPSENDONLY, TPRECVONLY = map(XATMI_FLAGS.code, ("TPSENDONLY", "TPRECVONLY"))
OK = 0
ABSENT = XATMI_ERROR.code("ABSENT")
TPEINVAL, TPELIMIT, TPENOENT, TPEPROTO = map(XATMI_ERROR.code, ("TPEINVAL", "TPELIMIT", "TPENOENT", "TPEPROTO"))
TPESVCERR, TPESVCFAIL, TPESYSTEM = map(XATMI_ERROR.code, ("TPESVCERR", "TPESVCFAIL", "TPESYSTEM"))
TPETIME, TPETRAN, TPEITYPE, TPEOTYPE = map(XATMI_ERROR.code, ("TPETIME", "TPETRAN", "TPEITYPE", "TPEOTYPE"))
TPEV_DISCONIMM, TPEV_SVCERR, TPEV_SVCFAIL, TPEV_SVCSUCC, TPEV_SENDONLY = map(
    XATMI_EVENTS.code, ("TPEV_DISCONIMM", "TPEV_SVCERR", "TPEV_SVCFAIL", "TPEV_SVCSUCC", "TPEV_SENDONLY")
)
ACTIVE, TIMEOUT_ROLLBACK_ONLY, ROLLBACK_ONLY = 0, 1, 2
"""States of a transaction in the reply of a call."""
TMNOFLAGS, TMONEPHASE = 0, XA_FLAGS.code("TMONEPHASE")
XA_OK, XA_RDONLY, XA_RETRY = map(XA_RETURN.code, ("XA_OK", "XA_RDONLY", "XA_RETRY"))
XA_HEURMIX, XA_HEURRB, XA_HEURCOM, XA_HEURHAZ = map(
    XA_RETURN.code, ("XA_HEURMIX", "XA_HEURRB", "XA_HEURCOM", "XA_HEURHAZ")
)
XA_RBROLLBACK, XA_RBOTHER, XA_RBTIMEOUT = map(XA_RETURN.code, ("XA_RBROLLBACK", "XA_RBOTHER", "XA_RBTIMEOUT"))
XAER_RMERR, XAER_NOTA, XAER_PROTO, XAER_RMFAIL = map(
    XA_RETURN.code, ("XAER_RMERR", "XAER_NOTA", "XAER_PROTO", "XAER_RMFAIL")
)
HEURISTIC = frozenset((XA_HEURMIX, XA_HEURRB, XA_HEURCOM, XA_HEURHAZ))
NO_BUFFER = Buffer("NULL", b"")
EMPTY_BUFFER = Buffer("", b"")

_WORST_FIRST = (
    "XA_HEURHAZ", "XA_HEURMIX", "XA_HEURCOM", "XA_HEURRB", "XAER_RMFAIL", "XAER_RMERR", "XA_RBINTEGRITY",
    "XA_RBCOMMFAIL", "XA_RBROLLBACK", "XA_RBOTHER", "XA_RBDEADLOCK", "XAER_PROTO", "XA_RBPROTO", "XA_RBTIMEOUT",
    "XA_RBTRANSIENT", "XAER_INVAL", "XA_NOMIGRATE", "XAER_OUTSIDE", "XAER_ASYNC", "XA_RETRY", "XAER_DUPID", "XAER_NOTA",
    "XA_OK", "XA_RDONLY",
)  # fmt: skip
_RANK = {code: place for place, code in enumerate(map(XA_RETURN.code, _WORST_FIRST))}


def worst(codes: list[int]) -> int:
    """Return the worst of some XA codes; one that nobody knows is as bad as a resource that failed."""
    return min(codes, key=lambda code: _RANK.get(code, _RANK[XAER_RMERR]))


def is_rolled_back(code: int) -> bool:
    """Tell whether an XA code says that the branch is rolled back already."""
    return 100 <= code <= 107


class CasualTcp:
    """Messages have their length in their header: they are written as they are."""

    def __init__(self, name: str) -> None:
        self.name = name

    def wrap(self, body: bytes) -> bytes:
        return body


CASUAL_TCP = CasualTcp("casual")
CASUAL_REVERSE = CasualTcp("casual-reverse")
"""That of a listener whose callers serve: we send the requests."""

decode = codec_for(LAYOUT).decode
encode = encoder_for(LAYOUT)
KNOWN_CODES = frozenset(LAYOUT.messages)


@dataclass(frozen=True, slots=True)
class Units:
    """The unit of times on a connection, in nanoseconds."""

    size: int

    def seconds(self, duration: int) -> float:
        return duration * self.size / 1e9

    def duration(self, seconds: float | None) -> int:
        """Return a duration for the wire; 0 is for ever, so what is almost over is still one unit."""
        return 0 if seconds is None else min(max(int(seconds * 1e9) // self.size, 1), MOST_TIME)

    def time(self, raw: int) -> int:
        """Return an absolute time in nanoseconds. 0 and less mean "at once" and stay as they are."""
        if raw <= 0 or self.size == 1 or raw >= NANOSECONDS_FROM:
            return raw
        return min(raw * self.size, MOST_TIME)

    def raw_time(self, time: int) -> int:
        return time if time <= 0 else time // self.size


UNITS = {DOCUMENT: Units(1_000), LATE: Units(1)}


TAIL_BYTES, TAILS = 10, 64
"""Bytes of an id of a message behind its time, and how many of them are made at a time."""
_FIXED_BITS, _VERSION_7 = (
    int.from_bytes(bits.to_bytes(TAIL_BYTES, "big") * TAILS, "big")
    for bits in (0xF000 << 64 | 0xC000 << 48, 0x7000 << 64 | 0x8000 << 48)
)


class Ids:
    """Makes ids that nobody guesses if the source of chance cannot be guessed."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._tails: list[bytes] = []
        """Of ids of messages: to ask for chance costs more for one than for many."""

    def uuid(self) -> bytes:
        """Return a random UUID, version 4."""
        bits = self._chance.getrandbits(128)
        bits = bits & ~(0xF000 << 64) | (0x4000 << 64)
        bits = bits & ~(0xC000 << 48) | (0x8000 << 48)
        return bits.to_bytes(16, "big")

    def message(self, time: int) -> bytes:
        """Return the id of a message, a UUID of version 7: those of a time are neighbours in the index of the store, so
        that a batch of messages writes a page of it and not one page for each.
        """
        if not self._tails:
            bits = self._chance.getrandbits(8 * TAIL_BYTES * TAILS) & ~_FIXED_BITS | _VERSION_7
            tails = bits.to_bytes(TAIL_BYTES * TAILS, "big")
            self._tails = [tails[at : at + TAIL_BYTES] for at in range(0, len(tails), TAIL_BYTES)]
        return (time // 1_000_000 & 0xFFFF_FFFF_FFFF).to_bytes(6, "big") + self._tails.pop()

    def xid(self) -> Xid:
        """Return the xid of a new transaction of ours."""
        return Xid(CASUAL_FORMAT, self.uuid(), self.uuid())

    def branch(self, xid: Xid) -> Xid:
        """Return another branch of a transaction."""
        return Xid(xid.format, xid.gtrid, self.uuid())

    def node(self) -> int:
        """Return the address of an end of a conversation."""
        return self._chance.getrandbits(63) or 1


def is_null(xid: Xid) -> bool:
    """Tell whether an xid says that there is no transaction, in either of its forms."""
    return xid.format in (-1, 0)


def show_xid(xid: Any) -> str:
    return f"{xid.format}:{xid.gtrid.hex()}:{xid.bqual.hex()}"


def check_name(name: str, most: int, path: str) -> None:
    """Refuse to send a name that peers cannot hold."""
    size = len(name.encode("utf-8", "surrogateescape"))
    if size > most:
        raise EncodeError(f"a name of {size} bytes, at most {most}", rule="text_limit", path=path)
