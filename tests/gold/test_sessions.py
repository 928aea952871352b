"""Sessions as the generator made them, and what cannot be known of a connection."""

from __future__ import annotations

import pickle
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from wirelake.generate import generate
from wirelake.gold.connections import CONNECTIONS, endpoint
from wirelake.gold.facts import FACTS
from wirelake.gold.open import OPEN
from wirelake.gold.sessions import REMEMBER_US, SESSIONS, Sessions
from wirelake.protocols import ceda, dsa, mb

from .matched import ViolationsOfFacts, repacked
from .played import name_of
from .scenes import DOWN, UP, scene
from .test_transactions import us
from .test_violations import login
from .watched import ACCOUNTS, Watched, watch

PROTOCOLS = ("casual", "dsa", "mb", "ceda")
NOT_TOLD = {"refused", "publish_topics", "request_topics", "patterns", "dialect"}
"""What the generator knows of its peers and no handshake says."""


def rows_of(watched: Watched, feeds: Any = None, final: bool = True) -> dict[str, dict[str, Any]]:
    feeds = list(feeds) if feeds is not None else [watched.at_once()]
    carry = watching = None
    parts = []
    for fed in feeds:
        step, rules = Sessions(carry), ViolationsOfFacts(watching)
        step.feed(fed.facts, fed.connections, fed.accounts, None, rules.feed(fed.facts, fed.connections))
        parts.append(step.settle(fed.watermark, final=final and fed is feeds[-1]))
        carry, watching = repacked(step.carry()), repacked(rules.carry())
    table = pa.concat_tables(parts)
    assert table.schema.equals(SESSIONS)
    rows = {row["connection"]: row for row in table.to_pylist()}
    assert len(rows) == table.num_rows
    return rows


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("seed", [1, 2])
def test_sessions_are_those_of_the_generator(protocol: str, seed: int) -> None:
    watched = watch(generate(protocol, seed=seed, messages=1500, connections=9, violations=0.02))
    rows = rows_of(watched)
    assert len(rows) == len(watched.truth.sessions) == 9
    wrong: dict[int, int] = defaultdict(int)
    for violation in watched.truth.violations:
        wrong[violation.connection] += 1
    for one in watched.truth.sessions:
        row = rows[name_of(one.connection)]
        assert (row["protocol"], row["client"], row["server"]) == (
            protocol,
            endpoint(*one.client),
            endpoint(*one.server),
        )
        assert (us(row["first_ts"]), us(row["last_ts"]), us(row["ended_ts"])) == (
            one.opened_us,
            one.closed_us,
            one.closed_us,
        )
        assert (row["ended"] or "", row["opened"]) == (one.ended, True)
        assert row["duration_us"] == (one.closed_us or 0) - one.opened_us
        for name in ("messages_to_server", "messages_to_client", "bytes_to_server", "bytes_to_client"):
            assert row[name] == getattr(one, name)
        told = dict(row["facts"])
        for name, value in one.facts.items():
            if name not in NOT_TOLD:
                assert told[name] == (str(value).lower() if isinstance(value, bool) else str(value))
        assert row["violations"] == wrong[one.connection]
        assert row["handshake"] == handshake_of(protocol, one.facts)


def handshake_of(protocol: str, facts: dict[str, Any]) -> str:
    if protocol == "mb":
        return "none"
    return "refused" if facts.get("refused") or facts.get("version") == 0 else "complete"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_silences_are_measured_each_way(protocol: str) -> None:
    watched = watch(generate(protocol, seed=3, messages=600, connections=4))
    rows = rows_of(watched)
    times: dict[tuple[str, str], list[int]] = defaultdict(list)
    for fact in watched.facts.to_pylist():
        times[fact["connection"], fact["direction"]].append(us(fact["ts"]) or 0)
    for name, row in rows.items():
        for way in ("to_server", "to_client"):
            spoke = times[name, way]
            gaps = [after - before for before, after in pairwise(spoke)]
            assert row[f"longest_gap_{way}_us"] == max(gaps, default=None)


