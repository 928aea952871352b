"""Who may read a served report. On loopback every user of this machine may, but no page of another site that points its
own name here (the Host header tells); elsewhere readers need the token.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from urllib.parse import urlencode

from ..web.http import Refused, Request

MIN_TOKEN = 8
_OURS = re.compile(r"/[a-z.]*")
"""Paths to redirect to: none that a browser could read as another host."""


def make_token() -> str:
    return secrets.token_urlsafe(24)


def check_token(token: str) -> str:
    """Return a token that fits into an address and a header; raise ValueError for any other."""
    if len(token) < MIN_TOKEN:
        raise ValueError(f"a token has at least {MIN_TOKEN} characters")
    if not all("!" <= character <= "~" for character in token):
        raise ValueError("a token has visible characters of ASCII only, and no spaces")
    return token


def host_text(host: str) -> str:
    return f"[{host}]" if ":" in host else host


class Access:
    """``hosts``: the only names that requests may use, if there are any; ``token``: required if not empty.

    The cookie is named after the port, since browsers send cookies to all ports of a host, and is derived from the
    token, so that another server there does not learn it. A link on another site sends it along (``Lax``): otherwise
    such a link would be refused, even one with the token, and a link can do no harm to a read-only server.
    """

    def __init__(self, token: str, hosts: Iterable[str], port: int) -> None:
        self.token = token
        self._hosts = {name.lower() for host in hosts for name in _spellings(host, port)}
        self._cookie = f"wirelake_{port}"
        self._proof = hmac.digest(token.encode(), b"wirelake report", hashlib.sha256).hex()

    def check(self, request: Request) -> None:
        """Raise Refused for a foreign host, without the token, or to redirect a reader who just presented it."""
        if self._hosts and request.headers.get("host", "").lower() not in self._hosts:
            raise Refused(421, "this server does not have that name; use localhost or 127.0.0.1 with the port")
        if not self.token:
            return
        given = request.query.get("token")
        if given is not None:
            self._redirect(request, given)
        if not (self._has_cookie(request) or self._has_bearer(request)):
            raise _unauthorized("a token is required")

    def _redirect(self, request: Request, given: str) -> None:
        if not _is_same(given, self.token):
            raise _unauthorized("the token is wrong")
        rest = urlencode([(name, value) for name, value in request.query.items() if name != "token"])
        path = request.path if _OURS.fullmatch(request.path) else "/"
        raise Refused(
            303,
            "welcome",
            ("Location", f"{path}{'?' if rest else ''}{rest}"),
            ("Set-Cookie", f"{self._cookie}={self._proof}; Path=/; HttpOnly; SameSite=Lax"),
        )

    def _has_cookie(self, request: Request) -> bool:
        """Tell whether the cookie is there. Parsed by hand: cookies of other servers on this host may have any form."""
        pairs = (cookie.strip().partition("=") for cookie in request.headers.get("cookie", "").split(";"))
        return any(name == self._cookie and _is_same(value, self._proof) for name, _, value in pairs)

    def _has_bearer(self, request: Request) -> bool:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and _is_same(given.strip(), self.token)


def _unauthorized(why: str) -> Refused:
    how = "open the address that `wirelake report --serve` printed, which has the token, or send"
    return Refused(401, f"{why}: {how} Authorization: Bearer TOKEN", ("WWW-Authenticate", 'Bearer realm="wirelake"'))


def _is_same(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), known.encode())


def _spellings(host: str, port: int) -> list[str]:
    shown = host_text(host)
    return [f"{shown}:{port}", shown] if port == 80 else [f"{shown}:{port}"]
