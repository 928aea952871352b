"""The gallery: public protocols, declared from their documents, in every reader."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.differential import SteppedStreams, assert_agreement, columnar_events, mutate, record_events, split
from tests.ingest.lakes import table
from wirelake import decode, encode, load
from wirelake.capture.settings import ReadSettings
from wirelake.codec.encoder import encode_frame
from wirelake.codec.json import from_json
from wirelake.codec.stream import readings
from wirelake.columnar import decode_frames
from wirelake.columnar.selection import Selection
from wirelake.errors import DecodeError
from wirelake.generate import generate, random_frame, write_pcap
from wirelake.generate.truth import Truth
from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.run import ingest
from wirelake.spec import Protocol
from wirelake.spec.render import as_markdown, tables
from wirelake.spec.resolve import candidates, layout

ROOT = Path(__file__).resolve().parents[2]
FILES = {path.stem: path for path in sorted((ROOT / "examples" / "protocols").glob("*.py"))}
NAMES = list(FILES)
CASES = 500
"""Messages that are drawn; each is cut 4 times and mutated 35 times."""
LISTED = r"\| `(\w+)\.py` \| (\d+) \|[^|]*\| ([^|]*) \|"
"""A row of the gallery's page: file, lines, document, readers."""


def name_of(stem: str) -> str:
    return f"{FILES[stem]}:PROTOCOL"


