"""A report server in this process, on a source that says what a test wants."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from http.client import HTTPConnection, HTTPResponse
from typing import Any

from wirelake.report.refresh import MAX_ID
from wirelake.report.server import ReportServer

SECONDS = 20.0
TOKEN = "a-token-for-tests+/="
POLICY = "default-src 'none'; script-src 'sha256-abc='"

HOSTILE = [
    "x" * MAX_ID,
    "x" * (MAX_ID + 1),
    "",
    "../../../etc/passwd",
    "%2e%2e%2f_lake.json",
    "'; drop table gold_sessions; --",
    '" or ""="',
    "connection:' union select 1 --",
    "\u202eשלום😀",
    "%00",
    "%ff%fe",
    "<script>alert(1)</script>",
    "a%0d%0aSet-Cookie:%20x=1",
    "None",
    "exchange:nobody:0",
]
"""Ids of no conversation, as somebody would send them who looks for a hole."""


class Stand:
    """A source that says what it is told to."""

    def __init__(self) -> None:
        self.commit = 1
        self.fault: Exception | None = None
        self.recent_fault: Exception | None = None
        self.until_us: int | None = None
        self.asked: list[str] = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.known: dict[str, Any] = {"one": {"id": "one", "title": "</script>"}}

    def number(self) -> int:
        return self.commit

    def report(self, progress: Callable[[str], None]) -> dict[str, Any]:
        progress("all of it")
        if self.fault is not None:
            raise self.fault
        return {"about": {"commit": self.commit, "made": f"at {self.commit}"}, "rows": "r" * 200_000}

    def recent(self, known: int) -> dict[str, Any] | None:
        if self.recent_fault is not None:
            raise self.recent_fault
        if known == self.commit:
            return None
        return {"commit": self.commit, "until_us": self.until_us, "behind": ["</script>"]}

    def render(self, report: dict[str, Any]) -> str:
        head = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        return f"<!doctype html>{head}<p>commit {report['about']['commit']}{'<br>' * 50_000}"

    def conversation(self, id: str) -> dict[str, Any] | None:
        self.asked.append(id)
        assert self.may_answer.wait(SECONDS)
        if self.fault is not None:
            raise self.fault
        return self.known.get(id)


class Served:
    """A server that runs, and what it told people."""

    def __init__(self, source: Any, host: str = "127.0.0.1", token: str = "", port: int = 0) -> None:
        self.source = source
        self.told: list[str] = []
        self.server = ReportServer(source, (host, port), token, self.told.append, every=0.01)
        self.server.begin()
        self._thread = threading.Thread(target=self.server.run)
        self._thread.start()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.server.port), timeout=SECONDS)

    def client(self) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self.server.port, timeout=SECONDS)

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[HTTPResponse, bytes]:
        """Headers with _ for -."""
        client = self.client()
        try:
            client.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
            answer = client.getresponse()
            return answer, answer.read()
        finally:
            client.close()

    def state(self) -> dict[str, Any]:
        return dict(json.loads(self.ask("/state")[1]))

    def raw(self, data: bytes) -> bytes:
        """All that comes until the server ends the connection."""
        with self.connect() as one:
            one.sendall(data)
            found = b""
            while piece := one.recv(65536):
                found += piece
            return found

    def end(self) -> None:
        self.server.stop()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()
        assert self.server.close()


Serve = Callable[..., Served]
