"""Connections as a table: what the steps of this room know about them beside their facts."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from ..capture.chunks import Connection

CONNECTIONS = pa.schema(
    [
        ("connection", pa.string()),
        ("capture", pa.string()),
        ("client", pa.string()),
        ("server", pa.string()),
        ("protocol", pa.string()),
        ("first_us", pa.int64()),
        ("last_us", pa.int64()),
        ("is_whole", pa.bool_()),
        ("ended", pa.string()),
        ("ended_us", pa.int64()),
    ]
)
"""What is known about connections. Addresses are ``host:port``; ``ended`` is null while a connection is open."""


def connection_rows(connections: Iterable[Connection], capture: str | None = None) -> pa.Table:
    """Return connections of the capture room as rows."""
    return pa.Table.from_pylist(
        [
            {
                "connection": one.id,
                "capture": capture,
                "client": endpoint(one.client, one.client_port),
                "server": endpoint(one.server, one.server_port),
                "protocol": one.protocol,
                "first_us": one.first_us,
                "last_us": one.last_us,
                "is_whole": one.is_whole,
                "ended": one.ended or None,
                "ended_us": one.ended_us,
            }
            for one in connections
        ],
        CONNECTIONS,
    )


def endpoint(host: str, port: int) -> str:
    """Return ``host:port``; the host of IPv6 in brackets."""
    if not port:
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
