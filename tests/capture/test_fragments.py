"""Datagrams that never become complete take neither memory nor fragments of later ones."""

from __future__ import annotations

from wirelake.capture import fragments as datagrams


def test_fragments_of_half_a_minute_ago_belong_to_another_packet() -> None:
    known = datagrams.Fragments(datagrams.FragmentsState())
    first = datagrams.Fragment(b"12345678", 1, 6, 0, False, 0, b"head", b"old12345")
    assert known.add(first) is None
    later = first._replace(offset=8, is_last=True, ts=datagrams.TIMEOUT_US + 1, head=b"", data=b"new")
    assert known.add(later) is None
    assert known.add(first._replace(ts=later.ts, data=b"new12345")) == (b"headnew12345new", 2)


def test_fragments_that_are_waited_for_are_bounded() -> None:
    known = datagrams.Fragments(datagrams.FragmentsState())
    for number in range(10_000):
        part = datagrams.Fragment(b"12345678", number, 6, 0, False, number, b"head", bytes(1000))
        assert known.add(part) is None
    waiting = known.state().datagrams
    assert sum(one.cost for one in waiting) <= datagrams.MOST_BYTES
    assert [one.identification for one in waiting] == list(range(10_000 - len(waiting), 10_000))
    for number in range(5000):
        known.add(part._replace(offset=8 * number, data=b"8 bytes."))
    assert max(len(one.pieces) for one in known.state().datagrams) < datagrams.MOST_PIECES


def test_of_bytes_that_two_fragments_have_those_of_the_one_that_begins_first_count() -> None:
    known = datagrams.Fragments(datagrams.FragmentsState())
    part = datagrams.Fragment(b"12345678", 1, 6, 8, True, 0, b"", b"bbbbbbbb")
    assert known.add(part) is None
    assert known.add(part) is None
    whole = known.add(part._replace(offset=0, is_last=False, head=b"head:", data=b"aaaaaaaaaaaa"))
    assert whole == (b"head:aaaaaaaaaaaabbbb", 2)
