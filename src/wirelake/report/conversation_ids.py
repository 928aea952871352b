"""Ids of conversations. An id says what the conversation is about, so that the lake alone is enough to find it again.

c:21a0dea8b5578f62600b               a connection: whole, or its beginning and its end
c:21a0dea8b5578f62600b:s:5716        a connection, around byte 5716 of the stream to the server
x:21a0dea8b5578f62600b:c:75          the exchange whose request begins at byte 75 of the stream to the client
t:42:f3c4505a45d74cfea6389713e20b4060    a transaction: format and global id; no format if it is undecided
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

_STREAM = re.compile(r"([cx]):([^:\s]+)(?::([sc]):(\d{1,18}))?")
_TRANSACTION = re.compile(r"t:(-?\d{1,19})?:((?:[0-9a-f]{2}){1,1024})")
_DIRECTIONS = {"s": "to_server", "c": "to_client"}


class Spot(NamedTuple):
    """A message or a quarantined range, by its first byte."""

    connection: str
    direction: str
    offset: int

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Spot:
        return cls(row["connection"], row["direction"], row["offset"])

    @property
    def other_direction(self) -> str:
        return "to_client" if self.direction == "to_server" else "to_server"


@dataclass(frozen=True)
class ConnectionId:
    id: str
    connection: str
    focus: Spot | None


@dataclass(frozen=True)
class ExchangeId:
    id: str
    request: Spot


@dataclass(frozen=True)
class TransactionId:
    id: str
    format: int | None
    gtrid: str


Id = ConnectionId | ExchangeId | TransactionId


def parse(text: str) -> Id | None:
    """Return what an id is about; None for a text that is not an id."""
    if match := _STREAM.fullmatch(text):
        kind, name, letter, offset = match.groups()
        spot = Spot(name, _DIRECTIONS[letter], int(offset)) if letter else None
        if kind == "c":
            return ConnectionId(text, name, spot)
        return ExchangeId(text, spot) if spot is not None else None
    if match := _TRANSACTION.fullmatch(text):
        number, gtrid = match.groups()
        return TransactionId(text, int(number) if number else None, gtrid)
    return None
