"""Decode what a socket delivers, in any pieces: print every message as soon as its last byte is there.

python examples/follow_socket.py
"""

from __future__ import annotations

import socket
import threading

from wirelake import StreamDecoder, encode
from wirelake.codec.stream import Decoded, Event, Quarantined
from wirelake.protocols.mb import Publish, Request

MESSAGES = (
    Publish(topic="plant.boiler", version="1.0.0", payload=b'{"celsius": 81.5}'),
    Request(topic="plant.stop", version="1.0.0", request_id="6f1c2f0a-3c3e-4c1e-9a51-0d5b7f3f8f11", timeout=500),
)
DAMAGE = b"\x00\x00\x00\x08not this"


def send(end: socket.socket) -> None:
    """A peer that sends seven bytes at a time, and once undecodable bytes."""
    first, second = (encode(message, framing="tcp") for message in MESSAGES)
    stream = first + DAMAGE + second
    with end:
        for at in range(0, len(stream), 7):
            end.sendall(stream[at : at + 7])


def follow(end: socket.socket) -> None:
    decoder = StreamDecoder("mb")
    with end:
        while chunk := end.recv(4096):
            tell(decoder.feed(chunk))
    tell(decoder.finish())
    print(f"{decoder.bytes_in} bytes: {decoder.bytes_decoded} decoded, {decoder.bytes_quarantined} quarantined")


def tell(events: list[Event]) -> None:
    for event in events:
        match event:
            case Decoded(offset=offset, message=Request(topic=topic, request_id=request_id)):
                print(f"{offset:>4} a request to {topic}, id {request_id}")
            case Decoded(offset=offset, message=message):
                print(f"{offset:>4} {message.topic}: {message.payload.decode()}")
            case Quarantined(offset=offset, length=length, error=error):
                print(f"{offset:>4} {length} undecodable bytes: {error.rule}")


def main() -> None:
    here, there = socket.socketpair()
    peer = threading.Thread(target=send, args=(there,))
    peer.start()
    follow(here)
    peer.join()


if __name__ == "__main__":
    main()
