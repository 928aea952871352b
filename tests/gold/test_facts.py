"""Facts: what the roles of a declaration give, and what its conduct adds."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from wirelake.columnar import decode
from wirelake.generate import generate
from wirelake.gold.facts import FACTS, MESSAGES, facts, needed_columns
from wirelake.protocols import load

from .facts_of import facts_of
from .matched import ExchangesOfFacts
from .played import play

SENSOR, ORDERS = (f"{Path(__file__).parents[2] / 'examples' / name}.py:PROTOCOL" for name in ("sensor", "orders"))


def test_messages_are_the_first_part_of_the_facts() -> None:
    assert FACTS.names[: len(MESSAGES)] == MESSAGES.names and MESSAGES.names[-1] == "payload_bytes"


def test_a_protocol_of_a_user_works_by_its_roles() -> None:
    traffic = generate(SENSOR, seed=3, messages=400)
    whole = play(traffic)
    step = ExchangesOfFacts()
    rows = pa.concat_tables([step.feed(whole.facts, whole.ended), *step.settle(whole.end_us, final=True)]).to_pylist()
    found = {(row["connection"], row["direction"], row["request_offset"]): row for row in rows}
    truth = {whole.place[one.request]: one for one in traffic.truth.exchanges}
    assert truth and found.keys() == truth.keys()
    for place, one in truth.items():
        row = found[place]
        assert (row["outcome"], row["latency_us"], row["correlation"]) == (one.outcome, one.latency_us, one.correlation)


def test_a_user_declares_limits_results_pieces_heartbeats_transactions_and_introductions() -> None:
    hello, welcome, alive, order, ordered, *_, picture = load(ORDERS).messages
    asked = [order(number=7, basket=basket, item="apples") for basket in (12, 0)]
    replied = [ordered(number=7, outcome=outcome) for outcome in (0, 99, 2)]
    requests = facts_of(ORDERS, *asked)
    assert [(row["limit_us"], row["xid_format"], row["gtrid"]) for row in requests] == [
        (2_000_000, 0, b"12"),
        (2_000_000, None, None),
    ]
    assert [row["result"] for row in facts_of(ORDERS, *replied)] == ["ok", "error", "timeout"]
    pieces = facts_of(ORDERS, *(picture(item="new", page=page, pages=2, data=b"") for page in (0, 1)))
    assert [(row["piece"], row["pieces"], row["piece_key"]) for row in pieces] == [(0, 2, "new"), (1, 2, "new")]
    rows = facts_of(
        ORDERS, hello(till="a", versions=(1, 2)), *(welcome(warehouse="w", accepted=ok) for ok in (True, False))
    )
    assert [dict(row["introduction"]) for row in rows] == [
        {"till": "a", "versions": "1,2"},
        {"warehouse": "w", "handshake": "complete"},
        {"handshake": "refused"},
    ]
    assert [row["heartbeat"] for row in facts_of(ORDERS, alive(), asked[0])] == [True, False]


def test_a_missing_column_is_named() -> None:
    records = pa.RecordBatch.from_pydict({"code": pa.array([1], pa.int32())})
    with pytest.raises(ValueError, match="facts of mb need the columns topic"):
        facts("mb", records)


@pytest.mark.parametrize("name", ["casual", "dsa", "mb", "ceda"])
def test_nothing_gives_no_facts(name: str) -> None:
    batch = decode(name, b"", ["offset", "length", "message", "code", *needed_columns(name)])
    envelope = pa.RecordBatch.from_arrays(
        [pa.array([], pa.string()), *batch.records.columns], names=["direction", *batch.records.schema.names]
    )
    assert facts(load(name), envelope).num_rows == 0
