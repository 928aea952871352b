"""Which conversations a page has, and what it says about those that it has not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.report.made import account, message, size_in_page, write
from wirelake.lake import Lake, LakeError
from wirelake.report import collect

HOSTILE = "<script>alert(1)</script>&amp;\u2028'\"" * 40_000


def marked(report: dict[str, Any]) -> set[tuple[str, str, int]]:
    return {
        (event["connection"], event["direction"], event["offset"])
        for one in report["conversations"].values()
        for event in one["events"]
        if event["mark"] in ("violation", "quarantine", "gap")
    }


@pytest.mark.parametrize("max_bytes", [150_000, 400_000, 1_500_000])
def test_a_page_keeps_to_its_size_and_says_what_it_left_out(lake: Lake, max_bytes: int) -> None:
    report = collect(lake, max_bytes=max_bytes)
    assert size_in_page(report) <= max_bytes
    held = {row["why"]: (row["held"], row["of"]) for row in report["held"]}
    data = report["data"]["held"]
    assert report["held"] == [dict(zip(data["columns"], row, strict=True)) for row in data["rows"]]
    assert held["violation"][0] == len(marked(report)) <= held["violation"][1]
    for why in ("in_doubt", "open", "slow", "failed", "sample"):
        assert held[why][0] == sum(why in one["why"] for one in report["conversations"].values()) <= held[why][1]
    pointed = report["data"]["violations"]
    event, name = pointed["columns"].index("event"), pointed["columns"].index("conversation")
    for row in pointed["rows"]:
        assert (row[event] is None) == (row[name] not in report["conversations"])


def test_more_room_holds_more(lake: Lake) -> None:
    small, large = (collect(lake, max_bytes=size) for size in (150_000, 1_500_000))
    assert 0 < len(small["conversations"]) < len(large["conversations"])
    held, there = ({row["why"] for row in small["held"] if row[name]} for name in ("held", "of"))
    assert held == there, "some of each"


def test_without_room_there_are_no_conversations_and_all_numbers(lake: Lake) -> None:
    report = collect(lake, max_bytes=0)
    assert report["conversations"] == {}
    assert report["data"]["overview"] == collect(lake)["data"]["overview"]
    assert all(row["held"] == 0 for row in report["held"])


def test_all_that_is_wrong_is_held_where_there_is_room(lake: Lake) -> None:
    report = collect(lake)
    held = {row["why"]: row for row in report["held"]}
    assert held["violation"]["held"] == held["violation"]["of"] > 0
    assert held["in_doubt"]["held"] == held["in_doubt"]["of"] > 0


def test_huge_and_hostile_names_are_cut_and_stay_as_they_are_otherwise(tmp_path: Path) -> None:
    rows = [message(10 * i, address=f"{i}{HOSTILE}", correlation=f"{i}{HOSTILE}", kind="request") for i in range(60)]
    asked = [
        {
            "connection": "c1",
            "direction": "to_server",
            "protocol": "mb",
            "message": "request",
            "address": row["address"],
            "correlation": row["correlation"],
            "request_offset": row["offset"],
            "request_ts": row["ts"],
            "latency_us": 5,
            "replies": 0,
            "outcome": "error",
            "status": HOSTILE,
        }
        for row in rows
    ]
    sessions = [{"connection": "c1", "first_ts": 0, "client": HOSTILE, "server": "s", "facts": [("name", HOSTILE)]}]
    broken = [message(0, rule="state", detail=HOSTILE, state=HOSTILE)]
    lake = write(
        tmp_path / "lake",
        {
            "silver/messages": rows,
            "gold/exchanges": asked,
            "gold/sessions": sessions,
            "gold/violations": broken,
            "accounting": [account(len(rows))],
        },
    )
    report = collect(lake, max_bytes=2_000_000)
    assert size_in_page(report) <= 2_000_000
    assert len(report["conversations"]) > 40
    assert all(len(one["title"]) <= 250 for one in report["conversations"].values())
    address = report["data"]["slow_addresses"]["rows"][0][1]
    assert address[1:].startswith("<script>alert(1)") and "…" in address and len(address) <= 300
    (facts,) = (row[report["data"]["sessions"]["columns"].index("facts")] for row in report["data"]["sessions"]["rows"])
    assert list(json.loads(facts)) == ["name"]
    (event,) = (e for e in report["conversations"]["c:c1"]["events"] if e["mark"] == "violation")
    assert event["detail"].startswith("<script>") and len(event["detail"]) <= 400


def test_a_report_is_of_one_commit_however_many_are_made_meanwhile(tmp_path: Path) -> None:
    one = {"kind": "request", "protocol": "mb", "connection": "c1"}
    lake = write(tmp_path / "lake", {"gold/open": [one]})
    commits = 1

    def commit(_: str) -> None:
        nonlocal commits
        commits += 1
        write(tmp_path / "lake", {"gold/open": [one] * commits}, replace="gold/open")

    report = collect(lake, progress=commit)
    assert [row[2] for row in report["data"]["open"]["rows"]] == [1]
    assert report["about"]["commit"] == 1 < commits
    assert [row[2] for row in collect(lake)["data"]["open"]["rows"]] == [commits] == [lake.number()]


def test_a_file_that_is_gone_is_an_error_that_names_the_lake(tmp_path: Path) -> None:
    lake = write(tmp_path / "lake", {"gold/open": [{"kind": "request"}]})
    for path in lake.places("gold/open"):
        Path(path).unlink()
    with pytest.raises(LakeError, match=r"lake: cannot be read"):
        collect(lake)
