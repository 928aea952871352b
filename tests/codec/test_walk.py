"""The exact reader: what its errors say, what its trace shows, and that no claim of a frame costs memory or time."""

from __future__ import annotations

import pickle
import time
import tracemalloc
from typing import Any

import pytest

from tests.vectors.load import PROTOCOLS, Vector, invalid, valid, vectors
from wirelake import decode
from wirelake.codec.walk import Seen, walk
from wirelake.errors import BadValue, DecodeError, Incomplete, LimitExceeded, Truncated
from wirelake.protocols import load
from wirelake.spec.resolve import layout


def vector(protocol: str, file: str, case: str) -> Vector:
    return next(v for v in vectors(protocol) if (v.file, v.case) == (file, case))


def refusal(found: Vector) -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        decode(found.protocol, found.data, **found.options)
    return caught.value


# --- errors


@pytest.mark.parametrize(
    ("protocol", "file", "case", "text"),
    [
        (
            "casual",
            "domain_connect_request",
            "domain_name_one_too_long",
            "casual domain_connect_request domain.name at byte 64: text of 34 bytes, 33 left [text_fits] "
            "2a 2b 2c 2d 2e 2f 30 31 | 00 00 00 00 00 00 00 22",
        ),
        (
            "casual",
            "frame",
            "size_above_limit",
            "casual size at byte 24: length 268435457 is above the limit of 268435456 [frame_limit] "
            "08 09 0a 0b 0c 0d 0e 0f | 00 00 00 00 10 00 00 01",
        ),
        (
            "ceda",
            "record",
            "int_cut",
            "ceda publish record[1] at byte 11: 4 bytes are needed, 3 left [cell_fits] "
            "01 54 16 00 01 00 22 00 | 00 00 00",
        ),
        (
            "dsa",
            "headers",
            "qos_cut",
            "dsa subscribe_request headers.qos at byte 20: 1 bytes are needed, 0 left [header_fits] "
            "00 00 00 80 01 00 61 12 |",
        ),
        (
            "mb",
            "header",
            "topic_digit_first",
            "mb publish topic at byte 8: b'1a' is not a valid topic [topic] "
            "70 75 62 6c 69 73 68 3a | 31 61 3a 31 2e 30 2e 30",
        ),
    ],
)
def test_an_error_says_protocol_message_path_byte_rule_and_bytes(
    protocol: str, file: str, case: str, text: str
) -> None:
    assert str(refusal(vector(protocol, file, case))) == text


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_excerpt_stands_at_the_byte_that_is_told(protocol: str) -> None:
    for found in invalid(protocol):
        error = refusal(found)
        before, _, after = error.excerpt.partition("|")
        at = error.offset
        assert at is not None
        masked = "key" in error.path or (protocol == "ceda" and len(found.data) > 1 and found.data[1] & 0x80)
        if not masked:
            assert bytes.fromhex(before) == found.data[max(0, at - 8) : at], found.id
            assert bytes.fromhex(after) == found.data[at : at + 8], found.id
        assert error.protocol == protocol
        assert 0 <= at <= len(found.data)


def test_too_few_bytes_are_counted() -> None:
    error = refusal(vector("casual", "domain_connect_request", "domain_name_one_too_long"))
    assert isinstance(error, Truncated) and not isinstance(error, Incomplete)
    assert (error.needed, error.available) == (34, 33)


def test_a_frame_that_goes_on_says_how_far() -> None:
    error = refusal(vector("ceda", "frame", "payload_cut"))
    assert isinstance(error, Incomplete) and error.incomplete
    assert (error.needed, error.available) == (5, 4)


def test_a_limit_is_named_with_what_exceeds_it() -> None:
    error = refusal(vector("dsa", "list_response", "key_32768"))
    assert isinstance(error, LimitExceeded)
    assert (error.limit, error.actual) == (32767, 32768)


def test_a_bad_value_is_a_bad_value() -> None:
    assert type(refusal(vector("casual", "queue_dequeue_request", "block_2"))) is BadValue


