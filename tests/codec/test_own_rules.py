"""Rules that only protocols of users can break: each by the smallest change of a frame that keeps it."""

from __future__ import annotations

from pathlib import Path

import pytest

import wirelake
from wirelake.errors import DecodeError
from wirelake.protocols import load

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PACKED, MQTT, RESP2, SYSLOG = "packed.py", "protocols/mqtt.py", "protocols/resp2.py", "protocols/syslog.py"
READING = bytes.fromhex("504b01 0a 00 00 303b 00 2e 6a40d32b ce")
CONNECT = bytes.fromhex("100d 00044d515454 04 02 003c 000161")
LINE = b"19 <34>1 - - - - - - x"
ARRAY, DEPTH = b"*1\r\n", 32


@pytest.mark.parametrize(
    ("rule", "file", "good", "bad"),
    [
        ("checksum", PACKED, READING, READING.replace(b"\x6a\x40", b"\x6a\x41")),
        ("trailer", PACKED, READING, READING[:-1] + b"\xcd"),
        ("terminator", PACKED, READING, READING.replace(b"\x2e", b"\x2f")),
        ("constant", MQTT, CONNECT, CONNECT.replace(b"MQTT", b"MQTU")),
        ("varint", MQTT, CONNECT, b"\x10\xff\xff\xff\xff\x01"),
        ("digits", SYSLOG, LINE, b"x" + LINE),
        ("unknown_tag", RESP2, ARRAY + b":1\r\n", ARRAY + b"?1\r\n"),
        ("depth_limit", RESP2, ARRAY * DEPTH + b":1\r\n", ARRAY * (DEPTH + 1) + b":1\r\n"),
    ],
)
def test_one_changed_byte_breaks_the_rule(rule: str, file: str, good: bytes, bad: bytes) -> None:
    protocol = load(f"{EXAMPLES / file}:PROTOCOL")
    assert wirelake.encode(wirelake.decode(protocol, good)) == good
    with pytest.raises(DecodeError) as caught:
        wirelake.decode(protocol, bad)
    assert caught.value.rule == rule
