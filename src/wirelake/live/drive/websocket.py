"""WebSocket connections of an endpoint: the upgrade and the frames are those of the library, messages those of the
session. Nothing of a session's is known here but whether its messages are text.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from websockets.client import ClientProtocol
from websockets.datastructures import Headers
from websockets.exceptions import InvalidOrigin
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Origin, Subprotocol
from websockets.uri import parse_uri

from ...web.http import is_loopback, is_own_name
from ..core.link import Side
from ..core.session import CLIENT, SERVER
from .endpoint import Endpoint
from .pipe import Pipe

MAX_UPGRADE_BYTES = 1 << 14
MAX_REASON_BYTES = 123
_PONG = 0x80 | Opcode.PONG

library_log = logging.getLogger("wirelake.live.drive.websocket")
library_log.setLevel(logging.WARNING)


@dataclass(eq=False, slots=True)
class WebSocketFraming:
    """Messages as frames. Those of a server are not masked, and so the same for all its clients."""

    is_text: bool
    is_masked: bool = False
    name: str = "websocket"

    def wrap(self, body: bytes) -> bytes:
        opcode = Opcode.TEXT if self.is_text and _is_utf8(body) else Opcode.BINARY
        return Frame(opcode, body).serialize(mask=self.is_masked)


def _is_utf8(body: bytes) -> bool:
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError:
            return False
    return True


class WebSocketPipe(Pipe):
    """Begins with the upgrade; the session hears of the connection when that is done."""

    most_slice = 1 << 12
    """Frames of some bytes take the library some microseconds each."""
    protocol: Any

    def __init__(self, endpoint: Endpoint, side: Side, framing: WebSocketFraming) -> None:
        super().__init__(endpoint, side, framing)
        self.slice = self.most_slice
        self.is_open = False
        self._message = bytearray()
        self._is_text = False
        self._limit: Any = None

    def begin(self, now: float) -> None:
        self._limit = self.endpoint.loop.call_later(self.endpoint.limits.handshake_seconds, self.transport.abort)

    def data_received(self, data: bytes) -> None:
        was_ending = self.is_ending
        super().data_received(data)
        if was_ending and not self._is_finished:
            self._await_close(data)

    def eof_received(self) -> bool:
        self.protocol.receive_eof()
        return super().eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        if self._limit is not None:
            self._limit.cancel()
        super().connection_lost(error)

    def take(self, data: bytes, now: float) -> None:
        self.protocol.receive_data(data)
        messages: list[bytes] = []
        for event in self.protocol.events_received():
            if not isinstance(event, Frame):
                self.upgraded(event, now)
            elif not self._frame(event, messages):
                break
        if messages and self.link.closing is None:
            self.endpoint.session.receive_messages(self.link, messages, now)

    def taken(self) -> None:
        self.flush()  # before a Close that answers what came behind these messages
        self._send()
        if self.protocol.close_expected():
            self.leave()
        elif not self.is_open and self.received > MAX_UPGRADE_BYTES:
            self.transport.abort()

    def _await_close(self, data: bytes) -> None:
        """Look for the peer's Close, and for nothing else: we have said ours."""
        if self.protocol.state in (State.OPEN, State.CLOSING) and not self._is_eof:
            self.protocol.receive_data(data)
            self.protocol.events_received()
            self._send()
            if self.protocol.close_rcvd is not None and not self.is_paused:
                self.finish()

    def upgraded(self, event: Any, now: float) -> None:
        raise NotImplementedError

    def opened(self, now: float) -> None:
        self.is_open = True
        self._limit.cancel()
        self._send()
        super().begin(now)

    def _frame(self, frame: Frame, messages: list[bytes]) -> bool:
        """Puts fragments together; whether to go on. Text has to be UTF-8."""
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY):
            self._is_text = frame.opcode is Opcode.TEXT
        elif frame.opcode is not Opcode.CONT:
            return True
        self._message += frame.data
        if not frame.fin:
            return True
        body, self._message = bytes(self._message), bytearray()
        if self._is_text and not _is_utf8(body):
            if self.protocol.state is State.OPEN:
                self.protocol.fail(CloseCode.INVALID_DATA)
            return False
        messages.append(body)
        return True

    def _send(self) -> None:
        """Writes what the library has. A peer that does not read gets no answers to its pings: they would pile up."""
        for data in self.protocol.data_to_send():
            if data and not (self.is_paused and data[0] == _PONG):
                self.write(data)

    def leave(self) -> None:
        """The library closes: because the peer does, or because of what the peer sent."""
        self.link.close("the WebSocket is closed")
        self.is_ending = True
        self.linger()
        if not self.is_paused:
            self.finish()

    def end(self, reason: str, code: int, at_once: bool) -> None:
        if at_once or self.protocol.state is not State.OPEN:
            super().end(reason, code, at_once)
        else:
            self.protocol.send_close(code, reason.encode()[:MAX_REASON_BYTES].decode(errors="ignore"))
            self._send()
            self.linger()

    def finish(self) -> None:
        if self.protocol.state is not State.CLOSING or self.protocol.close_rcvd is not None or self.protocol.eof_sent:
            super().finish()


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


