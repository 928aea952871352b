"""Protocols declared from their public documents alone, each in a file of its own, read bytes composed by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wirelake import columnar, decode, encode, load
from wirelake.codec.encoder import encode_frame
from wirelake.codec.json import from_json
from wirelake.generate import generate
from wirelake.spec.states import states

HERE = Path(__file__).parent / "public"
NAMES = sorted(path.stem for path in HERE.glob("*.py"))
VECTORS = [(name, vector) for name in NAMES for vector in json.loads((HERE / f"{name}.json").read_text())]
MOST_LINES = 120


def protocol(name: str) -> Any:
    return load(f"{HERE / name}.py:PROTOCOL")


@pytest.mark.parametrize(("name", "vector"), VECTORS, ids=[f"{name}-{v['message']}" for name, v in VECTORS])
def test_bytes_of_the_document_are_read_and_written_by_every_reader(name: str, vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    side = {key: vector[key] for key in ("sent_by", "state") if key in vector}
    message = decode(protocol(name), data, **side)
    shown = json.loads(json.dumps(message.to_json()))
    assert shown["message"] == vector["message"]
    assert {key: shown["fields"].get(key) for key in vector.get("fields", {})} == vector.get("fields", {})
    assert encode(message) == data
    assert encode_frame(message.layout, from_json(message.layout, shown)) == data
    times = 1 if states(protocol(name)) else 2  # behind it another message may have to come
    rows = columnar.decode(protocol(name), data * times, **side).records.to_pylist()
    assert [row["message"] for row in rows] == [vector["message"]] * times


@pytest.mark.parametrize("name", NAMES)
def test_a_declaration_is_short_and_can_be_played(name: str) -> None:
    assert len((HERE / f"{name}.py").read_text().splitlines()) < MOST_LINES
    connections = 60 if states(protocol(name)) else 4  # some messages come once in each
    traffic = generate(protocol(name), seed=3, messages=400, connections=connections)
    played = {event.message.__message__["name"] for event in traffic}
    assert played == {cls.__message__["name"] for cls in protocol(name).messages}