def test_only_faults_inside_a_body_leave_the_rest_usable() -> None:
    assert refusal(vector("ceda", "record", "string_not_utf8")).body_only
    assert refusal(vector("dsa", "msgpack", "c1")).body_only
    assert not refusal(vector("ceda", "publish", "topic_not_utf8")).body_only
    assert not refusal(vector("dsa", "ack", "body_3")).body_only


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_error_survives_pickling(protocol: str) -> None:
    for found in invalid(protocol)[::7]:
        error = refusal(found)
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert again.__dict__ == error.__dict__
        assert str(again) == str(error)


# --- claims cost nothing

HUGE = [
    found
    for protocol in PROTOCOLS
    for found in invalid(protocol)
    if any(word in found.case for word in ("2_to_the", "longest_length", "huge", "overflow", "highest", "too_deep"))
]


def test_a_claim_of_2_to_the_60_elements_costs_no_memory() -> None:
    assert len(HUGE) > 60
    for found in HUGE:
        refusal(found)  # what is loaded on first use is loaded now
    tracemalloc.start()
    try:
        for found in HUGE:
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            refusal(found)
            used = tracemalloc.get_traced_memory()[1] - before
            assert used < 64 * 1024 + 4 * len(found.data), f"{found.id} took {used} bytes"
    finally:
        tracemalloc.stop()


def test_a_claim_of_2_to_the_60_elements_costs_no_time() -> None:
    for found in HUGE:
        best = 1.0
        for _ in range(5):
            start = time.perf_counter()
            refusal(found)
            best = min(best, time.perf_counter() - start)
        assert best < 0.002 + 2e-6 * len(found.data), f"{found.id} took {best * 1e6:.0f} µs"


def test_a_hundred_bytes_of_anything_are_judged_in_no_time() -> None:
    for protocol in PROTOCOLS:
        reading = layout(load(protocol))
        start = time.perf_counter()
        for byte in range(256):
            with pytest.raises(DecodeError):
                walk(reading, bytes([byte]) * 100)
        assert time.perf_counter() - start < 1.0


# --- trace


def traced(found: Vector) -> list[Seen]:
    trace: list[Seen] = []
    walk(layout(load(found.protocol), **found.options), found.data, trace)
    return trace


@pytest.mark.parametrize("protocol", ["casual", "ceda", "dsa"])
def test_the_trace_shows_every_byte_of_a_frame(protocol: str) -> None:
    for found in valid(protocol):
        if found.options.get("dialect") == "auto" or len(found.data) > 5000:
            continue
        seen = set()
        for item in traced(found):
            assert item.offset >= 0 and item.offset + item.length <= len(found.data), found.id
            seen |= set(range(item.offset, item.offset + item.length))
        assert seen == set(range(len(found.data))), found.id


def test_the_trace_of_a_line_shows_all_but_its_separators() -> None:
    for found in valid("mb"):
        if len(found.data) > 5000 or found.options["profile"] == "upstream":
            continue
        unseen = set(range(len(found.data)))
        for item in traced(found):
            unseen -= set(range(item.offset, item.offset + item.length))
        assert {found.data[at] for at in unseen} <= set(b":\n"), found.id


def test_the_trace_names_lengths_and_counts() -> None:
    trace = traced(vector("casual", "domain_discover_reply", "every_field_filled"))
    marks = [(item.path, item.offset) for item in trace if item.what in ("length", "count")]
    assert marks[:5] == [
        ("size", 24),
        ("domain.name", 64),
        ("services", 81),
        ("services[0].name", 89),
        ("services[0].category", 106),
    ]
    counts: list[Any] = [item.value for item in trace if item.what == "count"]
    assert counts == [2, 2]


def test_the_trace_names_flags_and_enumerations() -> None:
    trace = traced(vector("ceda", "login", "example_2"))
    labels = next(item.labels for item in trace if item.path == "control_code")
    assert labels is not None and labels.names[3] == "LOGIN"
