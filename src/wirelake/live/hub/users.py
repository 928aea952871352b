"""Who may log in: a table of names and passwords, a file of them, a function of somebody's own, or everybody."""

from __future__ import annotations

import asyncio
import hmac
import inspect
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..core.settings import Reader, SettingsError, find_object, load_toml
from ..drive.endpoint import Endpoint

log = logging.getLogger("wirelake.live")
MAX_ASKED = 1_000
"""Logins that may wait for a function of somebody's own at the same time; one more is refused."""


class Gate:
    """Lets people in. ``session`` and ``endpoint`` are told by whoever makes them."""

    is_open = False
    """Whether everybody may come in."""

    def __init__(self) -> None:
        self.session: Any = None
        self.endpoint: Endpoint | None = None

    def authenticate(self, attempt: Any) -> bool | str | None:
        """Whether to let somebody in, or the reason why not; None if that is said later."""
        raise NotImplementedError

    def reload(self) -> None:
        """Reads again what it knows from files."""


class OpenGate(Gate):
    is_open = True

    def authenticate(self, attempt: Any) -> bool:
        return True


class UserGate(Gate):
    """Names and passwords."""

    def __init__(self, users: dict[str, str], file: Path | None = None) -> None:
        super().__init__()
        self._users = users
        self._file = file

    def authenticate(self, attempt: Any) -> bool:
        known = self._users.get(attempt.user)
        given = attempt.password.encode("utf-8", "surrogatepass")
        same = hmac.compare_digest(given, (known or "").encode())  # takes as long for a wrong name
        return same and known is not None

    def reload(self) -> None:
        if self._file is not None:
            self._users = read_users(self._file)


class FunctionGate(Gate):
    """Asks a function. A coroutine function may take its time; others are waited for by everybody."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self._function = function
        self._asked: set[asyncio.Task[None]] = set()

    def authenticate(self, attempt: Any) -> bool | str | None:
        verdict = self._function(attempt)
        if not inspect.isawaitable(verdict):
            return verdict  # type: ignore[no-any-return]
        if len(self._asked) >= MAX_ASKED:
            asyncio.ensure_future(verdict).cancel()
            return "too many logins at once"
        task = asyncio.ensure_future(self._wait(attempt, verdict))
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)
        return None

    async def _wait(self, attempt: Any, verdict: Any) -> None:
        try:
            found = await verdict
        except Exception:
            log.exception("the authenticator failed", extra={"fields": {"peer": attempt.link.peer}})
            found = False
        assert self.endpoint is not None
        reason = found if isinstance(found, str) else ""
        self.endpoint.run(lambda now: self.session.login_result(attempt.link, found is True, reason, now))


def open_gate(users: dict[str, str] | None, file: Path | None, function: str, directory: Path) -> Gate:
    if users is not None:
        return UserGate(users)
    if file is not None:
        return UserGate(read_users(file), file)
    return FunctionGate(find_function(function, directory)) if function else OpenGate()


def read_users(path: Path) -> dict[str, str]:
    """A file in TOML: a line ``name = "password"`` for everybody."""
    reader = Reader(str(path), path.parent)
    return {name: reader.value(str, password, name, {}) for name, password in load_toml(path).items()}


def find_function(name: str, directory: Path) -> Callable[[Any], Any]:
    """Return the function that ``module:function`` names."""
    function = find_object("authenticator", name, directory)
    if not callable(function):
        raise SettingsError(f"authenticator: {name} is not a function")
    return function  # type: ignore[no-any-return]
