"""Acks, pings, time limits and turns: sections 8, 10 and 11.8."""

from __future__ import annotations

from collections import deque

from tests.live.dsa.play import Play, frames
from wirelake.live.core.link import Link
from wirelake.live.dsa import wire
from wirelake.live.dsa.connection import MOST_UNACKED, AckIds, Connection, covers
from wirelake.live.dsa.streams import MessageQueue
from wirelake.live.dsa.wire import DSA_TCP, Outgoing, Received
from wirelake.protocols import dsa as p
from wirelake.protocols.dsa import Headers


def connection(now: float = 0.0) -> tuple[Connection, Link, list[Received]]:
    link = Link(1, DSA_TCP, [])
    got: list[Received] = []
    made = Connection(link, got.append, now)
    made.establish(now)
    return made, link, got


def out(link: Link) -> list[Received]:
    return frames(link.take()) if link.out else []


def value(request_id: int, ack_id: int) -> bytes:
    return Outgoing(p.SUB_R, request_id, wire.OK, b"\0\0\x01").stamped(ack_id)


def acks(link: Link) -> list[int]:
    return [wire.read_ack(message) for message in out(link) if message.method == p.ACK]


class Source:
    """Sends its number as often as it was told."""

    def __init__(self, number: int, count: int, *, is_priority: bool = False, wants_ack: bool = False) -> None:
        self.number, self.left = number, count
        self.is_priority, self.wants_ack = is_priority, wants_ack
        self.heard: deque[int] = deque()

    def take(self, ack_id: int, now: float) -> Outgoing | None:
        if not self.left:
            return None
        self.left -= 1
        return Outgoing(p.SUB_R, self.number, wire.OK, b"", self.wants_ack)

    def acked(self, ack_id: int) -> None:
        self.heard.append(ack_id)


def test_one_ack_with_the_highest_id_follows_what_was_read() -> None:
    made, link, got = connection()
    made.receive(value(1, 5) + value(2, 7) + value(3, 6), 0.0)
    assert not link.out
    made.flush(0.0)
    assert acks(link) == [7]
    assert [message.request_id for message in got] == [1, 2, 3]
    made.flush(0.0)
    assert not link.out


def test_neither_ack_id_0_nor_control_messages_are_acknowledged() -> None:
    made, link, _ = connection()
    made.receive(value(1, 0) + wire.PING + wire.ack(9) + bytes.fromhex("0f0000000f00f90000000022000000"), 0.0)
    made.flush(0.0)
    assert not link.out


def test_the_close_without_ids_with_which_java_answers_an_ack_is_ignored() -> None:
    made, link, got = connection()
    made.receive(bytes.fromhex("0700000007000f"), 0.0)
    made.flush(0.0)
    assert not got
    assert not link.out
    assert link.closing is None


def test_ack_ids_count_from_1_and_skip_0_when_they_wrap() -> None:
    made, link, _ = connection()
    made.ack_ids.last = 0xFFFFFFFD
    for _ in range(4):
        made.write(Outgoing(p.CLOSE, 1))
    assert [message.ack_id for message in out(link)] == [0xFFFFFFFE, 0xFFFFFFFF, 1, 2]
    assert AckIds().following == 1


def test_an_ack_covers_what_was_sent_before_it_also_after_a_wrap() -> None:
    assert covers(5, 5)
    assert covers(6, 5)
    assert not covers(4, 5)
    assert covers(2, 0xFFFFFFFF)
    assert not covers(0xFFFFFFFF, 2)


def test_ids_that_wrap_are_acknowledged() -> None:
    made, link, _ = connection()
    made.receive(value(1, 0xFFFFFFFF), 0.0)
    made.flush(0.0)
    made.receive(value(1, 1), 0.0)
    made.flush(0.0)
    assert acks(link) == [0xFFFFFFFF, 1]


def test_a_held_message_and_what_follows_it_are_acknowledged_after_its_release() -> None:
    made, link, _ = connection()
    made.hold_ack(6)
    made.receive(value(1, 5) + value(1, 6) + value(1, 7), 0.0)
    made.flush(0.0)
    assert acks(link) == [5]
    made.release_ack(6)
    made.flush(0.0)
    assert acks(link) == [7]


