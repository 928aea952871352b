"""Ids of conversations. An id says what the conversation is about, so that the lake alone is enough to find it again.

c:21a0dea8b5578f62600b               a connection: whole, or its beginning and its end
c:21a0dea8b5578f62600b:s:5716        a connection, around byte 5716 of the stream to the server
x:21a0dea8b5578f62600b:c:75          the exchange whose request begins at byte 75 of the stream to the client
t:42:f3c4505a45d74cfea6389713e20b4060    a transaction: format and global id; no format if it is undecided
c:21a0dea8b5578f62600b@5d793fc5      a connection as one of several sensors saw it

In a lake of several sensors an id ends with a hash of the sensor's name, because two of them may have seen the same
connection. Without it, the first sensor that has the conversation is meant.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

_AT = r"(?:@([0-9a-f]{8}))?"
_STREAM = re.compile(r"([cx]):([^:@\s]+)(?::([sc]):(\d{1,18}))?" + _AT)
_TRANSACTION = re.compile(r"t:(-?\d{1,19})?:((?:[0-9a-f]{2}){1,1024})" + _AT)
_DIRECTIONS = {"s": "to_server", "c": "to_client"}
AT_SENSOR = " || '@' || left(md5(sensor), 8)"
"""SQL that ends an id in a lake of several sensors."""


def sensor_hash(sensor: str) -> str:
    """Return what stands for a sensor in ids."""
    return hashlib.md5(sensor.encode(), usedforsecurity=False).hexdigest()[:8]


class Spot(NamedTuple):
    """A message or a quarantined range of a sensor, by its first byte."""

    sensor: str
    connection: str
    direction: str
    offset: int

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Spot:
        return cls(row["sensor"], row["connection"], row["direction"], row["offset"])

    @property
    def other_direction(self) -> str:
        return "to_client" if self.direction == "to_server" else "to_server"


@dataclass(frozen=True)
class ConnectionId:
    id: str
    sensor: str
    """The hash of a sensor, empty if the id has none; once the id is located, the name of the sensor."""
    connection: str
    direction: str = ""
    """With ``offset``, the place that the conversation is about; empty for the whole connection."""
    offset: int = 0

    @property
    def focus(self) -> Spot | None:
        return Spot(self.sensor, self.connection, self.direction, self.offset) if self.direction else None


@dataclass(frozen=True)
class ExchangeId:
    id: str
    sensor: str
    connection: str
    direction: str
    offset: int

    @property
    def request(self) -> Spot:
        return Spot(self.sensor, self.connection, self.direction, self.offset)


@dataclass(frozen=True)
class TransactionId:
    id: str
    sensor: str
    format: int | None
    gtrid: str


Id = ConnectionId | ExchangeId | TransactionId


def parse(text: str) -> Id | None:
    """Return what an id is about; None for a text that is not an id."""
    if match := _STREAM.fullmatch(text):
        kind, name, letter, offset, sensor = match.groups()
        spot = (_DIRECTIONS[letter], int(offset)) if letter else ()
        if kind == "c":
            return ConnectionId(text, sensor or "", name, *spot)
        return ExchangeId(text, sensor or "", name, *spot) if spot else None
    if match := _TRANSACTION.fullmatch(text):
        number, gtrid, sensor = match.groups()
        return TransactionId(text, sensor or "", int(number) if number else None, gtrid)
    return None


def located(id_: Id, sensors: Mapping[str, str]) -> list[Id]:
    """Return an id once for each sensor that it may mean; ``sensors`` has their names by their hashes."""
    names = sensors.values() if not id_.sensor else (sensors[at] for at in (id_.sensor,) if at in sensors)
    return [replace(id_, sensor=name) for name in names]
