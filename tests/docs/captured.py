"""Small captures in one line, for the examples of docs/rules.md: what of them is quarantined, noted, a violation.

``ceda >820101 >+2 <820101`` is a connection of ceda: three bytes to the server, two more that were not captured, three
bytes to the client. Bytes are hex or text in quotes. With ``...`` in front, its beginning was not captured; with ``!``
before bytes, they have a time of the year 10000.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from wirelake.capture.chunks import TO_CLIENT, TO_SERVER, Chunks
from wirelake.capture.messages import Output
from wirelake.capture.read import open_capture
from wirelake.capture.settings import ReadSettings
from wirelake.capture.streams import Streams
from wirelake.capture.tcp import Tracker
from wirelake.capture.write.tap import TapWriter
from wirelake.gold.connections import connection_rows
from wirelake.gold.facts import CODED_FACTS, FACTS, facts
from wirelake.gold.matching import Matching
from wirelake.gold.violations import Violations
from wirelake.protocols import load

START_US, YEAR_10000_US = 1_700_000_000_000_000, 253_402_300_800_000_000
PART = re.compile(r'([<>]!?)(?:\+(\d+)|((?:"(?:[^"\\]|\\.)*"|[0-9a-f×\s]+?|\s)+?))(?=\s*(?:[<>]|$))')
SPREAD = re.compile(r"([0-9a-f]{2})×([0-9]+)")


def told_by_capture(example: str) -> tuple[str, str]:
    """The rule that the capture breaks, and what tells so."""
    protocol, _, rest = example.partition(" ")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "example.tap"
        _write(path, protocol, rest)
        reader = open_capture(str(path), tracker := Tracker())
        streams = Streams(ReadSettings())
        seen = [*reader, tracker.finish()]
        outputs = [*(streams.feed(chunks, "example") for chunks in seen), streams.finish()]
    return next(_told(protocol, seen, outputs), ("", "nothing"))


def _write(path: Path, protocol: str, rest: str) -> None:
    text = rest.removeprefix("...").strip()
    parts = list(PART.finditer(text))
    assert "".join(part.group().strip() for part in parts) == re.sub(r"\s+(?=[<>])", "", text), text
    with TapWriter(path) as tap:
        number = tap.open(("c", 1), ("s", 2), START_US, protocol, is_whole=not rest.startswith("..."))
        for at, part in enumerate(parts):
            direction = TO_SERVER if part[1][0] == ">" else TO_CLIENT
            begin_us = START_US if part[1][1:] != "!" else YEAR_10000_US
            if part[2]:
                tap.skip(number, direction, int(part[2]))
            else:
                tap.data(number, direction, begin_us + 1000 * (at + 1), _bytes(part[3]))


def _bytes(text: str) -> bytes:
    pieces = re.findall(r'"(?:[^"\\]|\\.)*"|[0-9a-f×\s]+', text)
    return b"".join(
        json.loads(piece).encode()
        if piece.startswith('"')
        else bytes.fromhex(SPREAD.sub(lambda found: found[1] * int(found[2]), piece))
        for piece in pieces
    )


def _told(protocol: str, seen: list[Chunks], outputs: list[Output]) -> Iterator[tuple[str, str]]:
    for output in outputs:
        yield from ((rule, "quarantine") for rule in output.quarantine.column("rule").to_pylist())
    batches = [batch for output in outputs for found in output.messages.values() for batch in found]
    for batch in batches:
        yield from ((note, "note") for notes in batch.column("notes").to_pylist() for note in notes or ())
    rows = pa.Table.from_batches([facts(load(protocol), batch) for batch in batches], CODED_FACTS).cast(FACTS)
    known = {one.id: one for chunks in seen for one in chunks.connections}
    for one in known.values():
        one.protocol = protocol
    step = Violations()
    ordered = rows.sort_by([("connection", "ascending"), ("ts", "ascending"), ("order", "ascending")])
    fed = step.feed(Matching().feed(ordered), connection_rows(list(known.values()), "example"))
    for found in (fed, step.settle(START_US, True)):
        yield from ((rule, "violation") for rule in found.column("rule").to_pylist())
