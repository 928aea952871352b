"""DSA links made of plain sockets, for tests of processes and for benchmarks."""

from __future__ import annotations

import random
import socket

import msgspec

from wirelake.live.dsa import wire
from wirelake.live.dsa.handshake import ClientHandshake, Identity
from wirelake.live.dsa.wire import Outgoing, Received, write_headers, write_value
from wirelake.protocols import dsa as p
from wirelake.protocols.dsa import Headers

SETTINGS = '[dsa]\nallow_all = true\n[dsa.roles.default]\nlevel = "config"\n'
"""Of a hub that lets every link do everything."""
QUEUE_BYTES = 1_000_000
SECONDS = 30.0


class PlainLink:
    """A link that has done its handshake. Without a ``seed`` it is a new one each time."""

    def __init__(
        self, port: int, name: str, *, seed: int | None = None, token: str = "", is_responder: bool = True
    ) -> None:
        self.end = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
        self.end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        chance = random.SystemRandom()
        self.identity = Identity.make(chance if seed is None else random.Random(seed), f"{name}-")
        salt = chance.randbytes(32)
        handshake = ClientHandshake(self.identity, salt, token=token, is_responder=is_responder)
        try:
            self.end.sendall(wire.control(p.F0, handshake.hello()))
            self.end.sendall(wire.control(p.F2, handshake.answer(self.read())))
            welcome = handshake.finish(self.read())
        except BaseException:
            self.end.close()
            raise
        self.path, self.broker = welcome.path, welcome.dsid

    def __enter__(self) -> PlainLink:
        return self

    def __exit__(self, *_: object) -> None:
        self.end.close()

    def read(self) -> Received:
        """Return the next message, acks included."""
        head = self._exactly(4)
        rest = self._exactly(int.from_bytes(head, "little") - 4)
        return wire.read_frame(head + rest, 4, 4 + len(rest))

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size:
            part = self.end.recv(size)
            if not part:
                raise ConnectionError("the broker closed the connection")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def read_reply(self) -> Received:
        """Return the next message that is neither ack nor ping."""
        while (message := self.read()).method >= p.F0:
            pass
        return message

    def ask(self, method: int, request_id: int, body: bytes = b"", ack_id: int = 0, **headers: object) -> None:
        self.end.sendall(frame(method, request_id, body, ack_id, **headers))

    def call(self, request_id: int, path: str, params: object) -> Received:
        """Invoke an action, and return its reply."""
        self.ask(p.INVOKE, request_id, msgspec.msgpack.encode(params), target_path=path)
        while (reply := self.read_reply()).method != p.INVOKE_R:
            pass
        return reply

    def subscribe(self, request_id: int, path: str, qos: int = 1) -> None:
        self.ask(p.SUB, request_id, target_path=path, qos=qos, queue_size=QUEUE_BYTES)

    def asked(self) -> int:
        """Return the id of the next request that comes."""
        while (message := self.read()).method >= p.SUB_R:
            pass
        return message.request_id


def frame(method: int, request_id: int, body: bytes = b"", ack_id: int = 0, **headers: object) -> bytes:
    return Outgoing(method, request_id, write_headers(Headers(**headers)), body).stamped(ack_id)  # type: ignore[arg-type]


def update(request_id: int, value: object, ack_id: int = 0) -> bytes:
    """Return a message with a value."""
    return frame(p.SUB_R, request_id, write_value(value), ack_id, status=0)
