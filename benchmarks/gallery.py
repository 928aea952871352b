"""MQTT of the gallery in the kernel, against the same packets declared with ``construct``.

    python -m benchmarks.gallery

Both check the same: lengths, reserved bits, quality of service, text in UTF-8. CPU time, the
best of some rounds each, in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from time import process_time
from typing import Any

from construct import (
    Check,
    Computed,
    GreedyBytes,
    If,
    Int8ub,
    Int16ub,
    PascalString,
    Prefixed,
    Struct,
    Switch,
    Terminated,
    VarInt,
    this,
)

from wirelake import load
from wirelake.codec.encoder import encode_frame
from wirelake.columnar import decode_frames
from wirelake.spec.resolve import layout

MQTT = f"{Path(__file__).resolve().parents[1] / 'examples' / 'protocols' / 'mqtt.py'}:PROTOCOL"
MESSAGES, SLOW_MESSAGES, ROUNDS = 50_000, 4_000, 7
_TEXT = PascalString(Int16ub, "utf8")
_PUBLISH = Struct(
    "qos" / Computed((this._.first >> 1) & 3),
    Check(this.qos <= 2),
    "topic" / _TEXT,
    "packet_id" / If(this.qos > 0, Int16ub),
    "payload" / GreedyBytes,
)
_ACK = Struct(Check((this._.first & 15) == 0), "packet_id" / Int16ub, Terminated)
DECLARED = Struct(
    "first" / Int8ub, "body" / Prefixed(VarInt, Switch(this.first >> 4, {3: _PUBLISH, 4: _ACK})), Terminated
)


def frames(count: int) -> list[bytes]:
    """Return publications of quality 1, and the packets that confirm them."""
    protocol, rng = load(MQTT), Random(17)
    made = layout(protocol)
    publish, puback = made.named("publish"), made.named("puback")
    assert publish is not None and puback is not None
    found = []
    for i in range(0, count, 2):
        topic, payload = f"plant/line{i % 7}/sensor{i % 40}", rng.randbytes(rng.randrange(20, 60))
        found.append(encode_frame(made, publish.cls(qos=1, topic=topic, packet_id=1 + i % 60_000, payload=payload)))
        found.append(encode_frame(made, puback.cls(packet_id=1 + i % 60_000)))
    return found


def assert_agreement(given: Sequence[bytes], parse: Callable[[bytes], Any]) -> None:
    """Both find the same in every packet, and the kernel declines none."""
    batch = decode_frames(load(MQTT), list(given))
    assert not batch.slow and not batch.quarantined.num_rows
    for frame, row in zip(given, batch.records.to_pylist(), strict=True):
        body = parse(frame).body
        assert body.packet_id == row["packet_id"]
        if row["message"] == "publish":
            assert (body.qos, body.topic, body.payload) == (row["qos"], row["topic"], row["payload"])


def per_second(run: Callable[[], Any], count: int) -> float:
    before = process_time()
    run()
    return count / (process_time() - before)


def main() -> None:
    protocol, given = load(MQTT), frames(MESSAGES)
    few = given[:SLOW_MESSAGES]
    parse: Callable[[bytes], Any] = DECLARED.compile().parse
    assert_agreement(few, parse)
    ours, theirs = 0.0, 0.0
    for _ in range(ROUNDS):
        ours = max(ours, per_second(lambda: decode_frames(protocol, given), len(given)))
        theirs = max(theirs, per_second(lambda: [parse(frame) for frame in few], len(few)))
    print(f"MQTT: kernel {ours:,.0f} messages/s, construct {theirs:,.0f} messages/s: {ours / theirs:.1f} x")


if __name__ == "__main__":
    main()
