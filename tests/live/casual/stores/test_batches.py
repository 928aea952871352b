"""Requests of one batch have the results that they have one after the other."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.live.casual.stores.stores import QUEUES, SECOND, Asking, T, uuid, xid
from wirelake.live.casual.store import (
    NIL,
    Begin,
    Commit,
    Dequeue,
    Enqueue,
    Enqueued,
    Find,
    ListQueues,
    PeerBranch,
    Prepare,
    QueueMessage,
    Request,
    Rollback,
    Told,
)
from wirelake.live.casual.stores import MemoryStore
from wirelake.live.core.effects import Done

SEEDS = range(40)
REQUESTS = 250


def requests(chance: random.Random) -> Iterator[Request]:
    """Yield work of a few branches, and of none, in any order: much of it comes too late, or twice."""
    for number in range(REQUESTS):
        now = T + number
        branch = xid(chance.randrange(12))
        peers = (PeerBranch("peer", xid(99), -1),) if chance.random() < 0.2 else ()
        queue = chance.choice(("a", "b", "small", "missing"))
        match chance.randrange(10):
            case 0 | 1 | 2:
                is_unique = chance.random() < 0.7
                ident = uuid(1_000 + number) if is_unique else uuid(chance.randrange(1, 20))
                properties = chance.choice(("", "", "p"))
                message = QueueMessage(ident, properties, available=chance.choice((0, 0, now + 20)), payload=b"x")
                yield Enqueue(queue, message, chance.choice((None, branch)), now, is_unique)
            case 3:
                yield Dequeue(queue, NIL, chance.choice(("", "p")), chance.choice((None, branch)), now)
            case 4:
                yield Find(branch)
            case 5:
                yield Begin(branch, peers, now) if chance.random() < 0.3 else Find(branch)
            case 6 | 7:
                yield Prepare(branch, peers, now)
            case 8:
                yield Commit(branch, peers, chance.choice((0, now + SECOND)), now)
            case _:
                is_told = chance.random() < 0.2
                yield Told(branch, now + SECOND, now) if is_told else Rollback(branch, peers, now + SECOND, now)


def content(store: MemoryStore) -> list[Any]:
    """Return what the tables hold. Numbers of rows tell the order of one batch, which nobody sees."""
    columns = "queue, id, state, branch, owner, timestamp, available, redelivered, properties"
    return [
        store._connection.execute(f"SELECT {columns} FROM messages ORDER BY id").fetchall(),
        store._connection.execute("SELECT * FROM branches ORDER BY xid").fetchall(),
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_batch_has_the_results_of_its_requests_one_after_the_other(seed: int) -> None:
    chance = random.Random(seed)
    all_requests = list(requests(chance))
    together, apart = MemoryStore(QUEUES), MemoryStore(QUEUES)
    at = 0
    while at < len(all_requests):
        batch = all_requests[at : at + chance.randrange(1, 40)]
        at += len(batch)
        assert together.run(batch) == [Done(apart.apply(request)) for request in batch]
        assert content(together) == content(apart)


def test_a_batch_of_all_kinds_is_carried_out_by_every_store(ask: Asking) -> None:
    branches = [xid(number) for number in range(5)]
    added = [Enqueue("a", QueueMessage(uuid(n + 1)), branch, T + n, True) for n, branch in enumerate(branches)]
    plain = Enqueue("a", QueueMessage(uuid(50), "p", available=0), None, T + 9, True)
    batch = [*map(Find, branches), *added, plain, *(Prepare(branch, (), T + 10) for branch in branches)]
    batch += [Commit(branch, (), T + SECOND, T + 11) for branch in branches[:3]]
    batch += [Rollback(branch, (), T + SECOND, T + 11) for branch in branches[3:]]
    results = ask.store.run([*batch, ListQueues(T + 12)])
    values = [result.value for result in results]
    assert values[:5] == [None] * 5
    assert [value.id for value in values[5:11]] == [uuid(n) for n in (1, 2, 3, 4, 5, 50)]
    assert [value.record for value in values[11:16]] == [None] * 5
    assert [len(value.ready) for value in values[16:21]] == [1, 1, 1, 0, 0]
    assert next(report.ready for report in values[-1] if report.name == "a") == 4
    assert ask.take_all() == [1, 2, 3, 50]


def test_an_id_that_was_to_be_unique_and_is_in_use_is_refused_alone(ask: Asking) -> None:
    assert ask.put(1) == uuid(1)
    requests = [Enqueue("a", QueueMessage(uuid(n)), None, T + n, True) for n in (2, 1, 3)]
    first, second, third = ask.store.run(requests)
    assert (first.value.id, third.value.id) == (uuid(2), uuid(3))
    assert not isinstance(second, Done)
    assert ask.take_all() == [1, 2, 3]
    assert isinstance(first.value, Enqueued)
