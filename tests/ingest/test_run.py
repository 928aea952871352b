"""ingest: the lake of a capture is what really happened, however the capture is cut, and whatever is wrong with it."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.ingest.lakes import PLACE_OF_ROW, connections, micros, rows, table, tables
from wirelake.capture.settings import ReadSettings
from wirelake.generate import Traffic, generate, write_pcap, write_raw
from wirelake.generate.simulation import Event
from wirelake.generate.truth import Truth
from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.run import ingest
from wirelake.lake import Lake

ALL = ("casual", "dsa", "mb", "ceda")
HOUR_US = 3_600_000_000


@pytest.fixture(scope="module")
def traffic() -> Traffic:
    return generate(ALL, seed=11, messages=6000, connections=6, violations=0.05)


@pytest.fixture(scope="module")
def truth(traffic: Traffic) -> Truth:
    return traffic.truth


@pytest.fixture(scope="module")
def capture(traffic: Traffic, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("captures") / "all.pcap"
    write_pcap(traffic, path)
    return path


@pytest.fixture(scope="module")
def lake(capture: Path, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    path = tmp_path_factory.mktemp("lake") / "lake"
    report = ingest(InlineRunner(), [str(capture)], str(path), final=True)
    assert report.commit == 1
    return Lake.open(path, create=False)


def test_every_message_that_was_sent_is_a_row_of_its_protocol_and_of_the_common_view(
    lake: Lake, traffic: Traffic, truth: Truth
) -> None:
    known = connections(lake, truth)
    sent: dict[str, Counter[Any]] = {}
    for event in traffic:
        assert isinstance(event, Event)
        message = event.message.__message__["name"]
        row = (known[event.connection.number], event.direction, message, len(event.frame), event.ts_us)
        sent.setdefault(event.connection.protocol.name, Counter())[row] += 1
    for protocol, wanted in sent.items():
        assert _envelopes(table(lake, f"silver/{protocol}")) == wanted
    assert _envelopes(table(lake, "silver/messages")) == sum(sent.values(), Counter())


def _envelopes(found: list[dict[str, Any]]) -> Counter[Any]:
    return Counter(
        (row["connection"], row["direction"], row["message"], row["length"], micros(row["ts"])) for row in found
    )


def _fields(row: Any, *names: str) -> tuple[Any, ...]:
    """These columns of a row, or attributes of a record; times as microseconds, nothing said as None."""
    values = (row[name] if isinstance(row, dict) else getattr(row, name) for name in names)
    return tuple(micros(value) if isinstance(value, datetime) else None if value == "" else value for value in values)


def test_exchanges_are_those_that_happened_with_their_latencies(lake: Lake, truth: Truth) -> None:
    known = connections(lake, truth)
    common = ("direction", "message", "address", "correlation", "reply_message", "replies", "latency_us", "outcome")
    wanted = Counter(
        (known[one.connection], *_fields(one, *common, "request_us", "reply_us")) for one in truth.exchanges
    )
    found = Counter(
        _fields(row, "connection", *common, "request_ts", "reply_ts") for row in table(lake, "gold/exchanges")
    )
    assert found == wanted
    assert {"ok", "error", "timeout"} <= {row[8] for row in found}


def test_sessions_are_the_connections_with_what_they_carried_and_how_they_ended(lake: Lake, truth: Truth) -> None:
    common = ("protocol", "ended", "messages_to_server", "messages_to_client", "bytes_to_server", "bytes_to_client")
    wanted = {
        (_endpoint(one.client), _endpoint(one.server), *_fields(one, *common, "opened_us")) for one in truth.sessions
    }
    assert {_fields(row, "client", "server", *common, "first_ts") for row in table(lake, "gold/sessions")} == wanted


def _endpoint(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1]}"


def test_transactions_end_as_they_ended_and_those_that_never_did_are_in_doubt(lake: Lake, truth: Truth) -> None:
    wanted = {
        one.gtrid.hex(): ("in_doubt" if one.outcome == "open" else one.outcome, len(one.branches))
        for one in truth.transactions
    }
    found = {row["gtrid"]: (row["outcome"], len(row["branches"])) for row in table(lake, "gold/transactions")}
    assert found == wanted
    assert {"committed", "rolled_back", "in_doubt"} <= {outcome for outcome, _ in found.values()}


def test_violations_are_those_that_were_committed(lake: Lake, truth: Truth) -> None:
    known = connections(lake, truth)
    wanted = Counter((known[one.connection], one.direction, one.rule, one.ts_us) for one in truth.violations)
    found = Counter(
        (row["connection"], row["direction"], row["rule"], micros(row["ts"])) for row in table(lake, "gold/violations")
    )
    assert found == wanted
    assert wanted


def test_bytes_add_up_and_nothing_is_left_open_at_the_end(lake: Lake, truth: Truth) -> None:
    sent = sum(one.bytes_to_server + one.bytes_to_client for one in truth.sessions)
    accounts = table(lake, "accounting")
    assert len(accounts) == 2 * len(truth.sessions)
    assert sum(row["bytes_in"] for row in accounts) == sent
    assert all(row["bytes_in"] == row["bytes_decoded"] + row["bytes_quarantined"] for row in accounts)
    assert table(lake, "gold/open") == []
    assert {name.partition(".")[2] for name in lake.carry()} == {"sensor"}


def test_addresses_count_what_exchanges_and_messages_say(lake: Lake) -> None:
    exchanges = table(lake, "gold/exchanges")
    found = table(lake, "gold/addresses")
    asked = Counter(
        (row["protocol"], row["address"], micros(row["request_ts"]) // 60_000_000)
        for row in exchanges
        if row["address"] is not None
    )
    assert {
        (row["protocol"], row["address"], micros(row["minute"]) // 60_000_000): row["requests"]
        for row in found
        if row["requests"]
    } == dict(asked)


def test_small_partitions_give_the_same_lake_as_one(lake: Lake, capture: Path, tmp_path: Path) -> None:
    ingest(InlineRunner(), [str(capture)], str(tmp_path / "lake"), final=True, partition_bytes=200_000)
    assert tables(tmp_path / "lake") == tables(lake)


def test_a_rotated_capture_gives_the_same_lake_file_by_file_as_at_once(
    lake: Lake, traffic: Traffic, tmp_path: Path
) -> None:
    write_pcap(traffic, tmp_path / "part.pcap", files=4)
    parts = sorted(tmp_path.glob("part*.pcap"))
    assert len(parts) == 4
    ingest(InlineRunner(), [str(tmp_path)], str(tmp_path / "at_once"), final=True)
    for number, part in enumerate(parts):
        report = ingest(InlineRunner(), [str(part)], str(tmp_path / "one_by_one"), final=number == 3)
        assert report.captures == 1
    once = tables(tmp_path / "at_once", PLACE_OF_ROW)
    assert tables(tmp_path / "one_by_one", PLACE_OF_ROW) == once
    assert once == tables(lake, PLACE_OF_ROW)


def test_what_was_ingested_is_not_ingested_again_and_a_file_that_grew_is_read_on(
    lake: Lake, capture: Path, tmp_path: Path
) -> None:
    growing, target = tmp_path / "growing.pcap", str(tmp_path / "lake")
    whole = capture.read_bytes()
    growing.write_bytes(whole[: len(whole) // 3])
    ingest(InlineRunner(), [str(growing)], target)
    again = ingest(InlineRunner(), [str(growing)], target)
    assert (again.commit, again.skipped) == (None, 1)
    growing.write_bytes(whole)
    ingest(InlineRunner(), [str(growing)], target, final=True)
    assert tables(tmp_path / "lake", PLACE_OF_ROW) == tables(lake, PLACE_OF_ROW)


@pytest.mark.parametrize("protocol", ["dsa", "casual"])
def test_raw_streams_become_messages_without_times(tmp_path: Path, protocol: str) -> None:
    traffic = generate(protocol, seed=3, messages=300)
    (tmp_path / "raw").mkdir()
    write_raw(traffic, tmp_path / "raw")
    report = ingest(
        InlineRunner(),
        [str(tmp_path / "raw")],
        str(tmp_path / "lake"),
        reading=ReadSettings(protocols=(protocol,)),
        final=True,
    )
    assert report.messages == {protocol: sum(1 for _ in traffic)}
    assert {row["ts"] for row in table(tmp_path / "lake", f"silver/{protocol}")} == {None}
    if protocol == "casual":
        assert {row["first_ts"] for row in table(tmp_path / "lake", "gold/transactions")} == {None}


def test_a_protocol_of_a_user_becomes_a_table_like_any_other(tmp_path: Path) -> None:
    declared = Path(__file__).parents[2] / "examples" / "bulletin.py"
    name = f"{declared}:PROTOCOL"
    traffic = generate(name, seed=5, messages=200)
    write_pcap(traffic, tmp_path / "own.pcap")
    report = ingest(
        InlineRunner(),
        [str(tmp_path / "own.pcap")],
        str(tmp_path / "lake"),
        reading=ReadSettings(protocols=(name,)),
        final=True,
    )
    (protocol,) = traffic.protocols
    assert report.messages == {protocol.name: sum(1 for _ in traffic)}
    assert len(rows(tmp_path / "lake", f"silver/{protocol.name}")) > 0


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty captures with damaged frames, bytes that are missing, and cut ends."""
    folder = tmp_path_factory.mktemp("damaged")
    for number in range(20):
        traffic = generate(
            ALL[number % 4],
            seed=number,
            messages=400,
            corrupt=0.05,
            gaps=0.02 if number % 3 else 0.0,
            start_us=1_704_067_200_000_000 + number * HOUR_US,
        )
        path = folder / f"{number:02d}.pcap"
        write_pcap(traffic, path)
        if number % 5 == 0:
            path.write_bytes(path.read_bytes()[:-37])
    return folder


def test_no_byte_of_damaged_captures_is_lost(damaged: Path, tmp_path: Path) -> None:
    report = ingest(InlineRunner(), [str(damaged)], str(tmp_path / "lake"), partition_bytes=300_000, final=True)
    accounts = table(tmp_path / "lake", "accounting")
    assert report.bytes_quarantined > 0 and report.bytes_missing > 0
    for row in accounts:
        assert row["bytes_in"] == row["bytes_decoded"] + row["bytes_quarantined"] + row["bytes_pending"]
    decoded = sum(row["length"] for row in table(tmp_path / "lake", "silver/messages"))
    bad = table(tmp_path / "lake", "silver/quarantine")
    assert sum(row["bytes_decoded"] for row in accounts) == decoded == report.bytes_decoded
    quarantined = sum(row["length"] for row in bad if row["rule"] != "gap")
    assert sum(row["bytes_quarantined"] for row in accounts) == quarantined == report.bytes_quarantined
    assert all(len(row["bytes"]) == row["length"] for row in bad if row["rule"] != "gap")
    missing = sum(row["length"] for row in bad if row["rule"] == "gap")
    assert sum(row["bytes_missing"] for row in accounts) == missing == report.bytes_missing
