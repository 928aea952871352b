"""Request ids, cutting into pages, and joining them: section 7, rule by rule."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.live.dsa.play import frames
from wirelake.errors import LimitExceeded
from wirelake.live.dsa.streams import Joiner, MessageQueue, Pool, RequestIds, cut_pages
from wirelake.live.dsa.wire import Outgoing, Received, write_headers
from wirelake.protocols import dsa as p
from wirelake.protocols.dsa import Headers

PAGE = p.MAX_BODY


def page(number: int, body: bytes = b"x", *, sequence: int | None = 3, status: int = 0) -> Received:
    headers = Headers(status=status, page_id=number, sequence_id=sequence)
    return Received(p.INVOKE_R, 7, 1, headers, write_headers(headers), body)


def pages_of(headers: Headers, body: bytes, method: int = p.INVOKE_R) -> list[Outgoing]:
    return list(cut_pages(method, 7, headers, body, 3))


def received(message: Outgoing) -> Received:
    return frames(message.stamped(1))[0]


def test_request_ids_count_skip_what_is_used_and_start_again() -> None:
    ids = RequestIds()
    assert [ids.take(()) for _ in range(3)] == [1, 2, 3]
    assert ids.take({4, 5}) == 6
    ids._last = p.MAX_REQUEST_ID
    assert ids.take({1}) == 2


def test_the_paged_invoke_of_the_specification() -> None:
    body = b"\x81\xa3csv\xda\xea\x60" + b"x" * 60_000
    first, last = pages_of(Headers(target_path="plant/load"), body, p.INVOKE)
    assert first.stamped(11)[:15].hex(" ") == "26 c0 00 00 26 00 03 07 00 00 00 0b 00 00 00"
    assert set(map(bytes, (first.head[:5], first.head[5:10], first.head[10:]))) == {
        bytes.fromhex("0103000000"), bytes.fromhex("02feffffff"), bytes.fromhex("800a00706c616e742f6c6f6164"),
    }  # fmt: skip
    assert last.stamped(12)[:25].hex(" ") == (
        "81 2a 00 00 19 00 03 07 00 00 00 0c 00 00 00 01 03 00 00 00 02 01 00 00 00"
    )
    assert (len(first.body), len(last.body)) == (49152, 10856)


def test_pages_of_a_set_have_no_sequence() -> None:
    for message in pages_of(Headers(target_path="a"), bytes(PAGE * 2 + 1), p.SET):
        assert received(message).headers.sequence_id is None


def test_the_last_page_has_the_status() -> None:
    statuses = [received(message).status for message in pages_of(Headers(status=0x20), bytes(PAGE * 2 + 1))]
    assert statuses == [0, 0, 0x20]


@given(st.integers(-2, 2), st.integers(1, 4))
def test_what_is_cut_is_joined_again(more: int, count: int) -> None:
    body = bytes(i % 251 for i in range(PAGE * count + more))
    queue, joiner = MessageQueue(), Joiner(Pool())
    queue.put(p.INVOKE_R, 7, Headers(status=0x20, refreshed=True), body)
    joined = []
    while (message := queue.take(1, 0.0)) is not None:
        assert len(message.body) <= PAGE
        joined.append(joiner.take(received(message)))
    assert queue.unsent == 0
    (whole,) = (message for message in joined if message is not None)
    assert (whole.body, whole.status, whole.headers.refreshed) == (body, 0x20, True)


def test_a_new_group_drops_an_unfinished_one() -> None:
    joiner = Joiner(Pool())
    assert joiner.take(page(-2, b"lost")) is None
    assert joiner.take(page(-2, b"a", sequence=4)) is None
    whole = joiner.take(page(1, b"b", sequence=4))
    assert whole is not None
    assert whole.body == b"ab"


def test_a_group_of_one_is_complete() -> None:
    whole = Joiner(Pool()).take(page(-1, b"a"))
    assert whole is not None
    assert whole.body == b"a"


@pytest.mark.parametrize("wrong", [page(2), page(1, sequence=4)])
def test_a_page_that_is_not_the_next_one_drops_the_group(wrong: Received) -> None:
    joiner = Joiner(Pool())
    joiner.take(page(-3))
    assert joiner.take(wrong) is None
    assert joiner.take(page(1)) is None
    assert joiner.take(page(2)) is None
    assert not joiner.is_open


def test_a_page_without_a_group_is_ignored() -> None:
    assert Joiner(Pool()).take(page(1)) is None


def test_a_message_that_is_not_paged_drops_the_group_and_is_delivered() -> None:
    pool = Pool()
    joiner = Joiner(pool)
    joiner.take(page(-2))
    plain = Received(p.INVOKE_R, 7, 1, Headers(status=0), b"", b"whole")
    assert joiner.take(plain) is plain
    assert joiner.take(page(1)) is None
    assert pool.held == 0


def test_a_closing_status_on_a_page_that_is_not_the_last_ends_the_stream_without_a_value() -> None:
    whole = Joiner(Pool()).take(page(-2, b"half", status=0x20))
    assert whole is not None
    assert (whole.status, whole.body, whole.page_id) == (0x20, b"", 0)


def test_a_group_that_gets_too_long_is_dropped() -> None:
    pool = Pool()
    joiner = Joiner(pool, most=1000)
    joiner.take(page(-(2**31)))
    with pytest.raises(LimitExceeded):
        for number in range(1, 1000):
            joiner.take(page(number, b""))
    assert pool.held == 0


def test_all_groups_of_a_connection_share_a_limit() -> None:
    pool = Pool(most=10 * PAGE)
    joiners: list[Any] = [Joiner(pool) for _ in range(20)]
    with pytest.raises(LimitExceeded):
        for joiner in joiners:
            joiner.take(page(-2, bytes(PAGE)))
    for joiner in joiners:
        joiner.drop()
    assert pool.held == 0
