"""A connection as a session sees it."""

from __future__ import annotations

from tests.live.toy import LINES
from wirelake.live.core.link import Closing, Link


def a_link() -> Link:
    return Link(1, LINES, [])


def test_what_is_said_is_framed_and_taken_at_once() -> None:
    link = a_link()
    link.say(b"one")
    link.send(b"two\n")
    assert (link.changed, link.unsent) == ([link], 8)
    assert link.take() == b"one\ntwo\n"
    assert link.out == []


def test_the_first_reason_to_close_counts_and_nothing_is_sent_behind_it() -> None:
    link = a_link()
    link.say(b"last")
    link.close("enough", 1001)
    link.close("again", at_once=True)
    link.say(b"too late")
    assert link.closing == Closing("enough", 1001)
    assert link.take() == b"last\n"
    assert link.counts["sends_dropped"] == 1


def test_what_is_sent_to_a_connection_that_is_gone_is_dropped_and_counted() -> None:
    link = a_link()
    link.say(b"never taken")
    link.end()
    link.say(b"one")
    link.send(b"two\n")
    assert link.out == [] and link.counts["sends_dropped"] == 3


def test_the_reason_of_the_session_stays_when_the_connection_is_gone() -> None:
    link = a_link()
    link.close("enough")
    link.end()
    assert link.closing == Closing("enough")


def test_a_link_is_read_from_only_if_neither_the_session_nor_its_effects_forbid_it() -> None:
    link = a_link()
    link.pause()
    link.is_full = True
    link.resume()
    assert not link.is_readable
    link.is_full = False
    assert link.is_readable and link.changed == [link, link]
