"""Numbers that take as many bytes as they need, as their documents show them."""

from __future__ import annotations

import pytest

from wirelake.codec.numerals import bits_of, read_numeral, write_numeral
from wirelake.errors import BadValue, DecodeError, EncodeError, Incomplete
from wirelake.spec import be, ber, bits, compact, digits, le, u8, varint
from wirelake.spec import nodes as n

LOW_FIRST = {0: "00", 127: "7f", 128: "8001", 300: "ac02", 16383: "ff7f", 16384: "808001", 268435455: "ffffff7f"}
"""MQTT 3.1.1, table 2.4; 300 is the example of Protocol Buffers."""
HIGH_FIRST = {0: "00", 127: "7f", 128: "8100", 8192: "c000", 0x3FFF: "ff7f", 0x4000: "818000"}
"""Standard MIDI files, variable-length quantities."""


@pytest.mark.parametrize(("value", "written"), LOW_FIRST.items())
def test_low_bits_come_first(value: int, written: str) -> None:
    raw = bytes.fromhex(written)
    assert write_numeral(varint(4), value, "") == raw
    assert read_numeral(varint(4), raw + b"\xff", 0, len(raw) + 1, "") == (value, len(raw))


@pytest.mark.parametrize(("value", "written"), HIGH_FIRST.items())
def test_high_bits_come_first(value: int, written: str) -> None:
    wire, raw = varint(4, high_first=True), bytes.fromhex(written)
    assert write_numeral(wire, value, "") == raw
    assert read_numeral(wire, b"x" + raw, 1, 1 + len(raw), "") == (value, 1 + len(raw))


@pytest.mark.parametrize("wire", [varint(4), varint(4, high_first=True), digits(b" ", -500, 500), digits(b";", 0, 99)])
def test_the_beginning_of_a_number_is_incomplete(wire: n.Varint | n.Digits) -> None:
    raw = write_numeral(wire, 98, "") if isinstance(wire, n.Digits) else write_numeral(wire, 12345, "")
    for stop in range(len(raw)):
        with pytest.raises(Incomplete):
            read_numeral(wire, raw, 0, stop, "")


@pytest.mark.parametrize(
    ("wire", "raw", "offset"),
    [
        (varint(2), b"\xff\xff\x01", 1),
        (varint(4), b"\x80\x00", 1),
        (varint(10), b"\xff" * 9 + b"\x02", 9),
        (varint(10), b"\xff" * 10 + b"\x00", 9),
        (varint(10, lenient=True), b"\x80" * 9 + b"\x7e", 9),
        (varint(10, high_first=True), b"\x82" + b"\x80" * 8 + b"\x00", 9),
        (varint(4, high_first=True), b"\x80\x01", 1),
        (digits(b" ", 0, 99), b"x ", 0),
        (digits(b" ", 0, 99), b"1x ", 1),
        (digits(b" ", 0, 99), b" ", 0),
        (digits(b" ", 0, 99), b"01 ", 0),
        (digits(b" ", 0, 99), b"-1 ", 0),
        (digits(b" ", -9, 9), b"- ", 1),
        (digits(b" ", 0, 99), b"123 ", 2),
        (digits(b" ", 0, 42), b"43 ", 0),
        (digits(b"", 0, 99), b"", 0),
    ],
)
def test_what_is_no_number_is_refused_at_its_byte(wire: n.Varint | n.Digits, raw: bytes, offset: int) -> None:
    with pytest.raises(DecodeError) as caught:
        read_numeral(wire, raw, 0, len(raw), "here")
    assert not isinstance(caught.value, Incomplete)
    assert (caught.value.rule, caught.value.path) == ("varint" if isinstance(wire, n.Varint) else "digits", "here")
    assert caught.value.offset == offset


def test_lenient_numbers_may_be_longer_than_needed() -> None:
    assert read_numeral(varint(4, lenient=True), b"\x81\x80\x00", 0, 3, "") == (1, 3)
    assert read_numeral(digits(b" ", lenient=True), b"007 ", 0, 4, "") == (7, 4)
    assert read_numeral(digits(b" ", base=16, lenient=True), b"FF ", 0, 3, "") == (255, 3)


