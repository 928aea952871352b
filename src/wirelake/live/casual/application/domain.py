"""A domain with services of its own, which a hub serves."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ..handlers import Answer, Invocation, ServiceEntry, Services, answer_to, current
from .application import Application
from .talk import Talk

Conversational = Callable[[Talk, Any], Awaitable[Any]]


class Domain(Application):
    """Services by decorator; inside them, calls and queues of this and of other domains.

    >>> domain = Domain()
    >>> @domain.service("order.create", transaction="auto")
    ... async def create(order):
    ...     await domain.enqueue("orders", order)
    ...     return {"accepted": True}
    """

    def __init__(self) -> None:
        super().__init__()
        self._services = Services()
        self.service = self._services.service

    @property
    def services(self) -> Mapping[str, ServiceEntry]:
        """By name."""
        return self._services.services

    def conversational(
        self, name: str, *, transaction: str = "join", timeout: float = 0.0, category: str = ""
    ) -> Callable[[Conversational], Conversational]:
        """Offer a coroutine function as a service that converses: it gets the conversation and the first value, and
        returns the last one.
        """

        def add(handler: Conversational) -> Conversational:
            if not inspect.iscoroutinefunction(handler):
                raise ValueError(f"{name}: what converses has to be a coroutine function")
            run = self._conversation_of(handler)
            self._services.add(ServiceEntry(name, run, transaction, timeout, category, is_conversational=True))
            return handler

        return add

    def _conversation_of(self, handler: Conversational) -> Callable[[Invocation], Awaitable[Answer]]:
        from ..values import to_value

        async def run(invocation: Invocation) -> Answer:
            current.set(invocation)
            token, has_control = invocation.conversation
            talk = self._talk(token, invocation.service)
            talk.has_control = has_control
            try:
                return answer_to(invocation, await handler(talk, to_value(invocation.buffer)))
            finally:
                self._talks.pop(token, None)

        return run
