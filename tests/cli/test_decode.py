"""decode, encode, match: the shape that is printed, for people and for checks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import wirelake
from wirelake.cli import cli
from wirelake.protocols.ceda import Heartbeat, Publish
from wirelake.spec import Cell

ENGINES = pytest.mark.parametrize("engine", ["record", "columnar"])
CALL = (
    "0000000000000c1c000102030405060708090a0b0c0d0e10000000000000005510111213141516171819 1a1b1c1d1e1f"
    "00000000000000046563686f00000000002625a00000000000000000ffffffffffffffff0000000000000000"
    "00000000000000062e6a736f6e2f00000000000000035b315d"
).replace(" ", "")


def run(*arguments: str, given: str | bytes = "") -> Result:
    return CliRunner().invoke(cli, arguments, input=given)


def objects(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


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


def test_match_answers_each_line() -> None:
    asked = [("a.#", "A"), ("a.+", "a"), ("a.b.c.d.e.#", "a"), ("a", "a..b")]
    given = "\n".join(json.dumps({"pattern": p, "topic": t}) for p, t in asked)
    result = run("match", "-p", "mb", "-", given=given)
    assert objects(result) == [
        {"matches": True},
        {"matches": False},
        {"matches": False, "error": "pattern"},
        {"matches": False, "error": "topic"},
    ]
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["decode", "-p", "nope", "-"], "unknown protocol 'nope': one of casual, dsa, mb, ceda, or path/to/file.py:"),
        (["decode", "-p", "casual", "--mode", "strict", "-"], "casual has no option 'mode'; it has: profile"),
        (["decode", "-p", "dsa", "--mode", "loose", "-"], "dsa: mode is one of strict, compat, not 'loose'"),
        (["decode", "-p", "casual", "/no/such/file"], "cannot read /no/such/file: No such file or directory"),
        (["decode", "-p", "missing.py:P", "-"], "no such file: missing.py"),
        (["match", "-p", "casual", "-"], "casual has no topics to match"),
        (["describe", "casual", "7"], "casual has no message '7'; it has: domain_connect_request"),
        (["inspect", "-p", "ceda", "--hex", "8x"], "--hex: non-hexadecimal number found"),
    ],
)  # fmt: skip
def test_wrong_use_exits_with_2_and_says_what_would_be_right(arguments: list[str], text: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert text in " ".join(result.stderr.split())


@pytest.mark.parametrize("verb", sorted(cli.commands))
def test_help_of_every_verb_teaches_by_example(verb: str) -> None:
    result = run(verb, "--help")
    assert result.exit_code == 0
    assert f"wirelake {verb}" in result.stdout.split("Options:")[0].split("\n", 1)[1]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_name_the_program(shell: str) -> None:
    assert "_WIRELAKE_COMPLETE" in run("completion", shell).stdout
