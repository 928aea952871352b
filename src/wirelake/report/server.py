"""A report over HTTP, read-only: the page, its data, any conversation of the lake; made anew after each commit.

    with ReportServer(LakeSource(lake), ("127.0.0.1", 8765)) as server:
        server.begin()                           # makes the first report
        print(server.url)
        server.run()                             # until another thread or a signal calls server.stop()

One thread a connection, and a bounded number of those: who comes when all are taken gets the place of who has been
silent for longest. A request has a time to arrive and an answer a time to be taken, so nobody holds up others.
"""

from __future__ import annotations

import errno
import os
import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any
from urllib.parse import quote

from .access import Access, host_text, is_loopback, make_token
from .follow import Editions, Source, Tell, first_line
from .http import MAX_HEAD, Answer, Refused, Request, read_head, text, write_answer

MAX_CONNECTIONS = 64
BACKLOG = 128
REQUEST_SECONDS = 15.0
ANSWER_SECONDS = 60.0
END_SECONDS = 10.0
LINGER_SECONDS = 1.0
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_NOTHING = text("")


class ReportServer:
    """Listens from the beginning, answers while ``run`` runs. OSError if the address cannot be had.

    ``token``: who asks must know it; made by chance if there is none and others than this machine may ask. ``tell``
    is called with a line for people when something goes wrong.
    """

    def __init__(
        self,
        source: Source,
        listen: tuple[str, int],
        token: str = "",
        tell: Tell = lambda line: None,
        every: float = 1.0,
    ) -> None:
        self.editions = Editions(source, tell, every)
        self._tell = tell
        self._listeners = bind(*listen)
        bound = [one.getsockname() for one in self._listeners]
        self.port: int = bound[0][1]
        is_local = all(is_loopback(address[0]) for address in bound)
        self.token = token or ("" if is_local else make_token())
        hosts = {*LOOPBACK, listen[0], *(address[0] for address in bound)} if is_local else ()
        self._access = Access(self.token, hosts, self.port)
        self._host = socket.gethostname() if listen[0] == "*" or _is_any(bound[0][0]) else listen[0]
        self._connections = _Connections()
        self._wake, self._woken = socket.socketpair()

    @property
    def url(self) -> str:
        return f"http://{host_text(self._host)}:{self.port}/"

    @property
    def url_with_token(self) -> str:
        """What a browser opens for the first time."""
        return f"{self.url}?token={quote(self.token, safe='')}" if self.token else self.url

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._connections)

    def begin(self, progress: Tell = lambda step: None) -> None:
        """Makes the first report, which may take a while; raises whatever is wrong with the lake."""
        self.editions.begin(progress)

    def run(self) -> None:
        """Answers until ``stop``."""
        with selectors.DefaultSelector() as selector:
            for one in (*self._listeners, self._woken):
                selector.register(one, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj is self._woken:
                        return
                    self._accept(key.fileobj)  # type: ignore[arg-type]

    def stop(self) -> None:
        """May be called from any thread, and from a signal handler."""
        with suppress(OSError):
            self._wake.send(b"x")

    def close(self, seconds: float = END_SECONDS) -> bool:
        """Says whether all threads have ended by then; one that waits for a query may not."""
        for one in (*self._listeners, self._wake, self._woken):
            one.close()
        end = time.monotonic() + seconds
        is_quiet = self._connections.end(seconds)
        return self.editions.end(max(0.0, end - time.monotonic())) and is_quiet

    def __enter__(self) -> ReportServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _accept(self, listener: socket.socket) -> None:
        try:
            one, _ = listener.accept()
        except OSError:  # gone again, or this process has no more files: the connections that it has will end
            time.sleep(0.05)
            return
        one.settimeout(REQUEST_SECONDS)
        if not self._connections.add(one, self._talk):
            with suppress(OSError):
                one.setblocking(False)
                one.send(write_answer(Answer(503, text("too many connections\n"), (("Retry-After", "5"),)), None, True))
            one.close()

    def _talk(self, one: socket.socket) -> None:
        """All requests of a connection."""
        rest = b""
        while True:
            request: Request | None = None
            try:
                self._connections.waits(one)
                head, rest = _read(one, rest)
                if head is None:
                    return
                self._connections.is_answered(one)
                request = read_head(head)
                answer, is_last = self._answer(request), request.is_last
            except Refused as refused:
                answer = refused.answer
                is_last = refused.is_last or (request is not None and request.is_last)
            one.settimeout(ANSWER_SECONDS)
            one.sendall(write_answer(answer, request, is_last))
            if is_last:
                _linger(one)
                return

    def _answer(self, request: Request) -> Answer:
        self._access.check(request)
        newest = self.editions.newest
        match request.path:
            case "/":
                return Answer(200, newest.page)
            case "/state":
                return Answer(200, newest.state)
            case "/report.json":
                return Answer(200, newest.data)
            case "/conversation":
                return self._conversation(request.query.get("id", ""))
            case "/favicon.ico":
                return Answer(204, _NOTHING)
            case _:
                raise Refused(404, "there are /, /state, /report.json and /conversation?id=...")

    def _conversation(self, id: str) -> Answer:
        try:
            found = self.editions.conversation(id)
        except Refused:
            raise
        except Exception as error:  # a fault of ours must not look like a lost connection
            self._tell(f"a conversation cannot be shown: {first_line(error)}")
            raise Refused(500, "the conversation cannot be shown") from None
        if found is None:
            raise Refused(404, "there is no such conversation")
        return Answer(200, found)


class _Connections:
    """The open ones, each with its thread; those that wait for a request in the order in which they began to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[socket.socket, threading.Thread] = {}
        self._waiting: dict[socket.socket, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, one: socket.socket, talk: Callable[[socket.socket], None]) -> bool:
        """False if there is no place, nor one to be had from somebody who is silent."""
        thread = threading.Thread(target=self._serve, args=(one, talk), name="report-connection", daemon=True)
        with self._lock:
            if len(self._open) >= MAX_CONNECTIONS:
                if not self._waiting:
                    return False
                oldest = next(iter(self._waiting))
                del self._waiting[oldest], self._open[oldest]
                _shut(oldest)
            self._open[one] = thread
            self._waiting[one] = None
        try:
            thread.start()
        except RuntimeError:  # the system gives no more threads
            self._forget(one)
            return False
        return True

    def waits(self, one: socket.socket) -> None:
        with self._lock:
            if one in self._open:
                self._waiting[one] = None

    def is_answered(self, one: socket.socket) -> None:
        with self._lock:
            self._waiting.pop(one, None)

    def end(self, seconds: float) -> bool:
        """Ends all of them; says whether their threads have ended by then."""
        end = time.monotonic() + seconds
        with self._lock:
            threads = list(self._open.values())
            for one in self._open:
                _shut(one)
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)

    def _serve(self, one: socket.socket, talk: Callable[[socket.socket], None]) -> None:
        try:
            talk(one)
        except OSError:  # gone, or too slow
            pass
        finally:
            self._forget(one)
            one.close()

    def _forget(self, one: socket.socket) -> None:
        with self._lock:
            self._open.pop(one, None)
            self._waiting.pop(one, None)


def _read(one: socket.socket, data: bytes) -> tuple[bytes | None, bytes]:
    """The head of the next request, and what came after it; None if nothing comes any more."""
    deadline = time.monotonic() + REQUEST_SECONDS
    while b"\r\n\r\n" not in data:
        if len(data) > MAX_HEAD:
            raise Refused(431, "the request is too long", is_last=True)
        one.settimeout(max(deadline - time.monotonic(), 0.001))
        piece = one.recv(MAX_HEAD)
        if not piece:
            return None, b""
        data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    return head.lstrip(b"\r\n"), rest


def _linger(one: socket.socket) -> None:
    """Takes what is still coming, for a moment: closing a socket with unread bytes would take the answer back."""
    one.shutdown(socket.SHUT_WR)
    end = time.monotonic() + LINGER_SECONDS
    while (left := end - time.monotonic()) > 0:
        one.settimeout(left)
        if not one.recv(MAX_HEAD):
            return


def _shut(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


def _is_any(address: str) -> bool:
    return address in ("0.0.0.0", "::")


def bind(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen on all addresses of a host (``*``: of this machine), on the same port. OSError if not."""
    name = None if host == "*" else host
    found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    refusal: OSError | None = None
    for family, kind, number, _, address in dict.fromkeys(found):
        picked = sockets[0].getsockname()[1] if sockets else port
        try:
            sockets.append(_listen(family, kind, number, (address[0], picked, *address[2:])))
        except OSError as error:
            refusal = error
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):  # of a kind that this machine has not
                break
    else:
        if sockets:
            return sockets
    for one in sockets:
        one.close()
    raise refusal or OSError(f"{host} has no address to listen on")


def _listen(family: int, kind: int, number: int, address: tuple[Any, ...]) -> socket.socket:
    one = socket.socket(family, kind, number)
    try:
        if os.name == "posix":
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind(address)
        one.listen(BACKLOG)
        one.setblocking(False)
    except OSError:
        one.close()
        raise
    return one
