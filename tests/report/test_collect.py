"""The numbers of the report are those of the tables: counted here row by row, not by the same SQL."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.ingest.lakes import micros, table
from wirelake.gold.tables import TABLES, view_name, with_date
from wirelake.lake import Lake
from wirelake.report import collect
from wirelake.report.collect import bucket_width

Rows = list[dict[str, Any]]
FINE = ("ok", "no_reply_wanted")


def answers(report: dict[str, Any], name: str) -> Rows:
    data = report["data"][name]
    return [dict(zip(data["columns"], row, strict=True)) for row in data["rows"]]


def nearest_rank(values: list[int], percent: int) -> int | None:
    ordered = sorted(values)
    return ordered[-(-len(ordered) * percent // 100) - 1] if ordered else None


def percentiles(exchanges: Rows) -> dict[str, int | None]:
    latencies = [row["latency_us"] for row in exchanges if row["latency_us"] is not None]
    return {f"p{percent}_us": nearest_rank(latencies, percent) for percent in (50, 95, 99)}


def counts(exchanges: Rows) -> dict[str, int]:
    found = Counter(row["outcome"] for row in exchanges)
    return {
        "errors": found["error"],
        "timeouts": found["timeout"],
        "unanswered": found["unanswered"],
    }


def test_the_overview_is_what_the_tables_hold(report: dict[str, Any], lake: Lake) -> None:
    (row,) = answers(report, "overview")
    accounts, exchanges, sessions = (table(lake, name) for name in ("accounting", "gold/exchanges", "gold/sessions"))
    transactions = Counter(one["outcome"] for one in table(lake, "gold/transactions"))
    damage = table(lake, "silver/quarantine")
    wanted: dict[str, Any] = {
        name: sum(one[name] for one in accounts)
        for name in ("bytes_in", "bytes_decoded", "bytes_quarantined", "bytes_pending", "bytes_missing")
    }
    wanted |= counts(exchanges) | percentiles(exchanges)
    wanted |= {
        "messages": len(table(lake, "silver/messages")),
        "connections": len({one["connection"] for one in accounts}),
        "requests": len(exchanges),
        "ok": sum(one["outcome"] == "ok" for one in exchanges),
        "max_us": max(one["latency_us"] for one in exchanges if one["latency_us"] is not None),
        "transactions": transactions.total(),
        **{name: transactions[name] for name in ("committed", "rolled_back", "read_only", "in_doubt")},
        "sessions": len(sessions),
        "violations": len(table(lake, "gold/violations")),
        "quarantined_ranges": sum(one["rule"] != "gap" for one in damage),
        "open_requests": 0,
        "open_transactions": 0,
        "open_sessions": 0,
    }
    assert {name: row[name] for name in wanted} == wanted
    assert row["in_doubt"] and row["violations"] and row["bytes_missing"] and row["timeouts"], "traffic lost its faults"
    assert row["first_us"] == min(micros(one["first_ts"]) or 0 for one in sessions)
    assert row["last_us"] >= max(micros(one["last_ts"]) or 0 for one in sessions)


def test_each_protocol_has_its_row(report: dict[str, Any], lake: Lake) -> None:
    exchanges, accounts = table(lake, "gold/exchanges"), table(lake, "accounting")
    broken = Counter(one["protocol"] for one in table(lake, "gold/violations"))
    rows = {row["protocol"]: row for row in answers(report, "protocols")}
    assert set(rows) == {"casual", "ceda", "dsa", "mb"}
    for protocol, row in rows.items():
        own = [one for one in exchanges if one["protocol"] == protocol]
        streams = [one for one in accounts if one["protocol"] == protocol]
        wanted = counts(own) | percentiles(own) | {"requests": len(own), "violations": broken[protocol]}
        wanted |= {"connections": len({one["connection"] for one in streams})}
        wanted |= {
            name: sum(one[name] for one in streams) for name in ("messages", "bytes_decoded", "bytes_quarantined")
        }
        assert {name: row[name] for name in wanted} == wanted


def test_what_is_shown_over_time_adds_up_to_all_of_it(report: dict[str, Any], lake: Lake) -> None:
    width = report["about"]["bucket_us"]
    exchanges = table(lake, "gold/exchanges")

    def bucket(one: dict[str, Any]) -> int:
        at = micros(one["request_ts"])
        assert at is not None
        return at // width * width

    assert report["about"]["traffic_of"] == "requests"
    asked = Counter((bucket(one), one["protocol"]) for one in exchanges)
    assert {(row["bucket_us"], row["protocol"]): row["count"] for row in answers(report, "traffic")} == asked
    outcomes = Counter((bucket(one), one["outcome"]) for one in exchanges)
    names = {"ok": "ok", "errors": "error", "timeouts": "timeout", "unanswered": "unanswered"}
    names["no_reply_wanted"] = "no_reply_wanted"
    for row in answers(report, "outcomes"):
        assert {name: row[name] for name in names} == {
            name: outcomes[row["bucket_us"], of] for name, of in names.items()
        }
    assert len(answers(report, "outcomes")) == len({at for at, _ in outcomes}) <= 121
    spoilt: Counter[tuple[int, str]] = Counter()
    for one in table(lake, "silver/quarantine"):
        if one["rule"] != "gap":
            spoilt[(micros(one["ts"]) or 0) // width * width, one["protocol"]] += one["length"]
    found = {(row["bucket_us"], row["protocol"]): row["bytes"] for row in answers(report, "quarantine_over_time")}
    assert found == spoilt


def test_latencies_over_time_are_of_each_protocol_and_of_all(report: dict[str, Any], lake: Lake) -> None:
    width = report["about"]["bucket_us"]
    groups: dict[tuple[int, str], Rows] = defaultdict(list)
    bands: Counter[tuple[int, int]] = Counter()
    edges = sorted([0, *(digit * 10**power for power in range(10) for digit in (1, 2, 5))])
    for one in table(lake, "gold/exchanges"):
        at = (micros(one["request_ts"]) or 0) // width * width
        if one["latency_us"] is not None:
            groups[at, one["protocol"]].append(one)
            groups[at, "all"].append(one)
            bands[at, max(edge for edge in edges if edge <= one["latency_us"])] += 1
    found = {(row.pop("bucket_us"), row.pop("protocol")): row for row in answers(report, "latency")}
    assert found == {key: {"requests": len(own), **percentiles(own)} for key, own in groups.items()}
    assert {(row["bucket_us"], row["band_us"]): row["count"] for row in answers(report, "heat")} == bands


def test_addresses_are_ordered_by_how_slow_and_how_busy_they_are(report: dict[str, Any], lake: Lake) -> None:
    groups: dict[tuple[str, str], Rows] = defaultdict(list)
    for one in table(lake, "gold/exchanges"):
        if one["address"] is not None:
            groups[one["protocol"], one["address"]].append(one)
    rows = answers(report, "slow_addresses")
    assert [row["p95_us"] for row in rows] == sorted((row["p95_us"] for row in rows), reverse=True)
    assert len(rows) == 50
    answered = [key for key, own in groups.items() if any(one["latency_us"] is not None for one in own)]
    assert report["data"]["slow_addresses"]["total"] == len(answered)
    for row in rows:
        own = groups[row["protocol"], row["address"]]
        bad = counts(own)
        assert (row["requests"], row["errors"], row["timeouts"]) == (len(own), bad["errors"], bad["timeouts"])
        assert row["error_rate"] == pytest.approx((bad["errors"] + bad["timeouts"]) / len(own))
        assert {name: row[name] for name in ("p50_us", "p95_us", "p99_us")} == percentiles(own)
    messages: Counter[tuple[str, str]] = Counter()
    for one in table(lake, "gold/addresses"):
        messages[one["protocol"], one["address"]] += one["messages"]
    busy = answers(report, "busy_addresses")
    assert [row["messages"] for row in busy] == [count for _, count in messages.most_common(50)]
    assert all(messages[row["protocol"], row["address"]] == row["messages"] for row in busy)


def test_the_slowest_and_the_failed_are_named_with_their_conversation(report: dict[str, Any], lake: Lake) -> None:
    exchanges = table(lake, "gold/exchanges")
    slow = answers(report, "slow_exchanges")
    latencies = sorted((one["latency_us"] for one in exchanges if one["latency_us"] is not None), reverse=True)
    assert [row["latency_us"] for row in slow] == latencies[:50]
    assert report["data"]["slow_exchanges"]["total"] == len(latencies)
    names = ("protocol", "address", "outcome", "status")
    failed = Counter(tuple(one[name] for name in names) for one in exchanges if one["outcome"] not in FINE)
    found = answers(report, "failures")
    assert report["data"]["failures"]["total"] == len(failed)
    assert [row["count"] for row in found] == [count for _, count in failed.most_common(50)]
    for row in found:
        assert row["count"] == failed[tuple(row[name] for name in names)]
        assert row["conversation"] in report["conversations"]


def test_who_talks_to_whom_counts_every_connection_once(report: dict[str, Any], lake: Lake) -> None:
    sessions = table(lake, "gold/sessions")
    rows = answers(report, "topology")
    for name in ("messages_to_server", "messages_to_client", "violations", "quarantined_bytes"):
        assert sum(row[name] for row in rows) == sum(one[name] for one in sessions)
    assert sum(row["connections"] for row in rows) == len(sessions)
    assert {row["server"] for row in rows} == {one["server"] for one in sessions}
    named = {row["client"] for row in rows if row["protocol"] == "casual"}
    told = {dict(one["facts"])["client_domain"] for one in sessions if one["protocol"] == "casual"}
    assert told <= named


def test_sessions_are_there_with_what_peers_told_trouble_first(report: dict[str, Any], lake: Lake) -> None:
    wanted = {one["connection"]: one for one in table(lake, "gold/sessions")}
    rows = answers(report, "sessions")
    assert {row["connection"] for row in rows} == set(wanted)
    assert [row["violations"] for row in rows] == sorted((row["violations"] for row in rows), reverse=True)
    for row in rows:
        one = wanted[row["connection"]]
        assert json.loads(row["facts"]) == dict(one["facts"])
        assert row["first_us"] == micros(one["first_ts"])
        same = ("client", "server", "handshake", "duration_us", "bytes_to_server", "bytes_to_client")
        assert {name: row[name] for name in same} == {name: one[name] for name in same}
    ends = Counter((one["protocol"], one["handshake"], one["ended"] or "not seen") for one in wanted.values())
    found = {(row["protocol"], row["handshake"], row["ended"]): row["count"] for row in answers(report, "session_ends")}
    assert found == ends


def test_transactions_in_doubt_come_first(report: dict[str, Any], lake: Lake) -> None:
    wanted = table(lake, "gold/transactions")
    rows = answers(report, "transactions")
    doubtful = sum(one["outcome"] == "in_doubt" for one in wanted)
    assert doubtful and all(row["outcome"] == "in_doubt" for row in rows[:doubtful])
    assert {(row["gtrid"], row["outcome"], row["branches"]) for row in rows} == {
        (one["gtrid"], one["outcome"], len(one["branches"])) for one in wanted
    }
    found = {row["outcome"]: row["count"] for row in answers(report, "transaction_outcomes")}
    assert found == Counter(one["outcome"] for one in wanted)


def test_every_broken_rule_is_counted_and_the_list_shows_each(report: dict[str, Any], lake: Lake) -> None:
    state, damage = table(lake, "gold/violations"), table(lake, "silver/quarantine")
    wanted = Counter(("state", one["protocol"], one["rule"]) for one in state)
    wanted += Counter(("bytes", one["protocol"], one["rule"]) for one in damage)
    rules = answers(report, "rules")
    assert {(row["source"], row["protocol"], row["rule"]): row["count"] for row in rules} == wanted
    rows = answers(report, "violations")
    first = rows[: len(wanted)]
    assert {(row["source"], row["protocol"], row["rule"]) for row in first} == set(wanted), "the first of each rule"
    assert len(rows) == len(state) + len(damage)
    assert {(row["connection"], row["direction"], row["offset"]) for row in rows} == {
        (one["connection"], one["direction"], one["offset"]) for one in (*state, *damage)
    }


def test_what_is_shown_as_sql_is_what_was_asked_and_can_be_asked_by_anybody(report: dict[str, Any], lake: Lake) -> None:
    """On views that a user makes, with a DuckDB of their own."""
    own = duckdb.connect(":memory:")
    own.execute("set timezone = 'Asia/Tokyo'")
    for name, schema in TABLES.items():
        if lake.files(name):
            pattern = f"{lake.path}/{name}/*.parquet" if name == "accounting" else f"{lake.path}/{name}/*/*.parquet"
            own.execute(f"create view {view_name(name)} as from read_parquet('{pattern}', hive_partitioning = true)")
        else:
            own.register(view_name(name), with_date(name, schema).empty_table())
    assert set(report["queries"]) == set(report["data"])
    for name, query in report["queries"].items():
        data = report["data"][name]
        found = own.execute(query["sql"])
        assert [column[0] for column in found.description or ()] == data["columns"]
        filled = {"violations": "event", "held": "held"}.get(name)
        left_out = data["columns"].index(filled) if filled else -1
        wanted = [[value for i, value in enumerate(row) if i != left_out] for row in data["rows"]]
        rows = [[value for i, value in enumerate(row) if i != left_out] for row in found.fetchall()]
        if name != "sessions":
            assert rows == wanted, name
        total = own.execute(query["total"]).fetchall()[0][0] if "total" in query else len(wanted)
        assert data["total"] == total


def test_the_report_is_json_and_the_same_each_time(report: dict[str, Any], lake: Lake) -> None:
    text = json.dumps(report, allow_nan=False)
    again = json.loads(text)
    assert again == report
    assert collect(lake) | {"about": None} == report | {"about": None}
    about = report["about"]
    assert (about["commit"], about["captures"], about["lake"]) == (1, 1, str(lake.path))


def test_progress_is_told_in_words(lake: Lake) -> None:
    told: list[str] = []
    collect(lake, progress=told.append)
    assert len(told) > 10 and "conversations" in told


@pytest.mark.parametrize(
    ("length_us", "least_us", "width"),
    [
        (0, 0, 10_000),
        (36_000_000, 0, 500_000),
        (1_000_000_000, 0, 10_000_000),
        (1_200_000_000, 60_000_000, 60_000_000),
        (86_400_000_000, 0, 900_000_000),
        (30 * 86_400_000_000, 0, 6 * 3_600_000_000 + 6 * 3_600_000_000),
    ],
)
def test_buckets_have_widths_that_people_like(length_us: int, least_us: int, width: int) -> None:
    assert bucket_width(length_us, least_us) == width
    assert length_us // width < 120


def test_even_centuries_are_cut_into_few_buckets() -> None:
    century = 100 * 365 * 86_400_000_000
    assert century // bucket_width(century) <= 120


def test_no_java_and_no_spark_is_needed(report_lake: Path) -> None:
    code = f"""
import sys
from wirelake.lake import Lake
from wirelake.report import collect
collect(Lake.open({str(report_lake)!r}, create=False))
print(sorted({{"pyspark", "numba", "plotly"}} & {{name.partition(".")[0] for name in sys.modules}}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
