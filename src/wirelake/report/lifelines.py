"""Lifelines: the two ends of each connection, with the names that the peers gave themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .database import TEXT, Row, Tables, register, rows
from .page_values import cut

SeenConnection = tuple[str, str]
"""A sensor and a connection that it saw."""
CLIENT_NAMES = ("client_domain", "name", "user", "path", "client_dsid")
"""Facts of a session that name its client, the best one first."""
_SERVER_NAMES = ("server_domain", "server_dsid")
_PEERS = """
select sensor, connection, client, server, protocol, facts
from gold_sessions semi join wanted_connections using (sensor, connection)
union all
select sensor, connection, min(client), min(server), any_value(accounting.protocol), null
from bronze_chunks
semi join (from wanted_connections anti join gold_sessions using (sensor, connection)) using (sensor, connection)
left join accounting using (sensor, connection)
group by sensor, connection"""
"""Chunks tell the ends of connections that are still open."""


@dataclass(frozen=True)
class Peers:
    """Both ends of a connection: addresses and names; empty where unknown."""

    client: str = ""
    server: str = ""
    client_name: str = ""
    server_name: str = ""
    protocol: str = ""


def read_peers(tables: Tables, connections: Iterable[SeenConnection]) -> dict[SeenConnection, Peers]:
    """Return the ends of these connections."""
    register(tables, "wanted_connections", {"sensor": TEXT, "connection": TEXT}, connections)
    return {(row["sensor"], row["connection"]): _peers(row) for row in rows(tables, _PEERS)}


def _peers(row: Row) -> Peers:
    facts = row["facts"] or {}
    client, server = (next((facts[n] for n in names if facts.get(n)), "") for names in (CLIENT_NAMES, _SERVER_NAMES))
    addresses = cut(row["client"] or "", 100), cut(row["server"] or "", 100)
    return Peers(*addresses, cut(client, 60), cut(server, 60), row["protocol"] or "")


@dataclass
class Lifelines:
    """The lifelines of one diagram. Ends with the same host and the same name share one."""

    peers: Mapping[SeenConnection, Peers]
    addresses: dict[tuple[str, str], dict[str, None]] = field(default_factory=dict)
    """The addresses of each lifeline, by host and name, or by address where there is no name."""

    def ends(self, seen: SeenConnection, direction: str) -> tuple[int, int]:
        """Return the lifelines from and to which a message goes."""
        peers = self.peers.get(seen, Peers())
        client = self._number(peers.client or f"client of {seen[1]}", peers.client_name)
        server = self._number(peers.server or f"server of {seen[1]}", peers.server_name)
        return (client, server) if direction == "to_server" else (server, client)

    def _number(self, address: str, name: str) -> int:
        key = (_host(address), name) if name else (address, "")
        self.addresses.setdefault(key, {})[address] = None
        return list(self.addresses).index(key)

    def shown(self) -> list[dict[str, str]]:
        return [
            {"name": next(iter(addresses)) if len(addresses) == 1 else _host(next(iter(addresses))), "label": name}
            for (_, name), addresses in self.addresses.items()
        ]


def _host(address: str) -> str:
    return re.sub(r":[0-9]+$", "", address)