def test_digits_may_end_with_their_range() -> None:
    assert read_numeral(digits(b"", 0, 999), b"12|", 0, 2, "") == (12, 2)
    assert read_numeral(digits(b"", base=16), b"fe", 0, 2, "") == (254, 2)


@pytest.mark.parametrize("value", [2**63 - 1, 2**63, 2**64 - 1])
def test_ten_bytes_hold_64_bits(value: int) -> None:
    for wire in (varint(10), varint(10, high_first=True), varint(10, lenient=True)):
        raw = write_numeral(wire, value, "")
        assert read_numeral(wire, raw, 0, len(raw), "") == (value, len(raw))
    assert write_numeral(varint(10), 2**64 - 2, "") == b"\xfe" + b"\xff" * 8 + b"\x01"  # -2 in Protocol Buffers


def test_numbers_that_do_not_fit_are_not_written() -> None:
    for wire, value in ((varint(1), 128), (varint(2), -1), (varint(10), 2**64), (digits(b" ", 0, 9), 10)):
        with pytest.raises(EncodeError):
            write_numeral(wire, value, "")


def test_bits_are_counted_from_the_lowest() -> None:
    wire = bits(u8, 4, 3)
    assert isinstance(wire, n.Bits)
    assert bits_of(wire, 0b1101_0110) == 0b101


def test_a_fault_is_never_taken_for_a_shortage() -> None:
    """However many bytes come, what is wrong already stays wrong."""
    with pytest.raises(BadValue):
        read_numeral(digits(b" ", 0, 99), b"9x", 0, 2, "")


@pytest.mark.parametrize(
    ("value", "written"), [(0, "00"), (127, "7f"), (128, "8180"), (256, "820100"), (65536, "83010000")]
)
def test_lengths_are_written_as_asn_1_writes_them(value: int, written: str) -> None:
    raw = bytes.fromhex(written)
    assert write_numeral(ber(), value, "") == raw
    assert read_numeral(ber(), raw + b"x", 0, len(raw) + 1, "") == (value, len(raw))
    with pytest.raises(Incomplete):
        read_numeral(ber(), raw[:-1], 0, len(raw) - 1, "")


@pytest.mark.parametrize("raw", [b"\x80", b"\x81\x7f", b"\x85\1\1\1\1\1", b"\x82\0\x80"])
def test_other_lengths_are_none_of_asn_1(raw: bytes) -> None:
    with pytest.raises(BadValue):
        read_numeral(ber(), raw, 0, len(raw), "")


def test_digits_of_a_fixed_number_have_zeros_before_them() -> None:
    assert write_numeral(digits(3), 7, "") == b"007"
    assert read_numeral(digits(3), b"0079", 0, 4, "") == (7, 3)
    with pytest.raises(Incomplete):
        read_numeral(digits(3), b"00", 0, 2, "")
    with pytest.raises(BadValue):
        read_numeral(digits(3), b"0x7", 0, 3, "")
    with pytest.raises(EncodeError):
        write_numeral(digits(3), 1000, "")


BITCOIN, MYSQL = compact({0xFD: le.u16, 0xFE: le.u32, 0xFF: le.u64}), compact({252: le.u16, 253: le.u24, 254: be.u64})


@pytest.mark.parametrize(
    ("wire", "value", "written"),
    [
        (BITCOIN, 252, "fc"),
        (BITCOIN, 253, "fdfd00"),
        (BITCOIN, 515, "fd0302"),
        (BITCOIN, 1 << 16, "fe00000100"),
        (BITCOIN, (1 << 63) - 1, "ffffffffffffffff7f"),
        (MYSQL, 251, "fb"),
        (MYSQL, 1 << 16, "fd000001"),
        (MYSQL, 1 << 24, "fe0000000001000000"),
    ],
)
def test_a_byte_announces_how_wide_a_number_is(wire: n.Varint, value: int, written: str) -> None:
    raw = bytes.fromhex(written)
    assert write_numeral(wire, value, "") == raw
    assert read_numeral(wire, raw + b"x", 0, len(raw) + 1, "") == (value, len(raw))
    for size in range(len(raw)):
        with pytest.raises(Incomplete):
            read_numeral(wire, raw[:size], 0, size, "")


