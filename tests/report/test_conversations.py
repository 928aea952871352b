"""Conversations: what was said, in order, by whom, with its bytes; the same from the page and from the lake."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import Any

import pytest

from tests.ingest.lakes import connections, micros, table
from tests.report.lookup import found, spot
from wirelake.generate import Traffic
from wirelake.generate.simulation import Event
from wirelake.lake import Lake
from wirelake.report import find_conversation
from wirelake.report.conversations import read_conversations
from wirelake.report.database import open_tables


@pytest.fixture(scope="module")
def sent(report_traffic: Traffic, lake: Lake) -> dict[tuple[str, str], bytearray]:
    """All that was sent, by connection and direction."""
    known = connections(lake, report_traffic.truth)
    streams: dict[tuple[str, str], bytearray] = defaultdict(bytearray)
    for event in report_traffic:
        assert isinstance(event, Event)
        streams[known[event.connection.number], event.direction] += event.frame
    return streams


def ids(report: dict[str, Any], name: str) -> list[str]:
    data = report["data"][name]
    at = data["columns"].index("conversation")
    return [row[at] for row in data["rows"]]


def without_bytes(one: dict[str, Any]) -> dict[str, Any]:
    bare = [event | {"fields": None, "bytes": None} for event in one["events"]]
    return one | {"events": bare, "why": None}


def test_the_page_holds_what_the_lake_gives(report: dict[str, Any], lake: Lake) -> None:
    held = report["conversations"]
    assert len(held) > 100
    for name in list(held)[::7]:
        one = found(lake, name)
        assert without_bytes(one) == without_bytes(held[name])
        for shown, full in zip(held[name]["events"], one["events"], strict=True):
            assert shown["bytes"] in (None, full["bytes"])
            assert shown["fields"] in (None, full["fields"])


def test_every_conversation_that_a_table_names_can_be_made(report: dict[str, Any], lake: Lake) -> None:
    names = [
        name
        for of in ("violations", "sessions", "transactions", "slow_exchanges", "failures")
        for name in ids(report, of)
    ]
    with open_tables(lake) as tables:
        made = read_conversations(tables, names)
    assert set(made) == set(names)
    for name, draft in made.items():
        shown = draft.shown
        assert shown["id"] == name and shown["title"] and shown["events"]
        lifelines = range(len(shown["lifelines"]))
        assert all(event["from"] in lifelines and event["to"] in lifelines for event in shown["events"])
        times = [event["ts"] for event in shown["events"]]
        assert times == sorted(times)


@pytest.mark.parametrize(
    "name", ["", "zzz", "c:", "c:nobody", "c:nobody:s:0", "x:nobody:s:0", "t:42:00", "t::", "c:' or 1"]
)
def test_what_the_lake_does_not_have_is_not_found(lake: Lake, name: str) -> None:
    assert find_conversation(lake, name) is None


def test_a_connection_that_is_small_is_whole(lake: Lake) -> None:
    rows = [*table(lake, "silver/messages"), *table(lake, "silver/quarantine")]
    sizes = Counter(row["connection"] for row in rows)
    small = [name for name, size in sizes.items() if size <= 80]
    assert small
    for name in small:
        one = found(lake, f"c:{name}")
        own = sorted((row for row in rows if row["connection"] == name), key=lambda row: (row["ts"], row["offset"]))
        assert Counter(map(spot, one["events"])) == Counter(map(spot, own))
        assert one["left_out"] == {"before": 0, "between": 0, "after": 0}
        for direction in ("to_server", "to_client"):
            offsets = [event["offset"] for event in one["events"] if event["direction"] == direction]
            assert offsets == sorted(offsets)


def test_of_a_large_connection_the_ends_are_shown_and_the_rest_is_counted(lake: Lake) -> None:
    rows = [*table(lake, "silver/messages"), *table(lake, "silver/quarantine")]
    name, size = Counter(row["connection"] for row in rows).most_common(1)[0]
    one = found(lake, f"c:{name}")
    left = one["left_out"]
    assert size > 80 and left["between"] == size - len(one["events"]) > 0
    assert (left["before"], left["after"]) == (0, 0)
    times = sorted(micros(row["ts"]) or 0 for row in rows if row["connection"] == name)
    assert [event["ts"] for event in one["events"][:50]] == times[:50]
    assert [event["ts"] for event in one["events"][50:]] == times[-30:]


def test_around_a_violation_lie_the_messages_before_and_after_it(report: dict[str, Any], lake: Lake) -> None:
    data = report["data"]["violations"]
    sizes = Counter(row["connection"] for name in ("silver/messages", "silver/quarantine") for row in table(lake, name))
    pointed = 0
    for values in data["rows"]:
        row = dict(zip(data["columns"], values, strict=True))
        one = report["conversations"].get(row["conversation"])
        assert one is not None, "this page has room for all of them"
        event = one["events"][row["event"]]
        assert spot(event) == spot(row)
        assert row["rule"] in event["rule"]
        wanted = "violation" if row["source"] == "state" else "gap" if row["rule"] == "gap" else "quarantine"
        assert event["mark"] == wanted
        assert (event["bytes"] is not None) == (wanted != "gap")
        left = one["left_out"]
        assert len(one["events"]) + left["before"] + left["between"] + left["after"] == sizes[row["connection"]]
        if left["before"]:
            assert row["event"] == 10
        pointed += 1
    assert pointed == len(table(lake, "gold/violations")) + len(table(lake, "silver/quarantine"))


def test_bytes_that_are_made_again_are_those_that_were_sent(
    report: dict[str, Any], sent: dict[tuple[str, str], bytearray]
) -> None:
    checked: Counter[str] = Counter()
    for name, one in report["conversations"].items():
        for event in one["events"]:
            shown = event["bytes"]
            if event["mark"] in ("quarantine", "gap"):
                continue
            if shown is None:
                continue
            assert shown["from"] == "fields"
            assert (shown["base"], shown["total"], shown["error"]) == (event["offset"], event["length"], None)
            stream = sent[event["connection"], event["direction"]]
            frame = stream[event["offset"] : event["offset"] + event["length"]]
            assert bytes.fromhex(shown["hex"]) == frame[:1024], (name, event["message"])
            checked[event["protocol"]] += 1
    assert all(checked[protocol] > 100 for protocol in ("casual", "ceda", "dsa", "mb")), checked


def test_what_is_marked_has_its_bytes_except_what_nobody_should_read(report: dict[str, Any]) -> None:
    for one in report["conversations"].values():
        for event in one["events"]:
            if event["mark"] in ("violation", "focus", "quarantine") and event["bytes"] is None:
                assert (event["protocol"], event["message"]) == ("ceda", "login")


def test_passwords_are_nowhere(report: dict[str, Any], report_traffic: Traffic) -> None:
    text = json.dumps(report, ensure_ascii=False)
    passwords = {
        cell.value
        for event in report_traffic
        if event.connection.protocol.name == "ceda" and event.message.__message__["name"] == "login"
        for cell in event.message.record or ()
        if cell.fid == 5
    }
    passwords.discard("wrong")  # a word of the report, too
    assert passwords
    for password in passwords:
        assert password not in text
        assert password.encode().hex() not in text


def test_parts_lie_within_their_bytes_and_do_not_overlap(report: dict[str, Any]) -> None:
    for one in report["conversations"].values():
        for event in one["events"]:
            shown = event["bytes"]
            if shown is None:
                continue
            end = 0
            for part in shown["parts"]:
                assert end <= part["offset"] and part["offset"] + part["length"] <= shown["total"]
                assert part["path"] is not None and isinstance(part["value"], str)
                end = part["offset"] + part["length"]
            if event["mark"] == "":
                assert sum(part["length"] for part in shown["parts"]) > 0


def test_bytes_that_are_no_message_show_the_recorded_fault_where_it_is(report: dict[str, Any], lake: Lake) -> None:
    recorded = {spot(row): row for row in table(lake, "silver/quarantine") if row["rule"] != "gap"}
    seen = {}
    for one in report["conversations"].values():
        for event in one["events"]:
            if event["mark"] == "quarantine":
                seen[spot(event)] = event["bytes"]
    assert set(seen) == set(recorded)
    inside = 0
    for at, shown in seen.items():
        row = recorded[at]
        assert bytes.fromhex(shown["hex"]) == row["bytes"][:1024]
        assert shown["from"] == "quarantine" and shown["total"] == row["length"]
        error = shown["error"]
        assert (error["rule"], error["path"], error["detail"]) == (row["rule"], row["path"] or "", row["detail"])
        assert 0 <= error["offset"] < row["length"]
        inside += error["offset"] > 0
    assert inside >= len(seen) // 2, "most faults are not at the first byte"
