"""Generated traffic as facts, and its truth as rows of the tables made from them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from wirelake.columnar import decode
from wirelake.columnar.schema import TIMESTAMP
from wirelake.generate import Traffic
from wirelake.generate.simulation import Closed, Event
from wirelake.gold.facts import CODED_FACTS, FACTS, facts
from wirelake.spec.columns import columns


@dataclass
class Played:
    """Facts in the order of (connection, ts, order), and when connections ended."""

    facts: pa.Table
    ended: dict[str, int]
    place: dict[int, tuple[str, str, int]]
    """Connection, direction and offset of each event."""
    end_us: int


def name_of(number: int) -> str:
    return f"c{number:04d}"


def play(traffic: Traffic) -> Played:
    streams: dict[tuple[int, str], list[tuple[int, Event]]] = defaultdict(list)
    ended: dict[str, int] = {}
    end_us = number = 0
    for item in traffic.timeline():
        end_us = max(end_us, item.ts_us)
        if isinstance(item, Event):
            streams[item.connection.number, item.direction].append((number, item))
            number += 1
        elif isinstance(item, Closed):
            ended[name_of(item.connection.number)] = item.ts_us
    place: dict[int, tuple[str, str, int]] = {}
    parts = [_facts_of(connection, direction, events, place) for (connection, direction), events in streams.items()]
    table = pa.Table.from_batches(parts, CODED_FACTS).cast(FACTS)
    return Played(table.sort_by([(name, "ascending") for name in ("connection", "ts", "order")]), ended, place, end_us)


def _facts_of(
    connection: int, direction: str, events: list[tuple[int, Event]], place: dict[int, tuple[str, str, int]]
) -> pa.RecordBatch:
    layout = events[0][1].connection.layout
    wanted = list(columns(layout.protocol))
    batch = decode(
        layout.protocol,
        b"".join(event.frame for _, event in events),
        ["offset", "length", "message", "code", "notes", "raw_text", *wanted],
        **layout.options,
    )
    assert len(batch.records) == len(events) and not len(batch.quarantined)
    size = len(events)
    envelope: dict[str, Any] = {
        "capture": pa.array(["t.pcap"] * size),
        "connection": pa.array([name_of(connection)] * size),
        "direction": pa.array([direction] * size),
        "ts": pa.array([event.ts_us for _, event in events], TIMESTAMP),
        "order": pa.array([number for number, _ in events], pa.int64()),
    }
    records = pa.RecordBatch.from_arrays(
        [*envelope.values(), *batch.records.columns], names=[*envelope, *batch.records.schema.names]
    )
    for (number, _), offset in zip(events, batch.records.column("offset").to_pylist(), strict=True):
        place[number] = (name_of(connection), direction, offset)
    return facts(layout.protocol, records, **{k: v for k, v in layout.options.items() if k == "profile"})
