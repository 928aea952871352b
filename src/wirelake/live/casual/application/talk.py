"""A conversation as programs use it."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from ...core.errors import LiveError
from .. import events
from ..errors import status_name
from ..handlers import Reply
from ..values import to_buffer, to_value
from ..wire import OK, TPESVCFAIL

if TYPE_CHECKING:
    from .application import Application


class ConversationEnd(LiveError):
    """The conversation is over: ``status`` is the name of its XATMI code."""

    usual_rule = "conversation_over"

    def __init__(self, service: str, status: int) -> None:
        super().__init__(f"the conversation with {service} is over: {status_name(status)}")
        self.status = status_name(status)


class Talk:
    """One end of a conversation. ``has_control``: we may send, else the other end may."""

    def __init__(self, application: Application, service: str, token: int = 0, has_control: bool = False) -> None:
        self.service = service
        self.token = token
        self.has_control = has_control
        self.result: Reply | None = None
        """What the service returned in the end."""
        self._application = application
        self._heard: deque[Any] = deque()
        self._news = asyncio.Event()
        self._status: int | None = None

    def _hear(self, event: events.ConversationHeard | events.ConversationEnded) -> None:
        match event:
            case events.ConversationHeard(buffer=buffer, has_control=has_control):
                self._heard.append((buffer, has_control))
            case events.ConversationEnded(status=status, code=code, buffer=buffer):
                self._status = status
                self._application._talks.pop(self.token, None)
                if status in (OK, TPESVCFAIL):
                    self.result = Reply(to_value(buffer), code, status == TPESVCFAIL, buffer.type)
        self._news.set()

    async def send(self, value: Any = None, *, type: str = "", passes_control: bool = False) -> None:
        """Send a value to the other end. ``passes_control``: then it may send, and we receive."""
        buffer = to_buffer(value, type)
        sent = self._application._do(
            lambda session, now: session.conversations.send(self.token, buffer, now, passes_control=passes_control)
        )
        if not sent and self._status is not None:
            raise ConversationEnd(self.service, self._status)
        if not sent:
            raise RuntimeError("the other end has control: receive until it passes it on")
        self.has_control = self.has_control and not passes_control

    async def receive(self) -> Any:
        """Return what the other end sends next. ConversationEnd once it is over: ``result`` has what was returned."""
        while not self._heard:
            if self._status is not None:
                raise ConversationEnd(self.service, self._status)
            self._news.clear()
            await self._news.wait()
        buffer, self.has_control = self._heard.popleft()
        return to_value(buffer)

    async def disconnect(self) -> None:
        """End it at once; what is under way may be lost, and a transaction is rolled back."""
        self._application._do(lambda session, now: session.conversations.disconnect(self.token, now))
        self._application._talks.pop(self.token, None)
        self._status = self._status if self._status is not None else OK
        self._news.set()

    async def __aenter__(self) -> Talk:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._status is None:
            await self.disconnect()
