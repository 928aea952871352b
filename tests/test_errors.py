"""Errors say what is wrong, where and by which rule, and travel between processes."""

from __future__ import annotations

import pickle

from wirelake.errors import BadValue, CaptureError, DecodeError, Incomplete, WireError


def test_an_error_says_where_what_and_which_rule() -> None:
    error = BadValue("7 is no colour", rule="colour", path="paint.colour", offset=4)
    assert str(error) == "paint.colour at byte 4: 7 is no colour [colour]"
    assert str(WireError("no", rule="never")) == "no [never]"


def test_the_outermost_reader_adds_the_protocol_the_message_and_the_bytes_around() -> None:
    error = BadValue("7 is no colour", rule="colour", offset=2).locate("toy", "paint", b"\1\2\7\4")
    assert str(error) == "toy paint at byte 2: 7 is no colour [colour] 01 02 | 07 04"
    assert error.locate("other", "other", b"").protocol == "toy"


def test_an_error_is_the_same_in_another_process() -> None:
    for error in (
        Incomplete("more", rule="frame", offset=1, needed=4, available=2),
        CaptureError("cut", path="a.pcap", offset=3),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_an_error_as_a_value_keeps_nothing_alive() -> None:
    try:
        raise BadValue("no", rule="never")
    except DecodeError as raised:
        error = raised.as_value()
    assert error.__traceback__ is None
