"""The load for ``benchmarks.queues``: plain sockets and frames made beforehand, so that the hub is what is measured.

``python -m benchmarks.queues_load PORT KIND MANY SECONDS``, in a process of its own; prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field

from wirelake.live.casual.wire import encode
from wirelake.protocols import casual
from wirelake.protocols.casual import NULL_XID, Xid

from .live_load import connect, receive_exactly, take_core

HEADER = 32
PAYLOAD = b"x" * 512
EXECUTION = b"execution-------"
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
TRANSACTION = (
    enqueue_of(Xid(42, GTRID, b"bqual")),
    in_branch(casual.ResourcePrepareRequest),
    in_branch(casual.ResourceCommitRequest),
)


@dataclass
class Worker:
    """A connection that does its steps again and again, each when the reply to the last is there."""

    end: socket.socket
    kind: str
    steps: list[bytes] = field(default_factory=list)
    step: int = 0
    got: bytes = b""
    done: int = 0

    def begin(self) -> None:
        self.step = 0
        self.steps = self._steps()
        self.end.sendall(self.steps[0])

    def _steps(self) -> list[bytes]:
        if self.kind == "enqueue":
            return self.steps or [enqueue_of(NULL_XID)]
        gtrid = os.urandom(len(GTRID))
        return [step.replace(GTRID, gtrid) for step in TRANSACTION]

    def hear(self) -> None:
        self.got += self.end.recv(1 << 16)
        size = HEADER + int.from_bytes(self.got[24:32], "big")
        if len(self.got) < HEADER or len(self.got) < size:
            return
        if self.step == 0:
            assert self.got[48:64] != bytes(16), "the enqueue was refused"
        else:
            assert self.got[-4:] == bytes(4), "the branch was not prepared or committed"
        self.got = b""
        self.step += 1
        if self.step == len(self.steps):
            self.done += 1
            self.begin()
        else:
            self.end.sendall(self.steps[self.step])


def produce(port: int, kind: str, many: int, seconds: float) -> float:
    selector = selectors.DefaultSelector()
    workers = [Worker(shake_hands(port), kind) for _ in range(many)]
    for worker in workers:
        selector.register(worker.end, selectors.EVENT_READ, worker)
    start = time.perf_counter()
    for worker in workers:
        worker.begin()
    while time.perf_counter() < start + seconds:
        for key, _ in selector.select(PATIENCE):
            key.data.hear()
    return sum(worker.done for worker in workers) / (time.perf_counter() - start)


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
