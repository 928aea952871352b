"""Whatever a declaration says, every reader knows: records, columns, JSON, traffic, tables, pages, dissectors."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from random import Random
from typing import get_args

import pytest

import wirelake.spec.conduct
from tests.differential import SteppedStreams, assert_agreement, columnar_events, mutate, record_events, split
from tests.ingest.lakes import table
from tests.spec.features import FEATURES, RECIPES
from tests.spec.test_dissector import Tshark, damaged, judge
from wirelake import decode, encode
from wirelake.capture.settings import ReadSettings
from wirelake.codec.annotate import annotate
from wirelake.codec.encoder import encode_frame
from wirelake.codec.json import from_json
from wirelake.codec.stream import readings
from wirelake.columnar.message_to_row import row_of
from wirelake.columnar.row_to_message import message_of
from wirelake.errors import EncodeError
from wirelake.generate import generate, random_frame, write_pcap
from wirelake.generate.truth import Truth
from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.run import ingest
from wirelake.spec import Protocol
from wirelake.spec import nodes as n
from wirelake.spec.render import as_markdown, as_text, tables
from wirelake.spec.resolve import MessageNode, layout
from wirelake.spec.states import is_opaque, states

SIDES = ("client", "server")
MADE = {name: make() for name, make in FEATURES.items()}


def sides(protocol: Protocol) -> list[dict[str, str]]:
    """Return the ways of reading in which frames differ: who sends, and which frames may come."""
    found: list[dict[str, str]] = [{n.SIDE: side} for side in SIDES] if n.SIDE in protocol.options else [{}]
    return [{**each, n.STATE: state} for each in found for state in states(protocol)] if states(protocol) else found


def is_sent(protocol: Protocol, node: MessageNode, side: dict[str, str]) -> bool:
    """Return whether a message may come in this reading."""
    places = states(protocol).get(side.get(n.STATE, ""), (node.frame,))
    return node.frame in places and node.sent_by in ("both", side.get(n.SIDE, node.sent_by))


def frames_of(protocol: Protocol, rng: Random, side: dict[str, str], count: int = 20) -> list[bytes]:
    reading, found = layout(protocol, **side), []
    for node in reading.messages.values():
        for _ in range(count):
            if is_sent(protocol, node, side):
                try:
                    found.append(random_frame(reading, node, rng, size=0.3)[1])
                except EncodeError as error:
                    assert error.rule in ("terminator", "frame_limit"), error
    return found


@pytest.mark.parametrize("name", MADE)
def test_records(name: str) -> None:
    protocol = MADE[name]
    for side in sides(protocol):
        reading, rng = layout(protocol, **side), Random(name)
        good = frames_of(protocol, rng, side)
        assert len(good) >= 20
        for frame in good:
            message = decode(protocol, frame, **side)
            assert encode(message) == frame
            shown = json.loads(json.dumps(message.to_json()))
            if "NaN" not in str(shown) and name != "MessagePack":  # whose keys may be anything
                assert encode_frame(reading, from_json(reading, shown)) == frame
                assert message_of(reading, row_of(message)) == message
            seen = annotate(reading, frame)
            named = {each.path.partition(".")[0].partition("[")[0] for each in seen.seen}
            kept = {f.key for f in message.__wire_fields__ if getattr(message, f.name, None) not in (None, (), b"", "")}
            assert seen.error is None and kept <= named, (kept, named)
            if is_opaque(protocol, message.__message__["frame"]):
                continue  # any part of it is whole
            for cut in range(len(frame)):
                part = annotate(reading, frame[:cut])
                assert part.error is not None and part.error.incomplete
                assert all(each.offset + each.length <= cut for each in part.seen)
                whole = [each for each in seen.seen if each.offset + each.length <= cut and each.length]
                assert len(part.seen) >= len(whole) - 3, (frame[:cut].hex(), part.seen, whole)


@pytest.mark.parametrize("name", MADE)
def test_columns_and_streams(name: str) -> None:
    protocol, rng = MADE[name], Random(name)
    for side in sides(protocol):
        good = frames_of(protocol, rng, side)
        cut = [frame[: rng.randrange(len(frame) + 1)] for frame in good]
        accepted, refused = assert_agreement(protocol, [*good, *cut, *(mutate(f, rng) for f in good * 5)], **side)
        assert accepted >= len(good) and refused
        known = readings(protocol, side)
        for _ in range(20):
            data = b"".join(mutate(f, rng) if rng.random() < 0.3 else f for f in rng.choices(good, k=6))
            whole = record_events(known, [data])
            assert sum(length for _, length, *_ in whole) == len(data)
            chunks = split(data, rng, 20)
            assert record_events(known, chunks) == whole
            assert columnar_events(protocol, chunks, **side) == whole
            assert SteppedStreams(known).events(chunks, ends_alone=True) == whole


@pytest.mark.parametrize("name", MADE)
def test_pages(name: str) -> None:
    protocol = MADE[name]
    page, shown = as_markdown(tables(protocol)), as_text(tables(protocol))
    for cls in protocol.messages:
        assert f"### {cls.__message__['name']} (" in page
        for f in (*cls.__wire_fields__, *cls.__derived_fields__):
            assert f.name in page and f.name in shown, f.name


@pytest.mark.parametrize("name", MADE)
def test_traffic_and_tables(name: str, tmp_path: Path) -> None:
    protocol, truth = MADE[name], Truth()
    traffic = generate(protocol, messages=150, seed=4)
    write_pcap(traffic, tmp_path / "a.pcap", truth=truth)
    lake = tmp_path / "lake"
    file = tmp_path / "declared.py"
    file.write_text(f"from tests.spec.test_features import MADE\nPROTOCOL = MADE[{name!r}]\n")
    reading = ReadSettings(protocols=(f"{file}:PROTOCOL",))
    report = ingest(InlineRunner(), [str(tmp_path / "a.pcap")], str(lake), reading=reading, final=True)
    assert sum(report.messages.values()) == len(list(traffic))
    assert (report.bytes_quarantined, report.violations) == (0, 0)
    found = Counter((row["message"], row["outcome"]) for row in table(lake, "gold/exchanges"))
    assert found == Counter((each.message, each.outcome) for each in truth.exchanges)
    assert found.total() > 10 or not any(cls.__message__["answers"] for cls in protocol.messages)


@pytest.mark.parametrize("name", MADE)
def test_dissector(name: str, tmp_path: Path) -> None:
    protocol, rng = MADE[name], Random(name)
    tshark, met = Tshark(tmp_path, protocol, "our_x"), dict[str, int]()
    for state in states(protocol) or [""]:
        options = {n.STATE: state} if state else {}
        ways = [side for side in sides(protocol) if side.get(n.STATE, "") == state]
        good = [frame for side in ways for frame in frames_of(protocol, rng, side)]
        cut = [frame[: rng.randrange(1, len(frame) + 1)] for frame in good]
        met |= judge(protocol, [*good, *cut, *(damaged(f, rng) for f in good * 2)], options, tshark)
    assert {cls.__message__["name"] for cls in protocol.messages} <= met.keys()


def test_what_the_page_tells_how_to_say_is_said_here() -> None:
    page = (Path(__file__).parents[2] / "docs" / "own-protocol.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|`]+) \| (.*`.*) \|$", page, re.M)
    assert RECIPES.keys() <= {said for said, _ in rows} and len(RECIPES) >= 20
    assert {feature for features in RECIPES.values() for feature in features} <= FEATURES.keys()


def test_fewer_kinds_of_nodes_than_features_say_it_all() -> None:
    """What a declaration can say comes from what few nodes say together."""
    wires = set(n.Wire.__subclasses__())
    parts, conditions, values = (set(get_args(union)) for union in (n.Part, n.Condition, n.Derived))
    kinds = wires | parts | conditions | values | {n.By, n.Escaped, n.Choose}
    assert len(kinds) < len(RECIPES) < len(FEATURES), (len(kinds), len(RECIPES), len(FEATURES))


def test_what_the_page_tells_to_write_are_names_that_there_are() -> None:
    page = (Path(__file__).parents[2] / "docs" / "own-protocol.md").read_text(encoding="utf-8")
    spans = " ".join(re.findall(r"^\| [^|`]+ \| (.*`.*) \|$", page, re.M)).split("`")[1::2]
    called = {name for span in spans for name in re.findall(r"\b([A-Za-z_]\w+)\(", re.sub(r'"[^"]*"', '""', span))}
    known = {*vars(wirelake.spec), *vars(wirelake.spec.conduct)}
    assert len(called) > 40 and called <= known | {"Other", "Raw", "date"}, called - known
