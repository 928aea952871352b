"""The link as a session: its handshake, what brokers do wrong, and what it never tells."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.live.dsa.play import LINK_KEY, Play, frames
from wirelake.errors import LimitExceeded
from wirelake.live.core.session import Lost
from wirelake.live.dsa import wire
from wirelake.live.dsa.client import LinkOptions
from wirelake.live.dsa.events import Denied, Ended, Listed, Ready, Valued
from wirelake.live.dsa.handshake import make_token
from wirelake.live.dsa.listing import Listing
from wirelake.live.dsa.nodes import Nodes
from wirelake.live.dsa.wire import Outgoing
from wirelake.protocols import dsa as p
from wirelake.protocols.dsa import Headers


def test_a_link_is_ready_after_four_messages() -> None:
    play = Play(options=LinkOptions(token=make_token(random.Random(1)), is_responder=False))
    (ready,) = play.events()
    assert isinstance(ready, Ready)
    assert ready.welcome.path == "downstream/link"
    assert [message.method for message in frames(b"".join(play.sent))] == [p.F0, p.F2]
    assert (len(play.peer.claim.token), play.peer.claim.is_responder) == (59, False)


@pytest.mark.parametrize(
    "data",
    [
        wire.PING,
        Outgoing(p.LIST, 1, wire.write_headers(Headers(target_path=""))).stamped(1),
        wire.control(p.F0, b""),
        wire.control(p.F3, bytes(35)),
        wire.control(p.F1, bytes(10)),
        wire.refusal(p.F1, 0x40),
        b"\xff" * 20,
    ],
)
def test_anything_else_before_the_end_of_the_handshake_ends_it(data: bytes) -> None:
    play = Play(is_up=False)
    play.peer.greet = lambda message: False  # type: ignore[method-assign]
    play.connect()
    play.raw(data)
    assert play.ours.closing is not None
    assert not play.link.is_ready
    play.link.disconnected(play.ours, play.now)
    assert not play.events(Ready, Lost)


def test_a_broker_that_hangs_up_in_the_handshake_may_be_tried_again() -> None:
    play = Play(is_up=False)
    play.peer.claim = None
    play.peer.greet = _greet_once(play)  # type: ignore[method-assign]
    play.connect()
    play.cut()
    (denied,) = play.events(Denied)
    assert not denied.is_final


def _greet_once(play: Play) -> Any:
    greet = play.peer.greet

    def first_step(message: Any) -> bool:
        return greet(message) if message.method == p.F0 else False

    return first_step


def test_a_handshake_that_takes_too_long_is_given_up() -> None:
    play = Play(is_up=False)
    play.peer.greet = lambda message: False  # type: ignore[method-assign]
    play.connect()
    play.link.tick(15.0)
    assert play.ours.closing is not None


def test_a_silent_broker_is_pinged_and_then_left() -> None:
    play = Play()
    play.ours.out.clear()
    play.link.tick(30.0)
    assert play.ours.take() == wire.PING
    play.link.tick(60.0)
    assert play.ours.closing is not None
    assert play.link.deadline is None


def test_a_broker_that_asks_much_and_reads_nothing_is_not_read_from() -> None:
    play = Play()
    play.ours.unsent = 1 << 20
    ask = Outgoing(p.PREFLIGHT, 1, wire.write_headers(Headers(target_path="main"))).stamped(0)
    for _ in range(11):
        play.raw(ask * 1000)
    assert not play.ours.is_readable
    play.ours.out.clear()
    play.ours.unsent, play.ours.wants_room = 0, False
    play.link.writable(play.ours, play.now)
    assert play.ours.is_readable


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=60), max_size=6))
def test_any_bytes_from_a_broker_are_messages_or_the_end(pieces: list[bytes]) -> None:
    play = Play()
    for piece in pieces:
        play.raw(piece)
    play.link.flush(play.now)


def _nodes() -> Nodes:
    nodes = Nodes()
    nodes.add("main/a", value=1, writable="write")
    nodes.action("main/b")(lambda call: None)
    return nodes


METHODS = st.sampled_from(
    [p.SUB, p.LIST, p.INVOKE, p.SET, p.PREFLIGHT, p.CLOSE, p.SUB_R, p.LIST_R, p.INVOKE_R, p.SET_R]
)
HEADERS = st.builds(
    Headers,
    target_path=st.sampled_from([None, "", "main", "main/a", "main/b", "main/c", "/main/a", "a//b", "\udcff"]),
    status=st.sampled_from([None, 0, 1, 0x0E, 0x20, 0x41, 0xFF]),
    page_id=st.sampled_from([None, 0, -2, -1, 1, 2, -(2**31), 2**31 - 1]),
    sequence_id=st.sampled_from([None, 0, 1]),
    qos=st.sampled_from([None, 0, 1, 2, 3, 4, 255]),
    queue_size=st.sampled_from([None, -1, 0, 1, 2**31 - 1]),
    queue_duration=st.sampled_from([None, -(2**31), 5]),
    no_stream=st.booleans(),
    priority=st.booleans(),
    refreshed=st.booleans(),
    max_permission=st.sampled_from([None, 0, 0x30, 0x40, 0xFF]),
    attribute_field=st.sampled_from([None, "", "@x", "$x"]),
    error_detail=st.sampled_from([None, "", "no"]),
    permission_token=st.sampled_from([None, None, "t"]),
)
BODIES = st.sampled_from(
    [b"", b"\0", b"\0\0\xc0", b"\0\0\x05", b"\x80", b"\xc1", b"\x01\0a\0\0", b"\xff\xff", b"x" * 100]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(METHODS, st.integers(1, 4), HEADERS, BODIES), max_size=12), st.booleans())
def test_any_messages_from_a_broker_leave_a_link_that_works(messages: list[Any], is_cut: bool) -> None:
    """Whatever came before: afterwards a list is replied to, and nothing is left of streams that ended."""
    play = Play(_nodes())
    for method in ("subscribe", "list"):
        getattr(play.link, method)("main/a", play.now)
    play.link.invoke("x", None, play.now)
    for method, request_id, headers, body in messages:
        if method in (p.INVOKE, p.SET, p.SUB_R, p.LIST_R, p.INVOKE_R):
            data = Outgoing(method, request_id, wire.write_headers(headers), body).stamped(1)
        else:
            data = Outgoing(method, request_id, wire.write_headers(headers)).stamped(1)
        if play.ours.closing is None:
            play.raw(data)
    assert play.ours.closing is None or play.link.counts["undecodable"]
    if is_cut or play.ours.closing is not None:
        play.cut()
        play.now += 400
        play.link.tick(play.now)
        play.connect()
    play.run()
    play.take()
    play.peer.say(p.LIST, 99, target_path="main")
    play.run()
    assert 99 in [message.request_id for message in play.take(p.LIST_R)]
    play.cut()
    play.now += 400
    play.link.tick(play.now)
    responder = play.link.responder
    assert (len(responder), responder._actions, responder._pool.held) == (0, 0, 0)
    assert not responder._parked
    for node in (responder.nodes["main"], responder.nodes["main/a"]):
        assert not node.listers
        assert not node.subscribers


def test_neither_notes_nor_events_nor_errors_show_a_token_or_a_key() -> None:
    token = make_token(random.Random(9))
    play = Play(_nodes(), options=LinkOptions(token=token))
    hashed = play.peer.claim.token
    told = [repr(play.link), repr(play.link.options), repr(play.link.identity), repr(play.link.events)]
    head = b"\x60\x30\0" + token.encode() + b"\x99"
    play.raw(Outgoing(p.LIST, 1, head).stamped(1))
    told += [repr(play.link.notes), repr(play.ours.closing)]
    assert play.link.notes
    for secret in (token, token[16:], hashed, hashed[16:], LINK_KEY.hex()):
        assert secret not in " ".join(told)


def test_a_link_gets_along_with_what_a_cpp_broker_does() -> None:
    """No Status when it is 00, ack ids from 2 on with gaps, no Target Path for the root, any byte for a boolean, No
    Stream ignored, lists above 48 KiB of body.
    """
    play = Play(_nodes(), is_up=False)
    play.peer.ack_ids.last = 1
    play.peer.greet = _greet_as_cpp(play, lambda body: b"\xb0" + body[1:])  # type: ignore[method-assign]
    play.connect()
    assert play.link.is_ready
    play.peer.say(p.LIST, 1)
    stream = play.link.subscribe("a", play.now, once=True)
    play.link.list("b", play.now)
    play.run()
    assert [message.request_id for message in play.take(p.LIST_R)] == [1]
    play.peer.ack_ids.last += 3
    play.peer.say(p.SUB_R, stream.request_id, b"\0\0\x07")
    pair = wire.write_pair(b"x" * 1000, b"\x80")
    play.peer.say(p.LIST_R, 2, pair * 60)
    play.run()
    told = play.events(Valued, Listed, Ended)
    assert [type(event) for event in told] == [Valued, Ended, Listed]
    assert told[0].value == 7
    assert [message.request_id for message in play.take(p.CLOSE)] == [stream.request_id]
    assert play.ours.closing is None


def _greet_as_cpp(play: Play, change: Any) -> Any:
    greet, handshake = play.peer.greet, None

    def greeting(message: Any) -> bool:
        nonlocal handshake
        if message.method == p.F2 and handshake is None:
            handshake = play.peer.handshake
            plain = handshake.welcome
            play.peer.handshake = _Changed(handshake, lambda path: change(plain(path)))  # type: ignore[assignment]
        return bool(greet(message))

    return greeting


class _Changed:
    """A handshake whose welcome is another."""

    def __init__(self, handshake: Any, welcome: Any) -> None:
        self.check, self.welcome = handshake.check, welcome


def test_a_million_names_end_a_merged_list_and_nothing_else() -> None:
    play = Play()
    stream = play.link.list("a", play.now)
    play.run()
    listing = Listing("a")
    with pytest.raises(LimitExceeded):
        for start in range(0, 1_002_000, 2_000):
            body = b"".join(wire.write_pair(b"%d" % number, b"\x80") for number in range(start, start + 2_000))
            play.peer.say(p.LIST_R, stream.request_id, body, status=1)
            play.run()
            for update in play.events(Listed):
                listing.apply(update)
    assert len(listing) <= 1_002_000
    play.link.close(stream, play.now)
    play.run()
    assert play.link.is_ready
