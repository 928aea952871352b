"""Access to a served report: by which names, and with which token."""

from __future__ import annotations

import socket
from http.client import HTTPConnection

import pytest

from tests.report.served import SECONDS, TOKEN, Serve
from wirelake.report.access import check_token


def test_on_loopback_another_name_for_this_machine_is_refused(serve: Serve) -> None:
    served = serve()
    port = served.server.port
    for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}", f"LocalHost:{port}"):
        assert served.ask("/state", Host=host)[0].status == 200
    for host in (f"evil.example:{port}", "localhost", "127.0.0.1:1", f"127.0.0.1:{port}.evil.example", "", "[::1]"):
        for path in ("/", "/state", "/report.json", "/conversation?id=one", "/nothing"):
            answer, body = served.ask(path, Host=host)
            assert answer.status == 421 and body.startswith(b"this server does not have that name")


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


def test_ipv6_loopback_needs_no_token(serve: Serve) -> None:
    if not has_ipv6():
        pytest.skip("this machine has no IPv6")
    served = serve(host="::1")
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


@pytest.mark.parametrize("token", ["short", "with a space", "with-a-\u00e9", ""])
def test_a_token_that_does_not_fit_into_a_header_is_refused(token: str) -> None:
    with pytest.raises(ValueError, match="a token has"):
        check_token(token)
    assert check_token(TOKEN) == TOKEN
