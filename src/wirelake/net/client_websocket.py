"""The end of a client's WebSocket. Apart, because it needs a library that plain connections do not."""

from __future__ import annotations

from .connection import Connection
from .endpoint import Endpoint
from .websocket import ClientWebSocketPipe, MaskedFraming


class WebSocketPipe(ClientWebSocketPipe):
    """Tells when it is full."""

    def __init__(self, endpoint: Endpoint, connection: Connection, url: str, *, is_text: bool, most: int) -> None:
        super().__init__(endpoint, MaskedFraming(is_text), url, most)
        self._connection = connection

    def pause_writing(self) -> None:
        super().pause_writing()
        self._connection.paused()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.is_paused:
            self._connection.resumed()
