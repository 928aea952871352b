"""The load for ``benchmarks.live``: plain sockets and frames made beforehand, so that the server is what is measured.

``python -m benchmarks.live_load PROTOCOL RUN SECONDS PORT CORE``, in a process of its own; prints one line of JSON. All
frames of a run have the same size, so that counting bytes counts frames.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import struct
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

PAYLOAD = b"x" * 100
RID = b"3f2b8c1e-6d4a-4b7e-9c05-1a2b3c4d5e6f"
BATCH = 512
"""Frames that are handed to the system at once."""
RECEIVE = 1 << 16
IN_FLIGHT = 20_000
"""Messages sent and not yet received: enough to keep a server busy, little enough to stay below its limits."""
PATIENCE = 30.0
PACE = 1_000
"""Requests per second of the paced run."""


def connect(port: int, host: str = "127.0.0.1") -> socket.socket:
    made = socket.create_connection((host, port))
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def receive_exactly(end: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = end.recv(min(size, RECEIVE))
        if not part:
            raise ConnectionError("the server closed the connection")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


# --- the protocols


@dataclass
class Roles:
    """Connections that are ready, and the frames that go over them."""

    sender: socket.socket
    receivers: list[socket.socket]
    frame: bytes
    received_size: int
    answer: Callable[[bytes], bytes] | None = None
    """What a service sends for whole frames of requests; all of one size."""
    request_size: int = 0
    in_flight: int = IN_FLIGHT


class Protocol(ABC):
    def __init__(self, port: int) -> None:
        self.port = port

    @abstractmethod
    def fan_out(self, receivers: int) -> Roles: ...

    @abstractmethod
    def requests(self) -> Roles: ...


class Echo(Protocol):
    """The reference: what is sent comes back on the same connection. Frames as long as those of mb."""

    def fan_out(self, receivers: int) -> Roles:
        end = connect(self.port)
        body = b"publish:bench.load:1.0.0\n" + PAYLOAD
        frame = struct.pack(">I", len(body)) + body
        return Roles(end, [end], frame, len(frame))

    def requests(self) -> Roles:
        return self.fan_out(1)


class Mb(Protocol):
    def _open(self) -> socket.socket:
        end = connect(self.port)
        self._read(end)
        return end

    def _read(self, end: socket.socket) -> bytes:
        return receive_exactly(end, *struct.unpack(">I", receive_exactly(end, 4)))

    def _frame(self, header: bytes, payload: bytes) -> bytes:
        body = header + b"\n" + payload
        return struct.pack(">I", len(body)) + body

    def _subscribe(self, end: socket.socket, action: str) -> None:
        args = json.dumps({"action": action, "topic": "bench.load"}).encode()
        end.sendall(self._frame(b"request:system.topic.subscribe:1.0.0:" + RID, args))
        answer = self._read(end)
        assert answer.endswith(b'{"status":"success"}'), answer

    def fan_out(self, receivers: int) -> Roles:
        ends = [self._open() for _ in range(receivers)]
        for end in ends:
            self._subscribe(end, "publish")
        frame = self._frame(b"publish:bench.load:1.0.0", PAYLOAD)
        return Roles(self._open(), ends, frame, len(frame) + 1 + len(RID))

    def requests(self) -> Roles:
        service = self._open()
        self._subscribe(service, "request")
        frame = self._frame(b"request:bench.load:1.0.0:" + RID, PAYLOAD)
        front = struct.pack(">I", len(frame) - 3) + b"response:bench.load:1.0.0:"
        at = frame.index(RID)
        size = len(frame)

        def answer(frames: bytes) -> bytes:
            tails = (frames[start + at : start + size] for start in range(0, len(frames), size))
            return front + front.join(tails)

        return Roles(self._open(), [service], frame, len(frame) + 1, answer, size)


class Ceda(Protocol):
    def _open(self) -> socket.socket:
        end = connect(self.port)
        cells = self._text(7, b"") + self._text(5, b"secret") + self._text(4, b"bench")
        end.sendall(self._frame(b"\x13\x03" + cells))
        answer = self._read(end)
        assert answer[:2] == b"\x13\x04" and b"Success" in answer, answer
        return end

    def _text(self, number: int, text: bytes) -> bytes:
        return struct.pack("<HH", number << 4 | 12, len(text)) + text

    def _read(self, end: socket.socket) -> bytes:
        magic, size = receive_exactly(end, 2)
        assert magic == 0x82
        return receive_exactly(end, size if size < 126 else int.from_bytes(receive_exactly(end, 2), "big"))

    def _frame(self, payload: bytes) -> bytes:
        size = len(payload)
        return (bytes((0x82, size)) if size < 126 else struct.pack(">BBH", 0x82, 126, size)) + payload

    def _subscribe(self, end: socket.socket) -> None:
        """Nobody answers this; but a server answers heartbeats, in the order in which things come."""
        end.sendall(self._frame(b"\x11\x0d" + self._text(3, b"bench.load")) + self._frame(b"\x01"))
        assert self._read(end) == b"\x01"

    def fan_out(self, receivers: int) -> Roles:
        ends = [self._open() for _ in range(receivers)]
        for end in ends:
            self._subscribe(end)
        frame = self._frame(b"\x61\x0abench.load" + self._text(1, PAYLOAD))
        return Roles(self._open(), ends, frame, len(frame))

    def requests(self) -> Roles:
        service = self._open()
        self._subscribe(service)
        names = b"\xff\xff\xff\x02MQ\x00"
        frame = self._frame(b"\x62\x0abench.load" + names + b"\x061001.1" + self._text(1, PAYLOAD))
        size = len(frame)
        ids = frame.index(b"bench.load") + 10
        rest = ids + 3
        record = frame.index(b"1001.1", rest) + 6
        reply = self._frame(b"\x63\x061001.1" + names + self._text(1, PAYLOAD))
        front = reply[: reply.index(names)]

        def answer(frames: bytes) -> bytes:
            tails = (
                frames[start + ids : start + record - 7] + frames[start + record : start + size]
                for start in range(0, len(frames), size)
            )
            return front + front.join(tails)

        return Roles(self._open(), [service], frame, len(reply), answer, size)


class Dsa(Protocol):
    """Updates of a subscription that all receivers share, and invokes."""

    in_flight = 8_000
    """What the queue of a subscription holds, which drops what is too much."""

    def fan_out(self, receivers: int) -> Roles:
        from tests.live.dsa import plain_link

        source = plain_link.PlainLink(self.port, "source")
        ends = [plain_link.PlainLink(self.port, f"reader{number}") for number in range(receivers)]
        for end in ends:
            end.subscribe(1, f"{source.path}/value")
        request_id = source.asked()
        frame = plain_link.update(request_id, PAYLOAD.decode())
        source.end.sendall(frame)
        for end in ends:
            while end.read().method != 0x81:
                pass
        return Roles(source.end, [end.end for end in ends], frame, len(frame), in_flight=self.in_flight)

    def requests(self) -> Roles:
        from tests.live.dsa import plain_link

        service, sender = plain_link.PlainLink(self.port, "service"), plain_link.PlainLink(self.port, "sender")
        frame = plain_link.frame(0x03, 1, PAYLOAD, target_path=f"{service.path}/run")
        reply = plain_link.frame(0x83, 1, PAYLOAD, status=0x20)
        size = len(frame) - len(service.path) - 1

        def answer(frames: bytes) -> bytes:
            ids = (frames[start + 7 : start + 11] for start in range(0, len(frames), size))
            return b"".join(reply[:7] + request_id + reply[11:] for request_id in ids)

        return Roles(sender.end, [service.end], frame, len(reply), answer, size)


PROTOCOLS: dict[str, type[Protocol]] = {"echo": Echo, "mb": Mb, "ceda": Ceda, "dsa": Dsa}


# --- the runs


def measure_fan_out(roles: Roles, seconds: float) -> dict[str, float]:
    """As many as go through; ``messages`` are those published, each of which every receiver gets."""
    batch = roles.frame * BATCH
    receivers = len(roles.receivers)
    per_message = roles.received_size * receivers
    reading, both = _selectors(roles)
    left = memoryview(b"")
    sent = received = 0
    first = b""
    start = now = time.perf_counter()
    stop = start + seconds
    while now < stop or left or received < sent * per_message:
        may_send = bool(left) or (now < stop and sent - received // per_message < roles.in_flight)
        for key, events in (both if may_send else reading).select(1.0):
            end = key.fileobj
            assert isinstance(end, socket.socket)
            if events & selectors.EVENT_READ:
                data = end.recv(RECEIVE)
                if not data or end not in roles.receivers:
                    raise ConnectionError(f"the server closed the connection, or said {data[:200]!r}")
                first = first or data
                received += len(data)
            if events & selectors.EVENT_WRITE:
                if not left:
                    left = memoryview(batch)
                    sent += BATCH
                left = left[end.send(left) :]
        now = time.perf_counter()
        if now > stop + PATIENCE:
            raise TimeoutError(f"{received} of {sent * per_message} bytes came")
    took = now - start
    assert PAYLOAD in first, first
    return {"messages": sent, "seconds": took, "rate": sent / took, "deliveries": sent * receivers / took}


def _selectors(roles: Roles) -> tuple[selectors.BaseSelector, selectors.BaseSelector]:
    """One for when nothing is to be sent, and one for when something is."""
    ends = {roles.sender, *roles.receivers}
    reading, both = selectors.DefaultSelector(), selectors.DefaultSelector()
    for end in ends:
        end.setblocking(False)
        reading.register(end, selectors.EVENT_READ)
        both.register(end, selectors.EVENT_READ | (selectors.EVENT_WRITE if end is roles.sender else 0))
    return reading, both


def measure_one_by_one(roles: Roles, seconds: float) -> dict[str, float]:
    """Window 1: the next request when the answer is there."""
    sender, (service,), frame = roles.sender, roles.receivers, roles.frame
    answer, asked_size, answered_size = roles.answer, roles.request_size, roles.received_size
    count = 0
    start = time.perf_counter()
    stop = start + seconds
    while time.perf_counter() < stop:
        for _ in range(16):
            sender.send(frame)
            if answer is not None:
                asked = service.recv(RECEIVE)
                if len(asked) != asked_size:
                    asked += receive_exactly(service, asked_size - len(asked))
                service.send(answer(asked))
            answered = sender.recv(RECEIVE)
            if len(answered) != answered_size:
                answered += receive_exactly(sender, answered_size - len(answered))
        count += 16
    took = time.perf_counter() - start
    assert answered.endswith(PAYLOAD), answered
    return {"messages": count, "seconds": took, "rate": count / took}


def measure_paced(roles: Roles, seconds: float) -> dict[str, float]:
    """One request each millisecond, the next one not before the reply to the last: what such a load costs a server."""
    served, sent = roles.receivers[0], 0
    began = time.perf_counter()
    while (due := began + sent / PACE) < began + seconds:
        time.sleep(max(0.0, due - time.perf_counter()))
        roles.sender.sendall(roles.frame)
        if roles.answer is not None:
            served.sendall(roles.answer(receive_exactly(served, roles.request_size)))
        receive_exactly(roles.sender, roles.received_size)
        sent += 1
    return {"rate": sent / (time.perf_counter() - began)}


def measure_window(roles: Roles, seconds: float, window: int) -> dict[str, float]:
    """So many requests are open all the time."""
    sender, (service,), frame = roles.sender, roles.receivers, roles.frame
    selector = selectors.DefaultSelector()
    selector.register(sender, selectors.EVENT_READ)
    if service is not sender:
        selector.register(service, selectors.EVENT_READ)
    asked, answered = b"", b""
    count = 0
    start = time.perf_counter()
    stop = start + seconds
    sender.sendall(frame * window)
    while time.perf_counter() < stop:
        for key, _ in selector.select(1.0):
            end = key.fileobj
            assert isinstance(end, socket.socket)
            data = end.recv(RECEIVE)
            if not data:
                raise ConnectionError("the server closed the connection")
            if end is sender:
                answered += data
                whole = len(answered) // roles.received_size
                answered = answered[whole * roles.received_size :]
                count += whole
                sender.sendall(frame * whole)
            else:
                asked += data
                whole = len(asked) // roles.request_size * roles.request_size
                if whole:
                    assert roles.answer is not None
                    service.sendall(roles.answer(asked[:whole]))
                    asked = asked[whole:]
    took = time.perf_counter() - start
    return {"messages": count, "seconds": took, "rate": count / took}


RUNS: dict[str, Callable[[Protocol, float], dict[str, float]]] = {
    "1-1": lambda protocol, seconds: measure_fan_out(protocol.fan_out(1), seconds),
    "1-10": lambda protocol, seconds: measure_fan_out(protocol.fan_out(10), seconds),
    "window-1": lambda protocol, seconds: measure_one_by_one(protocol.requests(), seconds),
    "window-100": lambda protocol, seconds: measure_window(protocol.requests(), seconds, 100),
    "window-256": lambda protocol, seconds: measure_window(protocol.requests(), seconds, 256),
    "paced": lambda protocol, seconds: measure_paced(protocol.requests(), seconds),
}


def take_core(place: int) -> None:
    """Stays on the first (0) or the last (-1) core. Servers have the last one."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[place]})


def main(protocol: str, run: str, seconds: str, port: str, core: str) -> None:
    take_core(int(core))
    print(json.dumps(RUNS[run](PROTOCOLS[protocol](int(port)), float(seconds))))


if __name__ == "__main__":
    main(*sys.argv[1:])
