"""The whole demonstration as users run it."""

from __future__ import annotations

import json
import re
import signal
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.demo.running import Demo, demo
from tests.needs import require
from wirelake.demo.run import LEAST_SECONDS, MOST_PER_SECOND, seconds_for
from wirelake.lake import Lake
from wirelake.report import collect
from wirelake.report.page_file import check_replaceable

MESSAGES = 600


class Ran:
    """A run that was served, asked, and ended by Ctrl-C."""

    def __init__(self, run: Demo, kept: Path) -> None:
        self.result: dict[str, Any] = json.loads(run.read_line())
        with urllib.request.urlopen(self.result["listening"], timeout=60) as answer:
            self.served = answer.read().decode()
        run.send(signal.SIGINT)
        self.status, self.rest = run.end()
        self.said = run.said
        self.left = run.left()
        self.temporary = list(run.home.iterdir())
        self.report = kept / "report.html"
        self.lake = Lake.open(kept / "lake", create=False)
        self.shown = collect(self.lake)["data"]

    def rows(self, table: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.lake.dataset(table).to_table().to_pylist()
        return found

    def answers(self, name: str) -> list[dict[str, Any]]:
        data = self.shown[name]
        return [dict(zip(data["columns"], row, strict=True)) for row in data["rows"]]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    require("java")
    here = tmp_path_factory.mktemp("demo")
    with demo(here, "-n", MESSAGES, "--seed", 2, "--keep", here / "kept", "--serve") as run:
        yield Ran(run, here / "kept")


def test_it_ends_well_and_leaves_nothing_but_what_is_to_be_kept(ran: Ran) -> None:
    assert (ran.status, ran.rest) == (0, "")
    assert ran.left == [] and ran.temporary == []
    assert sorted(path.name for path in ran.report.parent.iterdir()) == ["capture", "lake", "report.html"]
    assert "Traceback" not in ran.said and "stopping" not in ran.said


def test_it_tells_its_steps_where_the_report_is_and_three_sentences(ran: Ran) -> None:
    assert re.findall(r"^(\d)/4 ", ran.said, re.MULTILINE) == ["1", "2", "3", "4"]
    assert ran.report.as_uri() in ran.said and str(ran.report) in ran.said
    told = ran.said.partition("What to look at:\n")[2].partition("\n\n")[0]
    assert all(line.startswith("  ") and len(line) <= 120 for line in told.splitlines())
    look_at = ran.result["look_at"]
    assert " ".join(told.split()) == " ".join(look_at)
    assert [sentence.split()[0] for sentence in look_at] == ["Latency:", "Transactions:", "Violations:"]
    assert all(sentence.endswith(".") and sentence.count(". ") == 0 for sentence in look_at)


def test_the_report_is_there_and_served(ran: Ran) -> None:
    page = ran.report.read_text(encoding="utf-8")
    assert len(page.encode()) == ran.result["report_bytes"] < 10_000_000
    assert "payments.authorize" in page
    assert "payments.authorize" in ran.served


def test_the_sentences_are_about_what_the_report_shows(ran: Ran) -> None:
    latency, transactions, violations = ran.result["look_at"]
    (slowest,) = [row for row in ran.answers("slow_addresses") if latency.startswith(f"Latency: {row['address']} (")]
    assert f"{slowest['p95_us'] / 1e3:.0f} ms at its 95th percentile" in latency
    in_doubt = [row for row in ran.answers("transactions") if row["outcome"] == "in_doubt"]
    assert any(row["gtrid"] in transactions for row in in_doubt)
    rules = {(row["source"], row["protocol"], row["rule"]) for row in ran.answers("rules")}
    assert ("state", "casual", "state") in rules and "casual in state new (rule state)" in violations
    assert ("bytes", "mb", "action") in rules and "undecodable bytes over mb (rule action)" in violations


def test_the_lake_has_all_that_went_wrong(ran: Ran) -> None:
    outcomes: dict[str, Counter[str]] = {}
    for row in ran.rows("gold/exchanges"):
        outcomes.setdefault(row["address"] or "", Counter())[row["outcome"]] += 1
    assert outcomes["stock.reserve"]["error"]
    assert outcomes["reports.daily"]["timeout"]
    assert outcomes["HISTORY.GET"]["unanswered"]
    slow = [row["address"] for row in ran.result["ingest"]["slowest"]]
    assert "payments.authorize" in slow
    assert {row["outcome"] for row in ran.rows("gold/transactions")} >= {"committed", "rolled_back", "in_doubt"}
    assert {row["protocol"] for row in ran.rows("gold/violations")} == {"casual", "ceda", "dsa", "mb"}
    assert {row["protocol"] for row in ran.rows("silver/quarantine")} == {"casual", "ceda", "dsa", "mb"}
    assert Counter(row["handshake"] for row in ran.rows("gold/sessions"))["refused"] >= 2


def test_every_byte_is_in_a_message_or_quarantined(ran: Ran) -> None:
    rows = ran.rows("accounting")
    assert {row["protocol"] for row in rows} == {"casual", "ceda", "dsa", "mb"}
    for row in rows:
        assert row["bytes_in"] == row["bytes_decoded"] + row["bytes_quarantined"]
        assert row["bytes_pending"] == row["bytes_missing"] == 0
    assert sum(row["bytes_in"] for row in rows) == ran.result["ingest"]["bytes_in"]


def test_all_four_protocols_are_in_the_same_seconds(ran: Ran) -> None:
    times: dict[str, list[float]] = {}
    for row in ran.rows("silver/messages"):
        times.setdefault(row["protocol"], []).append(row["ts"].timestamp())
    assert set(times) == {"casual", "ceda", "dsa", "mb"}
    begin, end = min(times["mb"]), max(times["mb"])
    for found in times.values():
        assert begin - 1 < min(found) and max(found) < end + 2
        assert max(found) - min(found) > 0.6 * (end - begin)


# --- how much


def test_more_messages_take_a_little_longer_and_never_come_faster_than_can_be_played() -> None:
    times = {count: seconds_for(count) for count in (1, 500, 8000, 20_000, 200_000)}
    assert list(times.values()) == sorted(times.values())
    assert times[1] == LEAST_SECONDS
    assert times[20_000] < 2 * times[8000]
    assert all(count / seconds <= MOST_PER_SECOND for count, seconds in times.items())


def test_the_report_of_an_earlier_demonstration_may_be_replaced(ran: Ran) -> None:
    check_replaceable(ran.report)
    with pytest.raises(IsADirectoryError):
        check_replaceable(ran.report.parent)
