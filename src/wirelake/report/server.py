"""A report over HTTP, read-only: the page, its data, any conversation of the lake; renewed after each commit.

    with ReportServer(LakeSource(lake), ("127.0.0.1", 8765)) as server:
        server.begin()                           # makes the first report
        print(server.url)
        server.run()                             # until another thread or a signal calls server.stop()

Each connection has a thread, and their number is bounded: a new connection replaces the one that has been idle for
longest, or one whose client does not read. Requests must arrive, and responses must be read, within a time limit, so no
client blocks others.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import quote

from ..web.http import MAX_HEAD, Refused, Request, Response, is_loopback, read_head, text, write_response
from ..web.sockets import bind
from .access import Access, host_text, make_token
from .refresh import Follower, Say, Source, first_line

MAX_CONNECTIONS = 64
REQUEST_SECONDS = 15.0
RESPONSE_SECONDS = 60.0
STALL_SECONDS = 1.0
"""A client that takes longer to read a response gives way to a new connection when all places are taken."""
END_SECONDS = 10.0
LINGER_SECONDS = 1.0
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class ReportServer:
    """Listens from the beginning, responds while ``run`` runs. Raises OSError if it cannot listen.

    ``token``: what readers must present; random by default if other machines can connect. ``say`` is called with a line
    for people when something goes wrong.
    """

    def __init__(
        self, source: Source, listen: tuple[str, int], token: str = "", say: Say = lambda line: None, every: float = 1.0
    ) -> None:
        self.follower = Follower(source, say, every)
        self._say = say
        self._listeners = bind(*listen)
        bound = [listener.getsockname() for listener in self._listeners]
        self.port: int = bound[0][1]
        is_local = all(is_loopback(address[0]) for address in bound)
        self.token = token or ("" if is_local else make_token())
        hosts = {*LOOPBACK, listen[0], *(address[0] for address in bound)} if is_local else ()
        self._access = Access(self.token, hosts, self.port)
        is_any = listen[0] == "*" or bound[0][0] in ("0.0.0.0", "::")
        self._host = socket.gethostname() if is_any else listen[0]
        self._connections = _Connections()
        self._wake, self._woken = socket.socketpair()

    @property
    def url(self) -> str:
        return f"http://{host_text(self._host)}:{self.port}/"

    @property
    def url_with_token(self) -> str:
        """The address for the first visit of a browser."""
        return f"{self.url}?token={quote(self.token, safe='')}" if self.token else self.url

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    def begin(self, progress: Say = lambda step: None) -> None:
        """Make the first report, which may take a while; raise whatever is wrong with the lake."""
        self.follower.begin(progress)

    def run(self) -> None:
        """Respond until ``stop``."""
        with selectors.DefaultSelector() as selector:
            for source in (*self._listeners, self._woken):
                selector.register(source, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj is self._woken:
                        return
                    self._accept(key.fileobj)  # type: ignore[arg-type]

    def stop(self) -> None:
        """End ``run``. May be called from any thread, and from a signal handler."""
        with suppress(OSError):
            self._wake.send(b"x")

    def close(self, seconds: float = END_SECONDS) -> bool:
        """Close everything; tell whether all threads have ended in time: one that waits for a query may not."""
        for opened in (*self._listeners, self._wake, self._woken):
            opened.close()
        end = time.monotonic() + seconds
        is_quiet = self._connections.end(seconds)
        return self.follower.end(max(0.0, end - time.monotonic())) and is_quiet

    def __enter__(self) -> ReportServer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:  # the client has gone, or this process is out of file descriptors until connections end
            time.sleep(0.05)
            return
        connection.settimeout(REQUEST_SECONDS)
        if not self._connections.add(connection, self._serve_connection):
            with suppress(OSError):
                connection.setblocking(False)
                busy = Response(503, text("too many connections\n"), (("Retry-After", "5"),))
                connection.send(write_response(busy, None, True))
            connection.close()

    def _serve_connection(self, connection: socket.socket) -> None:
        """Respond to all requests of a connection."""
        rest = b""
        while True:
            request: Request | None = None
            try:
                self._connections.mark_idle(connection)
                head, rest = _read(connection, rest)
                if head is None:
                    return
                self._connections.mark_busy(connection)
                request = read_head(head)
                response, is_last = self._respond(request), request.is_last
            except Refused as refused:
                response = refused.response
                is_last = refused.is_last or (request is not None and request.is_last)
            self._connections.mark_writing(connection)
            connection.settimeout(RESPONSE_SECONDS)
            connection.sendall(write_response(response, request, is_last))
            if is_last:
                _linger(connection)
                return

    def _respond(self, request: Request) -> Response:
        self._access.check(request)
        newest = self.follower.newest
        contents = {"/": newest.page, "/report.json": newest.data, "/recent.json": self.follower.recent.data}
        if request.path in contents:
            return Response(200, contents[request.path])
        if request.path == "/state":
            return Response(200, self.follower.state())
        if request.path == "/conversation":
            return self._conversation(request.query.get("id", ""))
        if request.path == "/favicon.ico":
            return Response(204, text(""))
        raise Refused(404, "there are /, /state, /report.json, /recent.json and /conversation?id=...")

    def _conversation(self, id: str) -> Response:
        try:
            content = self.follower.conversation(id)
        except Refused:
            raise
        except Exception as error:  # a bug must not look like a lost connection
            self._say(f"a conversation cannot be shown: {first_line(error)}")
            raise Refused(500, "the conversation cannot be shown") from None
        if content is None:
            raise Refused(404, "there is no such conversation")
        return Response(200, content)


class _Connections:
    """The open connections, each with its thread; idle ones, and those that write, in the order in which they began."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[socket.socket, threading.Thread] = {}
        self._idle: dict[socket.socket, None] = {}
        self._writing: dict[socket.socket, float] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, connection: socket.socket, serve: Callable[[socket.socket], None]) -> bool:
        """Serve a connection in a thread; tell whether there was a place, perhaps that of one that is idle, or of a
        client that does not read.
        """
        thread = threading.Thread(target=self._serve, args=(connection, serve), name="report-connection", daemon=True)
        with self._lock:
            if len(self._open) >= MAX_CONNECTIONS:
                oldest = next(iter(self._idle), None) or self._stalled()
                if oldest is None:
                    return False
                self._drop(oldest)
                _shut(oldest)
            self._open[connection] = thread
            self._idle[connection] = None
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads
            self._forget(connection)
            return False
        return True

    def _stalled(self) -> socket.socket | None:
        """Return the connection that has been writing for longest, if that is too long."""
        connection, since = next(iter(self._writing.items()), (None, 0.0))
        return connection if time.monotonic() - since > STALL_SECONDS else None

    def mark_idle(self, connection: socket.socket) -> None:
        with self._lock:
            self._writing.pop(connection, None)
            if connection in self._open:
                self._idle[connection] = None

    def mark_writing(self, connection: socket.socket) -> None:
        with self._lock:
            if connection in self._open:
                self._writing[connection] = time.monotonic()

    def mark_busy(self, connection: socket.socket) -> None:
        with self._lock:
            self._idle.pop(connection, None)

    def end(self, seconds: float) -> bool:
        """End all connections; tell whether their threads have ended in time."""
        end = time.monotonic() + seconds
        with self._lock:
            threads = list(self._open.values())
            for connection in self._open:
                _shut(connection)
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)

    def _serve(self, connection: socket.socket, serve: Callable[[socket.socket], None]) -> None:
        try:
            serve(connection)
        except OSError:  # gone, or too slow
            pass
        finally:
            self._forget(connection)
            connection.close()

    def _forget(self, connection: socket.socket) -> None:
        with self._lock:
            self._drop(connection)

    def _drop(self, connection: socket.socket) -> None:
        for known in (self._open, self._idle, self._writing):
            known.pop(connection, None)


def _read(connection: socket.socket, data: bytes) -> tuple[bytes | None, bytes]:
    """Return the head of the next request and the bytes after it; None at the end of the stream."""
    deadline = time.monotonic() + REQUEST_SECONDS
    while b"\r\n\r\n" not in data:
        if len(data) > MAX_HEAD:
            raise Refused(431, "the request is too long", is_last=True)
        connection.settimeout(max(deadline - time.monotonic(), 0.001))
        piece = connection.recv(MAX_HEAD)
        if not piece:
            return None, b""
        data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    return head.lstrip(b"\r\n"), rest


def _linger(connection: socket.socket) -> None:
    """Read on for a moment: closing a socket with unread bytes would revoke the response."""
    connection.shutdown(socket.SHUT_WR)
    end = time.monotonic() + LINGER_SECONDS
    while (left := end - time.monotonic()) > 0:
        connection.settimeout(left)
        if not connection.recv(MAX_HEAD):
            return


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
