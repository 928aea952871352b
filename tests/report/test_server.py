"""The server of a report, through real sockets: what it answers, to whom, and that nobody can hold it up."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.client import HTTPConnection, HTTPResponse
from typing import Any

import pytest

from wirelake.report import server as serving
from wirelake.report.follow import MAX_CACHED, MAX_ID
from wirelake.report.http import MAX_FIELDS, MAX_HEAD, MAX_HEADERS
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


class Stand:
    """A source that says what it is told to."""

    def __init__(self) -> None:
        self.commit = 1
        self.fault: Exception | None = None
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


@pytest.fixture
def serve() -> Iterator[Serve]:
    started: list[Served] = []

    def begin(source: Any = None, **options: Any) -> Served:
        started.append(Served(source if source is not None else Stand(), **options))
        return started[-1]

    yield begin
    for one in started:
        if isinstance(one.source, Stand):
            one.source.may_answer.set()
        one.end()


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


# --- what there is


def test_the_page_its_data_and_its_state(serve: Serve) -> None:
    served = serve()
    answer, body = served.ask("/")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert body.startswith(b"<!doctype html>") and b"<p>commit 1" in body
    answer, body = served.ask("/state")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json; charset=utf-8")
    assert json.loads(body) == {"commit": 1, "made": "at 1"}
    answer, body = served.ask("/report.json?x=1")
    assert answer.status == 200 and json.loads(body)["rows"] == "r" * 200_000
    assert served.server.url == f"http://127.0.0.1:{served.server.port}/" == served.server.url_with_token


def test_browsers_are_told_to_be_careful(serve: Serve) -> None:
    served = serve()
    for path in ("/", "/state", "/report.json", "/conversation?id=one", "/nothing"):
        answer, _ = served.ask(path)
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert answer.headers["Cache-Control"] == "private, no-cache"
        assert "Access-Control-Allow-Origin" not in answer.headers
        policy = answer.headers["Content-Security-Policy"]
        assert policy.endswith("frame-ancestors 'none'") if path == "/" else policy.endswith("sandbox")
        assert policy.startswith(POLICY if path == "/" else "default-src 'none'; ")


def test_a_page_without_a_policy_is_not_served() -> None:
    stand = Stand()
    stand.render = lambda report: "<p>hello"  # type: ignore[method-assign]
    with ReportServer(stand, ("127.0.0.1", 0)) as server, pytest.raises(ValueError, match="no Content-Security-Policy"):
        server.begin()


def test_what_is_long_is_compressed_for_who_can_read_that(serve: Serve) -> None:
    served = serve()
    for path in ("/", "/report.json"):
        plain, whole = served.ask(path, Accept_Encoding="identity")
        packed, fewer = served.ask(path, Accept_Encoding="br, gzip;q=0.8")
        assert "Content-Encoding" not in plain.headers and packed.headers["Content-Encoding"] == "gzip"
        assert packed.headers["Vary"] == plain.headers["Vary"] == "Accept-Encoding"
        assert len(fewer) < len(whole) / 10 and gzip.decompress(fewer) == whole
        assert "Content-Encoding" not in served.ask(path, Accept_Encoding="gzip;q=0, *;q=0")[0].headers
    assert "Content-Encoding" not in served.ask("/state", Accept_Encoding="gzip")[0].headers


def test_who_has_it_gets_only_that_it_is_the_same(serve: Serve) -> None:
    served = serve()
    for path in ("/", "/state", "/report.json", "/conversation?id=one"):
        etag = served.ask(path)[0].headers["ETag"]
        for known in (etag, f'"other", {etag}', etag.removeprefix("W/"), "*"):
            answer, body = served.ask(path, If_None_Match=known, Accept_Encoding="gzip")
            assert (answer.status, body, answer.headers["ETag"]) == (304, b"", etag)
        assert served.ask(path, If_None_Match='"other"')[0].status == 200


def test_head_is_get_without_the_content(serve: Serve) -> None:
    served = serve()
    for path in ("/", "/state", "/conversation?id=one", "/conversation?id=two", "/nothing"):
        with_content, body = served.ask(path)
        without, nothing = served.ask(path, "HEAD")
        assert nothing == b"" and without.status == with_content.status
        assert without.getheaders() == with_content.getheaders()
        assert int(without.headers["Content-Length"]) == len(body)


def test_other_paths_and_methods_are_refused_in_a_line(serve: Serve) -> None:
    served = serve()
    for path in ("/x", "/../etc/passwd", "/state/", "/%2e%2e/", "/index.html", "//", "/report.json/../state"):
        answer, body = served.ask(path)
        assert (answer.status, answer.headers["Content-Type"]) == (404, "text/plain; charset=utf-8")
        assert body.count(b"\n") == 1
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW"):
        answer, body = served.ask("/", method)
        assert (answer.status, answer.headers["Allow"], body) == (405, "GET, HEAD", b"only GET and HEAD\n")
    assert served.ask("/favicon.ico")[0].status == 204


def test_a_body_is_not_read_and_the_answer_arrives_nevertheless(serve: Serve) -> None:
    served = serve()
    host = f"Host: 127.0.0.1:{served.server.port}\r\n".encode()
    smuggled = b"GET /report.json HTTP/1.1\r\n" + host + b"\r\n"
    for kind in (b"Content-Length: %d\r\n" % len(smuggled), b"Transfer-Encoding: chunked\r\n"):
        for method, status in ((b"POST", b" 405 "), (b"GET", b" 200 ")):
            found = served.raw(method + b" /state HTTP/1.1\r\n" + host + kind + b"\r\n" + smuggled)
            assert found.count(b"HTTP/1.1 ") == 1 and status in found.split(b"\r\n")[0]
            assert b"Connection: close" in found


def test_one_connection_serves_many_requests(serve: Serve) -> None:
    served = serve()
    client = served.client()
    for _ in range(3):
        for path, status in (("/state", 200), ("/", 200), ("/nothing", 404), ("/conversation?id=two", 404)):
            client.request("GET", path)
            answer = client.getresponse()
            assert (answer.status, answer.headers["Connection"]) == (status, "keep-alive")
            answer.read()
    client.close()
    host = b"Host: localhost:%d\r\n" % served.server.port
    one = b"GET /state HTTP/1.1\r\n" + host + b"\r\n"
    found = served.raw(one * 3 + one.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    assert found.count(b"HTTP/1.1 200 OK") == 4
    assert served.raw(one.replace(b"1.1", b"1.0")).count(b"200 OK") == 1


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"GET http://127.0.0.1/ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /\n HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: \xb2\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * (MAX_HEADERS + 1) + b"\r\n", 431),
        (b"GET /?" + b"a=1&" * (MAX_FIELDS + 1) + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 400),
        (b"GET /" + b"a" * (2 * MAX_HEAD), 431),
    ],
)
def test_what_is_no_good_request_is_refused_and_the_connection_ends(
    serve: Serve, request_bytes: bytes, status: int
) -> None:
    found = serve().raw(request_bytes)
    assert found.startswith(b"HTTP/1.1 %d " % status) and found.count(b"HTTP/1.1 ") <= 2


# --- who may read


def test_on_loopback_another_name_for_this_machine_is_refused(serve: Serve) -> None:
    served = serve()
    port = served.server.port
    for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}", f"LocalHost:{port}"):
        assert served.ask("/state", Host=host)[0].status == 200
    for host in (f"evil.example:{port}", "localhost", "127.0.0.1:1", f"127.0.0.1:{port}.evil.example", "", "[::1]"):
        for path in ("/", "/state", "/report.json", "/conversation?id=one", "/nothing"):
            answer, body = served.ask(path, Host=host)
            assert answer.status == 421 and body.startswith(b"this server does not have that name")


def test_ipv6_loopback_needs_no_token(serve: Serve) -> None:
    try:
        served = serve(host="::1")
    except OSError:
        pytest.skip("this machine has no IPv6")
    assert served.server.url == f"http://[::1]:{served.server.port}/"
    client = HTTPConnection("::1", served.server.port, timeout=SECONDS)
    client.request("GET", "/state")
    assert client.getresponse().status == 200
    client.close()


def test_without_loopback_there_is_a_token(serve: Serve) -> None:
    served = serve(host="0.0.0.0")
    assert len(served.server.token) >= 32
    assert served.server.token != serve(host="*").server.token
    assert served.server.url_with_token == f"{served.server.url}?token={served.server.token}"
    assert served.ask("/state")[0].status == 401
    assert served.ask("/state", Authorization=f"Bearer {served.server.token}")[0].status == 200
    assert served.ask("/state", Host="any.name", Authorization=f"bearer {served.server.token}")[0].status == 200


def test_the_token_is_told_once_and_then_there_is_a_cookie(serve: Serve) -> None:
    served = serve(host="0.0.0.0", token=TOKEN)
    path = served.server.url_with_token.removeprefix(served.server.url.rstrip("/"))
    assert path == "/?token=a-token-for-tests%2B%2F%3D"
    answer, _ = served.ask(path)
    assert (answer.status, answer.headers["Location"]) == (303, "/")
    cookie, *how = answer.headers["Set-Cookie"].split("; ")
    assert cookie.startswith(f"wirelake_{served.server.port}=") and TOKEN not in cookie
    assert how == ["Path=/", "HttpOnly", "SameSite=Lax"]
    for given in (cookie, f'odd="a;b"; x={{"y":1}}; {cookie}; z'):
        for path in ("/", "/state", "/report.json", "/conversation?id=one"):
            assert served.ask(path, Cookie=given)[0].status == 200
    answer, _ = served.ask(f"/conversation?id=a%26b&token={TOKEN.replace('+', '%2B')}")
    assert (answer.status, answer.headers["Location"]) == (303, "/conversation?id=a%26b")


def test_who_leads_on_does_not_lead_away(serve: Serve) -> None:
    served = serve(host="0.0.0.0", token="a-token-for-tests")
    for path in ("//evil.example", "/\\evil.example", "/%0d%0aX:1", "/x/y", "/@evil.example"):
        answer, _ = served.ask(f"{path}?token=a-token-for-tests")
        assert (answer.status, answer.headers["Location"]) == (303, "/")


def test_without_the_token_there_is_nothing_but_what_to_do(serve: Serve) -> None:
    served = serve(host="0.0.0.0", token=TOKEN)
    wrong: list[dict[str, str]] = [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer \xe9"},
        {"Cookie": f"wirelake_{served.server.port}=wrong"},
        {"Cookie": f"wirelake_{served.server.port}={TOKEN}"},
        {"Cookie": f"wirelake_1={TOKEN}"},
    ]
    for headers in wrong:
        for path in ("/", "/state", "/report.json", "/conversation?id=one", "/nothing"):
            answer, body = served.ask(path, **headers)
            assert answer.status == 401 and answer.headers["WWW-Authenticate"].startswith("Bearer")
            assert b"Authorization: Bearer" in body and b"token" in body and b"commit" not in body
    assert served.ask("/?token=wrong")[0].status == 401
    assert served.ask("/?token=%C3%A9%00")[0].status == 401
    assert served.source.asked == []


def test_a_token_that_is_given_is_asked_for_on_loopback_too(serve: Serve) -> None:
    served = serve(token=TOKEN)
    assert served.ask("/")[0].status == 401
    assert served.ask("/", Authorization=f"Bearer {TOKEN}")[0].status == 200
    assert served.ask("/", Authorization=f"Bearer {TOKEN}", Host="evil.example")[0].status == 421


# --- following


def test_a_new_commit_is_a_new_page(serve: Serve) -> None:
    served = serve()
    etag = served.ask("/")[0].headers["ETag"]
    served.source.commit = 2
    wait_for(lambda: json.loads(served.ask("/state")[1])["commit"] == 2)
    answer, body = served.ask("/", If_None_Match=etag)
    assert answer.status == 200 and b"<p>commit 2" in body and answer.headers["ETag"] != etag
    assert json.loads(served.ask("/report.json")[1])["about"]["commit"] == 2


def test_what_fails_is_told_once_and_tried_again_while_the_old_page_stays(serve: Serve) -> None:
    served = serve()
    served.source.fault = OSError("no file\nand more")
    served.source.commit = 2
    wait_for(lambda: served.told != [])
    assert served.told == ["the report cannot be renewed, the old one stays: no file"]
    assert b"<p>commit 1" in served.ask("/")[1]
    served.source.fault = None
    wait_for(lambda: len(served.told) == 2)
    assert served.told[1] == "the report is renewed again, with commit 2"
    assert b"<p>commit 2" in served.ask("/")[1]


def test_the_first_report_is_tried_again_only_if_there_is_a_new_commit() -> None:
    stand = Stand()
    stand.fault = OSError("gone")
    with ReportServer(stand, ("127.0.0.1", 0)) as server, pytest.raises(OSError, match="gone"):
        server.begin()

    class Moving(Stand):
        def report(self, progress: Callable[[str], None]) -> dict[str, Any]:
            self.commit += 1
            if self.commit == 2:
                raise OSError("gone")
            return super().report(progress)

    with ReportServer(Moving(), ("127.0.0.1", 0)) as server:
        server.begin()
        assert server.follower.newest.number >= 2


def test_a_commit_while_a_report_is_made_is_not_missed(serve: Serve) -> None:
    """Also if the report calls itself that of the newer commit, and has only the rows of the older one."""

    class Overtaken(Stand):
        made = 0

        def report(self, progress: Callable[[str], None]) -> dict[str, Any]:
            self.made += 1
            if self.made == 1:
                self.commit = 2
            return {**super().report(progress), "made": self.made}

    served = serve(Overtaken())
    wait_for(lambda: json.loads(served.ask("/report.json")[1])["made"] == 2)


def test_the_end_leaves_a_report_in_the_middle() -> None:
    begun, gone_on = threading.Event(), threading.Event()

    class Long(Stand):
        def report(self, progress: Callable[[str], None]) -> dict[str, Any]:
            if self.commit == 2:
                begun.set()
                assert gone_on.wait(SECONDS)
            return super().report(progress)

    served = Served(Long())
    served.source.commit = 2
    assert begun.wait(SECONDS)
    ending = threading.Thread(target=served.end)
    ending.start()
    wait_for(served.server.follower._ended.is_set)
    gone_on.set()
    ending.join(SECONDS)
    assert served.server.follower.newest.number == 1 and served.told == []


# --- conversations


def test_a_conversation_is_fetched_once_a_commit(serve: Serve) -> None:
    served = serve()
    for _ in range(3):
        answer, body = served.ask("/conversation?id=one")
        assert (answer.status, json.loads(body)) == (200, {"id": "one", "title": "</script>"})
        assert served.ask("/conversation?id=two")[0].status == 404
    assert served.source.asked == ["one", "two"]
    served.source.commit = 2
    served.source.known["two"] = {"id": "two"}
    wait_for(lambda: served.ask("/conversation?id=two")[0].status == 200)


def test_only_the_last_conversations_are_kept(serve: Serve) -> None:
    served = serve()
    for number in range(MAX_CACHED + 1):
        served.ask(f"/conversation?id={number}")
    served.ask("/conversation?id=0")
    served.ask(f"/conversation?id={MAX_CACHED}")
    assert served.source.asked.count("0") == 2 and served.source.asked.count(str(MAX_CACHED)) == 1


@pytest.mark.parametrize("id", HOSTILE)
def test_an_id_that_is_none_is_not_found(serve: Serve, id: str) -> None:
    served = serve()
    found = served.raw(
        f"GET /conversation?id={quoted(id)} HTTP/1.0\r\nHost: localhost:{served.server.port}\r\n\r\n".encode()
    )
    assert found.startswith(b"HTTP/1.1 404 ") and found.endswith(b"\r\n\r\nthere is no such conversation\n")
    assert b"Set-Cookie" not in found and served.told == []


def quoted(id: str) -> str:
    from urllib.parse import quote

    return quote(id, safe="%")


def test_a_lake_that_cannot_be_read_is_told_and_asked_for_again(serve: Serve) -> None:
    served = serve()
    served.source.fault = OSError("no file")
    for _ in range(3):
        answer, body = served.ask("/conversation?id=one")
        assert answer.status == 503 and answer.headers["Retry-After"] and b"no file" not in body
    assert served.source.asked == ["one"] * 6
    assert served.told == ["a conversation cannot be read: no file"]
    served.source.fault = None
    assert served.ask("/conversation?id=one")[0].status == 200


# --- many, and slow ones


def test_who_is_slow_does_not_hold_up_others(serve: Serve) -> None:
    served = serve()
    served.source.may_answer.clear()
    request = f"GET / HTTP/1.1\r\nHost: localhost:{served.server.port}\r\n\r\n".encode()
    with ExitStack() as stack:
        for data in (b"", b"GET", request[:-2], request * 40):  # nothing, halves, and one who never reads
            one = stack.enter_context(served.connect())
            one.sendall(data)
        waiting = stack.enter_context(served.connect())
        waiting.sendall(request.replace(b"/ ", b"/conversation?id=one "))
        wait_for(lambda: served.source.asked == ["one"])
        for path in ("/", "/state"):
            assert served.ask(path)[0].status == 200
        served.source.may_answer.set()
        assert waiting.recv(12) == b"HTTP/1.1 200"


def test_who_sends_bit_by_bit_has_no_more_time_for_it(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "REQUEST_SECONDS", 0.2)
    with serve().connect() as one:
        one.settimeout(0.01)
        began = time.monotonic()
        with pytest.raises((ConnectionError, StopIteration)):
            while time.monotonic() - began < SECONDS:
                one.sendall(b"x")
                try:
                    if one.recv(1) == b"":
                        raise StopIteration
                except TimeoutError:
                    pass


def test_who_does_not_take_the_answer_is_let_go(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "RESPONSE_SECONDS", 0.1)
    served = serve()
    with served.connect() as one:
        one.sendall(f"GET / HTTP/1.1\r\nHost: localhost:{served.server.port}\r\n\r\n".encode() * 200)
        wait_for(lambda: served.server.connections == 0)


def test_connections_are_bounded_and_the_silent_ones_give_way(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MAX_CONNECTIONS", 8)
    served = serve()
    with ExitStack() as stack:
        silent = [stack.enter_context(served.connect()) for _ in range(30)]
        assert served.ask("/state")[0].status == 200
        assert served.server.connections <= 8
        assert silent[0].recv(1) == b""
        assert sum(thread.name == "report-connection" for thread in threading.enumerate()) <= 8 + 1


def test_if_all_are_busy_who_comes_is_told_so(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MAX_CONNECTIONS", 2)
    served = serve()
    served.source.may_answer.clear()
    with ExitStack() as stack:
        for id in ("one", "two"):
            one = stack.enter_context(served.connect())
            host = f"localhost:{served.server.port}"
            one.sendall(f"GET /conversation?id={id} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        wait_for(lambda: len(served.source.asked) == 2)
        with served.connect() as late:
            assert late.recv(1000).startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        served.source.may_answer.set()
    wait_for(lambda: served.server.connections == 0)
    assert served.ask("/state")[0].status == 200


def test_a_name_with_several_addresses_is_served_on_all_of_them(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that this machine has."""
    known = socket.getaddrinfo

    def found(host: str | None, port: int, *rest: Any, **options: Any) -> Any:
        if host != "three.example":
            return known(host, port, *rest, **options)
        return [
            answer for one in ("127.0.0.1", "203.0.113.1", "127.0.0.2") for answer in known(one, port, *rest, **options)
        ]

    monkeypatch.setattr(socket, "getaddrinfo", found)
    served = serve(host="three.example")
    assert served.server.url == f"http://three.example:{served.server.port}/" and not served.server.token
    for address in ("127.0.0.1", "127.0.0.2"):
        for host in (address, "three.example", "localhost"):
            client = HTTPConnection(address, served.server.port, timeout=SECONDS)
            client.request("GET", "/state", headers={"Host": f"{host}:{served.server.port}"})
            assert client.getresponse().status == 200
            client.close()


def test_a_port_that_is_taken_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError):
        ReportServer(Stand(), ("127.0.0.1", taken.getsockname()[1]))


def test_the_end_does_not_wait_for_who_is_connected(serve: Serve) -> None:
    served = Served(Stand())
    with served.connect(), served.connect() as one:
        one.sendall(b"GET")
        assert served.ask("/state")[0].status == 200
        began = time.monotonic()
        served.end()
        assert time.monotonic() - began < serving.END_SECONDS
        assert one.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        served.connect()
