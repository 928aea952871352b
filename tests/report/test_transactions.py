"""Transactions as conversations: all their messages, and the bars of both phases."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from tests.ingest.lakes import table
from tests.report.lookup import found, spot
from wirelake.lake import Lake
from wirelake.report.conversation_ids import Spot


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


def test_a_transaction_in_doubt_shows_what_was_never_replied_to(report: dict[str, Any]) -> None:
    doubtful = [one for one in report["conversations"].values() if "in_doubt" in one["why"]]
    assert doubtful
    for one in doubtful:
        unanswered = [bar for branch in one["branches"] for bar in branch["bars"] if bar["end"] is None]
        results = {bar["result"] for branch in one["branches"] for bar in branch["bars"]}
        assert unanswered or results - {"ok", "XA_OK", "XA_RDONLY"}, "something did not end well"
        assert all(bar["result"] == "no reply" for bar in unanswered)
        focused = [event for event in one["events"] if event["mark"] == "focus"]
        assert len(focused) >= len(unanswered) > 0 or not unanswered
