"""Connections of taps: by set and number, from file to file."""

from __future__ import annotations

from tests.capture.reloading import reloaded
from wirelake.capture.chunks import Connection
from wirelake.capture.tap_connections import TapConnections

SET = bytes(16)


def test_an_open_record_of_a_later_file_changes_nothing() -> None:
    taps = TapConnections()
    taps.open(SET, 1, Connection("first", "a", "b"))
    taps.open(SET, 1, Connection("second", "a", "b"))
    assert taps.of(SET, 1).connection.id == "first"
    closed = taps.close(SET, 1)
    assert closed is not None and closed.id == "first"
    assert taps.close(SET, 1) is None


def test_a_connection_without_an_open_record_is_the_same_in_every_run() -> None:
    assert TapConnections().of(SET, 5).connection.id == TapConnections().of(SET, 5).connection.id
    assert TapConnections().of(SET, 5).connection.id != TapConnections().of(SET, 6).connection.id


def test_a_state_is_not_changed_by_what_comes_later() -> None:
    taps = TapConnections()
    taps.of(SET, 1).ends = (3, 4)
    state = taps.state()
    taps.of(SET, 1).ends = (9, 9)
    taps.of(SET, 1).connection.ended = "closed"
    (known,) = reloaded(state).connections
    assert (known.ends, known.connection.ended) == ((3, 4), "")
    assert TapConnections(state).of(SET, 1).ends == (3, 4)
