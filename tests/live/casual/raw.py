"""A domain as a process, and raw frames over a socket to it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.live.casual.play import uuid
from wirelake.codec import encode
from wirelake.codec.stream import Decoded, StreamDecoder
from wirelake.live.casual.wire import NIL, NULL_XID
from wirelake.protocols import casual as c

COMMAND = [sys.executable, "-c", "from wirelake.cli import main; main()", "serve", "--casual", "127.0.0.1:0"]
SECONDS = 30.0


class Wire:
    """One connection, in frames."""

    def __init__(self, address: str, versions: Sequence[int] | None = (1000,)) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), SECONDS)
        self._decoder = StreamDecoder("casual")
        self._heard: list[Any] = []
        self._count = 0
        if versions is not None:
            self.hello = self.ask(c.DomainConnectRequest, c.Domain(uuid(1), "raw"), c.Offer(tuple(versions)))

    def send(self, kind: Any, *fields: Any) -> bytes:
        self._count += 1
        correlation = uuid(self._count)
        self.socket.sendall(encode(kind(correlation, uuid(500), *fields)))
        return correlation

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> Any:
        while not self._heard:
            assert self._hear(), "the domain closed the connection"
        return self._heard.pop(0)

    def _hear(self) -> bool:
        data = self.socket.recv(1 << 16)
        for event in self._decoder.feed(data):
            assert isinstance(event, Decoded), event
            self._heard.append(event.message)
        return bool(data)

    def is_closed(self) -> bool:
        """Wait until the domain closes the connection, with nothing more to say."""
        with suppress(ConnectionError):
            while self._hear():
                pass
        return not self._heard

    def is_quiet(self) -> bool:
        """Tell whether nothing came for what was sent before: the reply to a question comes first."""
        heard = self.ask(c.DomainDiscoverRequest, c.Domain(uuid(1), "raw"), (), ())
        return isinstance(heard, c.DomainDiscoverReply) and not self._heard

    def close(self) -> None:
        self.socket.close()

    def ask(self, kind: Any, *fields: Any) -> Any:
        correlation = self.send(kind, *fields)
        reply = self.receive()
        assert reply.correlation == correlation and reply.execution == uuid(500)
        return reply

    def call(
        self,
        service: str,
        kind: str = "X_OCTET/",
        payload: bytes = b"",
        xid: c.Xid = NULL_XID,
        flags: int = 0,
        timeout: int = 5_000_000,
    ) -> Any:
        buffer = c.Buffer(kind, payload)
        return self.ask(c.ServiceCallRequest, c.Service(service, timeout), c.Parent(""), xid, flags, buffer)

    def enqueue(
        self,
        payload: bytes,
        xid: c.Xid = NULL_XID,
        queue: str = "qA",
        *,
        id: bytes = NIL,
        properties: str = "",
        available: int = 0,
    ) -> bytes:
        message = c.Enqueued(id, properties, "", available, "X_OCTET/", payload)
        return self.ask(c.QueueEnqueueRequest, queue, xid, message).id  # type: ignore[no-any-return]

    def take(
        self, xid: c.Xid = NULL_XID, queue: str = "qA", *, id: bytes = NIL, properties: str = "", block: bool = False
    ) -> Sequence[Any]:
        reply = self.ask(c.QueueDequeueRequest, queue, xid, c.Selector(properties, id), block)
        return reply.message  # type: ignore[no-any-return]

    def dequeue(self, xid: c.Xid = NULL_XID, queue: str = "qA") -> list[bytes]:
        return [message.payload for message in self.take(xid, queue)]

    def resource(self, kind: Any, xid: c.Xid, flags: int = 0) -> int:
        reply = self.ask(kind, xid, c.Resource(-1), flags)
        assert reply.xid == xid and reply.resource.id == -1
        return int(reply.resource.state)


class Process:
    """A hub with the ``hub.toml`` of a directory. ``inside``: a command that runs another one inside something."""

    def __init__(self, directory: Path, inside: Sequence[str] = ()) -> None:
        with (directory / "stderr").open("ab") as errors:
            self.process = subprocess.Popen(
                [*inside, *COMMAND, "--config", "hub.toml"],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=directory,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, (directory / "stderr").read_text()
        told = json.loads(line)
        assert list(told) == ["listening"] and list(told["listening"]) == ["casual"]
        self.address = told["listening"]["casual"]

    def kill(self, number: int = signal.SIGKILL) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(SECONDS)
        assert self.process.stdout is not None
        self.process.stdout.close()
