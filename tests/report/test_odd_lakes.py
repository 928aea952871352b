"""Lakes in which something is missing: rows, times, messages at all, the end of what goes on."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.ingest.lakes import table
from tests.report.made import account, message, size_in_page, write
from wirelake.capture.settings import ReadSettings
from wirelake.generate import generate, write_pcap, write_raw
from wirelake.lake import Lake
from wirelake.report import collect, find_conversation
from wirelake.report.collect import MAX_DATA_BYTES
from wirelake.report.queries import MAX_CANDIDATES


def answers(report: dict[str, Any], name: str) -> list[dict[str, Any]]:
    data = report["data"][name]
    return [dict(zip(data["columns"], row, strict=True)) for row in data["rows"]]


def test_an_empty_lake_has_a_report_of_zeros(tmp_path: Path) -> None:
    report = collect(Lake.open(tmp_path / "lake"))
    (row,) = answers(report, "overview")
    times = {"p50_us", "p95_us", "p99_us", "max_us", "first_us", "last_us"}
    assert {name: value for name, value in row.items() if name not in times} == dict.fromkeys(set(row) - times, 0)
    assert all(row[name] is None for name in times)
    assert report["about"]["commit"] == 0 and report["about"]["commit_at"] is None
    assert report["conversations"] == {}
    assert [name for name, data in report["data"].items() if data["rows"]] == ["overview", "held"]
    json.dumps(report, allow_nan=False)


# --- no times, and bytes that are no message


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Streams of mb without times, one of them nothing but rubbish; their bytes are kept."""
    from wirelake.ingest.inline_runner import InlineRunner
    from wirelake.ingest.run import ingest

    folder = tmp_path_factory.mktemp("raw")
    (folder / "streams").mkdir()
    write_raw(generate("mb", seed=5, messages=500, connections=3, corrupt=0.02), folder / "streams")
    rubbish = random.Random(1).randbytes(3000)
    (folder / "streams" / "rubbish-mb-to_server.bin").write_bytes(rubbish)
    place = str(folder / "lake")
    reading = ReadSettings(protocol="mb")
    ingest(InlineRunner(), [str(folder / "streams")], place, kind="raw", reading=reading, final=True, keep_bytes=True)
    return Lake.open(place, create=False)


def test_a_lake_without_times_has_numbers_and_conversations_but_nothing_over_time(raw: Lake) -> None:
    report = collect(raw)
    (row,) = answers(report, "overview")
    assert row["messages"] == len(table(raw, "silver/messages")) > 400
    assert row["requests"] == len(table(raw, "gold/exchanges")) > 0
    assert (row["first_us"], row["last_us"], row["p50_us"]) == (None, None, None)
    for name in ("traffic", "outcomes", "latency", "heat", "quarantine_over_time"):
        assert answers(report, name) == []
    assert len(answers(report, "violations")) == len(table(raw, "silver/quarantine")) > 0
    assert all(row["event"] is not None for row in answers(report, "violations"))
    assert {row["client"] for row in answers(report, "topology")} >= {"unknown"}
    assert answers(report, "failures")
    json.dumps(report, allow_nan=False)


def test_without_times_each_direction_is_in_the_order_of_its_bytes(raw: Lake) -> None:
    rows = [*table(raw, "silver/messages"), *table(raw, "silver/quarantine")]
    for name in {row["connection"] for row in rows}:
        one = find_conversation(raw, f"c:{name}")
        assert one is not None
        for direction in ("to_server", "to_client"):
            offsets = [event["offset"] for event in one["events"] if event["direction"] == direction]
            assert offsets == sorted(offsets)
        left = one["left_out"]
        hidden = left["before"] + left["between"] + left["after"]
        assert len(one["events"]) + hidden == sum(row["connection"] == name for row in rows)


