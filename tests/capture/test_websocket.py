"""WebSocket: HTTP and frames are taken off, the messages within are read like any others."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.capture.feeds import Feed, Result, connection, play
from wirelake.capture.chunks import Connection
from wirelake.capture.settings import ReadSettings
from wirelake.capture.websocket import Piece, Unwrapper, is_upgrade, path_of
from wirelake.codec.frame import apply_mask
from wirelake.generate import generate

RESPONSE = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
)
PORTS = {"mb": 3000, "dsa": 80, "ceda": 8088}


def request(path: str = "/") -> bytes:
    return (
        f"GET {path} HTTP/1.1\r\nHost: bus\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    ).encode()


def frame(payload: bytes, *, opcode: int = 2, key: bytes = b"", last: bool = True) -> bytes:
    size = len(payload)
    mask = 0x80 if key else 0
    head = bytes([(0x80 if last else 0) | opcode])
    if size < 126:
        head += bytes([mask | size])
    elif size < 1 << 16:
        head += bytes([mask | 126]) + size.to_bytes(2, "big")
    else:
        head += bytes([mask | 127]) + size.to_bytes(8, "big")
    return head + key + (apply_mask(payload, key) if key else payload)


def messages_of(protocol: str, direction: str, n: int = 30) -> list[bytes]:
    options = {"dialect": "ceda4-ws"} if protocol == "ceda" else {}
    frames = [
        event.frame
        for event in generate(protocol, messages=4 * n, connections=1, seed=2, **options)
        if event.direction == direction
    ]
    return frames[:n]


def wrapped(protocol: str, frames: list[bytes], rng: random.Random, masked: bool) -> Iterator[bytes]:
    """The frames as WebSocket frames, with control frames between them; cut and joined where that is allowed."""
    for one in frames:
        key = rng.randbytes(4) if masked else b""
        if rng.random() < 0.2:
            yield frame(b"ping", opcode=9, key=key)
        if protocol == "ceda":
            payload = one[2:] if one[1] < 126 else one[4:]
            yield frame(payload, key=key)
        elif protocol == "mb":
            body = one[4:]
            cut = rng.randrange(len(body) + 1)
            if rng.random() < 0.3:
                yield frame(body[:cut], opcode=1, key=key, last=False)
                yield frame(b"", opcode=10, key=key)
                yield frame(body[cut:], opcode=0, key=key)
            else:
                yield frame(body, opcode=1, key=key)
        else:
            cut = rng.randrange(len(one) + 1)
            yield frame(one[:cut], key=key) + frame(one[cut:], key=key)
    yield frame(b"\x03\xe8", opcode=8, key=b"\1\2\3\4" if masked else b"")


def spoken(protocol: str, peer: Connection, rng: random.Random, path: str = "/") -> tuple[Feed, list[bytes]]:
    feed = Feed()
    asked, answered = messages_of(protocol, "to_server"), messages_of(protocol, "to_client")
    for direction, head, frames in ((0, request(path), asked), (1, RESPONSE, answered)):
        stream = head + b"".join(wrapped(protocol, frames, rng, masked=direction == 0))
        at = 0
        while at < len(stream):
            size = rng.choice((1, 90, 300, 1460))
            feed.add(peer, direction, stream[at : at + size])
            at += size
    feed.end(peer)
    return feed, asked + answered


def sizes(rng: random.Random) -> list[int]:
    return [rng.randint(1, 30) for _ in range(3000)]


def lengths(protocol: str, frames: list[bytes], result: Result) -> tuple[int, int]:
    """Bytes of the messages as they are counted, and as they were found."""
    less = {"mb": 4, "dsa": 0, "ceda": 0}[protocol]
    expected = sum(len(one) - less for one in frames)
    if protocol == "ceda":
        expected += 4 * sum(row["direction"] == "to_server" for row in result.messages["ceda"])
    return expected, sum(row["length"] for row in result.messages[protocol])


@pytest.mark.parametrize("port", ["mapped", "unknown"])
@pytest.mark.parametrize("protocol", ["mb", "dsa", "ceda"])
def test_messages_within_websocket_frames_are_found(protocol: str, port: str) -> None:
    for seed in range(2):
        rng = random.Random(seed)
        peer = connection(server_port=PORTS[protocol] if port == "mapped" else 9999)
        feed, frames = spoken(protocol, peer, rng)
        result = play(feed, ReadSettings(), sizes(rng), restart=rng)
        assert result.quarantine == []
        assert len(result.messages[protocol]) == len(frames)
        expected, found = lengths(protocol, frames, result)
        assert found == expected
        total = sum(len(packet.data or b"") for packet in feed.packets)
        assert total == sum(row["bytes_in"] for row in result.accounts.values()) + result.envelope_bytes
        assert play(feed, ReadSettings()) == result


def test_a_path_tells_the_protocol() -> None:
    rng = random.Random(1)
    feed, frames = spoken("ceda", connection(server_port=80), rng, "/mqtunnel?x=1")
    assert len(play(feed, ReadSettings()).messages["ceda"]) == len(frames)


def test_http_that_is_no_websocket_is_foreign() -> None:
    feed = Feed()
    peer = connection(server_port=80)
    feed.add(peer, 0, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    feed.add(peer, 1, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    result = play(feed, ReadSettings())
    assert result.foreign_bytes == 27 + 40
    assert result.quarantine == []


@pytest.mark.parametrize("protocol", ["mb", "dsa", "ceda"])
def test_behind_a_gap_messages_are_found_again(protocol: str) -> None:
    rng = random.Random(2)
    peer = connection(server_port=PORTS[protocol])
    feed = Feed()
    frames = messages_of(protocol, "to_server", 40)
    feed.add(peer, 0, request())
    pieces = list(wrapped(protocol, frames, rng, masked=True))
    for i, piece in enumerate(pieces):
        feed.add(peer, 0, None if i == 20 else piece, len(piece))
    feed.add(peer, 1, RESPONSE)
    result = play(feed, ReadSettings(), [3], restart=rng)
    assert play(feed, ReadSettings()) == result
    assert len(result.messages[protocol]) >= len(frames) - 4
    assert "gap" in {row["rule"] for row in result.quarantine}
    assert result.accounts["c0", "to_server"]["bytes_missing"] == len(pieces[20])


def test_a_connection_of_a_websocket_port_that_began_before_the_capture_is_unwrapped_too() -> None:
    rng = random.Random(2)
    peer = connection(server_port=3000, is_whole=False)
    feed = Feed()
    frames = messages_of("mb", "to_server", 20)
    feed.add(peer, 0, b"the end of a payload")
    for piece in wrapped("mb", frames, rng, masked=True):
        feed.add(peer, 0, piece)
    result = play(feed, ReadSettings(), [3], restart=rng)
    assert len(result.messages["mb"]) == len(frames)
    assert [(row["rule"], row["length"]) for row in result.quarantine] == [("websocket", 20)]


def test_a_message_that_never_ends_is_incomplete() -> None:
    feed = Feed()
    peer = connection(server_port=3000)
    feed.add(peer, 0, request() + frame(b"publish:a.b:1.0.0\n{}", opcode=1, key=b"abcd")[:-3])
    result = play(feed, ReadSettings())
    assert [(row["rule"], row["length"]) for row in result.quarantine] == [("frame_incomplete", 17)]


# --- the unwrapper


def test_fragments_masks_and_control_frames_are_taken_off() -> None:
    unwrapper = Unwrapper("message", is_client=True)
    stream = (
        request()
        + frame(b"hel", opcode=1, key=b"abcd", last=False)
        + frame(b"?", opcode=9, key=b"efgh")
        + frame(b"lo", opcode=0, key=b"ijkl")
        + frame(b"", opcode=1, key=b"mnop")
    )
    pieces = unwrapper.feed(stream)
    assert pieces == [Piece(b"hel"), Piece(b"lo", ends_message=True), Piece(b"", ends_message=True)]
    assert unwrapper.take_envelope_bytes() + 5 == len(stream)


def test_any_cut_gives_the_same_bytes() -> None:
    rng = random.Random(3)
    stream = request() + b"".join(frame(rng.randbytes(rng.randrange(300)), key=rng.randbytes(4)) for _ in range(20))
    whole = Unwrapper("stream", is_client=True)
    expected = b"".join(piece.data for piece in whole.feed(stream))
    cut = Unwrapper("stream", is_client=True)
    found = b"".join(piece.data for i in range(len(stream)) for piece in cut.feed(stream[i : i + 1]))
    assert found == expected
    assert cut.take_envelope_bytes() == whole.take_envelope_bytes() > 0


def test_heads_are_read_as_http_writes_them() -> None:
    assert is_upgrade(request()) and is_upgrade(RESPONSE)
    assert not is_upgrade(b"HTTP/1.1 400 Bad Request\r\nUpgrade: websocket\r\n\r\n")
    assert not is_upgrade(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert path_of(request("/a/b?c=d")) == "/a/b"
