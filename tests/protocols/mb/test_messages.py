"""mb: the two profiles side by side, and what is written whatever was read."""

from __future__ import annotations

import random

import pytest

from tests.vectors.load import valid
from wirelake import decode, encode
from wirelake.errors import DecodeError
from wirelake.protocols import mb
from wirelake.spec.resolve import layout

ID = "3f2b8c1e-6d4a-4b7e-9c05-1a2b3c4d5e6f"


def test_three_actions_have_codes_of_their_own() -> None:
    assert {code: (m.name, m.word, m.kind) for code, m in layout(mb.PROTOCOL).messages.items()} == {
        1: ("publish", "publish", "event"),
        2: ("request", "request", "request"),
        3: ("response", "response", "response"),
    }


def accepts(line: str, profile: str) -> bool:
    try:
        decode("mb", line.encode("utf-8", "surrogateescape") + b"\n", profile=profile)
    except DecodeError:
        return False
    return True


ODD = [
    *("", " ", "\t", "\r", "\x0b", "\xa0", "\ufeff", "\u2028", "\x85", "\x1c", "v", "V", "=", "-", "+", ".", "0", "00"),
    *("1", "9", "x", "0x", "é", "\udcff", "a", "A", "#", "%", "_", "ms", "1e3", ID, ID.upper(), ID[:-1]),
]


def test_what_strict_accepts_upstream_accepts_too() -> None:
    rng = random.Random(1)
    strict = upstream = 0
    for _ in range(20_000):
        words = [
            rng.choice(["publish", "request", "response", "REQUEST"]),
            rng.choice(["a", "a.b", "A.b1.c.d.e"]),
            rng.choice(["1.0.0", "0.1.2-rc.1", "1.0.0+b"]),
            rng.choice(["", ID]),
            rng.choice(["", ID]),
            rng.choice(["", "1", "3600000", "0005"]),
        ][: rng.choice((3, 4, 5, 6, 6))]
        at = rng.randrange(len(words))
        kind = rng.random()
        if kind < 0.4:
            words[at] = rng.choice(ODD) + words[at]
        elif kind < 0.8:
            words[at] += rng.choice(ODD)
        line = ":".join(words)
        if accepts(line, "strict"):
            strict += 1
            assert accepts(line, "upstream"), line
        upstream += accepts(line, "upstream")
    assert strict > 4000
    assert upstream > strict + 500


@pytest.mark.parametrize("profile", ["strict", "upstream"])
def test_what_is_written_strict_reads_unless_a_foreign_version_or_id_is_kept(profile: str) -> None:
    foreign = 0
    for vector in valid("mb"):
        if vector.options["profile"] != profile or "framing" in vector.options:
            continue
        written = encode(decode("mb", vector.data, **vector.options))
        try:
            again = decode("mb", written, profile="strict")
        except DecodeError as error:
            foreign += 1
            assert profile == "upstream"
            assert error.rule in ("version", "request_id", "parent_request_id", "payload_too_large")
        else:
            assert encode(again) == written
    assert (foreign > 0) == (profile == "upstream")


def test_written_headers_are_canonical() -> None:
    for given, written in (
        ("PUBLISH:a:1.0.0:::\n", "publish:a:1.0.0\n"),
        (f"request:a:1.0.0:{ID}:\n", f"request:a:1.0.0:{ID}\n"),
        ("request:a:1.0.0:::0000005\n", "request:a:1.0.0:::5\n"),
        (f"Request:a:1.0.0::{ID}:\n::", f"request:a:1.0.0::{ID}\n::"),
    ):
        assert encode(decode("mb", given.encode())) == written.encode()


def test_the_longest_header_is_what_its_parts_add_up_to() -> None:
    assert len("response") + 255 + 20 + 36 + 36 + len(str(mb.MAX_TIMEOUT_MS)) + 5 == mb.MAX_HEADER_WINDOW
    assert mb.MAX_FRAME == mb.MAX_PAYLOAD + mb.MAX_HEADER_WINDOW
