"""Reading and writing of messages in live sessions: the same rules as the codec's, only quicker."""

from __future__ import annotations

import random
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wirelake
from tests.live.mb.play import P, R
from wirelake.errors import DecodeError
from wirelake.live.mb.wire import (
    MAX_HEADS,
    MB_TCP,
    Clock,
    Fault,
    Heads,
    Ids,
    add_ids,
    leading_integer,
    plain_number,
    read_error,
    timestamp,
    write_json,
)

BYTES = st.binary(max_size=40)
VERSIONS = [
    *(b"1.0.0", b"0.10.200", b"1.0", b"01.0.0", b"1.0.0-a.b+c", b"9007199254740991.0.0", b"9007199254740992.0.0"),
    *(b"12345.0.0", b"v1.0.0", b"1.0.0-123456789012345", b"1.0.0\r", b"\xd9\xa1.0.0"),
]
FIELDS = (
    st.sampled_from([b"publish", b"REQUEST", b"response", b"Request", b"subscribe", b"", b"publish "]),
    st.sampled_from(
        [b"a", b"a.b", b"A.b.c.D.e1", b"a.b.c.d.e.f", b"a" * 255, b"a" * 256, b"1a", b"a..b", b"a.+", b"\xff"]
    ),
    st.sampled_from(VERSIONS),
    st.sampled_from([b"", R.encode(), R.upper().encode(), R.replace("4b7e", "1b7e").encode(), b"x", R.encode() + b"a"]),
    st.sampled_from([b"", P.encode(), P[:-1].encode(), P.encode() + b"\r"]),
    st.sampled_from(
        [b"", b"1", b"5000", b"3600000", b"3600001", b"0", b"0005", b"00000005", b"-5", b"5ms", b"0x10", b"\xff"]
    ),
    BYTES,
)


@st.composite
def headers(draw: Any) -> bytes:
    count = draw(st.integers(0, 7))
    return b":".join(draw(field) for field in FIELDS[:count])


def as_the_codec_reads_it(line: bytes) -> tuple[Any, ...] | str:
    try:
        message = wirelake.decode("mb", line + b"\n", profile="strict")
    except DecodeError as error:
        return error.rule
    return (
        type(message).__name__.lower(),
        message.topic,
        message.version,
        message.request_id,
        message.parent_request_id,
        message.timeout,
    )


def as_sessions_read_it(heads: Heads, body: bytes) -> tuple[Any, ...] | None:
    try:
        head, rid, parent, timeout, end = heads.parse(b"??" + body + b"!!", 2, 2 + len(body))
    except Fault:
        return None
    assert body[end - 2 : end - 1] == b"\n"
    ids = (rid.decode() if rid else None, parent.decode() if parent else None)
    return (head.action, head.topic, head.version, *ids, timeout)


@given(st.lists(headers() | BYTES, max_size=6), BYTES)
def test_every_header_is_read_as_the_codec_reads_it(lines: list[bytes], payload: bytes) -> None:
    heads = Heads()
    for line in lines * 2:
        if b"\n" in line:
            continue
        wanted = as_the_codec_reads_it(line)
        found = as_sessions_read_it(heads, line + b"\n" + payload)
        assert found == (None if isinstance(wanted, str) else wanted)


@given(st.binary(max_size=500))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    try:
        Heads().parse(body, 0, len(body))
    except Fault as fault:
        assert fault.code == "MALFORMED_MESSAGE"
        assert fault.payload(Clock()).startswith(b'{"error":{"code":"MALFORMED_MESSAGE","message":"')


