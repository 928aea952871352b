"""Dissectors of declarations that nobody thought of: tshark shows what the record codec decodes."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.codec.declarations import made
from tests.codec.exact_declarations import exact_protocol, lines_protocol
from tests.codec.test_public_protocols import PROTOCOLS
from tests.spec.test_dissector import PORT, Capture, Tshark, by_flow, compare, damaged, judge, side_options, some_frames
from wirelake.codec.stream import Decoded, StreamDecoder
from wirelake.generate import generate
from wirelake.spec import (
    Code,
    Ends,
    Frame,
    Message,
    Protocol,
    Size,
    Struct,
    Tagged,
    When,
    be,
    blob,
    checksum,
    choice,
    constant,
    declare,
    digits,
    field,
    fixed,
    le,
    many,
    nested,
    optional,
    sized,
    text,
    u8,
    varint,
)
from wirelake.spec import nodes as n
from wirelake.spec.states import is_opaque, states

SEEDS = (*range(12), 24, 54)
FRAMES = 60


def frames_for(protocol: Protocol, rng: Random, count: int = FRAMES) -> list[bytes]:
    good = list(some_frames(protocol, {}, rng, count))
    cut = [frame[: rng.randrange(1, len(frame) + 1)] for frame in good]
    return [frame for frame in [*good, *cut, *(damaged(frame, rng) for frame in good)] if len(frame) < 60_000]


@pytest.mark.parametrize("seed", SEEDS)
def test_any_declaration_of_what_is_general_is_shown_as_it_is_decoded(seed: int, tmp_path: Path) -> None:
    protocol = exact_protocol(seed)
    met = judge(protocol, frames_for(protocol, Random(seed)), {}, Tshark(tmp_path, protocol))
    assert {cls.__message__["name"] for cls in protocol.messages} <= met.keys()


def test_lines_without_a_code_are_shown_as_they_are_decoded(tmp_path: Path) -> None:
    protocol = lines_protocol()
    met = judge(protocol, frames_for(protocol, Random(1)), {}, Tshark(tmp_path, protocol))
    assert {"line", "incomplete"} <= met.keys() and len(met) > 3


# --- values that hold themselves, and frames that end with them


class Pair(Struct):
    name: str = field(text(b"=", most=9), "which")
    number: int = field(be.u24, "how much")


VALUE = choice(u8, lambda: VALUES, depth=3)
LIST = many(VALUE, varint(2), null=0x3FFF)
VALUES: dict[int, Any] = {
    0: None,
    1: be.u16,
    2: text(digits(b":", -1, 99), null=-1, end=b","),
    3: digits(b";", -(2**63), lenient=True),
    4: LIST,
    5: nested(Pair),
    6: le.f64,
    7: digits(b"h", 0, 2**63 - 1, base=16, lenient=True),
    8: varint(9, high_first=True, lenient=True),
}
SUMS: tuple[Any, ...] = ("crc32", "crc16_modbus", "crc16_ccitt", "adler32", "sum8", "sum16", "xor8")


ESCAPES = {rb"\\": b"\\", rb"\c": b":", rb"\0": b"\0"}


class Tree(Message, code=1):
    """A value of any kind, and more of them."""

    shift: int = field(be.i16, "a number")
    one: Tagged = field(VALUE, "a value", default=Tagged(0))
    list: tuple[Tagged, ...] | None = optional(LIST, "more of them")
    small: int | None = optional(u8, "if the number is small", when=When("shift", least=-9, most=9))
    odd: str | None = optional(text(b"\0"), "if it is odd", when=When("shift", bits=1))
    last = constant(b"\x0c\x0d")


class Named(Message, code=2):
    """A condition on a text, and one on an absent value."""

    name: str = field(text(b"\n", least=1, most=20), "what it is called")
    dotted: bytes | None = optional(blob(be.u16), "with some names", when=When("name", prefix="a"))
    other: int | None = optional(u8, "without others", when=When("name", none_of=("x", "y")))
    none: int | None = optional(u8, "where there is no other", when=When("other", one_of=(0,)))
    words: tuple[str, ...] = field(many(text(b" "), b"\n"), "words", default=())
    inner: tuple[int, ...] = field(sized(varint(2), many(be.u32, None)), "numbers", default=())
    tag: Tagged = field(choice(fixed(2), {b"ok": None, b"no": u8}), "how it went", default=Tagged(b"ok"))


class Written(Message, code=3):
    """Texts and bytes with escapes, and a condition on one."""

    name: str = field(text(b":", escapes=ESCAPES), "its name")
    raw: bytes = field(blob(u8, escapes=ESCAPES), "its bytes")
    more: int | None = optional(u8, "where there is a colon", when=When("name", prefix="a:"))


ENDING = Frame((Code("kind", u8), Ends(3000)))


def test_choices_and_frames_that_end_with_a_field_are_shown_as_they_are_decoded(tmp_path: Path) -> None:
    protocol = declare(Protocol("ending", "Frames that end with a field", ENDING, (Tree, Named, Written)))
    deep = bytes.fromhex("01 0000 0401 0401 0401 0401 00")
    met = judge(protocol, [deep, *frames_for(protocol, Random(3), 240)], {}, Tshark(tmp_path, protocol))
    assert {
        "tree",
        "named",
        "written",
        "escape",
        "incomplete",
        "unknown_tag",
        "depth_limit",
        "terminator",
    } <= met.keys(), met


@pytest.mark.parametrize("kind", SUMS)
def test_every_sum_is_computed_as_the_record_codec_does(kind: Any, tmp_path: Path) -> None:
    wire = be.u32 if kind in ("crc32", "adler32") else u8 if kind.endswith("8") else le.u16
    fields = {"value": field(blob(u8)), "check": checksum(wire, kind), "more": field(be.u16)}
    fields["end"] = checksum(wire, kind, since="more")
    summed = made(Message, "Summed", fields, code=1)
    protocol = declare(Protocol(f"sum_{kind}", f"Sums {kind}", ENDING, (summed,)))
    met = judge(protocol, frames_for(protocol, Random(kind)), {}, Tshark(tmp_path, protocol))
    assert {"summed", "checksum", "incomplete"} <= met.keys()


# --- codes that are another message on each side


class Ask(Message, code=1, kind="request", answer=1, sent_by="client"):
    """The client asks."""

    number: int = field(be.u16, "ties request and reply", role="correlation")


class Tell(Message, code=1, kind="response", sent_by="server"):
    """The server replies, with the same code."""

    number: int = field(be.u16, "ties request and reply", role="correlation")
    name: str = field(text(u8), "what was asked for")


class Note(Message, code=0x1_0000_0002):
    """Either side says something, with a code that takes more than 32 bits."""

    said: str = field(text(u8), "what")


SIDES = Frame((Size("length", be.u16, counts="after", least=8), Code("kind", be.u64)))
OTHER_PORT = 31_313
"""A port that no dissector of Wireshark listens on."""
SIDED = declare(Protocol("sided", "A code for each side", SIDES, (Ask, Tell, Note)))


def test_a_code_is_the_message_of_the_side_that_sends(tmp_path: Path) -> None:
    met = judge(SIDED, frames_for(SIDED, Random(4), 100), {}, Tshark(tmp_path, SIDED))
    assert {"ask", "tell", "note", "incomplete", "leftover_bytes", "unknown_code"} <= met.keys()


def test_the_side_follows_from_the_port_else_from_who_sends_first_unless_it_is_a_preference(tmp_path: Path) -> None:
    asks = bytes.fromhex("000a 0000000000000001 0007")
    tells = bytes.fromhex("000d 0000000000000001 0007 02 6f6b")
    tshark, capture = Tshark(tmp_path, SIDED), Capture()
    for connection, port in enumerate((PORT, OTHER_PORT)):
        for frame, from_client in ((asks, True), (tells, False)):
            capture.segment(connection, frame * 2, from_client=from_client, port=port)

    def kinds(port: int | None, **preferences: Any) -> list[tuple[str, bool]]:
        shown = tshark.show(capture, port=port, **preferences)
        return [(frame.one("sided.sent_by"), frame.fault is None) for frame in shown]

    both = [("client", True)] * 2 + [("server", True)] * 2
    assert kinds(PORT) == both
    assert kinds(PORT, ports=str(OTHER_PORT)) == both * 2
    assert kinds(None, any_port=True) == both * 2
    assert kinds(PORT, sent_by="server") == [("server", False)] + [("server", True)] * 2


# --- public protocols


ENDED = {"gearman", "postgres", "socks5"}
"""That a stream has ended decides which frame it holds, and Wireshark does not see that; whole streams are compared."""
TINY = {"nbd", "zmtp"}
"""Their frames may be so short that what is there of a longer one could be several of them."""
JUDGED = [protocol for protocol in PROTOCOLS if protocol.name not in ENDED]


@pytest.mark.parametrize("protocol", JUDGED, ids=lambda protocol: protocol.name)
def test_public_protocols_are_shown_as_they_are_decoded(protocol: Protocol, tmp_path: Path) -> None:
    tshark, met = Tshark(tmp_path, protocol, f"our_{protocol.name}"), dict[str, int]()
    for state in states(protocol) or [""]:
        options = {n.STATE: state} if state else {}
        frames = frames_for(protocol, Random(5), 80)
        met |= judge(protocol, frames, options, tshark, resume=protocol.name not in TINY)
    assert {cls.__message__["name"] for cls in protocol.messages} <= met.keys()
    assert "incomplete" in met and len(met) > len(protocol.messages) + 1


FOLLOWED = [protocol for protocol in PROTOCOLS if states(protocol) or protocol.name in ENDED]


@pytest.mark.parametrize("protocol", FOLLOWED, ids=lambda protocol: protocol.name)
def test_frames_that_depend_on_messages_are_followed(protocol: Protocol, tmp_path: Path) -> None:
    """Whole streams, from their first packet on; opaque bytes are shown packet by packet, so they are not counted."""
    sent: dict[tuple[int, bool], bytes] = {}
    for event in generate(protocol, seed=7, messages=300, connections=40):
        stream = event.connection.number, event.direction == "to_server"
        sent[stream] = sent.get(stream, b"") + event.frame
    capture = Capture()
    for (number, from_client), data in sent.items():
        capture.stream(number, data, from_client=from_client)
    found = by_flow(Tshark(tmp_path, protocol, f"our_{protocol.name}").show(capture))
    compared = set()
    for (number, from_client), data in sent.items():
        decoder = StreamDecoder(protocol, **side_options(protocol, from_client))
        shown = iter(found[capture.flow(number, from_client=from_client)])
        for decoded in [*decoder.feed(data), *decoder.finish()]:
            assert isinstance(decoded, Decoded)
            about = decoded.message.__message__
            if not is_opaque(protocol, about["frame"]):
                compare(decoded.message, next(shown))
                compared.add(about["name"])
    opaque = {cls.__message__["name"] for cls in protocol.messages if is_opaque(protocol, cls.__message__["frame"])}
    assert compared == {cls.__message__["name"] for cls in protocol.messages} - opaque
