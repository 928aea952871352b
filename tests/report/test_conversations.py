"""Conversations: what was said, in order, by whom, with its bytes; the same from the page and from the lake."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.ingest.lakes import connections, micros, table
from wirelake.generate import Traffic
from wirelake.generate.simulation import Event
from wirelake.lake import Lake
from wirelake.report import collect, find_conversation
from wirelake.report.conversations import read_conversations
from wirelake.report.database import open_tables

Spot = tuple[str, str, int]


@pytest.fixture(scope="module")
def lake(report_lake: Path) -> Lake:
    return Lake.open(report_lake, create=False)


@pytest.fixture(scope="module")
def report(lake: Lake) -> dict[str, Any]:
    return collect(lake)


@pytest.fixture(scope="module")
def sent(report_traffic: Traffic, lake: Lake) -> dict[tuple[str, str], bytearray]:
    """All that was sent, by connection and direction."""
    known = connections(lake, report_traffic.truth)
    streams: dict[tuple[str, str], bytearray] = defaultdict(bytearray)
    for event in report_traffic:
        assert isinstance(event, Event)
        streams[known[event.connection.number], event.direction] += event.frame
    return streams


def spot(row: dict[str, Any]) -> Spot:
    return row["connection"], row["direction"], row["offset"]


def found(lake: Lake, name: str) -> dict[str, Any]:
    one = find_conversation(lake, name)
    assert one is not None, name
    return one


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


def test_an_exchange_is_its_request_its_answers_and_what_is_beside_them(lake: Lake) -> None:
    messages = table(lake, "silver/messages")
    by_pair: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in messages:
        if row["correlation"]:
            by_pair[row["connection"], row["correlation"]].append(row)
    for row in table(lake, "gold/exchanges")[::25]:
        letter = "s" if row["direction"] == "to_server" else "c"
        one = found(lake, f"x:{row['connection']}:{letter}:{row['request_offset']}")
        focused = {spot(event) for event in one["events"] if event["mark"] in ("focus", "violation")}
        own = by_pair.get((row["connection"], row["correlation"]), [])
        assert (row["connection"], row["direction"], row["request_offset"]) in focused
        if len(own) <= 24:
            assert {spot(message) for message in own} <= focused
            assert one["left_out"]["after"] == 0
        else:
            assert one["left_out"]["after"] == len(own) - 24
        assert one["kind"] == "exchange" and row["outcome"] in one["title"]


def test_an_exchange_over_a_broker_shows_its_other_leg(lake: Lake) -> None:
    rows = [row for row in table(lake, "gold/exchanges") if row["other_connection"]]
    assert rows
    for row in rows[:10]:
        letter = "s" if row["direction"] == "to_server" else "c"
        one = found(lake, f"x:{row['connection']}:{letter}:{row['request_offset']}")
        legs = [event for event in one["events"] if event["connection"] == row["other_connection"]]
        assert {row["other_correlation"]} == {event["correlation"] for event in legs}
        assert len(one["lifelines"]) == 3
        assert {event["connection"] for event in one["events"]} == {row["connection"], row["other_connection"]}


def test_an_exchange_shows_the_chain_of_calls_it_belongs_to(lake: Lake) -> None:
    chains: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in table(lake, "gold/exchanges"):
        if row["execution"]:
            chains[row["execution"]].append(row)
    several = [rows for rows in chains.values() if len({row["connection"] for row in rows}) > 1 and len(rows) <= 12]
    assert several
    for rows in several[:5]:
        row = rows[0]
        letter = "s" if row["direction"] == "to_server" else "c"
        one = found(lake, f"x:{row['connection']}:{letter}:{row['request_offset']}")
        shown = {spot(event) for event in one["events"]}
        assert {(other["connection"], other["direction"], other["request_offset"]) for other in rows} <= shown


def test_a_transaction_has_all_its_messages_and_the_bars_of_both_phases(lake: Lake) -> None:
    carriers: dict[str, set[Spot]] = defaultdict(set)
    for row in table(lake, "silver/casual"):
        if row["xid"] and row["xid"]["gtrid"]:
            carriers[row["xid"]["gtrid"].hex()].add(spot(row))
    phases: Counter[str] = Counter()
    for row in table(lake, "gold/transactions"):
        one = found(lake, f"t:{row['xid_format']}:{row['gtrid']}")
        assert carriers[row["gtrid"]] <= {spot(event) for event in one["events"]}
        assert row["outcome"].replace("_", " ") in one["title"]
        by_branch = {branch["branch"]: branch for branch in one["branches"]}
        assert set(by_branch) == {branch["bqual"] for branch in row["branches"]}
        for branch in row["branches"]:
            shown = by_branch[branch["bqual"]]
            assert shown["outcome"] == branch["outcome"]
            bars = shown["bars"]
            assert sum(bar["phase"] == "work" for bar in bars) == branch["calls"]
            if branch["decision"]:
                assert branch["decision"] in {bar["phase"] for bar in bars}
            ended = [bar for bar in bars if bar["end"] is not None]
            assert all(bar["start"] <= bar["end"] for bar in ended)
            if branch["vote"] == 0:
                assert "prepare" in {bar["phase"] for bar in bars}
            phases.update(bar["phase"] for bar in bars)
    assert all(phases[name] for name in ("work", "prepare", "commit", "rollback")), phases


def test_a_transaction_in_doubt_shows_what_was_never_answered(report: dict[str, Any]) -> None:
    doubtful = [one for one in report["conversations"].values() if "in_doubt" in one["why"]]
    assert doubtful
    for one in doubtful:
        unanswered = [bar for branch in one["branches"] for bar in branch["bars"] if bar["end"] is None]
        results = {bar["result"] for branch in one["branches"] for bar in branch["bars"]}
        assert unanswered or results - {"ok", "XA_OK", "XA_RDONLY"}, "something did not end well"
        assert all(bar["result"] == "no reply" for bar in unanswered)
        focused = [event for event in one["events"] if event["mark"] == "focus"]
        assert len(focused) >= len(unanswered) > 0 or not unanswered


def test_lifelines_bear_the_names_that_peers_gave_themselves(report: dict[str, Any], lake: Lake) -> None:
    facts = {row["connection"]: dict(row["facts"]) for row in table(lake, "gold/sessions")}
    ends = {row["connection"]: row for row in table(lake, "gold/sessions")}
    for one in report["conversations"].values():
        if one["kind"] != "connection":
            continue
        (name,) = {event["connection"] for event in one["events"]}
        shown = {(line["name"], line["label"]) for line in one["lifelines"]}
        told = facts[name]
        label = told.get("client_domain") or told.get("name") or told.get("user") or told.get("path") or ""
        if label:
            assert (ends[name]["client"], label) in shown
        assert ends[name]["server"] in {line["name"] for line in one["lifelines"]}
