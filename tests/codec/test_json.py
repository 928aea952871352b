"""Messages as JSON and back: the shape, and that no object, however odd, gives anything but bytes or an EncodeError."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest

from tests.vectors.load import PROTOCOLS, invalid, valid
from wirelake import decode
from wirelake import spec as s
from wirelake.codec.encoder import encode_frame
from wirelake.codec.json import error_json, from_json, to_json
from wirelake.errors import DecodeError, EncodeError
from wirelake.protocols import ceda, dsa, load
from wirelake.spec import Cell
from wirelake.spec.resolve import layout


def shown(protocol: str, hex_: str, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = to_json(decode(protocol, bytes.fromhex(hex_), **options))
    return found


def test_the_object_of_a_message_has_this_shape() -> None:
    assert shown("ceda", "820101") == {
        "ok": True,
        "protocol": "ceda",
        "message": "heartbeat",
        "code": 1,
        "length": 3,
        "fields": {"dialect": "undecided", "payload_length": 1, "extended_length": False, "masked": False},
    }


def test_notes_are_there_only_if_there_are_any() -> None:
    padded = "0000000000000c8d" + "00" * 16 + "0000000000000018" + "11" * 16 + "00" * 8
    assert shown("casual", padded)["notes"] == ["java_padding"]
    assert "notes" not in shown("ceda", "820101")


def test_the_object_of_a_fault_has_this_shape() -> None:
    with pytest.raises(DecodeError) as caught:
        decode("ceda", bytes.fromhex("8205"))
    assert error_json(caught.value, "ceda") == {
        "ok": False,
        "protocol": "ceda",
        "verdict": "incomplete",
        "rule": "frame_incomplete",
        "path": "payload_length",
        "offset": 2,
        "detail": "2 of 7 bytes are there",
    }


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_object_is_strict_json(protocol: str) -> None:
    def no_constant(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    for vector in valid(protocol):
        text = json.dumps(to_json(decode(protocol, vector.data, **vector.options)))
        json.loads(text, parse_constant=no_constant)
        text.encode("ascii")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_faults_are_strict_json_too(protocol: str) -> None:
    for vector in invalid(protocol):
        with pytest.raises(DecodeError) as caught:
            decode(protocol, vector.data, **vector.options)
        told = json.loads(json.dumps(error_json(caught.value, protocol)))
        assert {key: told[key] for key in ("verdict", "rule", "path", "offset")} == vector.error
        assert told["detail"]


def test_a_message_that_was_made_is_shown_as_it_would_be_decoded() -> None:
    made = ceda.Publish(topic="T", record=(Cell(1, "INT", 5),))
    assert to_json(made)["fields"] | {"dialect": ""} == {
        "dialect": "",
        "topic": "T",
        "body_hex": "120005000000",
        "record": [{"fid": 1, "type": "INT", "value": 5}],
        "payload_length": 9,
        "extended_length": False,
        "masked": False,
    }
    assert to_json(made)["length"] == 11


def test_free_values_are_shown_as_json_can_hold_them() -> None:
    body = "87 01 c0 a178 c40100 c0 c2 a162 d40500 a163 cb7ff8000000000000 a164 a1ff a165 ca3dcccccd"
    frame = bytes.fromhex(body)
    message = dsa.InvokeResponse(request_id=1, ack_id=1, body=frame)
    value = to_json(message)["fields"]["value"]
    assert value == {
        "1": None,
        "x": {"$bin": "00"},
        "null": False,
        "b": None,
        "c": "NaN",
        "d": {"hex": "ff"},
        "e": 0.10000000149011612,
    }


def test_what_json_shows_of_a_free_value_is_read_back() -> None:
    reading = layout(load("dsa"))
    fields = {"request_id": 1, "ack_id": 1, "headers": {}, "value": [{"$bin": "00ff"}, {"hex": "ff"}, {"a": None}]}
    made = from_json(reading, {"message": "invoke_response", "fields": fields})
    again = decode("dsa", encode_frame(reading, made))
    assert again.value == [b"\x00\xff", "\udcff", {"a": None}]


def test_the_path_of_a_fault_leads_to_the_element() -> None:
    reading = layout(load("ceda"), dialect="ceda4")
    cells = [{"fid": 1, "type": "INT", "value": 1}, {"fid": 2, "type": "INT", "value": "x"}]
    with pytest.raises(EncodeError) as caught:
        from_json(reading, {"message": "publish", "fields": {"topic": "T", "record": cells}})
    assert (caught.value.rule, caught.value.path) == ("json_shape", "record[1]")


JUNK: list[Any] = [
    None, True, False, 0, -1, 1, 1 << 70, -(1 << 70), 1.5, float("nan"), float("inf"), "", "x", "00", "é", "\ud800",
    "\udc80", [], [1], [None], ["a"], [[]], [{}], {}, {"hex": "ff"}, {"hex": "x"}, {"hex": 5}, {"$bin": "00"},
    {"$bin": "x"}, {"a": 1},
    "9" * 5000, {"fid": 1}, [{"fid": "1", "type": "INT", "value": 1}], [{"fid": 1, "type": "FLOAT", "value": "x"}],
    [{"fid": 1, "type": "FLOAT", "bits": "zz"}], [{"fid": 1, "type": "FLOAT", "bits": "ffffffffff", "value": 1}],
    [{"type": "BYTES", "fid": 1}], [{"type": "STRING", "fid": 1, "value": 5}], [{"fid": 1, "type": [], "value": 1}],
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to everything inside an object."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [path] if path else []
    for key, item in items:
        found += places(item, (*path, key))
    return found


def spoil(given: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    spoiled = copy.deepcopy(given)
    *way, last = rng.choice(places(spoiled))
    target: Any = spoiled
    for key in way:
        target = target[key]
    if rng.random() < 0.2 and isinstance(target, dict):
        del target[last]
    else:
        target[last] = rng.choice(JUNK)
    if rng.random() < 0.3 and isinstance(spoiled.get("fields"), dict):
        for name in ("body", "body_hex", "payload"):
            spoiled["fields"].pop(name, None)
    return spoiled


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_odd_object_gives_bytes_or_an_encode_error_and_nothing_else(protocol: str) -> None:
    rng = random.Random(5)
    refused = written = 0
    for vector in valid(protocol):
        if len(vector.data) > 2000:
            continue
        message = decode(protocol, vector.data, **vector.options)
        given = json.loads(json.dumps(to_json(message)))
        for _ in range(8):
            try:
                encode_frame(message.layout, from_json(message.layout, spoil(given, rng)))
                written += 1
            except EncodeError as error:
                assert error.rule and error.detail
                refused += 1
    assert refused > 300 and written > 300


@pytest.mark.parametrize("given", [None, 5, "x", [], {}, {"fields": []}, {"fields": {}}, {"fields": {}, "code": [1]}])
def test_what_is_no_object_is_refused(given: Any) -> None:
    with pytest.raises(EncodeError):
        from_json(layout(load("casual")), given)


def test_a_structure_that_is_absent_stays_absent() -> None:
    pair = s.struct("Pair", x=s.field(s.u8), y=s.field(s.u8))
    pairs = s.message("Pairs", code=1, k=s.field(s.u8), pair=s.optional(s.nested(pair), when=s.When("k")))
    frame = s.Frame((s.Size("length", s.u8, counts="after"), s.Code("type", s.u8)))
    protocol = s.declare(s.Protocol("pairs", "Pairs", frame, (pairs,)))
    for data in (b"\2\1\0", b"\4\1\1\2\3"):
        message = decode(protocol, data)
        assert encode_frame(message.layout, from_json(message.layout, message.to_json())) == data