@pytest.mark.parametrize(
    ("protocol", "beat", "options"),
    [
        ("dsa", dsa.Ping(), {}),
        ("ceda", ceda.Heartbeat(), {}),
        ("mb", mb.Request(topic="system.heartbeat", version="1.0.0", payload=b"{}"), {"framing": "tcp"}),
    ],
)
def test_heartbeats_are_counted(protocol: str, beat: Any, options: dict[str, Any]) -> None:
    (row,) = rows_of(watch(scene(protocol, [(UP, beat), (DOWN, beat), 500, (UP, beat)], **options))).values()
    assert (row["heartbeats"], row["longest_gap_to_server_us"], row["longest_gap_to_client_us"]) == (3, 520, None)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_any_cut_gives_the_same_sessions(protocol: str) -> None:
    watched = watch(generate(protocol, seed=4, messages=800, connections=7, violations=0.02))
    for seed in range(3):
        assert rows_of(watched, watched.randomly(seed, 1 + 4 * seed)) == rows_of(watched)


def test_a_password_is_never_told() -> None:
    watched = watch(scene("ceda", login()))
    (row,) = rows_of(watched).values()
    assert dict(row["facts"]) == {"user": "u", "masked": "false"}
    assert "secret" not in str(row) and "secret" not in str(watched.facts.drop(["capture"]).to_pylist())


def test_a_login_that_fails_and_then_goes_well_is_complete() -> None:
    (row,) = rows_of(watch(scene("ceda", [*login(ok=False), *login()]))).values()
    assert row["handshake"] == "complete"
    (row,) = rows_of(watch(scene("ceda", [*login(ok=False)]))).values()
    assert row["handshake"] == "refused"


def head(name: str, **more: Any) -> dict[str, Any]:
    base = {"connection": name, "client": "a:1", "server": "b:2", "first_us": 10, "last_us": 20, "is_whole": True}
    return base | more


def heads(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), CONNECTIONS)


def test_a_connection_without_messages_has_a_row_too() -> None:
    step = Sessions()
    step.feed(FACTS.empty_table(), heads(head("c", ended="reset", ended_us=15)))
    (row,) = step.settle(100).to_pylist()
    assert (row["connection"], row["protocol"], row["ended"], row["duration_us"]) == ("c", None, "reset", 5)
    assert (row["handshake"], row["messages_to_server"], row["longest_gap_to_server_us"]) == ("none", 0, None)


def test_what_has_not_ended_waits_in_gold_open_until_it_is_final() -> None:
    step = Sessions()
    step.feed(FACTS.empty_table(), heads(head("c")))
    assert step.settle(10**12).num_rows == 0
    waiting = step.open()
    assert waiting.schema.equals(OPEN)
    assert waiting.select(["kind", "connection", "address"]).to_pylist() == [
        {"kind": "session", "connection": "c", "address": "b:2"}
    ]
    (row,) = step.settle(10**12, final=True).to_pylist()
    assert (row["ended"], us(row["last_ts"]), row["duration_us"]) == (None, 20, 10)
    assert step.open().num_rows == 0


def test_the_last_packets_of_a_connection_that_has_its_row_make_no_other() -> None:
    step = Sessions()
    closed = heads(head("c", ended="closed", ended_us=20))
    step.feed(FACTS.empty_table(), closed)
    assert step.settle(30).num_rows == 1
    step = Sessions(pickle.loads(pickle.dumps(step.carry())))
    step.feed(FACTS.empty_table(), closed)
    assert step.settle(40).num_rows == 0
    step.settle(21 + REMEMBER_US)
    assert not step.carry().done


def test_accounts_are_cumulative_and_bad_ranges_are_counted() -> None:
    bad = pa.table({"connection": ["c", "c"], "direction": ["to_server", "to_client"]})
    account = {"connection": "c", "protocol": "mb", "bytes_decoded": 0, "bytes_pending": 0, "messages": 0}
    step = Sessions()
    for total in (100, 250):
        accounts = [
            account | {"direction": way, "bytes_in": total + i, "bytes_quarantined": i + 1, "bytes_missing": 7}
            for i, way in enumerate((UP, DOWN))
        ]
        step.feed(FACTS.empty_table(), heads(head("c")), pa.Table.from_pylist(accounts, ACCOUNTS), bad)
    (row,) = step.settle(0, final=True).to_pylist()
    assert (row["bytes_to_server"], row["bytes_to_client"]) == (250, 251)
    assert (row["quarantined_bytes"], row["quarantined_ranges"], row["missing_bytes"]) == (3, 4, 14)
    assert row["protocol"] == "mb"