def test_a_source_hears_of_its_acks() -> None:
    made, _, _ = connection()
    source = Source(1, 3, wants_ack=True)
    made.ready(source)
    made.flush(0.0)
    made.receive(wire.ack(2), 0.0)
    assert list(source.heard) == [1, 2]
    made.receive(wire.ack(2) + wire.ack(999), 0.0)
    assert list(source.heard) == [1, 2, 3]


def test_a_peer_that_never_acknowledges_does_not_fill_the_memory() -> None:
    made, link, _ = connection()
    source = Source(1, MOST_UNACKED + 10, wants_ack=True)
    made.ready(source)
    while source.left:
        made.flush(0.0)
        link.take()
        link.unsent = 0
    assert len(source.heard) == 10


def test_silence_of_30_seconds_is_broken_by_a_ping() -> None:
    made, link, _ = connection()
    made.receive(value(1, 0), 20.0)
    assert made.deadline == 30.0
    made.tick(30.0)
    assert link.take() == wire.PING
    assert made.deadline == 60.0


def test_a_peer_that_is_silent_for_60_seconds_is_left() -> None:
    made, link, _ = connection()
    made.tick(30.0)
    made.tick(60.0)
    assert link.closing is not None
    assert link.closing.at_once


def test_silence_means_nothing_while_we_do_not_read() -> None:
    made, link, _ = connection()
    made.tick(60.0, is_deaf=True)
    assert link.closing is None


def test_each_step_of_the_handshake_has_15_seconds() -> None:
    link = Link(1, DSA_TCP, [])
    made = Connection(link, lambda message: False, 0.0)
    assert made.deadline == 15.0
    made.step(10.0)
    assert made.deadline == 25.0
    made.tick(25.0)
    assert link.closing is not None


def test_streams_take_turns_and_priority_goes_first() -> None:
    made, link, _ = connection()
    for source in (Source(1, 3), Source(2, 2), Source(3, 2, is_priority=True)):
        made.ready(source)
    made.flush(0.0)
    assert [message.request_id for message in out(link)] == [3, 3, 1, 2, 1, 2, 1]


def test_a_paged_message_does_not_hold_up_others() -> None:
    made, link, _ = connection()
    long, short = MessageQueue(), MessageQueue()
    long.put(p.INVOKE_R, 1, Headers(status=0x20), bytes(3 * p.MAX_BODY))
    short.put(p.SET_R, 2, Headers(status=0x20))
    made.ready(long)
    made.ready(short)
    made.flush(0.0)
    assert [(message.request_id, message.page_id) for message in out(link)] == [(1, -3), (2, 0), (1, 1), (1, 2)]


def test_what_has_no_room_is_not_taken_from_its_source() -> None:
    made, link, _ = connection()
    source = MessageQueue()
    for _ in range(20):
        source.put(p.INVOKE_R, 1, Headers(status=0), bytes(p.MAX_BODY))
    made.ready(source)
    made.flush(0.0)
    assert link.wants_room
    assert len(source) == 14
    link.take()
    link.unsent, link.wants_room = 0, False
    made.flush(0.0)
    assert len(source) == 8


def test_an_ack_goes_ahead_of_everything() -> None:
    made, link, _ = connection()
    made.receive(value(1, 5), 0.0)
    made.ready(Source(1, 1))
    made.flush(0.0)
    assert [message.method for message in out(link)] == [p.ACK, p.SUB_R]


def test_undecodable_bytes_close_the_link_without_a_reply() -> None:
    made, link, got = connection()
    error = made.receive(value(1, 1) + b"\xff\xff\xff\xff", 0.0)
    made.flush(0.0)
    assert error is not None
    assert len(got) == 1
    assert link.closing is not None
    assert not link.out


def test_a_handshake_message_later_on_ends_the_connection() -> None:
    play = Play()
    play.raw(wire.control(p.F0, b""))
    assert play.ours.closing is not None


def test_a_connection_on_which_something_waits_is_not_clear() -> None:
    made, link, _ = connection()
    assert made.is_clear
    made.ready(Source(1, 1))
    assert not made.is_clear
    made.flush(0.0)
    assert made.is_clear
    link.unsent = 1 << 20
    assert not made.is_clear
