"""Addresses as people write them, and as they are shown."""

from __future__ import annotations

from typing import Any

Address = tuple[str, int]
"""Host and port."""


def parse_address(text: str) -> Address:
    """``HOST:PORT``, ``[HOST]:PORT`` for IPv6, ``*:PORT`` for every address there is; a port alone is on loopback."""
    if "://" in text:
        raise ValueError(f"{text!r} is a URL: write HOST:PORT alone, such as 127.0.0.1:3001")
    host, colon, port = text.strip().rpartition(":")
    if not colon:
        host = "127.0.0.1"
    if not (port.isascii() and port.isdigit() and len(port) < 6 and int(port) < 1 << 16):
        raise ValueError(f"{text!r} is no address: write HOST:PORT, such as 127.0.0.1:3001, or *:3001")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r}: an IPv6 address is written in brackets, such as [::1]:3001")
    if not host:
        raise ValueError(f"{text!r} has no host: write 127.0.0.1:{port} for this machine only, or *:{port} for all")
    return host, int(port)


def show_address(address: Any) -> str:
    """``127.0.0.1:3001``, ``[::1]:3001``."""
    if not isinstance(address, tuple) or len(address) < 2:
        return str(address or "")
    return f"[{address[0]}]:{address[1]}" if ":" in str(address[0]) else f"{address[0]}:{address[1]}"
