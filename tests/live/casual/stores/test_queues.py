from __future__ import annotations

from tests.live.casual.stores.stores import SECOND, Asking, T, uuid, xid
from wirelake.live.casual.store import (
    NIL,
    Commit,
    Dequeue,
    Dequeued,
    Enqueue,
    Enqueued,
    ListQueues,
    Load,
    Peek,
    Prepare,
    Purge,
    QueueMessage,
    QueueReport,
    Ready,
    Restore,
    Rollback,
    StoredMessage,
)


def test_a_message_comes_out_as_it_went_in(ask: Asking) -> None:
    message = QueueMessage(uuid(1), "k=v\0\udcff", "answers", -(2**63), "X_OCTET/", bytes(range(256)))
    assert ask(Enqueue("a", message, None, T)) == Enqueued(uuid(1), (Ready("a", uuid(1), "k=v\0\udcff", -(2**63)),))
    stored = StoredMessage(
        uuid(1), "k=v\0\udcff", "answers", -(2**63), "X_OCTET/", bytes(range(256)), redelivered=0, timestamp=T
    )
    assert ask(Dequeue("a", NIL, "", None, T)) == Dequeued(stored)
    assert ask.take() is None


def test_messages_come_in_the_order_of_their_timestamps_then_of_available_then_of_arrival(ask: Asking) -> None:
    ask.put(1, T + 2)
    ask.put(2, T + 1, available=T)
    ask.put(3, T + 1, available=0)
    ask.put(4, T + 1, available=0)
    assert ask.take_all() == [3, 4, 2, 1]


def test_a_message_is_not_taken_before_it_is_available(ask: Asking) -> None:
    ask.put(1, available=T + 5 * SECOND)
    ask.put(2, T + 1)
    assert ask.take_all(T + 5 * SECOND) == [2]
    assert ask(Dequeue("a", NIL, "", None, T + 5 * SECOND)) == Dequeued(None, T + 5 * SECOND + 1)
    assert ask.take_all(T + 5 * SECOND + 1) == [1]


def test_what_is_available_later_stays_so_over_a_restart(ask: Asking) -> None:
    ask.put(1, available=T + 5 * SECOND)
    ask.reopen()
    ask(Load(T + 1))
    assert ask.take_all(T + 5 * SECOND) == [] and ask.take_all(T + 5 * SECOND + 1) == [1]


def test_no_message_is_lost_or_held_back_when_the_clock_goes_back(ask: Asking) -> None:
    """What was ready stays ready; what comes then has the timestamp that the clock says, and its place."""
    ask.put(1, T + 3_600 * SECOND)
    ask.put(2, T + 3_600 * SECOND, available=T + 3_601 * SECOND)
    ask.put(3, T + 3_600 * SECOND, branch=xid(1))
    ask(Prepare(xid(1), (), T + 3_600 * SECOND))
    ask.reopen()
    ask(Load(T))
    ask.put(4, T)
    ask(Commit(xid(1), (), 0, T + 1))
    assert ask.take_all(T + 2) == [4, 1, 3]
    assert ask.take_all(T + 3_602 * SECOND) == [2]


def test_a_selector_of_an_id_takes_that_message_even_before_it_is_available(ask: Asking) -> None:
    ask.put(1)
    ask.put(2, available=T + 5 * SECOND)
    assert ask.take(id=uuid(3)) is None
    message = ask.take(id=uuid(2), properties="ignored")
    assert message is not None
    assert message.id == uuid(2)
    assert ask.take(id=uuid(1), queue="b") is None


def test_a_selector_of_properties_takes_the_first_that_has_exactly_these(ask: Asking) -> None:
    ask.put(1, properties="x")
    ask.put(2, properties="xy")
    ask.put(3, properties="xy")
    ask.put(4, properties="xy", available=T + 5 * SECOND)
    found = [ask.take(properties="xy") for _ in range(3)]
    assert [message and message.id for message in found] == [uuid(2), uuid(3), None]
    assert ask.take_all() == [1]


def test_an_id_that_exists_is_refused(ask: Asking) -> None:
    ask.put(1)
    assert ask(Enqueue("b", QueueMessage(uuid(1)), None, T)) == Enqueued(NIL, reason="the id is in use")
    assert ask.take_all() == [1]
    assert ask.put(1) == uuid(1)


def test_a_queue_that_does_not_exist_takes_and_gives_nothing(ask: Asking) -> None:
    assert ask(Enqueue("no", QueueMessage(uuid(1)), None, T)) == Enqueued(NIL, reason="no such queue")
    assert ask(Dequeue("", NIL, "", None, T)) == Dequeued(None)


def test_a_full_queue_refuses_until_something_is_taken(ask: Asking) -> None:
    assert ask.put(1, queue="small") == uuid(1)
    assert ask.put(2, queue="small", branch=xid(1)) == uuid(2)
    assert ask(Enqueue("small", QueueMessage(uuid(3)), None, T)) == Enqueued(NIL, reason="the queue is full")
    assert ask.take_all(queue="small") == [1]
    assert ask.put(3, queue="small") == uuid(3)


def test_what_is_added_is_seen_by_nobody_before_the_commit(ask: Asking) -> None:
    assert ask.put(1, branch=xid(1), properties="p") == uuid(1)
    assert ask.take() is None
    assert ask.take(branch=xid(1)) is None
    assert ask.take(id=uuid(1)) is None
    settled = ask(Commit(xid(1), (), 0, T + 1))
    assert settled.ready == (Ready("a", uuid(1), "p", 0),)
    message = ask.take()
    assert message is not None
    assert message.timestamp == T


