"""Several hubs on one database."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from tests.live.casual.stores.stores import QUEUES, SECOND, Asking, T, uuid, xid
from tests.live.postgres import PostgresServer
from tests.waiting import wait_until
from wirelake.live.casual.store import (
    NIL,
    BranchRecord,
    Commit,
    Dequeue,
    Enqueue,
    Find,
    Load,
    Loaded,
    PeerBranch,
    Prepare,
    QueueMessage,
    Ready,
    Rollback,
)
from wirelake.live.casual.stores import open_store

PEERS = (PeerBranch("127.0.0.1:1", xid(1, b"down"), -1),)


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.new_database()


@pytest.fixture
def hubs(url: str) -> Iterator[list[Asking]]:
    hubs = [Asking(lambda: open_store(url, QUEUES)) for _ in range(2)]
    yield hubs
    for hub in hubs:
        hub.store.close()


def test_what_one_hub_enqueues_another_dequeues(hubs: list[Asking]) -> None:
    one, other = hubs
    assert one.store.is_shared
    one.put(1)
    message = other.take()
    assert message is not None
    assert message.id == uuid(1)
    assert one.take() is None


def test_what_one_hub_has_taken_the_other_does_not_see(hubs: list[Asking]) -> None:
    one, other = hubs
    one.put(1)
    one.take(branch=xid(1))
    one.put(2, branch=xid(1))
    assert other.take() is None
    assert other(Load(T + 5)) == Loaded(())
    assert one(Rollback(xid(1), (), 0, T)).ready == (Ready("a", uuid(1), "", 0),)
    assert other.take_all() == [1]


def test_a_branch_that_one_hub_prepared_the_other_commits(hubs: list[Asking]) -> None:
    one, other = hubs
    one.put(1, branch=xid(1))
    one(Prepare(xid(1), PEERS, T))
    assert other(Find(xid(1))) == BranchRecord(xid(1), "prepared", PEERS, since=T)
    assert other(Commit(xid(1), (), T + SECOND, T + 1)).ready == (Ready("a", uuid(1), "", 0),)
    settled = one(Commit(xid(1), (), T + SECOND, T + 2))
    assert (settled.ready, settled.record.state) == ((), "committed")
    assert one.take_all() == [1]


def _taken_over(hub: Asking) -> Loaded:
    """Load what another hub has left: the server lets go of its lock a moment after its connection is closed."""
    found = Loaded(())

    def is_there() -> bool:
        nonlocal found
        found = hub(Load(T + 5))
        return found != Loaded(())

    wait_until(is_there)
    return found


def test_the_work_of_a_hub_that_died_comes_back_to_the_others(hubs: list[Asking]) -> None:
    one, other = hubs
    one.put(1)
    one.take(branch=xid(1))
    one.put(2, branch=xid(2))
    one(Prepare(xid(2), PEERS, T))
    one.store.close()
    loaded = _taken_over(other)
    assert loaded == Loaded((BranchRecord(xid(2), "prepared", PEERS, since=T),), (Ready("a", uuid(1), "", 0),))
    assert other(Load(T + 6)) == Loaded(())
    assert other.take_all() == [1]
    other(Commit(xid(2), (), 0, T + 7))
    assert other.take_all() == [2]


def test_the_work_of_a_hub_that_was_killed_comes_back(url: str, hubs: list[Asking]) -> None:
    hubs[0].put(1)
    script = f"""if True:
        import sys
        from tests.live.casual.stores.stores import QUEUES, Asking, xid
        from wirelake.live.casual.stores import open_store
        hub = Asking(lambda: open_store({url!r}, QUEUES))
        assert hub.take(branch=xid(1)) is not None
        print("taken", flush=True)
        sys.stdin.read()"""
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"taken\n"
    assert hubs[1](Load(T + 5)) == Loaded(())
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert process.stdin is not None
    process.stdin.close()
    ready: tuple[Ready, ...] = ()
    for attempt in range(1_000):  # the server has to notice that the connection is gone
        ready = hubs[1](Load(T + 6 + attempt)).ready
        if ready:
            break
    assert ready == (Ready("a", uuid(1), "", 0),)


def test_hubs_that_dequeue_at_the_same_time_get_different_messages(url: str) -> None:
    """Batches of three hubs: nobody waits for a row that another has, and no message is lost or doubled."""
    hubs = [open_store(url, QUEUES) for _ in range(3)]
    numbers = range(300)
    hubs[0].run([Enqueue("a", QueueMessage(uuid(number)), None, T + number) for number in numbers])
    taken: list[bytes] = []

    def work(place: int) -> None:
        branch = xid(place)
        hub = hubs[place]
        for turn in range(40):
            use = branch if turn % 2 else None
            results = hub.run([Dequeue("a", NIL, "", use, T + SECOND) for _ in range(5)])
            taken.extend(result.value.message.id for result in results if result.value.message is not None)
        hub.run([Commit(branch, (), 0, T)])

    threads = [threading.Thread(target=work, args=(place,)) for place in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == [uuid(number) for number in numbers]
    for hub in hubs:
        hub.close()
