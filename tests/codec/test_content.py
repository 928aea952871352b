"""Free-form values: MessagePack, JSON and CFIELD, read strictly and without harm."""

from __future__ import annotations

import json
import struct
import time
import tracemalloc
from typing import Any

import msgpack
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wirelake.codec.content import (
    FIELD_BASE,
    MAX_DEPTH,
    FieldValue,
    check_msgpack,
    dump_json,
    read_cfield,
    read_json,
    read_msgpack,
    read_shown_float,
    read_shown_free,
    read_shown_text,
    show_cfield,
    show_float,
    show_free,
    show_text,
    write_cfield,
    write_msgpack,
)
from wirelake.errors import DecodeError, EncodeError, LimitExceeded

UNSET = msgspec.UNSET

NUMBERS = st.floats(allow_nan=False)
plain = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | NUMBERS | st.text(max_size=20)
values = st.recursive(
    plain | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


def refusal(read: Any, data: bytes) -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        read(data)
    return caught.value


# --- MessagePack


@settings(max_examples=300)
@given(values)
def test_any_value_is_written_and_read_back(value: Any) -> None:
    packed = write_msgpack(value)
    assert read_msgpack(packed) == value
    check_msgpack(packed)


@settings(max_examples=300)
@given(values)
def test_what_is_shown_of_a_value_is_read_back(value: Any) -> None:
    shown = json.loads(json.dumps(show_free(value)))
    again = read_shown_free(shown)
    if not _ambiguous(value):
        assert json.dumps(show_free(again)) == json.dumps(show_free(value))


def _ambiguous(value: Any) -> bool:
    """Maps that look like binary or like broken text, and infinities, which JSON shows as text."""
    if isinstance(value, dict):
        return set(value) in ({"$bin"}, {"hex"}) or any(map(_ambiguous, value.values()))
    if isinstance(value, list):
        return any(map(_ambiguous, value))
    return isinstance(value, float) and value in (float("inf"), float("-inf"))


@settings(max_examples=1500)
@given(st.binary(min_size=1, max_size=24))
def test_the_checker_and_the_library_refuse_the_same_bytes(data: bytes) -> None:
    """Except time stamps that make no sense: extensions are null, whatever they say."""
    try:
        stamps = check_msgpack(data)
    except DecodeError:
        with pytest.raises(DecodeError):
            read_msgpack(data)
        return
    value = read_msgpack(data)
    if not stamps:
        assert repr(value) == repr(
            msgpack.unpackb(
                data, strict_map_key=False, unicode_errors="surrogateescape", ext_hook=lambda code, body: None
            )
        )


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ("d4ff00", None),
        ("c700ff", None),
        ("c703ff000000", None),
        ("d7ffffffffffffffffff", None),
        ("92d4ff0005", [None, 5]),
        ("81d4ff0005", {None: 5}),
        ("c70cffffffffff0000000000000000", None),
    ],
)
def test_a_time_stamp_that_makes_no_sense_is_an_extension_like_any_other(data: str, value: Any) -> None:
    assert show_free(read_msgpack(bytes.fromhex(data))) == show_free(value)


def test_depth_is_limited_exactly() -> None:
    assert read_msgpack(b"\x91" * MAX_DEPTH + b"\xc0") is not None
    error = refusal(read_msgpack, b"\x91" * (MAX_DEPTH + 1) + b"\xc0")
    assert isinstance(error, LimitExceeded)
    assert (error.rule, error.offset, error.limit) == ("msgpack_depth", MAX_DEPTH, MAX_DEPTH)


@pytest.mark.parametrize("lead", ["dd7fffffff", "ddffffffff", "dfffffffff", "dbffffffff", "c6ffffffff", "c9ffffffff05"])
def test_a_claim_of_4_gib_costs_neither_memory_nor_time(lead: str) -> None:
    data = bytes.fromhex(lead) + bytes(50)
    refusal(read_msgpack, data)
    tracemalloc.start()
    start = time.perf_counter()
    assert refusal(read_msgpack, data).rule == "msgpack"
    taken, peak = time.perf_counter() - start, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert taken < 0.05 and peak < 64 * 1024


def test_nested_claims_do_not_multiply() -> None:
    """Every level claims as many elements as could be there."""
    data = b"".join(b"\xdc" + (3000 - 3 * i).to_bytes(2, "big") for i in range(200)) + bytes(2400)
    start = time.perf_counter()
    assert refusal(read_msgpack, data).rule == "msgpack"
    assert time.perf_counter() - start < 0.1


def test_what_is_no_map_is_refused_where_a_map_is_due() -> None:
    assert read_msgpack(b"\x80", is_map=True) == {}
    with pytest.raises(DecodeError) as caught:
        read_msgpack(b"\x90", is_map=True)
    assert caught.value.rule == "msgpack_map"


@pytest.mark.parametrize("value", [1 << 64, -(1 << 63) - 1, object(), {1, 2}, 1j])
def test_what_messagepack_cannot_hold_is_refused(value: Any) -> None:
    with pytest.raises(EncodeError) as caught:
        write_msgpack(value)
    assert caught.value.rule == "msgpack"


