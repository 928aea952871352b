"""What one direction has not decided yet holds back what the other one knows already."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa

from wirelake.generate import generate
from wirelake.gold.time_order import TimeOrder, in_order

from .matched import ViolationsOfFacts, repacked
from .scenes import DOWN, UP, scene
from .test_violations import DAMAGE, call, connect, expected, result, rules
from .watched import ACCOUNTS, Watched, watch


def account(connection: str, direction: str, pending: int) -> dict[str, Any]:
    return {"connection": connection, "direction": direction, "bytes_pending": pending}


def accounts(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), ACCOUNTS)


def parts(watched: Watched, *numbers: set[int]) -> list[pa.Table]:
    order = watched.facts.column("order").to_pylist()
    return [watched.facts.filter(pa.array([one in wanted for one in order])) for wanted in numbers]


def test_a_reply_waits_for_its_request_whose_bytes_are_undecided() -> None:
    watched = watch(scene("casual", [*connect(), (UP, call(1)), (DOWN, result(1))]))
    name = watched.facts.column("connection")[0].as_py()
    early, late = parts(watched, {0, 1, 3}, {2})
    heads = watched.at_once().connections
    assert ViolationsOfFacts().feed(early, heads).num_rows == 1
    order, step = TimeOrder(), ViolationsOfFacts()
    ready = order.take(early, DAMAGE.empty_table(), accounts(account(name, UP, 5), account(name, DOWN, 0)))
    assert ready.facts.column("order").to_pylist() == [0]
    assert not step.feed(ready.facts, heads, ready.quarantined).num_rows
    order = TimeOrder(repacked(order.carry()))
    ready = order.take(late, DAMAGE.empty_table(), accounts(account(name, UP, 0)))
    assert ready.facts.column("order").to_pylist() == [1, 2, 3]
    assert not step.feed(ready.facts, heads, ready.quarantined).num_rows
    assert not order.carry().facts.num_rows


def test_nothing_is_held_where_nothing_is_pending_or_nothing_more_comes() -> None:
    watched = watch(scene("casual", connect()))
    name = watched.facts.column("connection")[0].as_py()
    for pending, final in ((0, False), (9, True)):
        ready = TimeOrder().take(watched.facts, DAMAGE.empty_table(), accounts(account(name, UP, pending)), final)
        assert ready.facts.num_rows == 2


def test_a_bad_range_decides_what_lies_before_it_and_is_held_itself_if_it_is_later() -> None:
    watched = watch(scene("casual", [*connect(), (UP, call(1)), (DOWN, result(1)), (DOWN, result(2))]))
    name = watched.facts.column("connection")[0].as_py()
    times = dict(zip(*(watched.facts.column(one).to_pylist() for one in ("order", "ts")), strict=True))
    (facts,) = parts(watched, {0, 1, 3})
    bad = [{"connection": name, "offset": 1000, "direction": way, "ts": times[i]} for way, i in ((UP, 2), (DOWN, 4))]
    order = TimeOrder()
    ready = order.take(facts, pa.Table.from_pylist(bad, DAMAGE), accounts(account(name, UP, 1)))
    assert ready.facts.column("order").to_pylist() == [0, 1]
    assert ready.quarantined.column("direction").to_pylist() == [UP]
    ready = order.take(facts.slice(0, 0), DAMAGE.empty_table(), accounts(account(name, UP, 0)))
    assert (ready.facts.column("order").to_pylist(), ready.quarantined.column("direction").to_pylist()) == ([3], [DOWN])


def test_what_a_late_packet_made_readable_stays_in_the_order_of_its_stream() -> None:
    watched = watch(scene("casual", [*connect(), (UP, call(1)), (UP, call(2)), (UP, call(3)), (DOWN, result(2))]))
    facts = watched.facts.sort_by("order")
    ts = facts.column("ts").to_pylist()
    late = facts.set_column(
        5, facts.schema.field(5), pa.array([*ts[:2], ts[4], ts[4], ts[4], ts[5]], facts.schema.field(5).type)
    )
    late = late.set_column(6, facts.schema.field(6), pa.array([0, 1, 4, 2, 3, 5], pa.int64()))
    assert [facts.schema.field(i).name for i in (5, 6)] == ["ts", "order"]
    found = in_order(late.sort_by("offset"))
    assert found.column("correlation").to_pylist() == facts.column("correlation").to_pylist()
    assert in_order(facts).equals(facts)


def test_however_directions_lag_the_result_is_that_of_the_order_of_time() -> None:
    watched = watch(generate("casual", seed=3, messages=600, connections=4, violations=0.05))
    for seed in range(4):
        rng = Random(seed)
        order, step = TimeOrder(), ViolationsOfFacts()
        found = []
        left: dict[tuple[str, str], pa.Table] = {}
        feeds = list(watched.randomly(seed, 6))
        for fed in feeds:
            last = fed is feeds[-1]
            rows = pa.concat_tables([fed.facts, *left.values()])
            left, told = {}, []
            for name in sorted(set(rows.column("connection").to_pylist())):
                for way in (UP, DOWN):
                    if lags := not last and rng.random() < 0.4:
                        mask = pa.compute.and_(
                            pa.compute.equal(rows.column("connection"), name),
                            pa.compute.equal(rows.column("direction"), way),
                        )
                        left[name, way], rows = rows.filter(mask), rows.filter(pa.compute.invert(mask))
                    told.append(account(name, way, int(lags)))
            ready = order.take(rows, DAMAGE.empty_table(), accounts(*told), final=last)
            found.append(step.feed(ready.facts, fed.connections, ready.quarantined))
        assert rules(pa.concat_tables(found)) == expected(watched)