def test_what_is_taken_is_seen_by_nobody_and_gone_with_the_commit(ask: Asking) -> None:
    ask.put(1)
    assert ask.take(branch=xid(1)) is not None
    assert ask.take() is None
    assert ask.take(id=uuid(1)) is None
    assert ask(Commit(xid(1), (), 0, T)).ready == ()
    assert ask.take() is None
    assert ask.put(1) == uuid(1)


def test_a_rollback_removes_what_was_added_and_brings_back_what_was_taken_in_its_place(ask: Asking) -> None:
    ask.put(1, T)
    ask.put(2, T + 1)
    ask.put(3, branch=xid(1))
    ask.take(branch=xid(1))
    assert ask(Rollback(xid(1), (), 0, T + 2)).ready == (Ready("a", uuid(1), "", 0),)
    first = ask.take()
    assert first is not None
    assert (first.id, first.redelivered, first.available, first.timestamp) == (uuid(1), 1, 0, T)
    assert ask.take_all() == [2]


def test_a_message_that_was_rolled_back_too_often_moves_to_the_error_queue_and_stays_there(ask: Asking) -> None:
    ask.put(1, properties="p", reply="r", type="t/", payload=b"x")
    for number in (1, 2):
        assert ask.take(branch=xid(number)) is not None
        settled = ask(Rollback(xid(number), (), 0, T + number))
        assert settled.ready == (Ready("a" if number == 1 else "a.error", uuid(1), "p", 0),)
    assert ask.take() is None
    for number in range(3, 8):
        message = ask.take(queue="a.error", branch=xid(number))
        assert message == StoredMessage(uuid(1), "p", "r", 0, "t/", b"x", number - 3, T)
        ask(Rollback(xid(number), (), 0, T + number))
    assert ask.take_all(queue="a.error") == [1]


def test_a_delayed_retry_is_available_after_the_delay(ask: Asking) -> None:
    ask.put(1, queue="b")
    ask.take(queue="b", branch=xid(1))
    settled = ask(Rollback(xid(1), (), 0, T + 1))
    later = T + 1 + 5 * SECOND
    assert settled.ready == (Ready("b", uuid(1), "", later),)
    assert ask(Dequeue("b", NIL, "", None, later)) == Dequeued(None, later + 1)
    message = ask.take(later + 1, "b")
    assert message is not None
    assert (message.available, message.redelivered) == (later, 1)


def test_a_branch_that_is_prepared_or_finished_takes_no_more_work(ask: Asking) -> None:
    ask.put(1)
    ask.put(2, branch=xid(1))
    ask(Prepare(xid(1), (), T))
    assert ask.put(3, branch=xid(1)) == NIL
    assert ask.take(branch=xid(1)) is None
    ask(Commit(xid(1), (), T + SECOND, T))
    assert ask.put(3, branch=xid(1)) == NIL
    assert ask.take(branch=xid(1)) is None
    assert ask.take_all() == [1, 2]


def test_queues_are_listed_with_what_is_in_them(ask: Asking) -> None:
    ask.put(1, T + 5)
    ask.put(2, T + 1)
    ask.put(3, T + 2, available=T + 9 * SECOND)
    ask.put(4, T + 3, branch=xid(1))
    ask.take(T + 4, branch=xid(1))
    reports = {report.name: report for report in ask(ListQueues(T + 5))}
    assert sorted(reports) == ["a", "a.error", "b", "b.error", "small", "small.error"]
    assert reports["a"] == QueueReport("a", 1, 0.0, ready=1, delayed=1, added=1, taken=1, oldest=T + 5)
    assert reports["b"] == QueueReport("b", 2, 5.0, 0, 0, 0, 0, None)
    later = {report.name: report for report in ask(ListQueues(T + 10 * SECOND))}
    assert later["a"].ready == 2


def test_to_peek_changes_nothing(ask: Asking) -> None:
    for number in range(5):
        ask.put(number, T + number)
    assert [message.id for message in ask(Peek("a", 3))] == [uuid(0), uuid(1), uuid(2)]
    assert ask(Peek("no", 3)) == ()
    assert ask.take_all() == [0, 1, 2, 3, 4]


def test_messages_move_back_from_the_error_queue(ask: Asking) -> None:
    for number in (1, 2):
        ask.put(number, T + number, queue="small")
    for number in (1, 2):
        ask.take(T + 5, queue="small", branch=xid(number))
        ask(Rollback(xid(number), (), 0, T + 6))
    assert ask(Restore("small", (uuid(2), uuid(7)), T)) == (Ready("small", uuid(2), "", 0),)
    assert [message.id for message in ask(Peek("small", 9))] == [uuid(2)]
    assert ask(Restore("small", None, T)) == (Ready("small", uuid(1), "", 0),)
    assert ask(Restore("small.error", None, T)) == ()
    assert ask.take_all(queue="small") == [1, 2]


def test_a_purge_leaves_what_branches_have(ask: Asking) -> None:
    for number in range(5):
        ask.put(number, T + number)
    ask.put(7, branch=xid(1))
    ask.take(T + 9, branch=xid(1))
    assert ask(Purge("a")) == 4
    assert ask(Purge("no")) == 0
    ask(Rollback(xid(1), (), 0, T))
    assert ask.take_all() == [0]
