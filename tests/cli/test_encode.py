"""encode: the inverse of decode."""

from __future__ import annotations

import json

import pytest

import wirelake
from tests.cli.invoked import CALL, objects, run
from wirelake.protocols.ceda import Heartbeat, Publish
from wirelake.spec import Cell


@pytest.mark.parametrize(
    ("protocol", "options", "frame"),
    [
        ("casual", [], CALL),
        ("dsa", ["--mode", "compat"], "0700000007000f"),
        ("mb", ["--profile", "upstream"], b"publish:a.b: v1.0.0\n\xff".hex()),
        ("mb", ["--framing", "tcp"], "0000001c" + b'publish:ev.one:1.0.0\n{"k":1}'.hex()),
        ("ceda", [], "8298a1b2c3d4b0bfffd4b3b2858c8fe1939bf59ce9a8f3f39791f29ce9fe"),
        ("ceda", ["--dialect", "ceda4"], "822a6107444f432e4e45573e000a00626c6f622074657874200e000f0001000003001c0000000"
                                         "3000a000000"),
    ],
)  # fmt: skip
def test_what_decode_prints_encode_turns_back(protocol: str, options: list[str], frame: str) -> None:
    shown = run("decode", "-p", protocol, *options, "--hex", "-", given=frame)
    assert shown.exit_code == 0, shown.stdout
    back = run("encode", "-p", protocol, *options, "--hex", "-", given=shown.stdout)
    assert back.stdout == frame + "\n"
    assert back.exit_code == 0


def test_encode_follows_the_dialect_that_was_found() -> None:
    frame = wirelake.encode(Publish("NEWS.A", record=(Cell(3, "STRING", "n" * 200),)), dialect="ceda4-ws")
    shown = run("decode", "-p", "ceda", "--hex", "-", given=frame.hex())
    assert objects(shown)[0]["fields"]["dialect"] == "ceda4-ws"
    assert run("encode", "-p", "ceda", "--hex", "-", given=shown.stdout).stdout.strip() == frame.hex()


def test_encode_writes_raw_bytes_without_hex() -> None:
    given = json.dumps({"message": "heartbeat", "fields": {}}) + "\n"
    result = run("encode", "-p", "ceda", "-", given=given * 2)
    assert result.stdout_bytes == wirelake.encode(Heartbeat()) * 2


@pytest.mark.parametrize(
    ("line", "rule", "path"),
    [
        ("nonsense", "json_shape", ""),
        ('{"ok": false}', "json_shape", "ok"),
        ('{"message": "shout", "fields": {}}', "unknown_message", "message"),
        ('{"message": "publish", "fields": {}}', "field_missing", "topic"),
        ('{"message": "publish", "fields": {"topic": 5}}', "json_shape", "topic"),
        ('{"message": "publish", "fields": {"topic": "' + "t" * 256 + '"}}', "int_range", "topic"),
    ],
)
def test_what_cannot_be_encoded_is_told_in_its_place(line: str, rule: str, path: str) -> None:
    good = '{"message": "heartbeat", "fields": {}}'
    result = run("encode", "-p", "ceda", "--hex", "-", given=f"{good}\n{line}\n{good}\n")
    assert result.exit_code == 1
    first, told, last = result.stdout.splitlines()
    assert first == last == "820101"
    shown = json.loads(told)
    assert (shown["ok"], shown["rule"], shown["path"]) == (False, rule, path)
