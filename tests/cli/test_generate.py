"""generate: files that decode."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from wirelake.cli import cli


@pytest.mark.parametrize("protocol", ["casual", "dsa", "mb", "ceda"])
def test_raw_streams_decode_without_a_fault(protocol: str, tmp_path: Path) -> None:
    runner = CliRunner()
    made = runner.invoke(cli, ["generate", "-p", protocol, "-n", "200", "--format", "raw", "-o", str(tmp_path / "s")])
    assert made.exit_code == 0, made.output
    files = sorted(map(str, (tmp_path / "s").iterdir()))
    shown = runner.invoke(cli, ["decode", "-p", protocol, *files])
    assert shown.exit_code == 0
    messages = [json.loads(line) for line in shown.stdout.splitlines()]
    assert len(messages) >= 200
    assert {m["protocol"] for m in messages} == {protocol}
    assert {m["file"] for m in messages} == set(files)


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    for name, seed in (("a", "7"), ("b", "7"), ("c", "8")):
        arguments = ["generate", "-p", "mb", "-p", "ceda", "-n", "300", "--seed", seed, "-o", str(tmp_path / name)]
        assert CliRunner().invoke(cli, arguments).exit_code == 0
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b != c
    assert a[:4] in (b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4")


def test_json_lines_are_what_decode_prints(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    assert (
        CliRunner().invoke(cli, ["generate", "-p", "dsa", "-n", "50", "--format", "jsonl", "-o", str(path)]).exit_code
        == 0
    )
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert all(line["ok"] and line["protocol"] == "dsa" for line in lines)
    back = CliRunner().invoke(cli, ["encode", "-p", "dsa", "--hex", str(path)])
    assert back.exit_code == 0
    assert len(back.stdout.splitlines()) == len(lines)


def test_wrong_dials_are_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["generate", "-p", "mb", "--corrupt", "2", "-o", str(tmp_path / "x")])
    assert result.exit_code == 2
    assert "corrupt is a share between 0 and 1" in result.stderr


def test_a_tap_and_rotated_sets_are_written(tmp_path: Path) -> None:
    runner = CliRunner()
    base = ["generate", "-p", "casual", "-n", "300", "-o"]
    one = runner.invoke(cli, [*base, str(tmp_path / "a.tap"), "--format", "tap", "--violations", "0.1"])
    assert one.exit_code == 0 and (tmp_path / "a.tap").read_bytes()[1:5] == b"WTAP"
    several = runner.invoke(cli, [*base, str(tmp_path / "taps"), "--format", "tap", "--rotate", "20000"])
    assert several.exit_code == 0 and len(list((tmp_path / "taps").iterdir())) > 2
    cut = runner.invoke(cli, [*base, str(tmp_path / "x.pcap"), "--files", "3", "--disorder", "0.2", "--ipv6", "1"])
    assert cut.stderr == f"wrote {tmp_path}/x-*.pcap\n"
    assert [path.name for path in sorted(tmp_path.glob("x*"))] == ["x-0000.pcap", "x-0001.pcap", "x-0002.pcap"]


@pytest.mark.parametrize(("form", "option"), [("raw", "--rotate"), ("jsonl", "--rotate"), ("tap", "--files")])
def test_only_captures_are_rotated(form: str, option: str, tmp_path: Path) -> None:
    arguments = ["generate", "-p", "mb", "--format", form, option, "9", "-o", str(tmp_path / "x")]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2
    assert f"{option} is for pcap" in result.stderr


def test_reading_options_reach_the_protocols_that_have_them(tmp_path: Path) -> None:
    base = ["generate", "-p", "mb", "-p", "ceda", "-n", "100", "--format", "jsonl"]
    for name, options in (("a", ("--dialect", "ceda4-ws")), ("b", ("--option", "dialect=ceda4-ws")), ("c", ())):
        assert CliRunner().invoke(cli, [*base, *options, "-o", str(tmp_path / name)]).exit_code == 0
    a, b, c = ((tmp_path / name).read_text() for name in "abc")
    assert a == b != c
    refused = CliRunner().invoke(cli, [*base, "--option", "mode=strict", "-o", str(tmp_path / "d")])
    assert refused.exit_code == 2 and "none of mb, ceda has mode='strict'" in refused.stderr
