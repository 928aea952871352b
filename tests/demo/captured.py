"""What is in a directory of captures, read without Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wirelake.capture.decode import CaptureRange
from wirelake.capture.partitions import decode_partition, plan
from wirelake.capture.settings import ReadSettings

Row = dict[str, Any]


@dataclass
class Captured:
    messages: dict[str, list[Row]] = field(default_factory=dict)
    quarantine: list[Row] = field(default_factory=list)
    accounts: list[Row] = field(default_factory=list)

    def said(self, protocol: str, message: str, **wanted: Any) -> list[Row]:
        """Messages of that name with these values."""
        return [
            row
            for row in self.messages[protocol]
            if row["message"] == message and all(row[name] == value for name, value in wanted.items())
        ]

    def broken(self, protocol: str) -> set[str]:
        return {row["rule"] for row in self.quarantine if row["protocol"] == protocol}


def read_captures(directory: Path) -> Captured:
    reading = ReadSettings()
    pieces = [CaptureRange(str(path), path.name) for path in sorted(directory.glob("*.tap"))]
    found = Captured()
    for partition in plan(pieces, reading, is_last=True).partitions:
        for seen in decode_partition(partition, reading)[1]:
            for name, batches in seen.output.messages.items():
                found.messages.setdefault(name, []).extend(row for batch in batches for row in batch.to_pylist())
            found.quarantine += seen.output.quarantine.to_pylist()
            found.accounts += seen.output.accounts.to_pylist()
    return found
