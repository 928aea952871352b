"""Frame headers: what they need, what seems to be one, and how small things can be."""

from __future__ import annotations

import random

import pytest

from tests.vectors.load import PROTOCOLS, valid
from wirelake.codec.frame import apply_mask, least_payload, measure, plausible, read_header, smallest
from wirelake.errors import BadValue, Incomplete, LimitExceeded
from wirelake.protocols import casual, load
from wirelake.spec import nodes as n
from wirelake.spec.resolve import layout

CASUAL_LEAST = {
    7200: 48, 7201: 48, 7300: 56, 7301: 56, 3100: 72, 3101: 53, 5201: 36, 5202: 32, 5203: 36, 5204: 32, 5205: 36,
    5206: 32, 6100: 88, 6101: 32, 6200: 57, 6201: 24, 3200: 80, 3201: 36, 3202: 52, 3203: 32, 3210: 66,
    3211: 20, 3212: 46, 3213: 16,
}  # fmt: skip
"""Smallest payloads as casual's specification lists them."""


def test_the_smallest_payloads_of_casual_are_those_of_its_specification() -> None:
    reading = layout(load("casual"))
    assert {code: least_payload(reading, node) for code, node in reading.messages.items()} == CASUAL_LEAST


@pytest.mark.parametrize(
    ("struct", "size"), [(casual.OfferedService, 34), (casual.OfferedQueue, 16), (casual.Dequeued, 72), (casual.Xid, 8)]
)
def test_the_smallest_elements_of_casual_are_those_of_its_specification(struct: type, size: int) -> None:
    assert smallest(n.Nested(struct), layout(load("casual"))) == size


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_header_is_read_wherever_it_stands(protocol: str) -> None:
    for vector in valid(protocol):
        if vector.options.get("dialect") == "auto" or (protocol == "mb" and "framing" not in vector.options):
            continue
        reading = layout(load(protocol), **vector.options)
        data = b"xyz" + vector.data + b"tail"
        header = read_header(reading, data, 3, len(data))
        assert header.length == len(vector.data), vector.id
        assert plausible(reading, data, 3, len(data)) is True, vector.id


def test_a_header_may_come_in_a_bytearray_or_a_memoryview() -> None:
    reading = layout(load("ceda"), dialect="ceda4")
    for data in (bytearray.fromhex("82036101"), memoryview(bytes.fromhex("82036101"))):
        assert measure(reading, data, 0, 4).length == 5
        with pytest.raises(Incomplete):
            read_header(reading, data, 0, 4)


def test_what_could_go_on_as_a_frame_is_neither_plausible_nor_not() -> None:
    ceda, mb = layout(load("ceda"), dialect="ceda4"), layout(load("mb"), framing="tcp")
    assert plausible(ceda, b"\x82", 0, 1) is None
    assert plausible(ceda, b"\x82\x05", 0, 2) is None
    assert plausible(ceda, b"\x82\x05\x61", 0, 3) is True
    assert plausible(ceda, b"\x82\x05\x60", 0, 3) is False
    assert plausible(ceda, b"\x83", 0, 1) is False
    assert plausible(mb, b"\0\0\0\x20publ", 0, 8) is None
    assert plausible(mb, b"\0\0\0\x20publish:", 0, 12) is True
    assert plausible(mb, b"\0\0\0\x20PUBLISH:", 0, 12) is True
    assert plausible(mb, b"\0\0\0\x20push", 0, 8) is False


def test_a_payload_that_cannot_hold_its_message_is_not_plausible() -> None:
    reading = layout(load("casual"))
    header = (3100).to_bytes(8, "big") + bytes(16)
    assert plausible(reading, header + (71).to_bytes(8, "big"), 0, 32) is False
    assert plausible(reading, header + (72).to_bytes(8, "big"), 0, 32) is True


def test_limits_are_told_as_limits_and_magic_as_a_value() -> None:
    with pytest.raises(LimitExceeded) as caught:
        measure(layout(load("dsa")), (65473).to_bytes(4, "little"), 0, 4)
    assert (caught.value.limit, caught.value.actual) == (65472, 65473)
    with pytest.raises(BadValue):
        measure(layout(load("ceda"), dialect="ceda4"), b"\x81\x01", 0, 2)


def test_a_mask_taken_twice_is_no_mask() -> None:
    rng = random.Random(1)
    for size in (0, 1, 2, 3, 4, 5, 100, 1001):
        payload, key = rng.randbytes(size), rng.randbytes(4)
        masked = apply_mask(payload, key)
        assert masked == bytes(byte ^ key[i % 4] for i, byte in enumerate(payload))
        assert apply_mask(masked, key) == payload
