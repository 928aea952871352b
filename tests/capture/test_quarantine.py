"""Rows of the quarantine, and what is counted with them; encrypted streams are quarantined whole."""

from __future__ import annotations

import random

import pytest

from tests.capture.feeds import CLIENT_HELLO, SERVER_HELLO, Feed, connection, play
from wirelake.capture.quarantine import QUARANTINE, RangeFault, quarantine_batch, quarantine_gap, quarantine_range
from wirelake.capture.settings import ReadSettings
from wirelake.capture.stream_table import StreamTable


def test_a_range_is_counted_as_quarantined_and_a_gap_as_missing() -> None:
    table = StreamTable()
    table.captures.append("one.pcap")
    slot = table.add("c0")
    table.numbers["next_offset"][2 * slot + 1] = 40
    fault = RangeFault("text_utf8", "topic", "not UTF-8", b"abc", "mb")
    rows = [
        quarantine_range(table, 2 * slot, 7, 3, -1, 1, fault),
        quarantine_gap(table, 2 * slot + 1, 60, 1_000_000, 1, None),
    ]
    built = quarantine_batch(rows)
    assert built.schema == QUARANTINE
    bad, gap = built.to_pylist()
    assert (bad["capture"], bad["connection"], bad["direction"], bad["ts"]) == ("one.pcap", "c0", "to_server", None)
    assert (bad["rule"], bad["path"], bad["bytes"], bad["protocol"]) == ("text_utf8", "topic", b"abc", "mb")
    assert (gap["offset"], gap["length"], gap["detail"], gap["bytes"]) == (40, 60, "60 bytes were not captured", None)
    assert table.numbers["bytes_quarantined"][:2].tolist() == [3, 0]
    assert table.numbers["bytes_missing"][:2].tolist() == [0, 60]
    assert table.numbers["next_offset"][1] == 100


def test_without_rows_there_is_still_a_batch_of_the_table() -> None:
    assert quarantine_batch([]).schema == QUARANTINE and not quarantine_batch([]).num_rows


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
