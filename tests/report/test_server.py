"""The server of a report, through real sockets: what it serves, and that nobody can hold it up."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import ExitStack
from http.client import HTTPConnection
from typing import Any

import pytest

from tests.report.served import SECONDS, Serve, Served, Stand
from tests.waiting import wait_until
from wirelake.report import server as serving
from wirelake.report.server import ReportServer


def test_the_page_its_data_and_its_state(serve: Serve) -> None:
    served = serve()
    answer, body = served.ask("/")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert body.startswith(b"<!doctype html>") and b"<p>commit 1" in body
    answer, body = served.ask("/state")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json; charset=utf-8")
    state = json.loads(body)
    assert (state["commit"], state["made"]) == (1, "at 1")
    answer, body = served.ask("/report.json?x=1")
    assert answer.status == 200 and json.loads(body)["rows"] == "r" * 200_000
    assert served.server.url == f"http://127.0.0.1:{served.server.port}/" == served.server.url_with_token


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
        wait_until(lambda: served.source.asked == ["one"])
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
        wait_until(lambda: served.server.connections == 0)


def test_connections_are_bounded_and_the_silent_ones_give_way(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MAX_CONNECTIONS", 8)
    served = serve()
    with ExitStack() as stack:
        silent = [stack.enter_context(served.connect()) for _ in range(30)]
        assert served.ask("/state")[0].status == 200
        assert served.server.connections <= 8
        assert silent[0].recv(1) == b""
        # The thread of a connection that gave way ends a moment later.
        wait_until(lambda: sum(thread.name == "report-connection" for thread in threading.enumerate()) <= 8 + 1)


def test_if_all_are_busy_who_comes_is_told_so(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MAX_CONNECTIONS", 2)
    served = serve()
    served.source.may_answer.clear()
    with ExitStack() as stack:
        for id in ("one", "two"):
            one = stack.enter_context(served.connect())
            host = f"localhost:{served.server.port}"
            one.sendall(f"GET /conversation?id={id} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        wait_until(lambda: len(served.source.asked) == 2)
        with served.connect() as late:
            assert late.recv(1000).startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        served.source.may_answer.set()
    wait_until(lambda: served.server.connections == 0)
    assert served.ask("/state")[0].status == 200


def test_clients_that_do_not_read_give_way(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MAX_CONNECTIONS", 4)
    monkeypatch.setattr(serving, "STALL_SECONDS", 0.2)
    served = serve()
    request = f"GET / HTTP/1.1\r\nHost: localhost:{served.server.port}\r\n\r\n".encode()
    with ExitStack() as stack:
        for _ in range(4):
            one = stack.enter_context(served.connect())
            one.sendall(request * 200)
        began = time.monotonic()
        wait_until(lambda: _is_served(served))
        assert time.monotonic() - began < 10 < serving.RESPONSE_SECONDS
        assert served.server.connections <= 4


def _is_served(served: Served) -> bool:
    try:
        return served.ask("/state")[0].status == 200
    except ConnectionError:  # closed with its refusal unread
        return False


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
