"""Requests and responses of HTTP, through real sockets: what is sent, to whom, and what is refused."""

from __future__ import annotations

import gzip
import json

import pytest

from tests.report.served import POLICY, Serve, Served
from tests.waiting import wait_until
from wirelake.web.http import MAX_FIELDS, MAX_HEAD, MAX_HEADERS


def settled(served: Served) -> Served:
    """Wait until the state stands still: the last minutes are made after the report."""
    wait_until(lambda: json.loads(served.ask("/state")[1])["recent"] >= 0)
    return served


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
    served = settled(serve())
    for path in ("/", "/state", "/report.json", "/conversation?id=one"):
        etag = served.ask(path)[0].headers["ETag"]
        for known in (etag, f'"other", {etag}', etag.removeprefix("W/"), "*"):
            answer, body = served.ask(path, If_None_Match=known, Accept_Encoding="gzip")
            assert (answer.status, body, answer.headers["ETag"]) == (304, b"", etag)
        assert served.ask(path, If_None_Match='"other"')[0].status == 200


def test_head_is_get_without_the_content(serve: Serve) -> None:
    served = settled(serve())
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
