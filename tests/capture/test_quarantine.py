"""Rows of the quarantine, and what is counted with them."""

from __future__ import annotations

import pyarrow as pa

from wirelake.capture.accounts import ACCOUNTS
from wirelake.capture.output import OutputBuilder
from wirelake.capture.quarantine import QUARANTINE, Quarantine, RangeFault
from wirelake.capture.stream_table import StreamTable


def test_a_range_is_counted_as_quarantined_and_a_gap_as_missing() -> None:
    table = StreamTable()
    slot = table.add("c0")
    quarantine = Quarantine(table, ["", "one.pcap"])
    out = OutputBuilder()
    table.numbers["next_offset"][2 * slot + 1] = 40
    out.quarantine.append(
        quarantine.range(2 * slot, 7, 3, -1, 1, RangeFault("text_utf8", "topic", "not UTF-8", b"abc", "mb"))
    )
    out.quarantine.append(quarantine.gap(2 * slot + 1, 60, 1_000_000, 1, None))
    built = out.build(pa.RecordBatch.from_pylist([], ACCOUNTS)).quarantine
    assert built.schema == QUARANTINE
    bad, gap = built.to_pylist()
    assert (bad["capture"], bad["connection"], bad["direction"], bad["ts"]) == ("one.pcap", "c0", "to_server", None)
    assert (bad["rule"], bad["path"], bad["bytes"], bad["protocol"]) == ("text_utf8", "topic", b"abc", "mb")
    assert (gap["offset"], gap["length"], gap["detail"], gap["bytes"]) == (40, 60, "60 bytes were not captured", None)
    assert table.numbers["bytes_quarantined"][:2].tolist() == [3, 0]
    assert table.numbers["bytes_missing"][:2].tolist() == [0, 60]
    assert table.numbers["next_offset"][1] == 100
