"""Legs over a broker need all connections with it in the order of time, also where some of them cannot be read."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from wirelake.capture.accounts import ACCOUNTS
from wirelake.capture.decode import CaptureRange
from wirelake.capture.partitions import Partition, decode_partition, plan
from wirelake.capture.quarantine import QUARANTINE
from wirelake.capture.settings import ReadSettings
from wirelake.generate import generate, write_pcap
from wirelake.gold.broker_order import QUIET_US, BrokerOrder, Ended
from wirelake.gold.connections import CONNECTIONS, connection_rows
from wirelake.gold.exchanges import GIVEN, Exchanges
from wirelake.gold.facts import CODED_FACTS, FACTS, facts
from wirelake.gold.matching import Matching
from wirelake.gold.steps import GoldSteps
from wirelake.gold.time_order import TimeOrder

from .matched import repacked
from .test_broker_legs import BROKER, leg, others
from .test_exchanges import SECOND, A, B, Row, fact, in_numbers

READING = ReadSettings(protocols=("mb",))
WHOLE = 1 << 30


# --- captures with damage, cut anywhere


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damaged")


@lru_cache(maxsize=32)
def pieces(captures: Path, seed: int, files: int) -> tuple[CaptureRange, ...]:
    traffic = generate("mb", seed=seed, messages=900, connections=4, violations=0.05, corrupt=0.02)
    write_pcap(traffic, captures / f"{seed}-{files}.pcap", files=files)
    found = sorted(captures.glob(f"{seed}-{files}-*.pcap"))
    assert len(found) == files
    return tuple(CaptureRange(str(path), "all", "pcap", size=path.stat().st_size) for path in found)


def shares(partition: Partition) -> tuple[pa.Table, pa.Table, pa.Table, pa.Table]:
    """Facts, the ends of connections, the last accounts and the quarantined ranges of what one partition has."""
    made, quarantined, ended = [CODED_FACTS.empty_table()], [QUARANTINE.empty_table()], CONNECTIONS.empty_table()
    accounts: dict[tuple[str, str], Row] = {}
    for seen in decode_partition(partition, READING)[1]:
        for batch in seen.output.messages.get("mb", ()):
            made.append(pa.Table.from_batches([facts("mb", batch)]))
        quarantined.append(pa.Table.from_batches([seen.output.quarantine]))
        accounts |= {(row["connection"], row["direction"]): row for row in seen.output.accounts.to_pylist()}
        over = [one for one in seen.chunks.connections if one.ended and not one.is_over]
        ended = pa.concat_tables([ended, connection_rows(over)])
    return (
        pa.concat_tables(made),
        ended,
        pa.Table.from_pylist(list(accounts.values()), ACCOUNTS),
        pa.concat_tables(quarantined),
    )


def exchanges_of(pieces: tuple[CaptureRange, ...], partition_bytes: int, *, commits: bool = False) -> Counter[Any]:
    """The rows of captures; ``commits``: each partition is a step of its own that has only the carry of the others."""
    steps, rows, now = GoldSteps(), [GIVEN.empty_table()], 0
    for partition in plan(pieces, READING, partition_bytes=partition_bytes, is_last=True).partitions:
        given = shares(partition)
        rows.append(steps.feed(*given).exchanges)
        now = max([now, *given[0].column("ts").cast(pa.int64()).to_pylist()])
        if commits:
            rows += steps.settle_exchanges(now)
            steps = GoldSteps(repacked(steps.carry()))
    nothing = (FACTS, CONNECTIONS, ACCOUNTS, QUARANTINE)
    rows.append(steps.feed(*(schema.empty_table() for schema in nothing), final=True).exchanges)
    rows += steps.settle_exchanges(now, final=True)
    return Counter(tuple(row.values()) for row in in_numbers(pa.concat_tables(rows)))


@pytest.mark.parametrize("seed", range(1, 5))
def test_legs_are_the_same_however_damaged_captures_are_cut(captures: Path, seed: int) -> None:
    whole = exchanges_of(pieces(captures, seed, 1), WHOLE)
    assert sum(count for row, count in whole.items() if "guessed" in row) > 100
    for files, size in ((1, 32 << 10), (3, 20_000), (3, 6_000)):
        assert exchanges_of(pieces(captures, seed, files), size) == whole
        assert exchanges_of(pieces(captures, seed, files), size, commits=True) == whole


# --- one by one


def account(connection: str, direction: str, pending: int, protocol: str = "mb") -> Row:
    return {"connection": connection, "direction": direction, "bytes_pending": pending, "protocol": protocol}


def given(*rows: Row) -> pa.Table:
    return pa.Table.from_pylist([{"order": row["ts"]} | row for row in rows], FACTS)


class Steps:
    """Time order, matching, broker order and exchanges, fed together."""

    def __init__(self) -> None:
        self.order, self.matching, self.broker, self.exchanges = TimeOrder(), Matching(), BrokerOrder(), Exchanges()
        self.rows = [GIVEN.empty_table()]

    def take(
        self, facts: list[Row], accounts: list[Row], final: bool = False, **ended: int | None
    ) -> tuple[list[str], Ended]:
        """The names of the requests that exchanges are given, and the ends."""
        told = pa.Table.from_pylist(accounts, ACCOUNTS)
        over = {f"{BROKER}{name}": at for name, at in ended.items()}
        ready = self.order.take(given(*facts), QUARANTINE.empty_table(), told, final)
        matched = self.matching.feed(ready.facts, over)
        exchanged, ends = self.broker.take(matched.rows(), over, told, self.order.undecided())
        self.rows.append(self.exchanges.feed(exchanged, ends))
        return names(exchanged), ends

    def found(self) -> list[Row]:
        rows = pa.concat_tables([*self.rows, *self.exchanges.settle(None, final=True)])
        return sorted(in_numbers(rows), key=lambda row: row["request_ts"])


def names(table: pa.Table) -> list[str]:
    found = zip(table.column("at").to_pylist(), table.column("correlation").to_pylist(), strict=True)
    return [name for _, name in sorted(found)]


FIRST, NEAR, FAR = leg(1, "c1", A, "a", payload_hash=1), leg(2, "c1", A, "n"), leg(2.5, "c2", B, "f")
PENDING, DONE = account(f"{BROKER}c1", A, 5), account(f"{BROKER}c1", A, 0)


def test_what_a_broker_sent_waits_for_what_it_got_whose_bytes_are_undecided() -> None:
    steps = Steps()
    assert steps.take([FIRST, leg(0.5, "c2", B, "e", payload_hash=2), FAR], [PENDING])[0] == ["e"]
    assert steps.take([NEAR], [DONE])[0] == ["a", "n", "f"]
    assert others(steps.found())[2:] == [("c2", "f", "guessed"), ("c1", "n", "guessed")]


def test_connections_with_other_servers_and_of_other_protocols_do_not_wait() -> None:
    elsewhere = leg(3, "c3", B, "g") | {"connection": "00b1c3"}
    same_address = leg(3.1, "c4", B, "h", protocol="toy")
    assert Steps().take([FIRST, FAR, elsewhere, same_address], [PENDING])[0] == ["g", "h"]
    assert Steps().take([FIRST, FAR], [PENDING | {"protocol": "toy"}])[0] == ["a", "f"]


def test_the_end_of_a_connection_waits_with_what_was_said_on_it() -> None:
    steps = Steps()
    answer = fact(2.7, 2, A, "f", protocol="mb", connection=f"{BROKER}c2")
    _, ended = steps.take([FIRST, FAR, answer], [PENDING], c2=3 * SECOND, c3=SECOND // 2)
    assert ended == {f"{BROKER}c3": SECOND // 2}
    assert steps.take([NEAR], [DONE])[1] == {f"{BROKER}c2": 3 * SECOND}
    assert [row["outcome"] for row in steps.found()] == ["unanswered", "unanswered", "ok"]


def test_until_when_exchanges_are_known_is_told() -> None:
    steps = Steps()
    steps.take([FIRST, FAR], [PENDING])
    known = steps.broker.known_until
    assert [known(f"{BROKER}c1"), known(f"{BROKER}c2"), known("00b1c3")] == [SECOND, SECOND, None]
    steps.take([], [], final=True)
    assert known(f"{BROKER}c1") is None


def test_nobody_waits_for_a_connection_that_fell_silent() -> None:
    steps = Steps()
    late = 2 + QUIET_US / SECOND
    steps.take([FIRST, FAR], [PENDING])
    assert steps.take([leg(late, "c2", B, "g")], [])[0] == []
    assert steps.take([leg(late + 1, "c2", B, "h")], [])[0] == ["a", "f", "g", "h"]
    assert steps.take([leg(late + 2, "c2", B, "i")], [PENDING])[0] == []


def test_there_is_a_limit_to_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wirelake.gold.broker_order.MOST_WAITING", 2)
    steps = Steps()
    assert steps.take([FIRST, FAR], [PENDING])[0] == []
    assert steps.take([leg(3, "c2", B, "g")], [])[0] == ["a", "f", "g"]


def test_without_times_nobody_waits() -> None:
    timeless = [row | {"ts": None, "order": i} for i, row in enumerate((FIRST, FAR))]
    steps = Steps()
    found, ended = steps.take(timeless, [PENDING], c2=None)
    assert len(found) == 2 and ended == {f"{BROKER}c2": None}
