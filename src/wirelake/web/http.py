"""The part of HTTP/1.1 that wirelake needs: strict parsing of request heads, which names of this machine they may use,
responses with security headers.

Requests have no bodies; sockets are elsewhere.
"""

from __future__ import annotations

import gzip
import hashlib
import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qsl

MAX_HEAD = 16 << 10
MAX_HEADERS = 64
MAX_FIELDS = 8
MIN_GZIP_BYTES = 1 << 10
STRICT_POLICY = "default-src 'none'; frame-ancestors 'none'; sandbox"
"""The policy of content that is not a page: nothing in it is run, loaded or framed."""
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TARGET = re.compile(r"/[!-~]*")
_LENGTH = re.compile(r"[0-9]{1,18}")
SECURITY_HEADERS = (
    ("Cache-Control", "private, no-cache"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
)


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """By name in lower case."""
    is_last: bool
    """The connection ends with the response."""


@dataclass(frozen=True)
class Content:
    """The body of responses, prepared once: plain, and compressed where that pays."""

    kind: str
    body: bytes
    gzipped: bytes | None
    etag: str
    policy: str = STRICT_POLICY


@dataclass(frozen=True)
class Response:
    status: int
    content: Content
    headers: tuple[tuple[str, str], ...] = field(default=())


class Refused(Exception):
    """A request that gets an error or a redirection."""

    def __init__(self, status: int, why: str, *headers: tuple[str, str], is_last: bool = False) -> None:
        super().__init__(status, why)
        self.response = Response(status, text(f"{why}\n"), headers)
        self.is_last = is_last


def prepare(kind: str, body: bytes, policy: str = STRICT_POLICY) -> Content:
    gzipped = gzip.compress(body, 6, mtime=0) if len(body) >= MIN_GZIP_BYTES else None
    return Content(kind, body, gzipped, f'W/"{hashlib.blake2b(body, digest_size=12).hexdigest()}"', policy)


def text(line: str) -> Content:
    return prepare("text/plain; charset=utf-8", line.encode())


# --- requests


def read_head(head: bytes) -> Request:
    """Parse a request, given without its last empty line; raise Refused."""
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, version = _first_line(first)
    headers = _headers(lines)
    if version == "HTTP/1.1" and "host" not in headers:
        raise Refused(400, "a request of HTTP/1.1 needs a Host header", is_last=True)
    has_body = "transfer-encoding" in headers or headers.get("content-length", "0").strip("0") != ""
    options = {word.strip().lower() for word in headers.get("connection", "").split(",")}
    is_last = has_body or "close" in options or (version == "HTTP/1.0" and "keep-alive" not in options)
    if method not in ("GET", "HEAD"):
        raise Refused(405, "only GET and HEAD", ("Allow", "GET, HEAD"), is_last=is_last)
    path, _, query = target.partition("?")
    try:
        fields = dict(parse_qsl(query, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="replace"))
    except ValueError:
        raise Refused(400, f"more than {MAX_FIELDS} fields in the query", is_last=is_last) from None
    return Request(method, path, fields, headers, is_last)


def _first_line(line: str) -> tuple[str, str, str]:
    parts = line.split(" ")
    if len(parts) != 3 or not _TOKEN.fullmatch(parts[0]) or not _TARGET.fullmatch(parts[1]):
        raise Refused(400, "this is not a request of HTTP/1.1", is_last=True)
    if parts[2] not in ("HTTP/1.1", "HTTP/1.0"):
        raise Refused(505, "this is HTTP/1.1", is_last=True)
    return parts[0], parts[1], parts[2]


def _headers(lines: list[str]) -> dict[str, str]:
    if len(lines) > MAX_HEADERS:
        raise Refused(431, f"more than {MAX_HEADERS} headers", is_last=True)
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not _TOKEN.fullmatch(name) or "\n" in value or "\r" in value:
            raise Refused(400, "a header is NAME: VALUE", is_last=True)
        name, value = name.lower(), value.strip(" \t")
        if name in headers and name in ("host", "content-length", "authorization"):
            raise Refused(400, f"{name} is there twice", is_last=True)
        separator = "; " if name == "cookie" else ", "
        headers[name] = f"{headers[name]}{separator}{value}" if name in headers else value
    if not _LENGTH.fullmatch(headers.get("content-length", "0")):
        raise Refused(400, "content-length is not a length", is_last=True)
    return headers


# --- names of this machine: none that another site could point here, as the Host header tells


def is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def check_host(request: Request, names: Iterable[str]) -> None:
    """Raise Refused unless the request names localhost, an address, or one of these names: no page of another site
    reaches us by an address, so only names can be somebody else's.
    """
    host = request.headers.get("host", "localhost")
    name = re.sub(r":[0-9]{1,5}$", "", host).strip("[]").lower()
    if not is_own_name(name) and name not in {known.lower() for known in names}:
        raise Refused(421, f"this server does not have that name; add it to hosts if it should: {host[:64]!r}")


def is_own_name(name: str) -> bool:
    """Tell whether a name is localhost or an address, which no page of another site can have."""
    if name == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


# --- responses


def write_response(response: Response, request: Request | None, is_last: bool) -> bytes:
    """Return the bytes of a response: compressed if the client accepts it, 304 if it has it, no body for HEAD."""
    content, wanted = response.content, request.headers if request is not None else {}
    status, body = response.status, content.body
    headers = [("Content-Type", content.kind), ("Content-Security-Policy", content.policy)]
    headers += [*SECURITY_HEADERS, *response.headers]
    if status == 200:
        headers += [("ETag", content.etag), ("Vary", "Accept-Encoding")]
        if content.gzipped is not None and _accepts_gzip(wanted.get("accept-encoding", "")):
            body = content.gzipped
            headers.append(("Content-Encoding", "gzip"))
        if _has(wanted.get("if-none-match", ""), content.etag):
            status = 304
    if status in (204, 304):
        headers = [header for header in headers if header[0] not in ("Content-Type", "Content-Encoding")]
        body = b""
    else:
        headers.append(("Content-Length", str(len(body))))
    headers.append(("Connection", "close" if is_last else "keep-alive"))
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{lines}\r\n".encode("latin-1")
    return head if request is not None and request.method == "HEAD" else head + body


def _accepts_gzip(accepted: str) -> bool:
    """Tell whether a client accepts gzip; ``q=0`` says no."""
    for encoding in accepted.lower().split(","):
        name, *parameters = (part.strip() for part in encoding.split(";"))
        if name in ("gzip", "*"):
            return not any(re.fullmatch(r"q\s*=\s*0(\.0*)?", parameter) for parameter in parameters)
    return False


def _has(known: str, etag: str) -> bool:
    tags = {tag.strip().removeprefix("W/") for tag in known.split(",")}
    return "*" in tags or etag.removeprefix("W/") in tags
