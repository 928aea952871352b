"""The connections of taps that are open, from window to window and from file to file."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from .chunks import Connection, connection_id

UNKNOWN = -1


@dataclass(slots=True)
class TapConnection:
    """A connection by the set of its files and its number there; how far each direction is known."""

    set_id: bytes
    number: int
    connection: Connection
    ends: tuple[int, int] = (UNKNOWN, UNKNOWN)

    def copy(self) -> TapConnection:
        return replace(self, connection=replace(self.connection))


@dataclass(frozen=True, slots=True)
class TapState:
    """The open connections of taps at some place of a capture: plain values."""

    connections: list[TapConnection] = field(default_factory=list)

    def only(self, ids: Collection[str]) -> TapState:
        return TapState([known for known in self.connections if known.connection.id in ids])


class TapConnections:
    """All open connections of the taps that are read."""

    def __init__(self, state: TapState | None = None) -> None:
        known = state.connections if state is not None else []
        self._known = {(tap.set_id, tap.number): tap.copy() for tap in known}

    def state(self) -> TapState:
        return TapState([known.copy() for known in self._known.values()])

    def of(self, set_id: bytes, number: int) -> TapConnection:
        """Return a connection; one whose open record was not seen is made here, and little is known of it."""
        key = (set_id, number)
        if key not in self._known:
            self._known[key] = TapConnection(*key, Connection(tap_connection_id("", "", "", *key), "", ""))
        return self._known[key]

    def open(self, set_id: bytes, number: int, connection: Connection) -> None:
        self._known.setdefault((set_id, number), TapConnection(set_id, number, connection))

    def close(self, set_id: bytes, number: int) -> Connection | None:
        """Forget a connection: its number is not used again."""
        known = self._known.pop((set_id, number), None)
        return known.connection if known is not None else None


def tap_connection_id(client: str, server: str, first: str, set_id: bytes, number: int) -> str:
    return connection_id(server, f"{client}|{server}|{first}|{set_id.hex()}|{number}")