class _Server(ServerProtocol):
    """Closes without telling more than the code, and lets web pages in only where they are ours.

    Programs send no Origin, or one without a port, so only the name counts. A name that somebody points at loopback
    could be anybody's: there it must be localhost or an address.
    """

    allowed: tuple[str, ...] = ()
    is_local = False

    def process_origin(self, headers: Headers) -> Origin | None:
        origin = super().process_origin(headers)
        if origin is None or origin in self.allowed or "*" in self.allowed:
            return origin
        name, host = _host(origin), _host(f"//{headers.get('Host', '')}")
        if name is None or name != host or (self.is_local and not is_own_name(name)):
            raise InvalidOrigin(origin)
        return origin

    def select_subprotocol(self, subprotocols: Sequence[Subprotocol]) -> Subprotocol | None:
        """Browsers refuse a server that takes none of those they offer."""
        return subprotocols[0] if subprotocols else None

    def fail(self, code: CloseCode | int, reason: str = "") -> None:
        super().fail(code)


class ServerWebSocketPipe(WebSocketPipe):
    def __init__(self, endpoint: Endpoint, framing: WebSocketFraming, max_size: int | None) -> None:
        super().__init__(endpoint, SERVER, framing)
        self.protocol = _Server(max_size=max_size, logger=library_log)
        self.protocol.allowed = endpoint.limits.origins

    def begin(self, now: float) -> None:
        super().begin(now)
        ours = self.transport.get_extra_info("sockname")
        self.protocol.is_local = isinstance(ours, tuple) and is_loopback(ours[0])

    def upgraded(self, event: Any, now: float) -> None:
        if self.protocol.eof_sent:  # what came behind the request breaks the rules: the library listens no more
            self.transport.abort()
        elif isinstance(event, Request):
            response = self.protocol.accept(event)
            self.protocol.send_response(response)
            if response.status_code == 101:
                self.opened(now)


class ClientWebSocketPipe(WebSocketPipe):
    def __init__(self, endpoint: Endpoint, framing: WebSocketFraming, url: str, max_size: int) -> None:
        super().__init__(endpoint, CLIENT, framing)
        self.protocol = ClientProtocol(parse_uri(url), max_size=max_size, logger=library_log)

    def begin(self, now: float) -> None:
        super().begin(now)
        self.protocol.send_request(self.protocol.connect())
        self._send()

    def upgraded(self, event: Any, now: float) -> None:
        if isinstance(event, Response):
            if self.protocol.handshake_exc is None:
                self.opened(now)
            else:
                self.link.close(f"the WebSocket upgrade failed: {self.protocol.handshake_exc}", at_once=True)
