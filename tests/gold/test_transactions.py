"""Transactions as the generator made them: branches, votes, decisions, outcomes, times."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from wirelake.generate import generate
from wirelake.gold.branch_events import EVENTS
from wirelake.gold.open import OPEN
from wirelake.gold.transactions import LINGER_US, NO_TIME, TRANSACTIONS, Transactions
from wirelake.protocols import casual

from .matched import EventsOfFacts, repacked
from .played import name_of
from .scenes import DOWN, UP, scene
from .test_violations import connect, number
from .watched import Watched, watch

RESOURCE = ("resource_prepare_request", "resource_commit_request", "resource_rollback_request")


def rows_of(watched: Watched, feeds: Any = None) -> list[dict[str, Any]]:
    """The rows, fed at once or in these parts with a carry in between; the last part is final."""
    feeds = list(feeds) if feeds is not None else [watched.at_once()]
    carry = asked = None
    parts = []
    for fed in feeds:
        step, events = Transactions(carry), EventsOfFacts(asked)
        parts.append(step.feed(events.feed(fed.facts)))
        events.settle(fed.watermark)
        parts.append(step.settle(fed.watermark, final=fed is feeds[-1]))
        carry, asked = repacked(step.carry()), repacked(events.carry())
    assert Transactions(carry).open().num_rows == 0
    found = pa.concat_tables(parts)
    assert found.schema.equals(TRANSACTIONS)
    return sorted(found.to_pylist(), key=lambda row: (row["first_ts"], row["gtrid"]))


def us(time: Any) -> int | None:
    return None if time is None else round(time.timestamp() * 1_000_000)


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
@pytest.mark.parametrize("profile", ["document", "late"])
def test_transactions_are_those_of_the_generator(seed: int, profile: str) -> None:
    watched = watch(generate("casual", seed=seed, messages=2500, connections=4, profile=profile))
    rows = {(row["xid_format"], row["gtrid"]): row for row in rows_of(watched)}
    truth = watched.truth
    assert len(rows) == len(truth.transactions) > 50
    ends = {exchange.correlation: exchange for exchange in truth.exchanges if exchange.message in RESOURCE}
    answers = {
        (row["gtrid"] or b"").hex(): row
        for row in watched.facts.sort_by("ts").to_pylist()
        if row["correlation"] in ends
    }
    for one in truth.transactions:
        row = rows[one.format, one.gtrid.hex()]
        branches = [
            {
                "bqual": branch.bqual.hex(),
                "connection": name_of(branch.connection),
                "calls": branch.calls,
                "vote": branch.vote,
                "decision": branch.decision or None,
                "one_phase": branch.one_phase,
                "result": branch.result,
            }
            for branch in one.branches
            if branch.calls or branch.decision or branch.prepare_sent
        ]
        found = [{name: branch[name] for name in branches[0]} for branch in row["branches"]]
        assert found == branches
        assert row["outcome"] == ("in_doubt" if one.outcome == "open" else one.outcome)
        assert us(row["first_ts"]) == one.begun_us
        assert (row["ended_ts"] is None) == (one.ended_us is None)
        if one.ended_us is not None:
            assert row["ended_ts"] == answers[row["gtrid"]]["ts"]
            assert row["duration_us"] == us(row["ended_ts"]) - one.begun_us  # type: ignore[operator]
        assert row["connections"] == len({branch["connection"] for branch in branches})
        assert row["calls"] == sum(branch["calls"] for branch in branches)


def test_phases_are_measured_from_first_request_to_last_answer() -> None:
    watched = watch(generate("casual", seed=9, messages=2500, connections=4))
    for row in rows_of(watched):
        mine = [
            fact for fact in watched.facts.to_pylist() if (fact["gtrid"] or b"").hex() == row["gtrid"] and row["gtrid"]
        ]
        times = {name: [us(fact["ts"]) for fact in mine if fact["message"] == name] for name in TIMED}
        for column, asked, answered in (
            ("prepare_us", "resource_prepare_request", "resource_prepare_reply"),
            ("commit_us", "resource_commit_request", "resource_commit_reply"),
        ):
            both = times[asked] and times[answered]
            assert row[column] == (max(times[answered]) - min(times[asked]) if both else None)  # type: ignore[type-var, operator]


TIMED = ("resource_prepare_request", "resource_prepare_reply", "resource_commit_request", "resource_commit_reply")


@pytest.mark.parametrize("seed", range(5))
def test_any_cut_gives_the_same_transactions(seed: int) -> None:
    watched = watch(generate("casual", seed=8, messages=2000, connections=6))
    assert rows_of(watched, watched.randomly(seed, 1 + 4 * seed)) == rows_of(watched)


def test_events_of_parts_of_the_connections_together_are_those_of_all() -> None:
    watched = watch(generate("casual", seed=8, messages=1500, connections=6))
    names = sorted(set(watched.facts.column("connection").to_pylist()))
    parts = [
        EventsOfFacts().feed(watched.facts.filter(pa.compute.equal(watched.facts.column("connection"), name)))
        for name in names
    ]
    step = Transactions()
    step.feed(pa.concat_tables(reversed(parts)))
    found = step.settle(0, final=True).to_pylist()
    assert found == rows_of(watched)


def test_other_protocols_have_no_transactions() -> None:
    watched = watch(generate(["dsa", "mb", "ceda"], seed=1, messages=300))
    events = EventsOfFacts().feed(watched.facts)
    assert events.num_rows == 0 and events.schema.equals(EVENTS)


# --- by hand

XID = casual.Xid(42, b"g" * 16, b"b" * 16)
ONE_PHASE = 0x40000000


def asks(cls: Any, i: int, *, xid: casual.Xid = XID, flags: int = 0, resource: int = -1) -> Any:
    return UP, cls(
        correlation=number(i), execution=number(99), xid=xid, resource=casual.Resource(resource), flags=flags
    )


def says(cls: Any, i: int, code: int, *, xid: casual.Xid = XID) -> Any:
    return DOWN, cls(correlation=number(i), execution=number(99), xid=xid, resource=casual.ResourceResult(-1, code))


def works(i: int) -> Any:
    return UP, casual.QueueDequeueRequest(
        correlation=number(i),
        execution=number(98),
        name="q",
        xid=XID,
        selector=casual.Selector("", casual.NIL),
        block=False,
    )


def prepare(code: int, i: int = 10) -> list[Any]:
    return [asks(casual.ResourcePrepareRequest, i), says(casual.ResourcePrepareReply, i, code)]


def commit(code: int, i: int = 20, flags: int = 0) -> list[Any]:
    return [asks(casual.ResourceCommitRequest, i, flags=flags), says(casual.ResourceCommitReply, i, code)]


def rollback(code: int, i: int = 30) -> list[Any]:
    return [asks(casual.ResourceRollbackRequest, i), says(casual.ResourceRollbackReply, i, code)]


@pytest.mark.parametrize(
    ("lines", "outcome", "ended"),
    [
        (prepare(0) + commit(0), "committed", True),
        (prepare(3), "read_only", True),
        (prepare(102), "rolled_back", True),
        (prepare(-4), "rolled_back", True),
        (prepare(0), "in_doubt", False),
        (prepare(-7), "in_doubt", False),
        (prepare(-7) + rollback(0), "rolled_back", True),
        (commit(0, flags=ONE_PHASE), "committed", True),
        (commit(3, flags=ONE_PHASE), "read_only", True),
        (commit(100, flags=ONE_PHASE), "rolled_back", True),
        (commit(-4, flags=ONE_PHASE), "rolled_back", True),
        (prepare(0) + commit(-4), "committed", True),
        (prepare(0) + commit(-7), "in_doubt", False),
        (prepare(0) + commit(4) + commit(0, 21), "committed", True),
        (prepare(0) + commit(7), "committed", True),
        (prepare(0) + commit(6), "rolled_back", True),
        (prepare(0) + commit(5), "in_doubt", True),
        (prepare(0) + commit(8), "in_doubt", True),
        (rollback(-4), "rolled_back", True),
        (rollback(7), "committed", True),
        ([], "in_doubt", False),
    ],
)
def test_xa_codes_end_a_branch_as_the_specification_says(lines: list[Any], outcome: str, ended: bool) -> None:
    (row,) = rows_of(watch(scene("casual", [*connect(), works(1), *lines])))
    assert (row["outcome"], row["ended_ts"] is not None) == (outcome, ended)
    assert row["branches"][0]["calls"] == 1
    assert row["branches"][0]["outcome"] == outcome
    assert row["executions"][0] == number(98).hex()


def test_a_reply_belongs_to_its_correlation_whatever_xid_it_carries() -> None:
    other = casual.Xid(42, b"g" * 16, b"other")
    lines = [works(1), asks(casual.ResourcePrepareRequest, 10), says(casual.ResourcePrepareReply, 10, 3, xid=other)]
    (row,) = rows_of(watch(scene("casual", [*connect(), *lines])))
    assert [branch["vote"] for branch in row["branches"]] == [3]
    (row,) = rows_of(
        watch(scene("casual", [*connect(), *lines[:2], says(casual.ResourcePrepareReply, 10, 3, xid=casual.NULL_XID)]))
    )
    assert [branch["vote"] for branch in row["branches"]] == [3]


def event(ts: int, step: int, connection: str, **more: Any) -> dict[str, Any]:
    base = {"ts": ts, "order": ts, "protocol": "casual", "connection": connection}
    xid = {"xid_format": 42, "gtrid": b"g", "bqual": b"b", "resource": -1, "one_phase": False, "execution": "e"}
    return base | xid | {"step": step} | more


def fed(step: Transactions, *events: dict[str, Any]) -> pa.Table:
    return step.feed(pa.Table.from_pylist(list(events), EVENTS))


def test_a_decision_that_is_said_again_over_a_new_connection_ends_the_same_branch() -> None:
    step = Transactions()
    fed(step, event(1, 0, "old"), event(2, 1, "old"), event(3, 2, "old", status=0), event(4, 3, "old"))
    fed(step, event(5, 3, "new"), event(6, 4, "new", status=0))
    (row,) = step.settle(0, final=True).to_pylist()
    assert [(branch["connection"], branch["outcome"]) for branch in row["branches"]] == [("old", "committed")]


def test_the_same_qualifier_at_two_peers_is_two_branches() -> None:
    step = Transactions()
    fed(step, event(1, 0, "one"), event(2, 0, "two", resource=-2))
    fed(step, event(3, 3, "one", one_phase=True), event(4, 4, "one", status=0))
    (row,) = step.settle(0, final=True).to_pylist()
    assert [(branch["connection"], branch["outcome"]) for branch in row["branches"]] == [
        ("one", "committed"),
        ("two", "in_doubt"),
    ]
    assert row["outcome"] == "in_doubt"


def test_a_transaction_is_decided_a_while_after_its_last_event_and_an_id_may_be_used_again() -> None:
    ended = [event(1, 3, "one", one_phase=True), event(2, 4, "one", status=0)]
    step = Transactions()
    fed(step, *ended)
    assert step.settle(2 + LINGER_US).num_rows == 0
    assert step.open().schema.equals(OPEN)
    assert step.open().column("detail").to_pylist() == ["all branches have ended"]
    late = Transactions(step.carry())
    assert fed(late, event(2 + LINGER_US, 0, "two")).num_rows == 0
    assert late.open().column("detail").to_pylist() == ["1 of 2 branches have not ended, 0 of them prepared"]
    step = Transactions()
    fed(step, *ended)
    assert fed(step, event(3 + LINGER_US, 0, "two")).num_rows == 1
    assert step.settle(10 * LINGER_US).num_rows == 0
    assert step.open().column("correlation").to_pylist() == [b"g".hex()]


def test_a_stream_without_times_has_transactions_without_times() -> None:
    facts = [event(order, step, "one", status=0) for order, step in enumerate(range(5))]
    other = event(9, 0, "one", gtrid=b"h")
    step = Transactions()
    fed(step, *({**one, "ts": NO_TIME} for one in [*facts, other]))
    assert step.open().column("since_ts").null_count == 2
    row, doubtful = sorted(step.settle(0, final=True).to_pylist(), key=lambda row: row["gtrid"])
    assert (row["outcome"], doubtful["outcome"]) == ("committed", "in_doubt")
    for one in (row, doubtful):
        assert [one[name] for name in ("first_ts", "ended_ts", "last_ts", "duration_us", "prepare_us")] == [None] * 5
