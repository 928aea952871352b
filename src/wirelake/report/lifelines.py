"""Lifelines: the two ends of each connection, with the names that the peers gave themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import duckdb

from .database import register_texts, rows
from .page_values import cut

CLIENT_NAMES = ("client_domain", "name", "user", "path", "client_dsid")
_SERVER_NAMES = ("server_domain", "server_dsid")


@dataclass(frozen=True)
class Peers:
    """Both ends of a connection: addresses and names; empty where unknown."""

    client: str
    server: str
    client_name: str
    server_name: str
    protocol: str


def read_peers(tables: duckdb.DuckDBPyConnection, connections: Iterable[str]) -> dict[str, Peers]:
    """Return the ends of these connections; chunks tell those of connections that are still open."""
    wanted = set(connections)
    register_texts(tables, "wanted_connections", "connection", wanted)
    ended = rows(
        tables,
        """
select connection, client, server, protocol, facts
from gold_sessions semi join wanted_connections using (connection)""",
    )
    known = {row["connection"]: _peers(row) for row in ended}
    if wanted - known.keys():
        register_texts(tables, "wanted_connections", "connection", wanted - known.keys())
        still_open = rows(
            tables,
            """
select connection, min(client) as client, min(server) as server, any_value(accounting.protocol) as protocol
from bronze_chunks semi join wanted_connections using (connection)
left join accounting using (connection)
group by connection""",
        )
        known |= {row["connection"]: _peers(row) for row in still_open}
    return known


def _peers(row: Mapping[str, Any]) -> Peers:
    facts = row.get("facts") or {}
    client, server = ((next((facts[n] for n in names if facts.get(n)), "")) for names in (CLIENT_NAMES, _SERVER_NAMES))
    addresses = cut(row["client"] or "", 100), cut(row["server"] or "", 100)
    return Peers(*addresses, cut(client, 60), cut(server, 60), row["protocol"] or "")


UNKNOWN = Peers("", "", "", "", "")


@dataclass
class Lifelines:
    """The lifelines of one diagram. Ends with the same host and the same name share one."""

    peers: Mapping[str, Peers]
    numbers: dict[tuple[str, str], int] = field(default_factory=dict)
    addresses: list[dict[str, None]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def ends(self, connection: str, direction: str) -> tuple[int, int]:
        """Return the lifelines from and to which a message goes."""
        known = self.peers.get(connection, UNKNOWN)
        client = self._number(known.client or f"client of {connection}", known.client_name)
        server = self._number(known.server or f"server of {connection}", known.server_name)
        return (client, server) if direction == "to_server" else (server, client)

    def _number(self, address: str, name: str) -> int:
        key = (_host(address), name) if name else (address, "")
        if key not in self.numbers:
            self.numbers[key] = len(self.numbers)
            self.addresses.append({})
            self.names.append(name)
        number = self.numbers[key]
        self.addresses[number][address] = None
        return number

    def shown(self) -> list[dict[str, str]]:
        return [
            {"name": next(iter(ends)) if len(ends) == 1 else _host(next(iter(ends))), "label": name}
            for ends, name in zip(self.addresses, self.names, strict=True)
        ]


def _host(address: str) -> str:
    return re.sub(r":[0-9]+$", "", address)