@pytest.mark.parametrize(
    ("wire", "raw"), [(BITCOIN, "fdfc00"), (BITCOIN, "feffff0000"), (BITCOIN, "ff" * 9), (MYSQL, "ff0000")]
)
def test_other_bytes_announce_nothing(wire: n.Varint, raw: str) -> None:
    with pytest.raises(BadValue):
        read_numeral(wire, bytes.fromhex(raw), 0, len(raw) // 2, "")


SIGNED = [
    (
        varint(10, signed="zigzag"),
        {0: "00", -1: "01", 1: "02", -2: "03", 2**31 - 1: "feffffff0f", -(2**31): "ffffffff0f"},
    ),
    (varint(10, signed="twos"), {1: "01", -1: "ffffffffffffffffff01", -(2**63): "80808080808080808001"}),
    (varint(5, signed="twos"), {127: "7f", -1: "ffffffff0f", -(2**31): "8080808008"}),
]
"""Protocol Buffers, encoding of signed integers; the last one is Minecraft's VarInt."""


@pytest.mark.parametrize(("wire", "written"), SIGNED)
def test_signs_are_written_as_the_documents_say(wire: n.Varint, written: dict[int, str]) -> None:
    for value, raw in written.items():
        assert write_numeral(wire, value, "").hex() == raw
        assert read_numeral(wire, bytes.fromhex(raw), 0, 10, "") == (value, len(raw) // 2)


def test_a_number_of_32_bits_has_no_more_of_them() -> None:
    with pytest.raises(BadValue, match="more than 32 bits"):
        read_numeral(varint(5, signed="twos"), b"\xff\xff\xff\xff\x1f", 0, 5, "")
    with pytest.raises(EncodeError, match=r"is not within -2147483648\.\.2147483647"):
        write_numeral(varint(5, signed="twos"), 2**31, "")


def test_a_byte_stands_for_minus_one() -> None:
    wire = compact({0xFB: None, 0xFC: le.u16})
    assert [write_numeral(wire, value, "").hex() for value in (250, -1, 251)] == ["fa", "fb", "fcfb00"]
    assert read_numeral(wire, b"\xfb", 0, 1, "") == (-1, 1)
    with pytest.raises(BadValue, match="is not written in 2 bytes"):
        read_numeral(wire, b"\xfc\xfa\0", 0, 3, "")


FILLED = [
    (digits(6, pad_before=b" "), {0: "     0", 123456: "123456"}),
    (digits(6, -99, 999, pad=b" "), {-7: "-7    ", 999: "999   "}),
    (digits(6, -99, 999), {-7: "-00007", 999: "000999"}),
    (digits(7, base=8), {0o644: "0000644"}),
]


@pytest.mark.parametrize(("wire", "written"), FILLED)
def test_numbers_of_a_fixed_size_are_filled_up(wire: n.Digits, written: dict[int, str]) -> None:
    for value, text in written.items():
        raw = text.encode()
        assert write_numeral(wire, value, "") == raw
        assert read_numeral(wire, raw, 0, len(raw), "") == (value, len(raw))
        with pytest.raises(Incomplete):
            read_numeral(wire, raw, 0, len(raw) - 1, "")


@pytest.mark.parametrize(
    ("wire", "raw", "offset"),
    [
        (digits(4, pad_before=b" "), b"    ", 3),
        (digits(4, pad_before=b" "), b" 1 2", 2),
        (digits(4, pad_before=b" "), b"  01", 0),
        (digits(4, pad=b" "), b" 1  ", 0),
        (digits(4, pad=b" "), b"1x  ", 1),
        (digits(4, base=8), b"0008", 3),
    ],
)
def test_what_is_no_filled_up_number_is_refused_where_it_is_wrong(wire: n.Digits, raw: bytes, offset: int) -> None:
    with pytest.raises(DecodeError) as caught:
        read_numeral(wire, raw, 0, len(raw), "")
    assert (caught.value.rule, caught.value.offset) == ("digits", offset)
