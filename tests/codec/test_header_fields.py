"""Fields of the header without a fixed size: how far they may reach, and what is wrong with one that has no end."""

from __future__ import annotations

import pytest

from wirelake import StreamDecoder, decode, encode
from wirelake import spec as s
from wirelake.codec.header_fields import MOST_BYTES
from wirelake.codec.stream import Decoded, Quarantined
from wirelake.errors import DecodeError, EncodeError
from wirelake.spec import By, When


class Tagged(s.Message, code=7):
    tag: str = s.field(s.text(b" "), "before the code")
    flags: int = s.field(s.u8, "whether there is more")
    more: int | None = s.optional(s.be.u16, "what is more", when=When("flags", bits=1))
    data: bytes = s.field(s.rest, "what follows")


PARTS = (s.Kept("tag"), s.Kept("flags"), s.Kept("more"), s.Code("kind", s.u8), s.Size("n", s.u8, counts="after"))
TAGGED = s.declare(s.Protocol("tagged", "A tag before the code", s.Frame(PARTS), (Tagged,)))


class Sized(s.Message, code=7):
    size: int | None = s.optional(s.u8, "bytes", when=s.begins(b"\1", b"\2"))
    data: bytes = s.field(s.rest, "what follows")


SIZED = s.declare(
    s.Protocol("sized", "", s.Frame((s.Kept("size"), s.Code("k", s.u8), s.Size("n", "size", counts="after"))), (Sized,))
)


def fault(protocol: s.Protocol, data: bytes) -> tuple[str, str, int | None]:
    with pytest.raises(DecodeError) as caught:
        decode(protocol, data)
    return caught.value.rule, caught.value.path, caught.value.offset


def test_a_field_before_the_code_is_read_and_written() -> None:
    for frame in (b"a \0\7\2hi", b"long \1\1\2\7\0"):
        assert encode(decode(TAGGED, frame)) == frame
    assert decode(TAGGED, b"a \1\1\2\7\0").more == 258


def test_a_field_without_an_end_is_given_up() -> None:
    decoder = StreamDecoder(TAGGED)
    assert decoder.feed(b"x" * (MOST_BYTES - 1)) == []
    events = [*decoder.feed(b"x" * 9000), *decoder.feed(b" \0\7\2hi\0\7\0"), *decoder.finish()]
    assert isinstance(events[0], Quarantined) and events[0].error.rule == "frame_limit"
    assert sum(event.length for event in events) == MOST_BYTES - 1 + 9000 + 9
    assert any(isinstance(event, Decoded) for event in events)


def test_what_is_wrong_in_the_header_has_its_place() -> None:
    assert fault(TAGGED, b"abc") == ("frame_incomplete", "tag", 3)
    assert fault(TAGGED, b"abc \1\1") == ("frame_incomplete", "more", 6)
    assert fault(SIZED, b"\7") == ("field_missing", "n", 1)


def test_a_length_that_contradicts_the_bytes_is_not_written() -> None:
    assert encode(Sized(size=2, data=b"hi")) == b"\2\7hi"
    for wrong in (Sized(size=1, data=b"hi"), Sized(size=3, data=b"abc"), Sized(size=None, data=b"")):
        with pytest.raises(EncodeError):
            encode(wrong)


class Marked(s.Message, code=1):
    sign: str | None = s.optional(s.text(b" "), "a plus or a minus", when=s.begins(b"+", b"-"))
    size: int = s.field(s.u8, "bytes of all")
    part: int = s.field(s.u8, "bytes of the first part")
    first: bytes = s.field(s.blob("part"), "first part")
    second: bytes = s.field(s.blob(By("size", less="part")), "what is left of all")


MARKED = s.declare(s.Protocol("marked", "", s.Frame((s.Magic(b"!"), s.Ends(99))), (Marked,)))


def test_first_bytes_decide_and_lengths_are_taken_off() -> None:
    for frame in (b"!+on \3\1abc", b"!\3\1abc"):
        assert encode(decode(MARKED, frame)) == frame
    assert fault(MARKED, b"!\1\2ab") == ("negative_length", "second", 5)
    with pytest.raises(EncodeError, match="begin"):
        encode(Marked(sign="on", size=0, part=0, first=b"", second=b""))
    with pytest.raises(EncodeError, match="begins like it"):
        encode(Marked(sign=None, size=ord("+"), part=ord("+"), first=b"x" * ord("+"), second=b""))