def test_a_value_nested_without_end_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(EncodeError):
        write_msgpack(value)


# --- text and numbers


@given(st.binary(max_size=30))
def test_any_bytes_are_shown_as_text_and_read_back(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    assert read_shown_text(json.loads(json.dumps(show_text(text)))).encode("utf-8", "surrogateescape") == data


@given(st.floats())
def test_any_number_is_shown_and_read_back(number: float) -> None:
    again = read_shown_float(json.loads(json.dumps(show_float(number), allow_nan=False)))
    assert struct.pack(">d", again) == struct.pack(">d", number) or number != number


@pytest.mark.parametrize("shown", [True, None, [], {}])
def test_what_is_no_number_is_refused(shown: Any) -> None:
    with pytest.raises(ValueError, match="a number"):
        read_shown_float(shown)


@pytest.mark.parametrize("shown", [True, None, 5, [], {}, {"hex": 5}, {"hex": "zz"}])
def test_what_is_no_text_is_refused(shown: Any) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_shown_text(shown)


# --- JSON


def _finite(value: Any) -> bool:
    return value not in (float("inf"), float("-inf"))


def test_no_text_is_no_value() -> None:
    assert read_json(b"") is UNSET


def test_json_is_read_without_losing_a_digit() -> None:
    assert read_json(b"123456789012345678901234567890") == 123456789012345678901234567890
    assert read_json(b"[0.1, -1e-7]") == [0.1, -1e-7]


@pytest.mark.parametrize("digits", [4001, 5000, 16000])
def test_a_number_of_thousands_of_digits_is_read_like_any_other(digits: int) -> None:
    value = read_json(b"1" * digits)
    assert isinstance(value, int | float)


def test_json_depth_is_limited_without_counting_what_is_in_texts() -> None:
    assert read_json(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH) is not None
    assert read_json(b'["' + b"[{" * 500 + b'"]') is not None
    assert read_json(b'["\\"' + b"[{" * 500 + b'"]') is not None
    error = refusal(read_json, b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1))
    assert (error.rule, error.offset) == ("payload_json", MAX_DEPTH)
    assert refusal(read_json, b'{"a":' * 5000).rule == "payload_json"


@pytest.mark.parametrize("text", [b"[" * 16000, b'{"a":' * 3000, b"[{}," * 4000])
def test_hostile_json_is_refused_in_no_time(text: bytes) -> None:
    start = time.perf_counter()
    assert refusal(read_json, text).rule == "payload_json"
    assert time.perf_counter() - start < 0.1


def test_the_place_of_a_json_fault_is_counted_in_bytes() -> None:
    assert refusal(read_json, '{"é":x}'.encode()).offset == 6


@settings(max_examples=300)
@given(st.recursive(plain.filter(_finite), lambda inner: st.lists(inner, max_size=4), max_leaves=20))
def test_any_json_is_dumped_on_one_line_and_read_back(value: Any) -> None:
    text = dump_json(value)
    assert "\n" not in text
    assert read_json(text.encode()) == value


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("-inf")]])
def test_what_json_cannot_hold_is_not_dumped(value: Any) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        dump_json(value)


def test_lone_surrogates_are_escaped() -> None:
    assert dump_json("\ud800é") == '"\\ud800\\u00e9"'
    assert dump_json("é") == '"é"'


# --- CFIELD


def test_the_character_set_of_a_fielded_buffer_is_an_option() -> None:
    values_ = (FieldValue(6 * FIELD_BASE + 1, "string", "é"),)
    raw = write_cfield(values_, "latin-1")
    assert raw.endswith(b"\xe9\0")
    assert read_cfield(raw, "latin-1") == values_
    assert read_cfield(raw)[0].value == "\udce9"
    assert write_cfield(read_cfield(raw)) == raw


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *((1, 40000), (1, "x"), (2, 1 << 63), (2, None), (3, "ab"), (3, "€"), (3, ""), (3, 5), (4, "x"), (5, None)),
        *((6, 5), (7, "x"), (7, 5), (0, 1), (8, 1)),
    ],
)
def test_a_field_that_does_not_fit_its_type_is_refused(kind: int, value: Any) -> None:
    with pytest.raises(EncodeError) as caught:
        write_cfield((FieldValue(7 * FIELD_BASE, "binary", b""), FieldValue(kind * FIELD_BASE + 1, "", value)))
    assert (caught.value.rule, caught.value.path) == ("cfield_type", "[1]")


@settings(max_examples=300)
@given(st.binary(max_size=60))
def test_any_bytes_are_a_fielded_buffer_or_a_named_fault(data: bytes) -> None:
    try:
        found = read_cfield(data)
    except DecodeError as error:
        assert error.rule.startswith("cfield_") and error.path.startswith("[")
    else:
        assert write_cfield(found) == data


def test_a_fielded_buffer_is_shown_as_json() -> None:
    shown = show_cfield(
        (FieldValue(1, "binary", b"\xff"), FieldValue(2, "string", "\udcff"), FieldValue(3, "float", float("nan")))
    )
    assert [row["value"] for row in shown] == ["ff", {"hex": "ff"}, "NaN"]
