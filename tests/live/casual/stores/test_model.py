"""Queues against a small model of them: whatever happens in whatever order, store and model have the same messages.

Dequeues that wait are those of a session: they are tried again only when the store says that something is ready, or
will be. None may wait while the model has a message for it.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.live.casual.stores.stores import SECOND, T, uuid, wipe, xid
from tests.live.postgres import PostgresServer
from wirelake.live.casual.store import (
    NIL,
    Commit,
    Dequeue,
    Enqueue,
    Load,
    Peek,
    Prepare,
    QueueMessage,
    QueueSettings,
    Ready,
    Rollback,
    Settled,
)
from wirelake.live.casual.stores import MemoryStore, open_store
from wirelake.live.core.effects import Done
from wirelake.protocols.casual import Xid

SETTINGS = {
    "at once": QueueSettings("at once", retries=0),
    "later": QueueSettings("later", retries=1, retry_seconds=3),
}
QUEUES = tuple(f"{name}{end}" for name in SETTINGS for end in ("", ".error"))


@dataclass
class Kept:
    """A message of the model."""

    queue: str
    id: bytes
    properties: str
    available: int
    timestamp: int
    redelivered: int = 0
    branch: Xid | None = None
    is_taken: bool = False


@dataclass
class Model:
    """The rules of queues, as few lines as they take."""

    kept: list[Kept] = field(default_factory=list)

    def candidates(self, queue: str, id: bytes, properties: str, now: int) -> list[Kept]:
        free = [one for one in self.kept if one.queue == queue and one.branch is None]
        if id != NIL:
            return [one for one in free if one.id == id]
        fitting = [one for one in free if one.available < now and properties in ("", one.properties)]
        return sorted(fitting, key=lambda one: (one.timestamp, one.available))

    def commit(self, branch: Xid) -> None:
        self.kept = [one for one in self.kept if one.branch != branch or not one.is_taken]
        for one in self.kept:
            one.branch = None if one.branch == branch else one.branch

    def roll_back(self, branch: Xid, now: int) -> None:
        self.kept = [one for one in self.kept if one.branch != branch or one.is_taken]
        for one in [one for one in self.kept if one.branch == branch]:
            about = SETTINGS.get(one.queue, QueueSettings("error", retries=1_000_000))
            one.branch, one.is_taken, one.redelivered = None, False, one.redelivered + 1
            one.available = now + int(about.retry_seconds * SECOND) if about.retry_seconds else 0
            if one.redelivered > about.retries:
                one.queue, one.redelivered, one.available = f"{one.queue}.error", 0, 0


# --- processes that crash


class MemoryProcess:
    """What was synced is replayed, as a simulated disk does it."""

    def __init__(self) -> None:
        self._log: list[Any] = []
        self._store = MemoryStore(SETTINGS.values())

    def run(self, request: Any) -> Any:
        self._log.append(request)
        return self._store.apply(request)

    def crash(self) -> None:
        self._store.close()
        self._store = MemoryStore(SETTINGS.values())
        for request in self._log:
            self._store.apply(request)

    def close(self) -> None:
        self._store.close()


class StoreProcess:
    """A store that is open while somebody else begins where it is, as after kill -9."""

    def __init__(self) -> None:
        self._store = self.open()

    def open(self) -> Any:
        raise NotImplementedError

    def run(self, request: Any) -> Any:
        (result,) = self._store.run([request])
        assert isinstance(result, Done), result
        return result.value

    def crash(self) -> None:
        old = self._store
        self._store = self.open()
        old.close()

    def close(self) -> None:
        self._store.close()


class SqliteProcess(StoreProcess):
    """Its files are copied as they are: the log has not been moved into the file."""

    def __init__(self) -> None:
        self._directories = [Path(tempfile.mkdtemp())]
        super().__init__()

    def open(self) -> Any:
        last = self._directories[-1]
        if (last / "store.db").exists():
            self._directories.append(Path(tempfile.mkdtemp()))
            for file in last.glob("store.db*"):
                if file.suffix != ".lock" and not file.name.endswith("-shm"):
                    shutil.copy(file, self._directories[-1] / file.name)
        return open_store(self._directories[-1] / "store.db", SETTINGS.values())

    def close(self) -> None:
        super().close()
        for directory in self._directories:
            shutil.rmtree(directory)


class PostgresProcess(StoreProcess):
    """Its connection ends."""

    def __init__(self, url: str) -> None:
        self._url = url
        wipe(url)
        super().__init__()

    def open(self) -> Any:
        return open_store(self._url, SETTINGS.values())

    def crash(self) -> None:
        self._store.close()
        self._store = self.open()


# --- the machine


@dataclass(frozen=True)
class Waiting:
    queue: str
    properties: str
    branch: Xid | None


queues = st.sampled_from(list(SETTINGS))
properties = st.sampled_from(["", "", "", "p"])
delays = st.sampled_from([None, 1, 2 * SECOND])
numbers = st.sampled_from([1, 2])
branches = st.none() | numbers


class Machine(RuleBasedStateMachine):
    make: Any

    @initialize()
    def begin(self) -> None:
        self.process = type(self).make()
        self.model = Model()
        self.now = T
        self.ids = count(1)
        self.xids = count(1)
        self.active = {number: xid(next(self.xids)) for number in (1, 2)}
        self.prepared: list[Xid] = []
        self.finished: list[Xid] = []
        self.waiting: list[Waiting] = []
        self.wake_at: dict[str, int] = {}
        self.process.run(Load(self.now))

    def teardown(self) -> None:
        if hasattr(self, "process"):
            self.process.close()

    def branch(self, number: int | None) -> Xid | None:
        return None if number is None else self.active[number]

    @rule(wanted=st.lists(st.tuples(queues, properties, delays), min_size=1, max_size=5), number=branches)
    def enqueue(self, wanted: list[tuple[str, str, int | None]], number: int | None) -> None:
        for queue, properties, delay in wanted:
            self.advance(1)
            available = 0 if delay is None else self.now + delay
            message = QueueMessage(uuid(next(self.ids)), properties, available=available)
            enqueued = self.process.run(Enqueue(queue, message, self.branch(number), self.now))
            assert enqueued.id == message.id
            self.model.kept.append(Kept(queue, message.id, properties, available, self.now, 0, self.branch(number)))
            self.serve(enqueued.ready)

    @rule(queue=queues, properties=properties, number=branches, times=st.integers(1, 3))
    def dequeue(self, queue: str, properties: str, number: int | None, times: int) -> None:
        for _ in range(times):
            self.advance(1)
            self.take(queue, NIL, properties, self.branch(number))

    @rule(queue=st.sampled_from(QUEUES), properties=properties, number=branches)
    def dequeue_or_wait(self, queue: str, properties: str, number: int | None) -> None:
        self.advance(1)
        if not self.take(queue, NIL, properties, self.branch(number)):
            self.waiting.append(Waiting(queue, properties, self.branch(number)))

    @rule(place=st.integers(0, 5), number=branches)
    def dequeue_by_id(self, place: int, number: int | None) -> None:
        self.advance(1)
        if self.model.kept:
            one = self.model.kept[place % len(self.model.kept)]
            self.take(one.queue, one.id, "ignored", self.branch(number))

    def take(self, queue: str, id: bytes, properties: str, branch: Xid | None) -> bool:
        """Dequeue, as the model does; return whether there was a message."""
        dequeued = self.process.run(Dequeue(queue, id, properties, branch, self.now))
        found = self.model.candidates(queue, id, properties, self.now)
        if dequeued.next_available is not None:
            self.wake_at[queue] = dequeued.next_available
        if not found:
            assert dequeued.message is None
            return False
        kept, message = found[0], dequeued.message
        assert message is not None
        taken = (message.id, message.available, message.timestamp, message.redelivered)
        assert taken == (kept.id, kept.available, kept.timestamp, kept.redelivered)
        if branch is None:
            self.model.kept.remove(kept)
        else:
            kept.branch, kept.is_taken = branch, True
        return True

    @rule(number=numbers)
    def prepare(self, number: int) -> None:
        branch = self.active[number]
        assert self.process.run(Prepare(branch, (), self.now)) == Settled()
        self.prepared.append(branch)
        self.close(number)

    @rule(number=numbers, is_commit=st.booleans())
    def end_in_one_phase(self, number: int, is_commit: bool) -> None:
        branch = self.active[number]
        self.close(number)
        self.end(branch, is_commit)

    @precondition(lambda self: self.prepared)
    @rule(place=st.integers(0, 3), is_commit=st.booleans())
    def end_what_is_prepared(self, place: int, is_commit: bool) -> None:
        self.end(self.prepared.pop(place % len(self.prepared)), is_commit)

    def close(self, number: int) -> None:
        """This branch takes no more work, and what waits for it has its reply; the next of this number is another."""
        self.waiting = [one for one in self.waiting if one.branch != self.active[number]]
        self.active[number] = xid(next(self.xids))

    def end(self, branch: Xid, is_commit: bool) -> None:
        self.advance(1)
        kind = Commit if is_commit else Rollback
        settled = self.process.run(kind(branch, (), self.now + 100 * SECOND, self.now))
        if is_commit:
            self.model.commit(branch)
        else:
            self.model.roll_back(branch, self.now)
        self.finished.append(branch)
        self.serve(settled.ready)

    @precondition(lambda self: self.prepared or self.finished)
    @rule(place=st.integers(0, 5), is_commit=st.booleans())
    def work_comes_too_late(self, place: int, is_commit: bool) -> None:
        """Nothing changes any more in a branch that is prepared, but its end, and nothing at all in a finished one."""
        closed = [*self.prepared, *self.finished]
        branch = closed[place % len(closed)]
        message = QueueMessage(uuid(next(self.ids)))
        assert self.process.run(Enqueue("later", message, branch, self.now)).id == NIL
        assert self.process.run(Dequeue("later", NIL, "", branch, self.now)).message is None
        if branch in self.finished:
            kind = Commit if is_commit else Rollback
            assert self.process.run(kind(branch, (), self.now + 100 * SECOND, self.now)).ready == ()

    @rule(seconds=st.sampled_from([1, 2, 5]))
    def time_passes(self, seconds: int) -> None:
        self.advance(seconds * SECOND)

    def advance(self, nanoseconds: int) -> None:
        """Let time pass, and wake those who wait for what has become available."""
        self.now += nanoseconds
        due = [queue for queue, at in self.wake_at.items() if at <= self.now]
        for queue in due:
            del self.wake_at[queue]
            for one in [one for one in self.waiting if one.queue == queue]:
                self.try_again(one)

    @rule()
    def crash(self) -> None:
        self.waiting.clear()
        self.wake_at.clear()
        self.process.crash()
        self.now += SECOND
        self.process.run(Load(self.now))
        for number, branch in list(self.active.items()):
            self.model.roll_back(branch, self.now)
            self.close(number)

    def serve(self, ready: tuple[Ready, ...]) -> None:
        """Give what is ready to the first that waits for it."""
        for one in ready:
            if one.available >= self.now:
                self.wake_at[one.queue] = min(one.available + 1, self.wake_at.get(one.queue, one.available + 1))
                continue
            for waiting in self.waiting:
                if waiting.queue == one.queue and waiting.properties in ("", one.properties):
                    self.try_again(waiting)
                    break

    def try_again(self, waiting: Waiting) -> None:
        if self.take(waiting.queue, NIL, waiting.properties, waiting.branch):
            self.waiting.remove(waiting)

    @invariant()
    def nobody_waits_for_what_is_there(self) -> None:
        for one in self.waiting if hasattr(self, "process") else []:
            assert self.model.candidates(one.queue, NIL, one.properties, self.now) == []

    @invariant()
    def the_store_has_what_the_model_has(self) -> None:
        for queue in QUEUES if hasattr(self, "process") else ():
            stored = [(one.id, one.redelivered, one.available) for one in self.process.run(Peek(queue, 1_000))]
            free = [one for one in self.model.kept if one.queue == queue and one.branch is None]
            free.sort(key=lambda one: (one.timestamp, one.available))
            assert stored == [(one.id, one.redelivered, one.available) for one in free]


@pytest.mark.parametrize(("kind", "examples"), [("memory", 100), ("sqlite", 10), ("postgresql", 10)])
def test_queues_are_what_the_model_says(kind: str, examples: int, request: pytest.FixtureRequest) -> None:
    if kind == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.new_database()
        make: Any = staticmethod(lambda: PostgresProcess(url))
    else:
        make = {"memory": MemoryProcess, "sqlite": SqliteProcess}[kind]
    machine = type("TheMachine", (Machine,), {"make": make})
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=40))  # type: ignore[arg-type]