def test_headers_are_remembered_without_their_ids_and_not_without_bound() -> None:
    heads = Heads()
    for i in range(5000):
        body = f"publish:a:1.0.0:{uuid.UUID(int=i, version=4)}::\n".encode()
        heads.parse(body, 0, len(body))
    assert len(heads.known) == 1
    for i in range(5000):
        body = f"publish:a{i}:1.0.0\n".encode()
        heads.parse(body, 0, len(body))
    assert len(heads.known) <= MAX_HEADS


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ((), b"publish:a:1.0.0"),
        ((R,), f"publish:a:1.0.0:{R}".encode()),
        ((None, P), f"publish:a:1.0.0::{P}".encode()),
        ((R, P), f"publish:a:1.0.0:{R}:{P}".encode()),
        ((None, None, 5000), b"publish:a:1.0.0:::5000"),
        ((R, None, 5), f"publish:a:1.0.0:{R}::5".encode()),
    ],
)
def test_headers_are_written_as_short_as_they_can_be(values: tuple[Any, ...], line: bytes) -> None:
    assert add_ids(b"publish:a:1.0.0", *values) == line


# --- framing


def test_the_worked_example_of_a_heartbeat_is_what_is_written() -> None:
    body = add_ids(b"request:system.heartbeat:1.0.0") + b"\n{}"
    assert MB_TCP.wrap(body).hex(" ") == (
        "00 00 00 21 72 65 71 75 65 73 74 3a 73 79 73 74 65 6d 2e 68 65 61 72 74 62 65 61 74 3a 31 2e 30 2e 30 0a 7b 7d"
    )
    only_timeout = add_ids(b"request:a.b:1.0.0", timeout_ms=5000) + b"\n"
    assert MB_TCP.wrap(only_timeout).hex(" ") == (
        "00 00 00 19 72 65 71 75 65 73 74 3a 61 2e 62 3a 31 2e 30 2e 30 3a 3a 3a 35 30 30 30 0a"
    )


# --- ids


def test_ids_are_random_uuids_of_version_4_and_the_same_from_the_same_seed() -> None:
    ids, again = Ids(random.Random(5)), Ids(random.Random(5))
    made = [ids.take() for _ in range(3000)]
    assert made == [again.take() for _ in range(3000)]
    assert len(set(made)) == 3000
    for one in made:
        found = uuid.UUID(one.decode())
        assert (str(found).encode(), found.version, found.variant) == (one, 4, uuid.RFC_4122)
    for place in range(36):
        digits = {one[place] for one in made}
        assert len(digits) == {8: 1, 13: 1, 18: 1, 23: 1, 14: 1, 19: 4}.get(place, 16)


# --- JSON and errors


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5", 5), ("-5", -5), ("+7x", 7), (" \t8", 8), ("0x1F", 31), ("-0x10", -16), ("1e3", 1), ("1.9", 1), ("", None),
        ("x", None), ("0x", None), ("-", None), ("00012", 12), ("9" * 17, 1e17), ("9" * 400, None), ("\u30003", 3),
        ("\x1c3", None), ("٣", None),
    ],
)  # fmt: skip
def test_the_leading_integer_is_read_as_javascript_does(text: str, number: object) -> None:
    assert leading_integer(text) == number


def test_numbers_are_written_as_javascript_does() -> None:
    assert [plain_number(v) for v in (1.0, -0.0, 1.5, 10**400, float("inf"), float("nan"), 2**60)] == [
        1, 0, 1.5, None, None, None, float(2**60),
    ]  # fmt: skip
    assert (
        write_json({"a": [float("inf"), 2.0], "b": "\ud800", "c": "ä"}) == b'{"a":[null,2],"b":"\\ud800","c":"\\u00e4"}'
    )
    assert write_json({"c": "ä"}) == '{"c":"ä"}'.encode()


def test_timestamps_have_three_decimals_and_a_z() -> None:
    assert timestamp(1_740_823_200.0) == "2025-03-01T10:00:00.000Z"
    assert timestamp(1_740_823_200.5) == "2025-03-01T10:00:00.500Z"


@given(st.binary(max_size=60) | st.binary(max_size=60).map(lambda b: b"error:" + b))
def test_any_payload_is_an_error_or_not(payload: bytes) -> None:
    error = read_error(payload)
    assert (error is not None) or not payload.startswith(b"error:")
