"""decode: the shape that is printed, for people and for checks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.invoked import CALL, objects, run

ENGINES = pytest.mark.parametrize("engine", ["record", "columnar"])


@ENGINES
def test_a_frame_in_hex_is_one_object(engine: str) -> None:
    result = run("decode", "-p", "casual", "--engine", engine, "--hex", "-", given=CALL)
    assert result.exit_code == 0
    assert objects(result) == [
        {
            "ok": True,
            "protocol": "casual",
            "message": "service_call_request",
            "code": 3100,
            "length": 117,
            "fields": {
                "correlation": "000102030405060708090a0b0c0d0e10",
                "execution": "101112131415161718191a1b1c1d1e1f",
                "service.name": "echo",
                "service.timeout": 2500000,
                "parent.name": "",
                "xid": {"format": -1, "gtrid": "", "bqual": ""},
                "flags": 0,
                "buffer.type": ".json/",
                "buffer.payload": "5b315d",
            },
        }
    ]


@ENGINES
def test_tolerated_padding_is_a_note(engine: str) -> None:
    padded = CALL.replace("0000000000000055", "000000000000005d") + "00" * 8
    (shown,) = objects(run("decode", "-p", "casual", "--engine", engine, "--hex", "-", given=padded))
    assert shown["notes"] == ["java_padding"]
    assert shown["length"] == 125


@ENGINES
def test_each_line_is_judged_alone_and_in_order(engine: str) -> None:
    lines = f"{CALL.upper()}\n\n  \nzz\nxy12\n123\n{CALL[:40]} {CALL[40:]}\n{CALL[:-2]}\n{CALL}00\nff"
    result = run("decode", "-p", "casual", "--engine", engine, "--hex", "-", given=lines)
    assert result.exit_code == 1
    told = [(o["ok"], o.get("verdict"), o.get("rule")) for o in objects(result)]
    assert told == [
        (True, None, None),
        (False, "error", "not_hex"),
        (False, "error", "not_hex"),
        (True, None, None),
        (False, "incomplete", "frame_incomplete"),
        (False, "error", "trailing_bytes"),
        (False, "incomplete", "frame_incomplete"),
    ]


@ENGINES
def test_an_error_tells_rule_path_offset_and_detail(engine: str) -> None:
    bad = CALL.replace("00000000000000046563686f", "00000000000000e86563686f")
    (shown,) = objects(run("decode", "-p", "casual", "--engine", engine, "--hex", "-", given=bad))
    assert shown == {
        "ok": False,
        "protocol": "casual",
        "verdict": "error",
        "rule": "text_fits",
        "path": "service.name",
        "offset": 48,
        "detail": "text of 232 bytes, 61 left",
    }


@ENGINES
def test_a_stream_has_offsets_and_goes_on_after_broken_bytes(engine: str, tmp_path: Path) -> None:
    call = bytes.fromhex(CALL)
    path = tmp_path / "stream.raw"
    path.write_bytes(call + b"\xffgarbage" + call + call[:50])
    result = run("decode", "-p", "casual", "--engine", engine, str(path))
    assert result.exit_code == 1
    told = [(o["ok"], o["offset"], o["length"], o.get("verdict")) for o in objects(result)]
    assert told == [
        (True, 0, 117, None),
        (False, 117, 8, "error"),
        (True, 125, 117, None),
        (False, 242, 50, "incomplete"),
    ]


@ENGINES
def test_mb_streams_are_length_prefixed(engine: str) -> None:
    message = b'publish:ev.one:1.0.0\n{"k":1}'
    stream = len(message).to_bytes(4, "big") + message
    result = run("decode", "-p", "mb", "--engine", engine, "-", given=stream * 2)
    assert [(o["offset"], o["length"], o["fields"]["payload"]) for o in objects(result)] == [
        (0, 32, '{"k":1}'),
        (32, 32, '{"k":1}'),
    ]
