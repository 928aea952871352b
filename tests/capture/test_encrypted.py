"""Encrypted streams are quarantined whole, in the same ranges wherever the capture is cut."""

from __future__ import annotations

import random

import pytest

from tests.capture.feeds import CLIENT_HELLO, SERVER_HELLO, Feed, connection, play
from wirelake.capture.settings import ReadSettings


@pytest.mark.parametrize("port", [4120, 443])
def test_tls_is_set_aside_whole_in_both_directions(port: int) -> None:
    feed = Feed()
    peer = connection(server_port=port)
    noise = random.Random(3)
    feed.add(peer, 0, CLIENT_HELLO[:3])
    feed.add(peer, 0, CLIENT_HELLO[3:])
    feed.add(peer, 1, SERVER_HELLO)
    feed.add(peer, 1, None, 700)
    for _ in range(1000):
        feed.add(peer, 1, noise.randbytes(1448))
    feed.end(peer)
    results = [
        play(feed, ReadSettings(), sizes, restart=rng)
        for sizes, rng in (([10_000], None), ([1], None), ([17], random.Random(1)))
    ]
    assert results[0] == results[1] == results[2]
    rows = results[0].quarantine
    assert [(row["direction"], row["rule"], row["offset"], row["length"]) for row in rows] == [
        ("to_client", "encrypted", 0, len(SERVER_HELLO)),
        ("to_client", "gap", len(SERVER_HELLO), 700),
        ("to_client", "encrypted", len(SERVER_HELLO) + 700, 1 << 20),
        ("to_client", "encrypted", len(SERVER_HELLO) + 700 + (1 << 20), 1_448_000 - (1 << 20)),
        ("to_server", "encrypted", 0, len(CLIENT_HELLO)),
    ]
    assert rows[4]["bytes"] == CLIENT_HELLO[:64]
    assert all(len(row["bytes"] or b"") <= 64 for row in rows)
    assert results[0].accounts["c0", "to_client"]["bytes_quarantined"] == len(SERVER_HELLO) + 1_448_000
