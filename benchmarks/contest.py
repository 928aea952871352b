"""Who is compared with whom: the contestants of one protocol, on the same messages, with proof that they agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import wirelake
from wirelake.codec import codec_for
from wirelake.protocols import load
from wirelake.spec.resolve import layout

from . import hand_columns, hand_records
from .constructs import DECLARED
from .traffic import OPTIONS

BATCH = 50_000
CONSTRUCT_MESSAGES = 2_000
"""construct takes as many of the messages: it is slow, and no quicker on more."""
SHOWN_MESSAGES = 1_000
"""So many messages are compared as JSON, too."""
TWO_COLUMNS = ["execution", "flags"]

COLUMNAR, TWO, RECORD, CODEC = "columnar", "columnar, two columns", "record: decode", "record: codec"
CONSTRUCT, HAND_COLUMNS, HAND_RECORDS = "construct", "hand-written columns", "hand-written records"


@dataclass(frozen=True)
class Contestant:
    """``run`` decodes ``messages`` messages of ``size`` bytes and forgets them; ``keep`` returns what they became."""

    name: str
    messages: int
    size: int
    run: Callable[[], Any]
    keep: Callable[[], Any]


@dataclass(frozen=True)
class Demand:
    """How many times as fast the first must be as the second."""

    faster: str
    slower: str
    at_least: float


DEMANDS = (
    Demand(COLUMNAR, CONSTRUCT, 25),
    Demand(COLUMNAR, HAND_COLUMNS, 4),
    Demand(TWO, COLUMNAR, 3),
    Demand(RECORD, HAND_RECORDS, 0.6),
    Demand(CODEC, HAND_RECORDS, 0.6),
)


def contestants(protocol: str, frames: Sequence[bytes]) -> list[Contestant]:
    """All contestants for these frames, in the order in which they are measured and shown."""
    options = OPTIONS[protocol]
    buffer = b"".join(frames)
    codec = codec_for(layout(load(protocol), **options))

    def columns(name: str, decode: Callable[[], Any]) -> Contestant:
        return Contestant(name, len(frames), len(buffer), decode, decode)

    def one_by_one(name: str, decode: Callable[[bytes], Any], chosen: Sequence[bytes] = frames) -> Contestant:
        def run() -> None:
            for frame in chosen:
                decode(frame)

        return Contestant(name, len(chosen), sum(map(len, chosen)), run, lambda: [decode(frame) for frame in chosen])

    def public() -> None:
        decode = wirelake.decode
        for frame in frames:
            decode(protocol, frame, **options)

    found = [columns(COLUMNAR, lambda: wirelake.columnar.decode(protocol, buffer, **options))]
    if protocol == "casual":
        found.append(columns(TWO, lambda: wirelake.columnar.decode(protocol, buffer, TWO_COLUMNS, **options)))
    found.append(columns(HAND_COLUMNS, lambda: hand_columns.READERS[protocol](buffer)))
    kept = lambda: [wirelake.decode(protocol, frame, **options) for frame in frames]  # noqa: E731
    found.append(Contestant(RECORD, len(frames), len(buffer), public, kept))
    found.append(one_by_one(CODEC, codec.decode))
    found.append(one_by_one(HAND_RECORDS, hand_records.READERS[protocol]))
    found.append(one_by_one(CONSTRUCT, DECLARED[protocol].parser(), frames[:CONSTRUCT_MESSAGES]))
    return found


class Disagreement(Exception):
    """A contestant's result is not ours, so that comparing speeds would mean nothing."""


def assert_agreement(protocol: str, frames: Sequence[bytes]) -> None:
    """Every contestant makes the same of these frames, and all of it in the quick way."""
    results = {contestant.name: contestant.keep() for contestant in contestants(protocol, frames)}
    batch = results[COLUMNAR]
    _demand(batch.records.num_rows == len(frames), protocol, "columnar does not decode all messages")
    _demand(not batch.slow and not batch.quarantined.num_rows, protocol, "columnar needs the record codec")
    batch.records.validate(full=True)
    _demand(results[HAND_COLUMNS].schema == batch.records.schema, protocol, "hand-written columns have another schema")
    _demand(results[HAND_COLUMNS].equals(batch.records), protocol, "hand-written columns differ")
    if TWO in results:
        two = results[TWO].records
        _demand(two.equals(batch.records.select(TWO_COLUMNS)), protocol, "two columns are not those of all columns")
    records = results[RECORD]
    for name in (CODEC, HAND_RECORDS):
        _demand(records == results[name], protocol, f"{name} differs")
        shown = [message.to_json() for message in results[name][:SHOWN_MESSAGES]]
        _demand(
            shown == [message.to_json() for message in records[:SHOWN_MESSAGES]], protocol, f"{name} differs in JSON"
        )
    agrees = DECLARED[protocol].agrees
    pairs = zip(results[CONSTRUCT], records, strict=False)
    _demand(all(agrees(found, message) for found, message in pairs), protocol, "construct differs")


def _demand(holds: bool, protocol: str, detail: str) -> None:
    if not holds:
        raise Disagreement(f"{protocol}: {detail}")
