"""What waits for a slow application: bounded, in order, and reading stops, or the oldest go."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.live.drive.connection import Reconnect
from wirelake.live.drive.inbox import URGENT_BYTES, Flow, Inbox


class Transport:
    """Counts what is asked of it."""

    def __init__(self) -> None:
        self.is_reading = True

    def stop(self, _: object) -> None:
        assert self.is_reading
        self.is_reading = False

    def go(self, _: object) -> None:
        assert not self.is_reading
        self.is_reading = True


def flow(transport: Transport, urgent: list[int] | None = None) -> Flow:
    made = Flow(lambda: bool(urgent))
    made.attach(transport)  # type: ignore[arg-type]
    return made


def test_reading_stops_when_it_is_full_and_goes_on_when_half_of_it_is_taken():
    async def main() -> None:
        transport = Transport()
        inbox: Inbox[int] = Inbox(flow(transport), 4)
        for number in range(4):
            assert transport.is_reading
            inbox.put(number)
        assert not transport.is_reading
        assert [await inbox.get()] == [0]
        assert not transport.is_reading
        assert await inbox.get() == 1
        assert transport.is_reading

    asyncio.run(main())


def test_while_an_answer_is_awaited_reading_goes_on_up_to_a_higher_limit():
    transport, urgent = Transport(), [1]
    gate = flow(transport, urgent)
    inbox: Inbox[int] = Inbox(gate, 2)
    for number in range(15):
        inbox.put(number, URGENT_BYTES // 16)
    assert transport.is_reading
    inbox.put(0, URGENT_BYTES // 16)
    assert not transport.is_reading
    urgent.clear()
    gate.settle()
    assert not transport.is_reading
    inbox.discard()
    assert transport.is_reading


def test_two_inboxes_both_have_to_have_room():
    transport = Transport()
    gate = flow(transport)
    one: Inbox[int] = Inbox(gate, 1)
    other: Inbox[int] = Inbox(gate, 1)
    one.put(1)
    other.put(1)
    one.discard()
    assert not transport.is_reading
    other.discard()
    assert transport.is_reading


def test_a_new_connection_is_not_read_from_if_the_application_is_behind():
    gate = flow(Transport())
    inbox: Inbox[int] = Inbox(gate, 1)
    inbox.put(1)
    gate.attach(None)
    transport = Transport()
    gate.attach(transport)
    assert not transport.is_reading
    gate.open()
    assert transport.is_reading


@given(st.lists(st.integers(), max_size=40), st.integers(1, 10))
def test_dropping_keeps_the_newest_in_order_and_counts_the_rest(numbers: list[int], most: int):
    async def main() -> None:
        transport = Transport()
        inbox: Inbox[int] = Inbox(flow(transport), most, drops=True)
        for number in numbers:
            inbox.put(number)
        inbox.end()
        taken = []
        with pytest.raises(StopAsyncIteration):
            while True:
                taken.append(await inbox.get())
        assert taken == numbers[-most:]
        assert inbox.dropped == max(0, len(numbers) - most)
        assert transport.is_reading

    asyncio.run(main())


def test_what_has_come_is_given_before_the_end_and_the_error():
    async def main() -> None:
        inbox: Inbox[int] = Inbox(flow(Transport()))
        inbox.put(1)
        inbox.end(ConnectionError("gone"))
        inbox.put(2)
        assert await inbox.get() == 1
        for _ in range(2):
            with pytest.raises(ConnectionError, match="gone"):
                await inbox.get()

    asyncio.run(main())


def test_a_reader_that_gives_up_loses_nothing():
    async def main() -> None:
        inbox: Inbox[int] = Inbox(flow(Transport()))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(inbox.get(), 0.01)
        inbox.put(1)
        assert await inbox.get() == 1

    asyncio.run(main())


def test_two_readers_of_one_inbox_are_a_mistake():
    async def main() -> None:
        inbox: Inbox[int] = Inbox(flow(Transport()))
        first = asyncio.ensure_future(inbox.get())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="somebody else"):
            await inbox.get()
        inbox.put(5)
        assert await first == 5

    asyncio.run(main())


def test_at_least_one_message_has_to_fit():
    with pytest.raises(ValueError, match="at least one"):
        Inbox(flow(Transport()), 0)


@given(st.integers(0, 2000), st.integers())
def test_the_waits_between_attempts_grow_up_to_their_limit(failures: int, seed: int):
    policy = Reconnect(seconds=1, most_seconds=30, jitter=0.2)
    wait = policy.delay(failures, random.Random(seed))
    steady = min(2**failures, 30)
    assert 0.8 * steady <= wait <= 1.2 * steady
