"""All steps together: the tables agree with each other, however the facts are cut into commits."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from wirelake.capture.quarantine import QUARANTINE
from wirelake.generate import generate
from wirelake.gold.exchanges import GIVEN
from wirelake.gold.sessions import SESSIONS
from wirelake.gold.steps import GoldSteps
from wirelake.gold.violations import VIOLATIONS

from .matched import repacked
from .watched import Watched, watch


def followed(watched: Watched, cuts: int) -> tuple[dict[str, pa.Table], list[Counter[str]]]:
    """Feed the steps, with a carry after each commit. Return the tables, and what was open after each."""
    steps = GoldSteps()
    parts = {"exchanges": [GIVEN.empty_table()], "violations": [VIOLATIONS.empty_table()]}
    parts["sessions"] = [SESSIONS.empty_table()]
    opened = []
    for fed in watched.randomly(3, cuts):
        rows = steps.feed(fed.facts, fed.connections, fed.accounts, QUARANTINE.empty_table())
        parts["violations"] += [rows.violations, steps.settle_violations(fed.watermark)]
        parts["exchanges"] += [rows.exchanges, *steps.settle_exchanges(fed.watermark)]
        parts["sessions"].append(steps.settle_sessions(fed.watermark))
        opened.append(Counter(pa.concat_tables(steps.open())["kind"].to_pylist()))
        steps = GoldSteps(repacked(steps.carry()))
    parts["violations"].append(steps.settle_violations(fed.watermark, final=True))
    parts["exchanges"] += steps.settle_exchanges(fed.watermark, final=True)
    parts["sessions"].append(steps.settle_sessions(fed.watermark, final=True))
    return {name: pa.concat_tables(tables) for name, tables in parts.items()}, opened


def as_rows(table: pa.Table) -> list[str]:
    return sorted(map(str, table.to_pylist()))


@pytest.mark.parametrize("protocol", ["casual", "mb"])
def test_commits_in_between_change_no_row_of_any_table(protocol: str) -> None:
    watched = watch(generate(protocol, seed=11, messages=600, connections=5, violations=0.05))
    (at_once, _), (in_parts, _) = followed(watched, 0), followed(watched, 5)
    for name, table in at_once.items():
        assert as_rows(table) == as_rows(in_parts[name]), name


def test_sessions_count_the_violations_of_their_connections() -> None:
    watched = watch(generate("ceda", seed=12, messages=600, connections=5, violations=0.05))
    tables, _ = followed(watched, 2)
    counts = Counter(tables["violations"]["connection"].to_pylist())
    sessions = dict(zip(*(tables["sessions"][name].to_pylist() for name in ("connection", "violations")), strict=True))
    assert sum(counts.values()) and sessions == {name: counts[name] for name in sessions}


def test_what_is_open_is_a_request_or_a_session() -> None:
    watched = watch(generate("casual", seed=13, messages=600, connections=5))
    _, opened = followed(watched, 4)
    assert opened[0]["session"] and sum(kinds["request"] for kinds in opened)
    assert set().union(*opened) <= {"request", "session"}