def vectors(stem: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((Path(__file__).parent / "vectors" / f"{stem}.json").read_text())
    return found


def data_of(vector: dict[str, Any]) -> bytes:
    if "text" in vector:
        return str(vector["text"]).encode()
    repeated = re.sub(r"([0-9a-f]{2})\*(\d+)", lambda found: found[1] * int(found[2]), vector["hex"])
    return bytes.fromhex(repeated)


VECTORS = [pytest.param(stem, vector, id=f"{stem}: {vector['about']}") for stem in NAMES for vector in vectors(stem)]


@pytest.mark.parametrize(("stem", "vector"), VECTORS)
def test_a_vector_is_read_and_written_as_its_document_says(stem: str, vector: dict[str, Any]) -> None:
    protocol, data = load(name_of(stem)), data_of(vector)
    if "error" in vector:
        with pytest.raises(DecodeError) as caught:
            decode(protocol, data)
        error = caught.value
        assert {"rule": error.rule, "path": error.path, "offset": error.offset} == vector["error"]
        return
    message = decode(protocol, data)
    shown = message.to_json()
    assert shown["message"] == vector["message"]
    assert vector["fields"].items() <= shown["fields"].items()
    assert encode(message) == data
    assert encode_frame(message.layout, from_json(message.layout, json.loads(json.dumps(shown)))) == data


def frames_of(protocol: Protocol, rng: Random, count: int, *, mixed: bool = False, **side: str) -> list[bytes]:
    """Random frames; of one side only, if it is given. They are of one dialect, or of all if they are mixed."""
    known = candidates(protocol, **side)
    dialects = known if mixed else (rng.choice(known),)
    frames = []
    for _ in range(count):
        made = rng.choice(dialects)
        nodes = [node for node in made.messages.values() if node.sent_by in ("both", *side.values()) or not side]
        frames.append(random_frame(made, rng.choice(nodes), rng)[1])
    return frames


@pytest.mark.parametrize("stem", NAMES)
def test_generated_truncated_and_mutated_frames_are_the_same_to_every_reader(stem: str) -> None:
    protocol, rng = load(name_of(stem)), Random(stem)
    good = frames_of(protocol, rng, CASES, mixed=True)
    cut = [frame[: rng.randrange(len(frame) + 1)] for frame in good * 4]
    frames = [*good, *cut, *(mutate(frame, rng) for frame in good * 35)]
    assert len(frames) >= 20_000
    accepted, refused = assert_agreement(protocol, frames)  # type: ignore[arg-type]
    assert accepted >= len(good) and refused > len(cut) // 2


@pytest.mark.parametrize("stem", NAMES)
def test_long_damaged_streams_are_the_same_to_every_reader(stem: str) -> None:
    protocol, rng = load(name_of(stem)), Random(f"{stem} long")
    good = frames_of(protocol, rng, CASES)
    known = readings(protocol, {})
    stepped = SteppedStreams(known)
    for _ in range(100):
        parts = [mutate(frame, rng) if rng.random() < 0.1 else frame for frame in rng.choices(good, k=200)]
        data = b"".join(parts)
        whole = record_events(known, split(data, rng, 1 << 12))
        assert sum(length for _, length, *_ in whole) == len(data)
        assert columnar_events(protocol, split(data, rng, 1 << 14)) == whole  # type: ignore[arg-type]
        assert stepped.events(split(data, rng, 1 << 14), ends_alone=True) == whole


@pytest.mark.parametrize("stem", NAMES)
def test_the_kernel_reads_what_is_text_in_its_texts(stem: str) -> None:
    """Only texts that are not UTF-8, and what the gallery's page lists, are left to the record codec."""
    protocol, rng = load(name_of(stem)), Random(stem)
    sides: dict[str, Any] = {"sent_by": "server"} if "sent_by" in protocol.options else {}
    made = layout(protocol, **sides)
    nodes = [node for node in made.messages.values() if not sides or node.sent_by == "server"]
    frames = [random_frame(made, rng.choice(nodes), rng)[1] for _ in range(CASES)]
    batch = decode_frames(protocol, frames, **sides)
    if Selection(protocol, None).fast(layout(protocol), ()) is None:
        assert len(batch.slow) == len(frames)
        return
    assert all("\\udc" in ascii(message) for message in batch.slow.values())


@pytest.mark.parametrize("stem", NAMES)
def test_damaged_streams_are_the_same_to_every_reader_in_any_split(stem: str) -> None:
    protocol, rng = load(name_of(stem)), Random(f"{stem} streams")
    good = frames_of(protocol, rng, 60)
    known = readings(protocol, {})
    stepped = SteppedStreams(known)
    for _ in range(30):
        parts = [mutate(frame, rng) if rng.random() < 0.3 else frame for frame in rng.choices(good, k=8)]
        data = b"".join(parts)
        whole = record_events(known, [data])
        assert sum(length for _, length, *_ in whole) == len(data)
        chunks = split(data, rng, 50)
        assert record_events(known, chunks) == whole
        assert columnar_events(protocol, chunks) == whole  # type: ignore[arg-type]
        assert stepped.events(chunks, ends_alone=True) == whole


@pytest.mark.parametrize("stem", NAMES)
def test_a_capture_becomes_the_tables_that_its_traffic_says(stem: str, tmp_path: Path) -> None:
    truth = Truth()
    traffic = generate(load(name_of(stem)), messages=400, seed=4)
    write_pcap(traffic, tmp_path / "a.pcap", truth=truth)
    lake, reading = tmp_path / "lake", ReadSettings(protocols=(name_of(stem),))
    report = ingest(InlineRunner(), [str(tmp_path / "a.pcap")], str(lake), reading=reading, final=True)
    assert sum(report.messages.values()) == len(list(traffic))
    assert (report.bytes_quarantined, report.violations) == (0, 0)
    found = Counter((row["message"], row["outcome"]) for row in table(lake, "gold/exchanges"))
    assert found == Counter((each.message, each.outcome) for each in truth.exchanges)


@pytest.mark.parametrize("stem", NAMES)
def test_a_declaration_is_described_in_full(stem: str) -> None:
    protocol = load(name_of(stem))
    page = as_markdown(tables(protocol))
    assert all(f"### {cls.__message__['name']} (" in page for cls in protocol.messages)


def test_the_gallery_lists_its_files_with_their_lines_and_readers() -> None:
    page = (ROOT / "examples" / "protocols" / "README.md").read_text(encoding="utf-8")
    listed = {name: (int(lines), who) for name, lines, who in re.findall(LISTED, page)}
    counted = {stem: len(path.read_text(encoding="utf-8").splitlines()) for stem, path in FILES.items()}
    assert {name: lines for name, (lines, _) in listed.items()} == counted
    assert max(counted.values()) <= 120 and counted["hpfeeds"] < 40
    overview = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert (
        "AMQP 0-9-1 and MQTT 3.1.1 120 each, STOMP 1.2 88, Modbus/TCP 68, RESP2 53, hpfeeds 35, syslog 23" in overview
    )
    names = ("amqp", "mqtt", "stomp", "modbus_tcp", "resp2", "hpfeeds", "syslog")
    assert [counted[name] for name in names] == [120, 120, 88, 68, 53, 35, 23]
    for stem, (_, who) in listed.items():
        protocol = load(name_of(stem))
        assert ("kernel" in who) == (Selection(protocol, None).fast(layout(protocol), ()) is not None)
