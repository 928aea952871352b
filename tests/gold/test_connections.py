"""Connections as rows."""

from __future__ import annotations

from wirelake.capture.chunks import Connection
from wirelake.gold.connections import connection_rows


def test_connections_of_captures_become_rows_with_addresses_that_can_be_read() -> None:
    made = [
        Connection("c", "10.0.0.1", "10.0.0.2", 1, 2, 5, 9, True, "closed", 9),
        Connection("d", "fe80::1", "fe80::2", 3, 4),
        Connection("e", "stream.bin", ""),
    ]
    rows = connection_rows(made, "x.pcap").to_pylist()
    assert [row["client"] for row in rows] == ["10.0.0.1:1", "[fe80::1]:3", "stream.bin"]
    assert [row["ended"] for row in rows] == ["closed", None, None]