def test_a_stream_of_rubbish_is_shown_as_the_ranges_that_it_is(raw: Lake) -> None:
    spoken = {row["connection"] for row in table(raw, "silver/messages")}
    ranges = [row for row in table(raw, "silver/quarantine") if row["connection"] not in spoken]
    (name,) = {row["connection"] for row in ranges}
    one = find_conversation(raw, f"c:{name}")
    assert one is not None
    assert {event["mark"] for event in one["events"]} == {"quarantine"}
    shown = sum(event["length"] for event in one["events"])
    assert shown == 3000 or one["left_out"]["between"]
    for event in one["events"]:
        assert event["bytes"]["from"] == "quarantine" and event["bytes"]["error"]["rule"] == event["rule"]


def test_bytes_come_from_the_fields_where_they_can_and_from_what_was_kept_where_not(
    raw: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wirelake.report import annotated_bytes as frames

    name = Counter(row["connection"] for row in table(raw, "silver/messages")).most_common(1)[0][0]
    made = find_conversation(raw, f"c:{name}")
    monkeypatch.setattr(frames, "encode_frame", lambda *_, **__: b"something else")
    kept = find_conversation(raw, f"c:{name}")
    assert made is not None and kept is not None
    pairs = [
        (one["bytes"], other["bytes"])
        for one, other in zip(made["events"], kept["events"], strict=True)
        if one["mark"] != "quarantine"
    ]
    assert len(pairs) > 50
    assert {(one["from"], other["from"]) for one, other in pairs} == {("fields", "kept")}
    assert all(one | {"from": ""} == other | {"from": ""} for one, other in pairs)


# --- what goes on


@pytest.fixture(scope="module")
def going_on(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The first half of a capture: nothing of it has ended."""
    from wirelake.ingest.inline_runner import InlineRunner
    from wirelake.ingest.run import ingest

    folder = tmp_path_factory.mktemp("open")
    write_pcap(generate(("casual", "mb"), seed=3, messages=1500, connections=3), folder / "all.pcap")
    data = (folder / "all.pcap").read_bytes()
    (folder / "half.pcap").write_bytes(data[: len(data) // 2])
    ingest(InlineRunner(), [str(folder / "half.pcap")], str(folder / "lake"))
    return Lake.open(folder / "lake", create=False)


def test_connections_that_go_on_are_shown_like_those_that_ended(going_on: Lake) -> None:
    report = collect(going_on)
    undecided = table(going_on, "gold/open")
    counted = Counter((row["kind"], row["protocol"]) for row in undecided)
    assert {(row["kind"], row["protocol"]): row["count"] for row in answers(report, "open")} == counted
    (row,) = answers(report, "overview")
    kinds = Counter(row["kind"] for row in undecided)
    assert (row["open_requests"], row["open_sessions"]) == (kinds["request"], kinds["session"])
    assert row["open_sessions"] > 0 and row["sessions"] == 0
    sessions = answers(report, "sessions")
    assert len(sessions) == kinds["session"] and {one["ended"] for one in sessions} == {"open"}
    assert sum(one["messages_to_server"] + one["messages_to_client"] for one in sessions) == row["messages"]
    ends = {(row["connection"], row["client"], row["server"]) for row in table(going_on, "bronze/chunks")}
    assert {(one["connection"], one["client"], one["server"]) for one in sessions} == ends
    assert sum(one["connections"] for one in answers(report, "topology")) == len(sessions)
    one = find_conversation(going_on, sessions[0]["conversation"])
    assert one is not None
    assert {line["name"] for line in one["lifelines"]} == {sessions[0]["client"], sessions[0]["server"]}


def test_transactions_that_are_not_decided_are_held_and_not_called_in_doubt(going_on: Lake) -> None:
    waiting = {row["correlation"] for row in table(going_on, "gold/open") if row["kind"] == "transaction"}
    assert waiting
    report = collect(going_on)
    rows = [row for row in answers(report, "transactions") if row["outcome"] == "open"]
    assert {row["gtrid"] for row in rows} == waiting
    for row in rows:
        one = report["conversations"][row["conversation"]]
        assert one["why"] == ["open"] and "open" in one["title"] and one["branches"]
    held = {row["why"]: (row["held"], row["of"]) for row in report["held"]}
    assert held["open"] == (len(waiting), len(waiting)) and held["in_doubt"][1] == 0


# --- long, and very much of one thing


def test_the_traffic_of_hours_is_that_of_minutes(tmp_path: Path) -> None:
    hour, minute = 3_600_000_000, 60_000_000
    minutes = [
        {"protocol": "mb", "address": f"a{i % 3}", "minute": i * minute, "messages": i, "bytes": 9 * i, "requests": 0}
        for i in range(300)
    ]
    spans = [{"connection": "c1", "first_ts": 0, "last_ts": 5 * hour, "server": "s"}]
    report = collect(write(tmp_path / "lake", {"gold/addresses": minutes, "gold/sessions": spans}))
    assert (report["about"]["traffic_of"], report["about"]["bucket_us"]) == ("messages", 5 * minute)
    found = {row["bucket_us"]: row["count"] for row in answers(report, "traffic")}
    assert found == {start * minute: sum(range(start, start + 5)) for start in range(0, 300, 5)}


def test_many_broken_ranges_and_one_endless_connection_are_no_burden(tmp_path: Path) -> None:
    many = 30_000
    broken = [
        {"connection": f"c{i % 7}", "direction": "to_server", "offset": 100 * i, "length": 50, "ts": 1_000_000 * i}
        | {"rule": f"rule {i % 50}", "detail": "it is bad", "bytes": b"\x00" * 50, "protocol": "mb"}
        for i in range(many)
    ]
    spoken = [message(100 * i + 50, connection="c0", ts=1_000_000 * i + 1, length=50) for i in range(many)]
    spoken += [message(10**9 + i, connection="c0", ts=5, length=1) for i in range(5000)]
    accounts = [account(len(spoken) if i == 0 else 0, connection=f"c{i}") for i in range(7)]
    lake = write(tmp_path / "lake", {"silver/quarantine": broken, "silver/messages": spoken, "accounting": accounts})
    report = collect(lake)
    assert size_in_page(report) <= MAX_DATA_BYTES
    assert report["data"]["violations"]["total"] == many
    rules = [row["rule"] for row in answers(report, "violations")[:50]]
    assert len(set(rules)) == 50
    held = {row["why"]: row for row in report["held"]}["violation"]
    assert 300 < held["held"] <= held["of"] == many
    one = report["conversations"][answers(report, "violations")[0]["conversation"]]
    sizes = Counter(row["connection"] for row in (*broken, *spoken))
    left = one["left_out"]
    total = len(one["events"]) + left["before"] + left["between"] + left["after"]
    assert total == sizes[one["events"][0]["connection"]]


def test_of_a_rule_with_very_many_violations_the_first_are_listed_and_all_are_counted(tmp_path: Path) -> None:
    rare, many = 3, MAX_CANDIDATES + 500
    broken = [
        {"connection": "c1", "direction": "to_server", "offset": 10 * i, "length": 10, "ts": 1_000 * (many - i)}
        | {"rule": "rare" if i < rare else "common", "message": "publish", "protocol": "mb", "detail": "", "state": ""}
        for i in range(many + rare)
    ]
    report = collect(write(tmp_path / "lake", {"gold/violations": broken}), max_bytes=0)
    assert report["data"]["violations"]["total"] == len(broken)
    listed = [(row["rule"], row["offset"]) for row in answers(report, "violations")]
    firsts = {rule: [row["offset"] for row in reversed(broken) if row["rule"] == rule] for rule in ("common", "rare")}
    turns = [(rule, offsets[at]) for at in range(300) for rule, offsets in firsts.items() if at < len(offsets)]
    assert listed == turns[:300]
