"""Integers that stand for numbers with a fraction, or for times: the same values in every reader."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from tests.differential import assert_agreement, mutate
from wirelake import decode, encode
from wirelake.codec import codec_for
from wirelake.codec.annotate import annotate, describe_value
from wirelake.codec.json import from_json
from wirelake.codec.walk import walk
from wirelake.columnar import decode_frames
from wirelake.columnar.message_to_row import row_of
from wirelake.columnar.row_to_message import message_of
from wirelake.errors import DecodeError, EncodeError, SpecError
from wirelake.generate import random_frame
from wirelake.spec import (
    Code,
    Frame,
    IfLeft,
    Message,
    Protocol,
    Size,
    be,
    declare,
    digits,
    field,
    fixed_point,
    le,
    many,
    message,
    optional,
    text,
    timestamp,
    u8,
    varint,
)
from wirelake.spec.resolve import layout


class Position(Message, code=1):
    """Integers of fixed size: what the generated decoder and the kernel read."""

    latitude: float = field(fixed_point(be.i32, 16), "degrees")
    price: float = field(fixed_point(le.u16, decimals=2), "euros")
    seen: datetime = field(timestamp(be.u32, "s"), "when it was seen")
    sent: datetime = field(timestamp(be.u32, "s", epoch=date(1900, 1, 1)), "when it was sent")
    stored: datetime | None = optional(timestamp(le.i64, "us"), "when it was stored", when=IfLeft())


class Line(Message, code=2):
    """Numbers of any size."""

    at: datetime = field(timestamp(digits(b" "), "ms"), "when")
    levels: tuple[float, ...] = field(many(fixed_point(varint(3), 4), u8), "levels")


FRAME = Frame((Size("length", be.u16, counts="after", most=4000), Code("kind", u8)))
SCALED = declare(Protocol("scaled", "Scaled", FRAME, (Position, Line)))
SEEN = datetime(2026, 7, 1, 12, tzinfo=UTC)
POSITION = Position(latitude=-1.5, price=19.99, seen=SEEN, sent=SEEN, stored=SEEN + timedelta(microseconds=1))


def test_the_bytes_are_the_integer_and_the_record_has_what_it_stands_for() -> None:
    frame = encode(POSITION)
    assert frame[3:9] == bytes.fromhex("fffe8000 cf07")
    assert int.from_bytes(frame[9:13], "big") == SEEN.timestamp()
    assert int.from_bytes(frame[13:17], "big") - SEEN.timestamp() == 2_208_988_800  # RFC 868
    assert decode(SCALED, frame) == POSITION
    shown = decode(SCALED, frame).to_json()["fields"]
    assert shown["seen"] == "2026-07-01T12:00:00Z" and shown["stored"] == "2026-07-01T12:00:00.000001Z"
    assert (shown["latitude"], shown["price"]) == (-1.5, 19.99)


def test_every_reader_has_the_same_values() -> None:
    made, rng = layout(SCALED), Random(1)
    good = [random_frame(made, node, rng)[1] for node in made.nodes for _ in range(200)]
    for frame in good:
        found = decode(SCALED, frame)
        assert encode(found) == frame
        assert from_json(made, found.to_json()) == found == message_of(made, row_of(found))
    accepted, refused = assert_agreement(SCALED, [*good, *(mutate(frame, rng) for frame in good * 5)])  # type: ignore[arg-type]
    assert accepted >= len(good) and refused
    batch = decode_frames(SCALED, good)
    assert not batch.slow, "the kernel reads all of them"
    messages = [message_of(made, {**row, "offset": None}) for row in batch.records.to_pylist()]
    assert list(map(encode, messages)) == good, "rows become the frames that they were"
    assert batch.records.schema.field("seen").type == pa.timestamp("us", "UTC")
    assert batch.records.schema.field("price").type == pa.float64()


def test_the_generated_decoder_reads_integers_of_fixed_size() -> None:
    fields: dict[str, Any] = {"at": field(timestamp(be.u32, "s")), "level": field(fixed_point(le.i16, 4))}
    protocol = declare(Protocol("quickly", "Quickly", FRAME, (message("Quick", code=1, **fields),)))
    made, rng = layout(protocol), Random(2)
    for frame in (random_frame(made, made.nodes[0], rng)[1] for _ in range(50)):
        assert repr(codec_for(made).quick(frame, len(frame))) == repr(walk(made, frame))


def test_annotated_bytes_show_the_value() -> None:
    seen = {
        each.path: describe_value(each.value, each.labels) for each in annotate(layout(SCALED), encode(POSITION)).seen
    }
    assert seen["seen"] == "2026-07-01T12:00:00Z" and seen["latitude"] == "-1.5"


@pytest.mark.parametrize(
    ("change", "rule", "said"),
    [
        ({"seen": datetime(2026, 7, 1, 12)}, "field_type", "with a time zone"),
        ({"seen": 5}, "field_type", "with a time zone"),
        ({"seen": SEEN + timedelta(milliseconds=1)}, "timestamp_range", "between two units of 1000000 microseconds"),
        ({"seen": datetime(2200, 1, 1, tzinfo=UTC)}, "int_range", "does not fit in 4 bytes"),
        ({"price": float("nan")}, "field_type", "not a finite number"),
        ({"price": "much"}, "field_type", "not a finite number"),
        ({"price": 700.0}, "int_range", "does not fit in 2 bytes"),
    ],
)
def test_what_the_integer_cannot_say_is_refused(change: dict[str, Any], rule: str, said: str) -> None:
    values = {name: getattr(POSITION, name) for name in ("latitude", "price", "seen", "sent", "stored")}
    with pytest.raises(EncodeError, match=said) as caught:
        encode(Position(**{**values, **change}))
    assert (caught.value.rule, caught.value.path) == (rule, next(iter(change)))


def test_a_number_is_rounded_to_the_nearest_and_a_time_may_have_any_zone() -> None:
    values = {"latitude": 1 / 3, "price": 0.1 + 0.2, "sent": SEEN, "stored": None}
    zone = timezone(timedelta(hours=2))
    found = decode(SCALED, encode(Position(**values, seen=SEEN.astimezone(zone))))
    assert (found.latitude, found.price, found.seen) == (21845 / 65536, 0.3, SEEN)


def test_times_behind_the_year_9999_break_a_rule() -> None:
    wide = message("Wide", code=1, at=field(timestamp(be.u64, "ms")))
    protocol = declare(Protocol("wide", "Wide", FRAME, (wide,)))
    with pytest.raises(DecodeError) as caught:
        decode(protocol, bytes.fromhex("0009 01 ffffffffffffffff"))
    assert (caught.value.rule, caught.value.path, caught.value.offset) == ("timestamp_range", "at", 3)
    assert decode(protocol, bytes.fromhex("0009 01 0000e677d21fdbff")).at.year == 9999


class Written(Message, code=1):
    """A time as text, of each kind of form."""

    web: datetime = field(timestamp(text(u8), "%a, %d %b %Y %H:%M:%S GMT"), "as in HTTP")


WRITTEN = declare(Protocol("written", "Times as text", FRAME, (Written,)))
FIRST = datetime(1994, 11, 15, 8, 12, 31, tzinfo=UTC)


def framed(shown: str) -> bytes:
    return (2 + len(shown)).to_bytes(2, "big") + b"\1" + bytes([len(shown)]) + shown.encode()


def test_a_time_as_text_is_read_and_written() -> None:
    frame = framed("Tue, 15 Nov 1994 08:12:31 GMT")
    assert decode(WRITTEN, frame).web == FIRST and encode(Written(web=FIRST)) == frame


@pytest.mark.parametrize(
    "shown",
    [
        "Mon, 15 Nov 1994 08:12:31 GMT",  # it was a Tuesday
        "Tue, 15 Nov 1994 08:12:60 GMT",
        "Tue, 31 Feb 1994 08:12:31 GMT",
        "Tue, 15 nov 1994 08:12:31 GMT",
        "Tue, 15 Nov 1994 08:12:31 CET",
        "Tue, 15 Nov 1994 8:12:31 GMT",
        "",
    ],
)
def test_a_text_that_is_no_time_of_its_form_breaks_a_rule(shown: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(WRITTEN, framed(shown))
    assert (caught.value.rule, caught.value.path, caught.value.offset) == ("timestamp_range", "web", 3)


def test_a_time_between_two_units_of_its_form_is_refused() -> None:
    with pytest.raises(EncodeError, match="between two units of 1000000 microseconds"):
        encode(Written(web=FIRST + timedelta(milliseconds=1)))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: fixed_point(be.i32), "write fixed_point"),
        (lambda: fixed_point(be.i32, 16, decimals=2), "write fixed_point"),
        (lambda: timestamp(be.u32, "ns"), "keep the integer"),  # type: ignore[call-overload]
        (lambda: timestamp(be.u32, "s", epoch=1900), "write epoch=date"),  # type: ignore[call-overload]
        (lambda: fixed_point(be.u64, 32), "write a narrower type, or within"),
        (lambda: timestamp(varint(9), "s"), "write a narrower type, or within"),
        (lambda: timestamp("seconds", "s"), 'write timestamp\\(be.u32, "s"\\)'),  # type: ignore[call-overload]
    ],
)
def test_a_wrong_declaration_says_what_to_write(make: Any, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        declare(Protocol("wrong", "Wrong", FRAME, (message("Wrong", code=1, x=field(make())),)))
