"""MB messages as JSON lines."""

from __future__ import annotations

import json

import pytest

from wirelake.live.core.message_json import parse_line
from wirelake.live.mb import Message
from wirelake.live.mb.message_json import MESSAGE_JSON as MB


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "not JSON"),
        ("5", "not a JSON object"),
        ('{"topic":5}', '"topic" must be text'),
        ('{"topic":"a","payload":1,"text":"x"}', "payload and text"),
        ('{"topic":"a","text":5}', '"text" must be text'),
        ('{"topic":"a","hex":"xyz"}', "hex"),
        ('{"topic":"a","version":1}', '"version" must be text'),
    ],
)
def test_a_line_of_mb_that_makes_no_sense_is_refused(line: str, complaint: str):
    with pytest.raises(ValueError, match=complaint):
        parse_line(MB, line)


@pytest.mark.parametrize("payload", [b"", b"{}", b"17", b'"text"', b"text", b"NaN", b"\xff", b'{"a":1}\n', b"[" * 5000])
def test_what_is_shown_of_a_payload_can_be_read_again(payload: bytes):
    shown = MB.show(Message("a", payload, "1.2.3"))
    again = parse_line(MB, json.dumps(shown))
    assert (again.topic, again.more) == ("a", {"version": "1.2.3"})
    assert again.payload == payload.strip()
