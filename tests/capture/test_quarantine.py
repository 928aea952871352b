"""Rows of the quarantine, and what is counted with them."""

from __future__ import annotations

from wirelake.capture.quarantine import QUARANTINE, RangeFault, quarantine_batch, quarantine_gap, quarantine_range
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
