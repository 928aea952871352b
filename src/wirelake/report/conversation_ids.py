"""Names of conversations. They say what they are of, so that each can be made anew from the lake alone.

c:21a0dea8b5578f62600b               a connection: whole, or its beginning and its end
c:21a0dea8b5578f62600b:s:5716        a connection, around what begins at byte 5716 of what goes to the server
x:21a0dea8b5578f62600b:c:75          the exchange whose request begins at byte 75 of what goes to the client
t:42:f3c4505a45d74cfea6389713e20b4060    a transaction: format and global id; no format if it is not decided yet
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_CONNECTION = re.compile(r"c:([^:\s]+)(?::([sc]):(\d{1,18}))?")
_EXCHANGE = re.compile(r"x:([^:\s]+):([sc]):(\d{1,18})")
_TRANSACTION = re.compile(r"t:(-?\d{1,19})?:((?:[0-9a-f]{2}){1,1024})")
_DIRECTIONS = {"s": "to_server", "c": "to_client"}


@dataclass(frozen=True, order=True)
class Spot:
    """A message, or a range that is none, by its first byte."""

    connection: str
    direction: str
    offset: int

    @property
    def other(self) -> str:
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
    """What an id is of; None if it is no id."""
    if found := _CONNECTION.fullmatch(text):
        name, letter, offset = found.groups()
        return ConnectionId(text, name, Spot(name, _DIRECTIONS[letter], int(offset)) if letter else None)
    if found := _EXCHANGE.fullmatch(text):
        name, letter, offset = found.groups()
        return ExchangeId(text, Spot(name, _DIRECTIONS[letter], int(offset)))
    if found := _TRANSACTION.fullmatch(text):
        number, gtrid = found.groups()
        return TransactionId(text, int(number) if number else None, gtrid)
    return None
