from __future__ import annotations

import socket
import threading
import urllib.error
import urllib.request

import pytest

from wirelake.live.drive.http import pages_beside
from wirelake.web.http import Response, text


def get(address: tuple[str, int], host: str = "localhost") -> str:
    request = urllib.request.Request(f"http://127.0.0.1:{address[1]}/page", headers={"Host": host})
    with urllib.request.urlopen(request, timeout=10) as response:
        return str(response.read().decode())


def test_pages_are_served_beside_somebody_who_has_no_event_loop() -> None:
    before = threading.active_count()
    with pages_beside({"/page": lambda: Response(200, text("hello\n"))}, ("127.0.0.1", 0), ["mine.example"]) as address:
        assert get(address) == get(address, "mine.example") == "hello\n"
        with pytest.raises(urllib.error.HTTPError, match="421"):
            get(address, "other.example")
        idle = socket.create_connection(address)
    assert idle.recv(1) == b""
    idle.close()
    assert threading.active_count() == before


def test_an_address_that_is_taken_is_an_error_and_leaves_no_thread() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        before = threading.active_count()
        with pytest.raises(OSError), pages_beside({}, taken.getsockname()):
            pass
        assert threading.active_count() == before
