"""Every example runs, and the declarations among them are protocols like any other."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from wirelake import StreamDecoder, columnar, decode, encode, load
from wirelake.cli import cli
from wirelake.codec.stream import Decoded
from wirelake.spec import Protocol

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
DECLARATIONS = [path for path in EXAMPLES if "\nPROTOCOL = " in path.read_text(encoding="utf-8")]
SHORT = [path for path in DECLARATIONS if "conduct=" not in path.read_text(encoding="utf-8")]
LIMIT = 40


def run(path: Path, *arguments: str, cwd: Path) -> str:
    result = subprocess.run(
        [sys.executable, "-W", "error", str(path), *arguments],
        cwd=cwd, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    """A CEDA stream with two messages and something else between them."""
    from wirelake.protocols import ceda

    heartbeat = encode(ceda.Heartbeat())
    publish = encode(ceda.Publish(topic="px.eur"))
    path = tmp_path / "stream.raw"
    path.write_bytes(heartbeat + b"\x82\x00" + publish + heartbeat)
    return path


def arguments_of(path: Path, stream: Path) -> list[str]:
    """What the example says about its arguments, filled in."""
    text = path.read_text(encoding="utf-8")
    usage = re.search(rf"python examples/{path.name}(.*)", text)
    if usage is None:
        return []
    known = {"PROTOCOL": "ceda", "FILE": str(stream)}
    return [known.get(word, word) for word in usage.group(1).split() if not word.startswith(("[", "."))]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_runs(path: Path, stream: Path, tmp_path: Path):
    printed = run(path, *arguments_of(path, stream), cwd=tmp_path)
    assert printed or path in DECLARATIONS


def test_decoding_a_file_tells_messages_and_what_is_none(stream: Path, tmp_path: Path):
    printed = run(ROOT / "examples" / "decode_file.py", "ceda", str(stream), cwd=tmp_path)
    assert [line.split()[:2] for line in printed.splitlines()] == [
        ["0", "heartbeat"],
        ["5", "publish"],
        ["15", "heartbeat"],
    ]


def test_the_parquet_files_hold_the_messages_and_the_quarantined_bytes(stream: Path, tmp_path: Path):
    import pyarrow.parquet as pq

    run(ROOT / "examples" / "to_parquet.py", "ceda", str(stream), "m.parquet", "q.parquet", cwd=tmp_path)
    assert pq.read_table(tmp_path / "m.parquet", columns=["message"]).column("message").to_pylist() == [
        "heartbeat",
        "publish",
        "heartbeat",
    ]
    assert pq.read_table(tmp_path / "q.parquet").column("offset").to_pylist() == [3]


@pytest.mark.parametrize(
    "path", [p for p in DECLARATIONS if "conduct=" not in p.read_text()], ids=lambda path: path.stem
)
def test_a_declaration_is_shorter_than_forty_lines(path: Path):
    text = path.read_text(encoding="utf-8")
    body = text[text.rindex("import") :].partition("\n\n")[2]
    lines = [line for line in body.splitlines() if line.strip() and not line.startswith("#")]
    assert 10 < len(lines) < LIMIT


def some_messages() -> list[Any]:
    sensor, bulletin = (load(f"{ROOT}/examples/{name}.py:PROTOCOL") for name in ("sensor", "bulletin"))
    hello, report, receipt = sensor.messages
    post, clear = bulletin.messages
    place = hello.__wire_fields__[1].wire.struct
    sample = report.__wire_fields__[3].wire.element.struct
    noon = datetime(2026, 7, 1, 12, tzinfo=UTC)
    return [
        hello(station="roof", place=place(52.5, 13.4)),
        report(
            number=7, taken=datetime(2026, 7, 1, 12, tzinfo=UTC), health=1, samples=(sample(1, 21.5), sample(2, 40.25))
        ),
        report(number=8, taken=noon, health=0, samples=()),
        receipt(number=7, wait=60),
        post(board="town.lost", priority=3, text=b"A grey cat"),
        post(board="town", text=b""),
        clear(board="town", below=5),
    ]


@pytest.mark.parametrize("message", some_messages(), ids=lambda message: type(message).__name__)
def test_messages_of_the_declared_protocols_go_through_every_reader(message: Any):
    protocol = message.__protocol__
    frame = encode(message)
    assert decode(protocol, frame) == message
    decoder = StreamDecoder(protocol)
    (event,) = [event for byte in frame for event in decoder.feed(bytes([byte]))]
    assert isinstance(event, Decoded)
    assert event.message == message
    batch = columnar.decode(protocol, frame * 3)
    assert batch.quarantined.num_rows == 0
    assert batch.records.column("message").to_pylist() == [message.__message__["name"]] * 3
    assert columnar_json(protocol, frame) == message_json(protocol, frame)


def columnar_json(protocol: Protocol, frame: bytes) -> Any:
    return shown("--engine", "columnar", protocol=protocol, frame=frame)


def message_json(protocol: Protocol, frame: bytes) -> Any:
    return shown(protocol=protocol, frame=frame)


def shown(*options: str, protocol: Protocol, frame: bytes) -> Any:
    """What the command line says about the frame."""
    name = f"{ROOT}/examples/{protocol.name}.py:PROTOCOL"
    result = CliRunner().invoke(cli, ["decode", "-p", name, *options, "--hex", "-"], input=frame.hex())
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_a_declaration_that_is_loaded_twice_is_the_same_protocol():
    name = f"{ROOT}/examples/sensor.py:PROTOCOL"
    assert load(name) is load(name)


def test_the_tutorial_shows_the_declaration_that_is_in_the_file():
    tutorial = (ROOT / "docs" / "own-protocol.md").read_text(encoding="utf-8")
    source = (ROOT / "examples" / "sensor.py").read_text(encoding="utf-8")
    assert source.partition('"""\n\n')[2].partition("# --- the end")[0].strip() in tutorial


@pytest.mark.parametrize("path", DECLARATIONS, ids=lambda path: path.stem)
def test_the_generator_makes_every_message_of_a_declared_protocol(path: Path):
    from wirelake.generate import generate

    protocol = load(f"{path}:PROTOCOL")
    traffic = list(generate(protocol, seed=3, messages=300))
    assert {type(event.message) for event in traffic} == set(protocol.messages)
    for event in traffic:
        assert decode(protocol, event.frame) == event.message


@pytest.mark.parametrize("path", DECLARATIONS, ids=lambda path: path.stem)
def test_the_dissector_knows_every_message_of_a_declared_protocol(path: Path):
    from wirelake.spec.dissector import dissector

    protocol = load(f"{path}:PROTOCOL")
    lua = dissector(protocol)
    for message in protocol.messages:
        assert message.__message__["name"] in lua
