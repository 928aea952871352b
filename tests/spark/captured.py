"""Captures for the tests of this room, and their rows without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from wirelake import encode
from wirelake.capture.write.pcap import PcapWriter
from wirelake.capture.write.tcp import TcpWriter
from wirelake.protocols import casual
from wirelake.spark.options import read_options
from wirelake.spark.reading import Table, partitions, rows

PCAP_HEADER = 24


def table_of(name: str, path: Path | str, schema: StructType | None = None, **options: Any) -> Table:
    return Table.of(read_options(name, {"path": str(path), **options}), schema)


def rows_of(table: Table) -> list[dict[str, Any]]:
    """Every row of a capture, sorted by where it is from."""
    batches = [batch for share in partitions(table) for batch in rows(table, share)]
    found = pa.Table.from_batches(batches, table.target).to_pylist()
    return sorted(found, key=lambda row: (row["capture"], row["connection"], row["direction"], row["offset"]))


def read(name: str, path: Path | str, **options: Any) -> list[dict[str, Any]]:
    return rows_of(table_of(name, path, **options))


def call(number: int, payload: bytes) -> bytes:
    """A casual call."""
    return encode(
        casual.ServiceCallRequest(
            correlation=number.to_bytes(16, "big"),
            execution=bytes(16),
            service=casual.Service(f"shop/order{number % 7}", 1000),
            parent=casual.Parent("shop"),
            xid=casual.NULL_XID,
            flags=number,
            buffer=casual.Buffer("X_OCTET/", payload),
        )
    )


def hostile_frames(count: int) -> list[bytes]:
    """Calls whose payloads are calls, whole and torn, at every alignment."""
    inner = call(1, b"inner")
    return [call(i, bytes(i % 13) + (inner * (i % 5))[: -(i % 9) or None] + inner[: i % 40]) for i in range(count)]


def write_one_connection(path: Path, frames: Iterable[bytes], segment: int = 1000) -> None:
    """One connection whose packets end anywhere."""
    with path.open("wb") as file:
        tcp = TcpWriter(PcapWriter(file))
        tcp.open(0, ("10.0.0.1", 40000), ("10.0.0.2", 7771), 1_700_000_000_000_000)
        data = b"".join(frames)
        for i in range(0, len(data), segment):
            tcp.send(0, True, data[i : i + segment], 1_700_000_000_001_000 + i)
        tcp.finish()


def split_pcap(path: Path, parts: int) -> list[Path]:
    """The packets of a capture in several files, as a rotating recorder writes them."""
    data = path.read_bytes()
    starts, at = [], PCAP_HEADER
    while at < len(data):
        starts.append(at)
        at += 16 + int.from_bytes(data[at + 8 : at + 12], "little")
    cuts = [starts[len(starts) * i // parts] for i in range(parts)] + [len(data)]
    made = []
    for i in range(parts):
        made.append(path.with_name(f"{path.stem}-{i:02}.pcap"))
        made[-1].write_bytes(data[:PCAP_HEADER] + data[cuts[i] : cuts[i + 1]])
    return made
