"""Every vector through every reader: whole, byte by byte, with bytes behind it, back to bytes, in columns.

All vectors of a protocol go through a reader in one test, which lists those that fail.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from tests.differential import assert_agreement
from tests.vectors.load import (
    PROTOCOLS,
    Vector,
    cfield_cases,
    encode_cases,
    invalid,
    valid,
    vectors,
)
from wirelake import StreamDecoder, decode, encode
from wirelake.codec import codec_for
from wirelake.codec.compile import DOUBTS
from wirelake.codec.content import read_cfield, show_cfield, write_cfield
from wirelake.codec.encoder import encode_frame
from wirelake.codec.json import from_json
from wirelake.codec.stream import Decoded, Quarantined
from wirelake.codec.walk import walk
from wirelake.errors import DecodeError, EncodeError
from wirelake.protocols import load
from wirelake.spec.resolve import candidates, layout

every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


def check_all(found: list[Vector], check: Callable[[Vector], str | None]) -> None:
    """Fails with the complaints about all of them. No vector at all is a failure too."""
    assert found
    complaints = [f"{vector.id}: {complaint}" for vector in found if (complaint := check(vector))]
    assert not complaints, "\n".join(complaints)


def as_json(message: Any) -> dict[str, Any]:
    """What the command line would print, read again."""
    shown: dict[str, Any] = json.loads(json.dumps(message.to_json()))
    return shown


def same(expected: Any, found: Any) -> bool:
    match expected:
        case {"long": kind, "length": length, "sha256": digest}:
            raw = bytes.fromhex(found) if kind == "bytes" else found.encode()
            return len(raw) == length and hashlib.sha256(raw).hexdigest() == digest
        case dict():
            return (
                isinstance(found, dict)
                and expected.keys() == found.keys()
                and all(same(value, found[key]) for key, value in expected.items())
            )
        case list():
            return isinstance(found, list) and len(expected) == len(found) and all(map(same, expected, found))
        case _:
            return type(expected) is type(found) and expected == found


def told(error: DecodeError) -> dict[str, Any]:
    verdict = "incomplete" if error.incomplete else "error"
    return {"verdict": verdict, "rule": error.rule, "path": error.path, "offset": error.offset}


# --- one whole frame


@every_protocol
def test_a_whole_frame_gives_the_fields_of_the_specification(protocol: str) -> None:
    def check(vector: Vector) -> str | None:
        try:
            shown = as_json(decode(protocol, vector.data, **vector.options))
        except DecodeError as error:
            return f"refused: {error}"
        expected = vector.message
        assert expected is not None
        if (shown["message"], shown["code"]) != (expected["name"], expected["code"]):
            return f"is {shown['message']} {shown['code']}"
        if shown["length"] != len(vector.data) or shown.get("notes", []) != expected.get("notes", []):
            return f"length {shown['length']}, notes {shown.get('notes')}"
        present = [key for key in expected.get("absent", ()) if key in shown["fields"]]
        if present:
            return f"{present} should be absent"
        for key, value in expected["fields"].items():
            if key not in shown["fields"] or not same(value, shown["fields"][key]):
                return f"{key} is {shown['fields'].get(key, 'absent')!r}, not {value!r}"[:500]
        return None

    check_all(valid(protocol), check)


@every_protocol
def test_a_bad_frame_is_refused_with_rule_path_and_offset(protocol: str) -> None:
    def check(vector: Vector) -> str | None:
        try:
            return f"accepted: {decode(protocol, vector.data, **vector.options)!r}"[:300]
        except DecodeError as error:
            return None if told(error) == vector.error else f"{told(error)}, not {vector.error}"

    check_all(invalid(protocol), check)


@every_protocol
def test_every_beginning_of_a_good_frame_is_incomplete(protocol: str) -> None:
    def check(vector: Vector) -> str | None:
        size = len(vector.data)
        for cut in sorted({*range(min(size, 100)), *range(size // 2, size, max(1, size // 20)), size - 1}):
            try:
                decode(protocol, vector.data[:cut], **vector.options)
                return f"the first {cut} bytes are accepted"
            except DecodeError as error:
                if not error.incomplete or error.offset != cut:
                    return f"the first {cut} bytes: {told(error)}"
        return None

    # A bare message has no length that could announce more; of an undecided dialect a beginning may prove another.
    check_all([v for v in framed(valid(protocol)) if v.options.get("dialect") != "auto"], check)


@every_protocol
def test_bytes_behind_a_good_frame_are_told(protocol: str) -> None:
    def check(vector: Vector) -> str | None:
        for tail in (b"\0", b"\xff", vector.data):
            try:
                decode(protocol, vector.data + tail, **vector.options)
                return f"{tail.hex()[:20]} behind it is accepted"
            except DecodeError as error:
                want = {"verdict": "error", "rule": "trailing_bytes", "path": "", "offset": len(vector.data)}
                if told(error) != want:
                    return str(told(error))
        return None

    check_all([v for v in framed(valid(protocol)) if v.options.get("dialect") != "auto"], check)


def framed(found: list[Vector]) -> list[Vector]:
    """Those whose frames have a length; bare messages get one."""
    made = []
    for vector in found:
        if vector.protocol == "mb" and vector.options.get("framing") != "tcp":
            data, encoded = (len(raw).to_bytes(4, "big") + raw for raw in (vector.data, vector.encoded))
            error = vector.error and vector.error | {"offset": vector.error["offset"] + 4}
            options = vector.options | {"framing": "tcp"}
            made.append(Vector("mb", vector.file, vector.case, options, data, vector.message, error, encoded))
        else:
            made.append(vector)
    return made


# --- the readers of the record codec among themselves


def readings(vector: Vector) -> list[Any]:
    return list(candidates(load(vector.protocol), **vector.options))


@every_protocol
def test_the_generated_decoder_agrees_with_the_exact_one(protocol: str) -> None:
    def check(vector: Vector) -> str | None:
        for reading in readings(vector):
            try:
                exact = walk(reading, vector.data)
            except DecodeError:
                exact = None
            try:
                quick = codec_for(reading).quick(vector.data, len(vector.data))
            except DOUBTS:
                quick = None
            if quick is not None and (exact is None or as_json(quick) != as_json(exact) or quick != exact):
                return f"{quick!r}, not {exact!r}"[:500]
        return None

    check_all(list(vectors(protocol)), check)


ODD = {"casual": 0.05, "ceda": 0.35, "dsa": 0.10, "mb": 0.40}
"""The part of the good vectors that the generated decoder may leave to the exact one: many were chosen as oddities."""


@every_protocol
def test_the_generated_decoder_reads_the_ordinary_frames(protocol: str) -> None:
    declined = []
    for vector in valid(protocol):
        reading = readings(vector)[0]
        try:
            if codec_for(reading).quick(vector.data, len(vector.data)) is None:
                declined.append(vector.id)
        except DOUBTS:
            declined.append(vector.id)
    assert len(declined) <= ODD[protocol] * len(valid(protocol)), "\n".join(declined)


@every_protocol
def test_what_was_decoded_is_written_back(protocol: str) -> None:
    def check(vector: Vector) -> str | None:
        message = decode(protocol, vector.data, **vector.options)
        written = encode(message)
        if written != vector.encoded:
            return f"{written.hex()[:300]} is written"
        again = encode_frame(message.layout, from_json(message.layout, as_json(message)))
        if again != vector.encoded:
            return f"{again.hex()[:300]} is written from JSON"
        if written == vector.data and decode(protocol, written, **vector.options) != message and not has_nan(message):
            return "decoded again it is another message"
        return None

    check_all(valid(protocol), check)


def has_nan(message: Any) -> bool:
    return "NaN" in json.dumps(message.to_json())


# --- streams


def streamed(vector: Vector, step: int) -> tuple[StreamDecoder, list[Any], list[Any]]:
    """The decoder, the events while bytes came, and those at the end."""
    decoder = StreamDecoder(vector.protocol, **vector.options)
    events = []
    for at in range(0, len(vector.data), step):
        events += decoder.feed(vector.data[at : at + step])
        assert decoder.bytes_in == decoder.bytes_decoded + decoder.bytes_quarantined + decoder.pending
    return decoder, events, decoder.finish()


def steps(vector: Vector) -> tuple[int, ...]:
    return (1, len(vector.data)) if len(vector.data) <= 2000 else (1009, len(vector.data))


@every_protocol
def test_a_stream_of_one_good_frame_is_that_message_byte_by_byte(protocol: str) -> None:
    def check(vector: Vector) -> str | None:
        expected = decode(protocol, vector.data, **vector.options)
        for step in steps(vector):
            decoder, events, late = streamed(vector, step)
            found = events + late
            if len(found) != 1 or not isinstance(found[0], Decoded):
                return f"{found}"[:300]
            if as_json(found[0].message) != as_json(expected) or found[0].offset != 0:
                return f"{found[0]!r}"[:300]
            if late and vector.options.get("dialect") != "auto":
                return "it is not told before the end of the stream"
            assert decoder.pending == 0
        return None

    check_all(framed(valid(protocol)), check)


@every_protocol
def test_a_stream_of_one_bad_frame_is_quarantined_with_its_fault(protocol: str) -> None:
    def check(vector: Vector) -> str | None:
        tellings = []
        for step in steps(vector) if vector.data else ():
            decoder, events, late = streamed(vector, step)
            found = events + late
            first = found[0]
            if not isinstance(first, Quarantined) or first.offset != 0:
                return f"{first!r}"[:300]
            if told(first.error) != vector.error and vector.options.get("dialect") != "auto":
                return f"{told(first.error)}, not {vector.error}"
            if sum(event.length for event in found) != len(vector.data) or decoder.pending:
                return "bytes are lost"
            assert vector.error is not None
            if vector.error["verdict"] == "incomplete" and events:
                return "it is told before the end of the stream"
            tellings.append([(event.offset, event.length) for event in found])
        return None if all(telling == tellings[0] for telling in tellings) else f"{tellings}"

    assert vectors(protocol)
    check_all([v for v in framed(invalid(protocol)) if (v.error or {})["rule"] != "trailing_bytes"], check)


@every_protocol
def test_all_good_frames_in_one_stream_are_all_decoded(protocol: str) -> None:
    by_options: dict[str, list[Vector]] = defaultdict(list)
    for vector in framed(valid(protocol)):
        if vector.options.get("dialect") != "auto":
            by_options[json.dumps(vector.options)].append(vector)
    for options, found in by_options.items():
        decoder = StreamDecoder(protocol, **json.loads(options))
        data = b"".join(vector.data for vector in found)
        events = decoder.feed(data) + decoder.finish()
        assert [event.length for event in events] == [len(vector.data) for vector in found]
        assert all(isinstance(event, Decoded) for event in events)
        assert decoder.bytes_decoded == len(data)


# --- columns


@every_protocol
def test_columns_hold_what_the_records_hold_and_reject_what_they_refuse(protocol: str) -> None:
    by_options: dict[str, list[bytes]] = defaultdict(list)
    for vector in vectors(protocol):
        by_options[json.dumps(vector.options)].append(vector.data)
    accepted = rejected = 0
    for options, frames in by_options.items():
        good, bad = assert_agreement(protocol, frames, **json.loads(options))
        accepted += good
        rejected += bad
    assert accepted == len(valid(protocol))
    assert rejected == len(invalid(protocol))


# --- objects to bytes, topics, CFIELD


@every_protocol
def test_an_object_is_written_or_refused_as_the_specification_says(protocol: str) -> None:
    complaints = []
    for case in encode_cases(protocol):
        reading = layout(load(protocol), **case.options)
        outcome: Any
        try:
            outcome = encode_frame(reading, from_json(reading, case.given))
        except EncodeError as error:
            outcome = {"rule": error.rule, "path": error.path}
        expected = case.error or case.expected
        if outcome != expected:
            shown = outcome.hex()[:200] if isinstance(outcome, bytes) else outcome
            complaints.append(f"{case.case}: {shown}, not {expected!r}"[:500])
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize("case", cfield_cases(), ids=lambda case: case.case)
def test_a_fielded_buffer_is_read_and_written_or_refused(case: Any) -> None:
    if case.error is None:
        values = read_cfield(case.given)
        assert show_cfield(values) == case.expected
        assert write_cfield(values) == case.given
    else:
        with pytest.raises(DecodeError) as caught:
            read_cfield(case.given)
        assert {"rule": caught.value.rule, "path": caught.value.path, "offset": caught.value.offset} == case.error
