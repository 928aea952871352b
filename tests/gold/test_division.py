"""What is undecided goes to other buckets, again and again, and no row of any table changes."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from wirelake.capture.quarantine import QUARANTINE
from wirelake.generate import generate
from wirelake.gold.declarations import Declarations
from wirelake.gold.division import divided, divided_transactions
from wirelake.gold.steps import GoldSteps
from wirelake.gold.transactions import Transactions, TransactionsCarry

from .matched import repacked
from .watched import Watched, watch


class Buckets:
    """Steps by bucket, and the rows that they give."""

    def __init__(self, protocol: str) -> None:
        self.conduct = Declarations().conduct(protocol)
        self.steps, self.count, self.most = {0: GoldSteps()}, 1, 1
        self.rows: dict[str, Counter[str]] = {"exchanges": Counter(), "violations": Counter(), "sessions": Counter()}
        self.events: list[pa.Table] = []

    def place(self, connection: str, _: str | None = None) -> int:
        return (7 if self.conduct.brokered else int(connection[1:], 16)) % self.count

    def share(self, table: pa.Table, number: int) -> pa.Table:
        names = pc.unique(table["connection"]).to_pylist()
        mine = [name for name in names if self.place(name) == number]
        return table.filter(pc.is_in(table["connection"], value_set=pa.array(mine, pa.string())))

    def feed(self, watched: Watched, counts: tuple[int, ...]) -> None:
        for fed, count in zip(watched.randomly(3, len(counts)), (*counts, 1), strict=True):
            for number in range(self.count):
                steps = self.steps.setdefault(number, GoldSteps())
                mine = (self.share(table, number) for table in (fed.facts, fed.connections, fed.accounts))
                rows = steps.feed(*mine, QUARANTINE.empty_table())
                self.take("violations", rows.violations)
                self.take("exchanges", rows.exchanges)
                self.events.append(rows.events)
                self.settle(steps, fed.watermark)
            self.divide(count)
        for steps in self.steps.values():
            self.settle(steps, fed.watermark, final=True)

    def settle(self, steps: GoldSteps, now: int | None, final: bool = False) -> None:
        self.take("violations", steps.settle_violations(now, final))
        for table in steps.settle_exchanges(now, final):
            self.take("exchanges", table)
        self.take("sessions", steps.settle_sessions(now, final))

    def take(self, name: str, table: pa.Table) -> None:
        self.rows[name].update(map(str, table.to_pylist()))

    def divide(self, count: int) -> None:
        carries = [repacked(steps.carry()) for steps in self.steps.values()]
        self.count = count
        made = divided(carries, count, self.place, lambda _: 7 % count)
        assert set(made) <= set(range(count))
        self.most = max(self.most, len(made))
        self.steps = {number: GoldSteps(repacked(carry)) for number, carry in made.items()}


@pytest.mark.parametrize("protocol", ["casual", "dsa", "mb", "ceda"])
@pytest.mark.parametrize("counts", [(8, 3, 1, 64, 2), (1, 5, 5, 2, 7)])
def test_no_row_depends_on_the_buckets(protocol: str, counts: tuple[int, ...]) -> None:
    watched = watch(generate(protocol, seed=11, messages=600, connections=6, violations=0.05))
    alone, in_many = Buckets(protocol), Buckets(protocol)
    alone.feed(watched, (1,) * len(counts))
    in_many.feed(watched, counts)
    assert sum(alone.rows["exchanges"].values()) > 50 and alone.rows["violations"]
    assert in_many.rows == alone.rows and in_many.most >= (1 if protocol == "mb" else 5)


def test_transactions_go_on_in_other_parts() -> None:
    watched = watch(generate("casual", seed=5, messages=900, connections=6))
    buckets = Buckets("casual")
    buckets.feed(watched, (1, 1, 1, 1))
    expected, found = Transactions(), {0: TransactionsCarry()}
    rows: list[Counter[str]] = [Counter(), Counter()]
    for parts, events in zip((4, 1, 9, 2, 3), buckets.events, strict=True):
        rows[0].update(map(str, expected.feed(events).to_pylist()))
        made = {number: Transactions(repacked(carry)) for number, carry in found.items()}
        for number, one in made.items():
            mine = pa.array([part == number for part in places(events, len(found))], pa.bool_())
            rows[1].update(map(str, one.feed(events.filter(mine)).to_pylist()))
        divided_now = divided_transactions([repacked(one.carry()) for one in made.values()], parts)
        found = {number: divided_now.get(number, TransactionsCarry()) for number in range(parts)}
    rows[0].update(map(str, expected.settle(0, final=True).to_pylist()))
    for carry in found.values():
        rows[1].update(map(str, Transactions(carry).settle(0, final=True).to_pylist()))
    assert rows[0] == rows[1] and len(rows[0]) > 5


def places(events: pa.Table, parts: int) -> list[int]:
    from wirelake.gold.branch_events import part_of

    return part_of(events, parts).tolist()
