"""Which protocol a connection speaks: told by the user, the capture, the port, or found from the first bytes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.capture.feeds import CLIENT_HELLO, Feed, connection, generated, play
from wirelake.capture.identify import is_tls
from wirelake.capture.settings import ReadSettings
from wirelake.capture.streams import Streams
from wirelake.generate import generate
from wirelake.protocols import BUILT_IN


def some_sizes(rng: random.Random) -> list[int]:
    return [rng.randint(1, 60) for _ in range(5000)]


@pytest.mark.parametrize("protocol", BUILT_IN)
def test_a_protocol_is_found_from_first_bytes_on_any_port(protocol: str) -> None:
    rng = random.Random(4)
    for seed in range(2):
        feed = generated(protocol, rng, messages=30, seed=seed, port=False, most=rng.choice((9, 1460)))
        result = play(feed, ReadSettings(), some_sizes(rng), restart=rng)
        assert set(result.messages) == {protocol}
        assert result.foreign_bytes == 0
        assert result.quarantine == []
        assert play(feed, ReadSettings()) == result


@pytest.mark.parametrize("protocol", BUILT_IN)
def test_a_protocol_is_found_in_the_middle_of_a_connection(protocol: str) -> None:
    rng = random.Random(4)
    feed = generated(protocol, rng, messages=300, connections=2, seed=1, port=False, whole=False)
    feed.packets = feed.packets[20:]
    base: dict[Any, int] = {}
    for packet in feed.packets:
        packet.offset -= base.setdefault((packet.connection.id, packet.direction), packet.offset)
    result = play(feed, ReadSettings(), some_sizes(rng), restart=rng)
    assert set(result.messages) == {protocol}
    assert play(feed, ReadSettings()) == result


def test_all_at_once() -> None:
    rng = random.Random(8)
    feed = generated(BUILT_IN, rng, messages=400, seed=5, port=False)
    result = play(feed, ReadSettings(), some_sizes(rng), restart=rng)
    assert set(result.messages) == set(BUILT_IN)
    assert result.quarantine == []


def test_a_broken_first_frame_leaves_the_decision_to_the_other_direction() -> None:
    frames = list(generate("casual", messages=40, connections=1, seed=1))
    asked = [event.frame for event in frames if event.direction == "to_server"]
    answered = [event.frame for event in frames if event.direction == "to_client"]
    feed = Feed()
    peer = connection(server_port=9)
    feed.add(peer, 0, b"\xff" * 40 + asked[1] + asked[2])
    feed.add(peer, 1, answered[0])
    result = play(feed, ReadSettings())
    assert len(result.messages["casual"]) == 3
    assert [row["length"] for row in result.quarantine] == [40]


def test_foreign_bytes_are_counted_and_not_kept() -> None:
    feed = Feed()
    peer = connection(server_port=22)
    feed.add(peer, 1, b"SSH-2.0-OpenSSH_9.2p1\r\n")
    feed.add(peer, 0, b"SSH-2.0-OpenSSH_9.6\r\n")
    for _ in range(50):
        feed.add(peer, 0, random.Random(1).randbytes(1400))
    result = play(feed, ReadSettings(), [1], restart=random.Random(1))
    assert result.foreign_bytes == 23 + 21 + 50 * 1400
    assert result.messages == {}
    assert result.quarantine == []
    streams = Streams(ReadSettings())
    for chunks in feed.windows([10]):
        streams.feed(chunks, "one.pcap")
    (state,) = streams.state().connections.values()
    assert state.waiting == []


def test_a_single_direction_of_noise_is_given_up_in_the_end() -> None:
    feed = Feed()
    peer = connection(server_port=22)
    for _ in range(100):
        feed.add(peer, 0, b"\xff" * 1400)
    assert play(feed, ReadSettings(), [1], finish=False).foreign_bytes == 100 * 1400


def test_an_open_connection_without_a_decision_is_pending_and_then_foreign() -> None:
    feed = Feed()
    feed.add(connection(server_port=22), 0, b"\x00\x00")
    pending = play(feed, ReadSettings(), finish=False)
    assert pending.accounts["c0", "to_server"]["bytes_pending"] == 2
    finished = play(feed, ReadSettings())
    assert finished.foreign_bytes == 2
    assert finished.accounts["c0", "to_server"]["bytes_in"] == 0


def test_the_port_decides_and_other_bytes_are_quarantined() -> None:
    feed = Feed()
    peer = connection(server_port=4120)
    feed.add(peer, 0, b"this is no DSA message at all")
    result = play(feed, ReadSettings())
    assert [(row["protocol"], row["length"]) for row in result.quarantine] == [("dsa", 29)]
    assert play(feed, ReadSettings(ports={})).foreign_bytes == 29
    assert play(feed, ReadSettings(ports={4120: "mb"})).quarantine[0]["protocol"] == "mb"


def test_what_the_capture_says_comes_before_the_port_and_the_user_before_both() -> None:
    frame = next(event.frame for event in generate("casual", messages=3, seed=1))
    feed = Feed()
    feed.add(connection(server_port=4120, protocol="casual"), 0, frame)
    assert set(play(feed, ReadSettings()).messages) == {"casual"}
    assert play(feed, ReadSettings(protocol="ceda")).quarantine[0]["protocol"] == "ceda"


# --- TLS


def test_a_tls_handshake_is_told_by_its_first_six_bytes() -> None:
    assert is_tls(CLIENT_HELLO) is True
    assert is_tls(CLIENT_HELLO[:5]) is None
    assert is_tls(b"") is None
    assert is_tls(b"\x16\x03\x09") is False
    assert is_tls(b"publish:") is False
