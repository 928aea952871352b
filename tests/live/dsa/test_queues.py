"""Queues of subscribers, against a model that says plainly what section 12 promises."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from wirelake.live.dsa.connection import covers
from wirelake.live.dsa.queues import (
    DEFAULT_BYTES,
    DEFAULT_SECONDS,
    DURABLE,
    MOST_BYTES,
    MOST_SECONDS,
    NEWEST,
    WHILE_CONNECTED,
    Queue,
    Update,
    Wish,
)


def value(text: bytes = b"\x00\x00\x01") -> Update:
    return Update([(b"", text)])


def sent(queue: Queue, now: float = 0.0) -> list[bytes]:
    """Everything that there is to send, one body after the other."""
    bodies = []
    while (item := queue.next()) is not None:
        bodies.append(item.update.pages[item.sent][1])
        queue.page_sent(item, len(bodies), now)
    return bodies


def test_wishes_have_defaults_and_limits() -> None:
    assert Wish.of(None, None, None) == Wish(0, DEFAULT_BYTES, DEFAULT_SECONDS)
    assert Wish.of(2, 0, -5) == Wish(2, DEFAULT_BYTES, DEFAULT_SECONDS)
    assert Wish.of(3, 1 << 30, 1 << 30) == Wish(3, MOST_BYTES, MOST_SECONDS)
    assert Wish(1, 10, 99).joined(Wish(0, 20, 5, True)) == Wish(1, 20, 99, True)


def test_acknowledgements_cover_what_came_before_also_behind_the_largest_id() -> None:
    assert covers(5, 5) and covers(5, 1) and not covers(5, 6)
    assert covers(2, (1 << 32) - 1) and not covers((1 << 32) - 1, 2)


def test_only_the_newest_value_is_sent_and_a_status_replaces_no_value() -> None:
    queue = Queue(Wish())
    for body in (b"1", b"2"):
        queue.put(value(body), 0.0)
    queue.put(Update([(b"", b"")], 0x0E), 0.0)
    queue.put(Update([(b"", b"")], 0x0E), 0.0)
    assert sent(queue) == [b"2", b""]
    assert not queue.losses


def test_too_much_drops_all_but_the_last_and_says_so() -> None:
    queue = Queue(Wish(WHILE_CONNECTED, 100, 60))
    for number in range(6):
        queue.put(value(bytes((number,))), 0.0)
    assert sent(queue) == [b"\x05"] and queue.losses == 5 and queue.has_lost


def test_a_message_larger_than_the_queue_is_kept() -> None:
    queue = Queue(Wish(WHILE_CONNECTED, 10, 60))
    queue.put(value(b"x" * 1000), 0.0)
    assert sent(queue) == [b"x" * 1000]


def test_too_old_is_dropped_but_never_the_last() -> None:
    queue = Queue(Wish(WHILE_CONNECTED, 1000, 60))
    queue.put(value(b"1"), 0.0)
    queue.put(value(b"2"), 10.0)
    queue.put(value(b"3"), 65.0)
    queue.trim(200.0)
    assert sent(queue) == [b"3"] and queue.losses == 2


def test_a_group_that_is_being_sent_stays_when_there_is_too_much() -> None:
    queue = Queue(Wish(WHILE_CONNECTED, 100, 60))
    group = Update([(b"a", b"p0")], is_whole=False)
    queue.put(group, 0.0)
    item = queue.next()
    assert item is not None
    queue.page_sent(item, 1, 0.0)
    group.pages.append((b"b", b"p1"))
    group.is_whole = True
    queue.grow(group, 20, 0.0)
    for number in range(9):
        queue.put(value(bytes((number,))), 0.0)
    assert sent(queue) == [b"p1", b"\x06", b"\x07", b"\x08"] and queue.losses == 6


def test_a_group_is_sent_as_it_comes_and_not_at_all_once_it_is_broken() -> None:
    queue = Queue(Wish(WHILE_CONNECTED, 1000, 60))
    group = Update([(b"", b"p0")], is_whole=False)
    queue.put(group, 0.0)
    assert sent(queue) == [b"p0"] and queue.next() is None
    group.is_broken = True
    queue.put(value(b"next"), 0.0)
    assert sent(queue) == [b"next"] and not queue.has_lost


def test_what_is_not_acknowledged_is_sent_again_from_its_first_page() -> None:
    queue = Queue(Wish(DURABLE, 1000, 60))
    group = Update([(b"", b"p0"), (b"", b"p1")])
    for update in (value(b"1"), group, value(b"2")):
        queue.put(update, 0.0)
    assert sent(queue) == [b"1", b"p0", b"p1", b"2"]
    assert queue.acked(2) and queue.first == 2, "one page of a group was acknowledged, not all"
    queue.disconnected(1.0, has_acks=True)
    assert sent(queue) == [b"p0", b"p1", b"2"]
    queue.disconnected(100.0, has_acks=False)
    assert sent(queue) == [], "who never acknowledges gets nothing twice"


def test_what_was_sent_a_moment_ago_may_still_be_acknowledged_however_old_it_is() -> None:
    queue = Queue(Wish(DURABLE, 1000, 600))
    queue.put(value(b"1"), 0.0)
    assert sent(queue, 100.0) == [b"1"]
    queue.disconnected(101.0, has_acks=False)
    assert sent(queue, 102.0) == [b"1"]
    queue.disconnected(101.0, has_acks=False)
    assert sent(queue, 150.0) == [b"1"], "the connection was silent from then on"
    queue.disconnected(181.0, has_acks=False)
    assert sent(queue) == []


class Life(RuleBasedStateMachine):
    """A subscriber with a durable queue: connected or not, acknowledging or not."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = Queue(Wish(DURABLE, 200, 50))
        self.now = 0.0
        self.ack_id = 0
        self.count = 0
        self.wanted: list[tuple[int, float]] = []
        """What the model keeps, oldest first: number and time."""
        self.in_flight: list[tuple[int, int, float]] = []
        self.got: list[int] = []
        self.is_told = False

    @rule()
    def put(self) -> None:
        self.count += 1
        self.queue.put(value(self.count.to_bytes(4, "big")), self.now)
        self.wanted.append((self.count, self.now))
        self._drop_old()
        if sum(21 for _ in self.wanted) > 200:
            self.is_told |= len(self.wanted) > 1
            self.wanted = self.wanted[-1:]

    @rule(seconds=st.floats(0.0, 30.0))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    def _drop_old(self) -> None:
        while len(self.wanted) > 1 and self.wanted[0][1] < self.now - 50:
            self.wanted.pop(0)
            self.is_told = True

    @rule()
    def send(self) -> None:
        item = self.queue.next()
        assert (item is None) == (not self.wanted)
        if item is not None:
            assert self.queue.has_lost == self.is_told
            self.queue.has_lost = self.is_told = False
            self.ack_id += 1
            number, at = self.wanted.pop(0)
            assert int.from_bytes(item.update.pages[0][1], "big") == number
            self.queue.page_sent(item, self.ack_id, self.now)
            self.in_flight.append((self.ack_id, number, at))
            while sum(21 for _ in self.in_flight) > 200:
                self.in_flight.pop(0)

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        last = data.draw(st.sampled_from(self.in_flight))
        assert self.queue.acked(last[0])
        self.in_flight = [entry for entry in self.in_flight if entry[0] > last[0]]

    @rule()
    def cut(self) -> None:
        self.queue.disconnected(self.now, has_acks=True)
        self.wanted = [(number, at) for _, number, at in self.in_flight] + self.wanted
        self.in_flight = []

    @invariant()
    def is_as_the_model_says(self) -> None:
        kept = [int.from_bytes(item.update.pages[0][1], "big") for item in self.queue.waiting]
        assert kept == [number for number, _ in self.wanted]
        assert [item.ack_id for item in self.queue.unacked] == [entry[0] for entry in self.in_flight]
        numbers = [item.number for item in (*self.queue.unacked, *self.queue.waiting)]
        assert numbers == sorted(numbers) and self.queue.first == (numbers[0] if numbers else self.queue.next_number)
        assert self.queue._bytes == 21 * len(kept)


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_a_change_to_the_newest_value_only_drops_the_others() -> None:
    queue = Queue(Wish(DURABLE, 1000, 60))
    for body in (b"1", b"2", b"3"):
        queue.put(value(body), 0.0)
    queue.change(Wish(NEWEST), 0.0)
    assert sent(queue) == [b"3"] and not queue.unacked
