"""The gallery: MQTT in the kernel against ``construct``, and what each protocol costs as columns and as records.

    python -m benchmarks.gallery

MQTT checks the same on both sides: lengths, reserved bits, quality of service, text in UTF-8. The table has drawn
messages of at most 200 bytes, as long as each other in both columns. CPU time, the best of some rounds each, in turn.
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

from wirelake import decode, load
from wirelake.codec.encoder import encode_frame
from wirelake.columnar import decode_frames
from wirelake.generate import random_frame
from wirelake.spec import Protocol
from wirelake.spec.resolve import layout

GALLERY = Path(__file__).resolve().parents[1] / "examples" / "protocols"
MQTT = f"{GALLERY / 'mqtt.py'}:PROTOCOL"
MESSAGES, SLOW_MESSAGES, ROUNDS = 50_000, 4_000, 7
DRAWN, MOST_BYTES, SHORT_ROUNDS = 2_000, 200, 3
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


def drawn(protocol: Protocol) -> tuple[list[bytes], dict[str, str]]:
    """Return random frames of a protocol, and the side that sends them, where that decides how they are read."""
    side = {"sent_by": "client"} if "sent_by" in protocol.options else {}
    made, rng = layout(protocol, **side), Random(5)
    nodes = [node for node in made.messages.values() if not side or node.sent_by in ("both", "client")]
    found: list[bytes] = []
    while len(found) < DRAWN:
        frame = random_frame(made, rng.choice(nodes), rng)[1]
        found += [frame] if len(frame) <= MOST_BYTES else []
    return found, side


def costs(name: str) -> str:
    """Return a row of the table: messages per second as columns and as records, and how many the kernel declines."""
    protocol = load(f"{GALLERY / name}.py:PROTOCOL")
    given, side = drawn(protocol)
    slow = len(decode_frames(protocol, given, **side).slow)  # compiles what is needed
    columns = records = 0.0
    for _ in range(SHORT_ROUNDS):
        columns = max(columns, per_second(lambda: decode_frames(protocol, given, **side), len(given)))
        records = max(records, per_second(lambda: [decode(protocol, frame, **side) for frame in given], len(given)))
    return f"| {name} | {columns:,.0f} | {records:,.0f} | {slow / len(given):.0%} |"


def main() -> None:
    protocol, given = load(MQTT), frames(MESSAGES)
    few = given[:SLOW_MESSAGES]
    parse: Callable[[bytes], Any] = DECLARED.compile().parse
    assert_agreement(few, parse)
    ours, theirs = 0.0, 0.0
    for _ in range(ROUNDS):
        ours = max(ours, per_second(lambda: decode_frames(protocol, given), len(given)))
        theirs = max(theirs, per_second(lambda: [parse(frame) for frame in few], len(few)))
    print(f"MQTT: kernel {ours:,.0f} messages/s, construct {theirs:,.0f} messages/s: {ours / theirs:.1f} x\n")
    print("| protocol | messages/s as columns | as records | left to the record codec |\n|---|---|---|---|")
    for path in sorted(GALLERY.glob("*.py")):
        print(costs(path.stem))


if __name__ == "__main__":
    main()
