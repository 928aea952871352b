"""Where to connect, and how: ``mb://host:port``, ``ceda+wss://user:password@host:port/path``, or just ``host:port``."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit

from ...protocols import load
from ..core.address import show_address
from ..core.log import log
from ..records import LIVE, Live

if TYPE_CHECKING:
    from .pipe import Pipe


@dataclass(frozen=True, slots=True)
class Target:
    """One place to connect to. ``transport`` is tcp, tls, ws or wss."""

    protocol: str
    transport: str
    host: str
    port: int
    path: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    enter: Callable[[Callable[[], Pipe]], Awaitable[None]] | None = field(default=None, repr=False, compare=False)
    """How to connect to what is in this process, which has no address."""

    @property
    def is_tls(self) -> bool:
        return self.transport in ("tls", "wss")

    @property
    def is_websocket(self) -> bool:
        return self.transport in ("ws", "wss")

    @property
    def place(self) -> str:
        return show_address((self.host, self.port))

    @property
    def websocket_url(self) -> str:
        return f"{self.transport}://{self.place}{self.path}"

    def __str__(self) -> str:
        if self.enter is not None:
            return f"{self.protocol} of this hub"
        scheme = self.protocol if self.transport == "tcp" else f"{self.protocol}+{self.transport}"
        return f"{scheme}://{self.place}{self.path}"


def parse_url(url: str, protocol: str | None = None) -> Target:
    """What a URL says; ``protocol`` is that of a plain host:port. ValueError if it makes no sense."""
    if "://" not in url:
        if protocol is None:
            urls = " or ".join(f"{name}://{url}" for name in LIVE)
            raise ValueError(f"{url!r} does not say which protocol: write {urls}")
        url = f"{protocol}://{url}"
    parts = urlsplit(url)
    name, transport = _scheme(parts.scheme)
    live = LIVE[name]
    if protocol is not None and name != protocol:
        raise ValueError(f"{parts.scheme}://… is a URL of {name}, not of {protocol}")
    if not parts.hostname:
        raise ValueError("the URL has no host")
    if parts.query or parts.fragment:
        raise ValueError("a URL to connect to has no ? and no #; a password with such characters is written with %")
    if (parts.username or parts.password) and not live.has_login:
        raise ValueError(f"{name} has no login: the URL must not have a user")
    port, path = _port(parts, live, transport), _path(parts, live, transport)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return Target(name, transport, parts.hostname, port, path, user, password)


def _scheme(scheme: str) -> tuple[str, str]:
    name, _, transport = scheme.partition("+")
    if name.removesuffix("s") in LIVE and not transport:
        name, transport = name.removesuffix("s"), "tls" if name.endswith("s") else ""
    if name not in LIVE or (transport or "tcp") not in LIVE[name].transports:
        kinds = ((one, kind) for one, live in LIVE.items() for kind in live.transports)
        known = ", ".join(one if kind == "tcp" else f"{one}+{kind}" for one, kind in kinds)
        raise ValueError(f"{scheme!r} is not a protocol to connect to; there are {known}")
    return name, transport or "tcp"


def _port(parts: SplitResult, live: Live, transport: str) -> int:
    try:
        given = parts.port
    except ValueError:
        raise ValueError(f"the port in {parts.netloc.rpartition('@')[2]!r} is no number within 1..65535") from None
    if given == 0:
        raise ValueError("nobody can connect to port 0")
    return given or live.port(transport)


def _path(parts: SplitResult, live: Live, transport: str) -> str:
    if transport in ("ws", "wss"):
        usual = load(live.name).captured.websocket_paths
        return parts.path or (usual[0] if usual else "/")
    if parts.path not in ("", "/"):
        raise ValueError(f"only a WebSocket has a path, not {transport}: {parts.path}")
    return ""


def tls_context(
    *, ca: str | Path | None = None, cert: str | Path | None = None, key: str | Path | None = None, verify: bool = True
) -> ssl.SSLContext:
    """How a client checks its server (``ca``: authorities to trust instead of the system's), and shows itself."""
    context = ssl.create_default_context(cafile=None if ca is None else str(ca))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if cert is not None:
        context.load_cert_chain(str(cert), None if key is None else str(key))
    elif key is not None:
        raise ValueError("key= is the key of a certificate: give cert= too")
    if not verify:
        log.warning("the server's certificate is not verified: anybody could be listening there")
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
