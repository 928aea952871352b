"""Who may read a served report. On loopback everybody on this machine, but no page of another site that has its own
name point here (the Host header tells); elsewhere who has the token.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import secrets
from collections.abc import Iterable
from urllib.parse import urlencode

from .http import Refused, Request

LEAST_TOKEN = 8
_OURS = re.compile(r"/[a-z.]*")
"""Paths to lead somebody on to: none that a browser could read as another host."""
HOW = (
    "open the address that `wirelake report --serve` printed, which has the token, or send Authorization: Bearer TOKEN"
)


def make_token() -> str:
    return secrets.token_urlsafe(24)


def check_token(token: str) -> str:
    """A token that fits into an address and a header; ValueError says what does not."""
    if len(token) < LEAST_TOKEN:
        raise ValueError(f"a token has at least {LEAST_TOKEN} characters")
    if not all("!" <= character <= "~" for character in token):
        raise ValueError("a token has visible characters of ASCII only, and no spaces")
    return token


def is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def host_text(host: str) -> str:
    return f"[{host}]" if ":" in host else host


class Access:
    """``hosts``: the only names by which the server may be asked, if any are given; ``token``: asked for if not empty.

    The cookie is named after the port, since browsers send cookies to all ports of a host; and is made from the token,
    so that another server there does not learn that. It is sent along when a link on another site leads here (``Lax``):
    else such a link would be refused, also one that has the token, and there is nothing here that a link could do.
    """

    def __init__(self, token: str, hosts: Iterable[str], port: int) -> None:
        self.token = token
        self._hosts = {one.lower() for host in hosts for one in _spellings(host, port)}
        self._cookie = f"wirelake_{port}"
        self._proof = hmac.digest(token.encode(), b"wirelake report", hashlib.sha256).hex()

    def check(self, request: Request) -> None:
        """Raises Refused: for a foreign host, without the token, or to lead who just told it on."""
        if self._hosts and request.headers.get("host", "").lower() not in self._hosts:
            raise Refused(421, "this is not the host that you asked for; ask for localhost or 127.0.0.1 with the port")
        if not self.token:
            return
        given = request.query.get("token")
        if given is not None:
            self._let_in(request, given)
        if not (self._has_cookie(request) or self._has_bearer(request)):
            raise Refused(401, f"this needs a token: {HOW}", ("WWW-Authenticate", 'Bearer realm="wirelake"'))

    def _let_in(self, request: Request, given: str) -> None:
        if not _is_same(given, self.token):
            raise Refused(401, f"this is not the token: {HOW}", ("WWW-Authenticate", 'Bearer realm="wirelake"'))
        rest = urlencode([(name, value) for name, value in request.query.items() if name != "token"])
        path = request.path if _OURS.fullmatch(request.path) else "/"
        raise Refused(
            303,
            "welcome",
            ("Location", f"{path}{'?' if rest else ''}{rest}"),
            ("Set-Cookie", f"{self._cookie}={self._proof}; Path=/; HttpOnly; SameSite=Lax"),
        )

    def _has_cookie(self, request: Request) -> bool:
        """Read by hand: cookies of other servers on this host may be of any form."""
        pairs = (one.strip().partition("=") for one in request.headers.get("cookie", "").split(";"))
        return any(name == self._cookie and _is_same(value, self._proof) for name, _, value in pairs)

    def _has_bearer(self, request: Request) -> bool:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and _is_same(given.strip(), self.token)


def _is_same(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), known.encode())


def _spellings(host: str, port: int) -> list[str]:
    shown = host_text(host)
    return [f"{shown}:{port}", shown] if port == 80 else [f"{shown}:{port}"]
