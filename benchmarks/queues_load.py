"""The load for ``benchmarks.queues``: plain sockets and frames made beforehand, so that the hub is what is measured.

``python -m benchmarks.queues_load PORT KIND MANY SECONDS``, in a process of its own; prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import time

from wirelake.live.casual.wire import encode
from wirelake.protocols import casual
from wirelake.protocols.casual import NULL_XID, Xid

from .live_load import connect, receive_exactly, take_core

HEADER = 32
PAYLOAD = b"x" * 512
EXECUTION = b"execution-------"
NIL, XA_OK = bytes(16), bytes(4)
PATIENCE = 30.0


def run_load(port: int, kind: str, many: int, seconds: float) -> float:
    """Return how many enqueues, transactions or calls per second the hub does."""
    command = [sys.executable, "-m", "benchmarks.queues_load", str(port), kind, str(many), str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds + 120)
    if done.returncode:
        raise RuntimeError(f"{kind} {many}: {done.stderr.strip().splitlines()[-1]}")
    return float(json.loads(done.stdout)["rate"])


def read_frame(end: socket.socket) -> bytes:
    header = receive_exactly(end, HEADER)
    return header + receive_exactly(end, int.from_bytes(header[24:32], "big"))


def shake_hands(port: int) -> socket.socket:
    end = connect(port)
    offer = casual.DomainConnectRequest(
        os.urandom(16), EXECUTION, casual.Domain(os.urandom(16), "load"), casual.Offer((1000,))
    )
    end.sendall(encode(offer))
    read_frame(end)
    return end


def enqueue_of(xid: Xid, correlation: bytes = b"c" * 16) -> bytes:
    message = casual.Enqueued(bytes(16), "", "", 0, "X_OCTET/", PAYLOAD)
    return encode(casual.QueueEnqueueRequest(correlation, EXECUTION, "bench", xid, message))


def in_branch(kind: type[casual.ResourcePrepareRequest | casual.ResourceCommitRequest]) -> bytes:
    return encode(kind(b"c" * 16, EXECUTION, Xid(42, GTRID, b"bqual"), casual.Resource(-1), 0))


GTRID = b"gtrid-of-sixteen"
TRANSACTION = [
    frame.split(GTRID)
    for frame in (
        enqueue_of(Xid(42, GTRID, b"bqual")),
        in_branch(casual.ResourcePrepareRequest),
        in_branch(casual.ResourceCommitRequest),
    )
]
"""What stands before and behind the id of a transaction, which is another one each time."""


class Worker:
    """A connection that does its steps again and again, each when the reply to the last is there."""

    def __init__(self, port: int, kind: str) -> None:
        end = shake_hands(port)
        self.number, self.send, self.receive = end.fileno(), end.send, end.recv
        self.end = end
        self.is_enqueue = kind == "enqueue"
        self.steps = [enqueue_of(NULL_XID)]
        self.step = self.done = 0
        self.got = b""

    def begin(self) -> None:
        self.step = 0
        if not self.is_enqueue:
            gtrid = os.urandom(len(GTRID))
            self.steps = [gtrid.join(around) for around in TRANSACTION]
        self.send(self.steps[0])

    def hear(self) -> None:
        reply = self.receive(1 << 16)
        if self.got or len(reply) < HEADER or len(reply) < HEADER + int.from_bytes(reply[24:32], "big"):
            self.got += reply
            size = HEADER + int.from_bytes(self.got[24:32], "big")
            if not reply or len(self.got) < HEADER or len(self.got) < size:
                assert reply, "the hub closed the connection"
                return
            reply, self.got = self.got, b""
        if self.step == 0:
            assert reply[48:64] != NIL, "the enqueue was refused"
        else:
            assert reply[-4:] == XA_OK, "the branch was not prepared or committed"
        self.step += 1
        if self.step < len(self.steps):
            self.send(self.steps[self.step])
            return
        self.done += 1
        if self.is_enqueue:
            self.step = 0
            self.send(self.steps[0])
        else:
            self.begin()


def produce(port: int, kind: str, many: int, seconds: float) -> float:
    poll = select.epoll()
    workers = {worker.number: worker for worker in (Worker(port, kind) for _ in range(many))}
    for number in workers:
        poll.register(number, select.EPOLLIN)
    hear = {number: worker.hear for number, worker in workers.items()}
    start = time.perf_counter()
    for worker in workers.values():
        worker.begin()
    while time.perf_counter() < start + seconds:
        for number, _ in poll.poll(PATIENCE):
            hear[number]()
    return sum(worker.done for worker in workers.values()) / (time.perf_counter() - start)


def call(port: int, window: int, seconds: float) -> float:
    """Keep so many calls open on one connection; replies have one size, so that counting bytes counts them."""
    end = shake_hands(port)
    service = casual.Service("echo", 0)

    def one(number: int) -> bytes:
        return encode(
            casual.ServiceCallRequest(
                number.to_bytes(16, "big"),
                EXECUTION,
                service,
                casual.Parent(""),
                NULL_XID,
                0,
                casual.Buffer("X_OCTET/", b"x" * 100),
            )
        )

    frames = [one(number + 1) for number in range(window * 8)]
    sent = window
    end.sendall(b"".join(frames[:window]))
    size = len(read_frame(end))
    received, got = 1, 0
    start = time.perf_counter()
    while time.perf_counter() < start + seconds:
        missing = window - (sent - received)
        if missing:
            end.sendall(b"".join(frames[number % len(frames)] for number in range(sent, sent + missing)))
            sent += missing
        got += len(end.recv(1 << 16))
        received += got // size
        got %= size
    return received / (time.perf_counter() - start)


def main() -> None:
    port, kind, many, seconds = sys.argv[1:]
    take_core(0)
    load = (
        call(int(port), int(many), float(seconds))
        if kind == "call"
        else produce(int(port), kind, int(many), float(seconds))
    )
    print(json.dumps({"rate": load}))


if __name__ == "__main__":
    main()
