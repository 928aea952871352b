"""Seeded messages for the measurements: one kind per protocol, no two alike in values, most not in length."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable
from typing import Any

import msgpack

from wirelake import encode
from wirelake.protocols import casual, ceda, dsa, mb
from wirelake.spec import Cell

OPTIONS: dict[str, dict[str, Any]] = {
    "casual": {},
    "dsa": {},
    "mb": {"framing": "tcp"},
    "ceda": {"dialect": "ceda4"},
}
"""How each protocol is read here: what the hand-written loops and the construct declarations are written for."""


def make_frames(protocol: str, count: int, seed: int = 1) -> list[bytes]:
    """That many frames of one protocol, the same for the same seed."""
    source = random.Random(f"{protocol} {seed}")
    make = _MAKERS[protocol]
    options = OPTIONS[protocol]
    return [encode(make(source), **options) for _ in range(count)]


def _word(source: random.Random, least: int, most: int) -> str:
    return "".join(source.choices("abcdefghijklmnopqrstuvwxyz", k=source.randint(least, most)))


def _casual(source: random.Random) -> Any:
    """A service call of about 440 bytes; one in eight has no transaction."""
    if source.random() < 0.125:
        xid = casual.NULL_XID
    else:
        xid = casual.Xid(42, source.randbytes(16), source.randbytes(16))
    payload = source.randbytes(source.randint(180, 330))
    return casual.ServiceCallRequest(
        correlation=source.randbytes(16),
        execution=source.randbytes(16),
        service=casual.Service(f"{_word(source, 4, 8)}/{_word(source, 6, 12)}", source.randrange(0, 60_000_000)),
        parent=casual.Parent(f"{_word(source, 4, 8)}/{_word(source, 6, 12)}"),
        xid=xid,
        flags=source.choice((0, 0, 0, 4, 8, 32)),
        buffer=casual.Buffer(source.choice((".json/", "X_OCTET/", "CFIELD/")), payload),
    )


def _dsa(source: random.Random) -> Any:
    """A subscribe response of about 60 bytes: a status, a time stamp, a value; one in four has a sequence number."""
    tags: dict[str, Any] = {"status": 0}
    if source.random() < 0.25:
        tags["sequence_id"] = source.randrange(1, 100_000)
    seconds, thousandths = source.randrange(60), source.randrange(1000)
    meta = msgpack.packb({"ts": f"2024-03-{source.randint(1, 31):02}T12:00:{seconds:02}.{thousandths:03}+00:00"})
    number = source.random()
    value = source.choice((number * 100, int(number * 100_000), number < 0.5, _word(source, 3, 9)))
    return dsa.SubscribeResponse(
        request_id=source.randrange(1, 10_000),
        ack_id=source.randrange(1, 1_000_000),
        headers=dsa.Headers(**tags, order=tuple(tags)),
        body=len(meta).to_bytes(2, "little") + meta + msgpack.packb(value),
    )


def _mb(source: random.Random) -> Any:
    """A publish of about 140 bytes with its length before it; two in three have an id."""
    payload = {
        "sensor": _word(source, 5, 9),
        "value": round(source.random() * 1000, 3),
        "unit": source.choice(("C", "bar", "kWh")),
        "at": 1_718_000_000_000 + source.randrange(1_000_000_000),
        "ok": True,
    }
    known = source.random() < 0.67
    return mb.Publish(
        topic=f"plant.{_word(source, 4, 8)}.{_word(source, 4, 9)}",
        version=f"{source.randint(0, 3)}.{source.randint(0, 20)}.{source.randint(0, 9)}",
        request_id=str(uuid.UUID(int=source.getrandbits(128), version=4)) if known else None,
        payload=json.dumps(payload, separators=(",", ":")).encode(),
    )


def _ceda(source: random.Random) -> Any:
    """A publish of about 56 bytes with five cells."""
    price = source.randint(8_000, 160_000) / 10_000
    cells = [
        (1, "DOUBLE", price),
        (3, "STRING", _word(source, 3, 5)),
        (4, "INT", source.randrange(-5_000, 5_000_000)),
        (6, "LONG", 1_718_000_000_000 + source.randrange(1_000_000_000)),
        (7, "SHORT", source.randrange(-300, 300)),
    ]
    source.shuffle(cells)
    return ceda.Publish(
        topic=f"FX.SPOT.{_word(source, 5, 7).upper()}",
        record=tuple(Cell(fid, kind, value) for fid, kind, value in cells),
    )


_MAKERS: dict[str, Callable[[random.Random], Any]] = {"casual": _casual, "dsa": _dsa, "mb": _mb, "ceda": _ceda}
PROTOCOLS = tuple(_MAKERS)
