"""What the benchmark of ingest measures is what it says: good calls, the same ones in both files, no two alike."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.ingest import CONNECTIONS, Calls, write_jsonl, write_pcap
from wirelake.capture.decode import CaptureDecoder, CaptureRange
from wirelake.capture.settings import ReadSettings


def test_the_capture_and_the_lines_hold_the_same_messages(tmp_path: Path) -> None:
    calls, blocks = Calls(50), 10
    write_pcap(tmp_path / "calls.pcap", calls, blocks)
    write_jsonl(tmp_path / "calls.jsonl", calls, blocks)
    machine = CaptureDecoder(ReadSettings())
    seen = [*machine.run(CaptureRange(str(tmp_path / "calls.pcap"), "calls.pcap")), *machine.finish()]
    rows = [row for one in seen for batch in one.output.messages.get("casual", ()) for row in batch.to_pylist()]
    assert not any(one.output.quarantine.num_rows for one in seen)
    assert machine.counts["calls.pcap"].missing_bytes == machine.counts["calls.pcap"].repeated_bytes == 0
    assert sum(row["message"].startswith("domain_connect") for row in rows) == 2 * CONNECTIONS
    captured = {row["correlation"]: row["service"]["name"] for row in rows if row["message"] == "service_call_request"}
    lines = [json.loads(line)["fields"] for line in (tmp_path / "calls.jsonl").read_text().splitlines()]
    assert captured == {bytes.fromhex(fields["correlation"]): fields["service.name"] for fields in lines}
    assert len(captured) == len(lines) == 500
    times = [row["ts"] for row in rows if row["message"] == "service_call_request"]
    assert len(set(times)) == len(times)
