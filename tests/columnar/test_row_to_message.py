"""Rows back to messages, and Arrow arrays of frames."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from tests.differential import READING_IDS, READINGS, mutate, valid_frames
from wirelake.codec import decode, encode
from wirelake.columnar import decode_frames
from wirelake.columnar.row_to_message import message_of
from wirelake.columnar.to_json import all_columns
from wirelake.errors import DecodeError, EncodeError
from wirelake.protocols import load
from wirelake.spec.resolve import layout

readings = pytest.mark.parametrize(("protocol", "options"), READINGS, ids=READING_IDS)


@readings
def test_a_row_becomes_the_message_that_it_was(protocol: str, options: dict[str, Any]) -> None:
    declared = load(protocol)
    frames = valid_frames(protocol, 400, random.Random(11), **options)
    batch = decode_frames(protocol, frames, all_columns(declared), **options)
    made = 0
    for row, frame in zip(batch.records.to_pylist(), (frames[i] for i in batch.row_frames), strict=True):
        chosen = {k: row[k] if row.get(k) not in (None, "undecided") else v for k, v in options.items()}
        assert encode(message_of(layout(declared, **chosen), row)) == frame
        made += 1
    assert made > 380


@readings
def test_an_arrow_array_of_frames_is_read_as_a_list_of_them(protocol: str, options: dict[str, Any]) -> None:
    rng = random.Random(12)
    frames = [mutate(f, rng) if rng.random() < 0.2 else f for f in valid_frames(protocol, 300, rng, **options)]
    listed = decode_frames(protocol, frames, **options)
    for kind in (pa.binary(), pa.large_binary()):
        array = pa.array([b"before", *frames], kind).slice(1)
        found = decode_frames(protocol, array, **options)
        assert repr(found.records.to_pylist()) == repr(listed.records.to_pylist())  # a NaN equals only its name
        assert found.quarantined.equals(listed.quarantined)
        assert found.row_frames.tolist() == listed.row_frames.tolist()


def test_no_frames_are_no_rows() -> None:
    assert decode_frames("casual", pa.array([], pa.binary())).records.num_rows == 0
    assert decode_frames("casual", []).records.num_rows == 0


def test_a_body_is_made_from_its_parts() -> None:
    chosen = layout(load("ceda"), dialect="ceda4")
    cells = [{"fid": 1, "type": "INT", "long": 7}, {"fid": 2, "type": "STRING", "text": "x"}]
    data = encode(message_of(chosen, {"message": "publish", "topic": "FX", "record": cells}))
    shown = decode("ceda", data, dialect="ceda4").record
    assert [(cell.fid, cell.value) for cell in shown] == [(1, 7), (2, "x")]


def test_text_that_is_not_utf_8_comes_back() -> None:
    frame = next(
        f for f in valid_frames("casual", 40, random.Random(1)) if decode("casual", f).__message__["code"] == 7200
    )
    message = decode("casual", frame)
    name = message.domain.name.encode()
    odd = frame.replace(name, b"\xff" * len(name)) if name else frame
    row = decode_frames("casual", [odd]).records.to_pylist()[0]
    assert row["domain"]["name"] is None
    assert encode(message_of(layout(load("casual")), row)) == odd


@pytest.mark.parametrize(
    ("row", "path", "rule"),
    [
        ({}, "message", "unknown_message"),
        ({"message": "nonsense"}, "message", "unknown_message"),
        ({"code": 1}, "message", "unknown_message"),
        ({"message": "service_call_request"}, "correlation", "field_missing"),
        ({"message": "domain_connect_request", "execution": bytes(16), "domain": 7}, "domain", "field_type"),
        (
            {"message": "domain_connect_request", "execution": bytes(16), "domain": {"id": bytes(16)}},
            "domain.name",
            "field_missing",
        ),
    ],
)
def test_what_a_row_lacks_is_named(row: dict[str, Any], path: str, rule: str) -> None:
    row.setdefault("correlation", bytes(16) if path != "correlation" else None)
    with pytest.raises(EncodeError) as caught:
        message_of(layout(load("casual")), row)
    assert (caught.value.path, caught.value.rule) == (path, rule)


def test_decode_errors_are_those_of_the_record_codec() -> None:
    array = pa.array([b"", b"abc"])
    rejects = decode_frames("casual", array).quarantined.to_pylist()
    for reject, frame in zip(rejects, (b"", b"abc"), strict=True):
        with pytest.raises(DecodeError) as caught:
            decode("casual", frame)
        assert (reject["rule"], reject["detail"]) == (caught.value.rule, caught.value.detail)
