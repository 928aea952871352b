"""Who may log in: a table of names and passwords, a file of them, a function of somebody's own, or everybody.

Passwords are stored as ``scrypt$...``, which takes long to guess; plain ones work, with a warning.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import inspect
import secrets
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ..core.log import log
from ..core.settings import Reader, SettingsError, find_object, load_toml

SCRYPT = "scrypt$"
COST, BLOCKS, LANES = 14, 8, 1
"""Of new passwords: 2 to the power of COST rounds, which take about 50 ms and 16 MB."""
MOST_COST = 18
CHECKERS = 2
"""Passwords that are checked at the same time."""
Verdict = bool | str
Judge = Callable[[Any], "Verdict | Awaitable[Verdict]"]


class Gate:
    """Lets in whom ``judge`` accepts: it returns True, False, or why not. Only a coroutine holds up nobody."""

    def __init__(self, judge: Judge | None = None) -> None:
        self.is_open = judge is None
        self._judge = judge or (lambda attempt: True)

    async def authenticate(self, attempt: Any) -> Verdict:
        """Say whether to let somebody in, or the reason why not."""
        verdict = self._judge(attempt)
        return await verdict if inspect.isawaitable(verdict) else verdict

    def reload(self) -> None:
        """Reads again what it knows from files."""


class UserGate(Gate):
    def __init__(self, users: dict[str, str], file: Path | None = None) -> None:
        super().__init__(self._look_up)
        self._file = file
        self._pool = ThreadPoolExecutor(CHECKERS, "password")
        self._key = secrets.token_bytes(32)
        self._users: dict[str, str]
        self._known: dict[str, bytes]
        """By name: what shows that a password was right before, so that it need not be checked again."""
        self._take(users if file is None else read_users(file))

    def _look_up(self, attempt: Any) -> Verdict | Awaitable[Verdict]:
        stored = self._users.get(attempt.user)
        given = attempt.password.encode("utf-8", "surrogatepass")
        if stored is not None and not stored.startswith(SCRYPT):
            return hmac.compare_digest(given, stored.encode())
        if stored is None and not self._has_hashes:
            return False
        seal = hmac.digest(self._key, attempt.user.encode("utf-8", "surrogatepass") + b"\0" + given, "sha256")
        if stored is not None and hmac.compare_digest(self._known.get(attempt.user, b""), seal):
            return True
        return self._check(attempt.user, given, stored, seal)

    async def _check(self, user: str, given: bytes, stored: str | None, seal: bytes) -> Verdict:
        """Check a password without holding up anybody; that takes as long for a name that does not exist."""
        loop = asyncio.get_running_loop()
        same = await loop.run_in_executor(self._pool, check_password, given, stored or NOBODY)
        if same and stored is not None and self._users.get(user) == stored:
            self._known[user] = seal
            return True
        return False

    def _take(self, users: dict[str, str]) -> None:
        hashed = [stored for stored in users.values() if stored.startswith(SCRYPT)]
        for stored in hashed:
            _parse(stored)
        plain = len(users) - len(hashed)
        if plain:
            log.warning("passwords are stored in plain text: wirelake password hashes them", users=plain)
        self._users, self._known, self._has_hashes = users, {}, bool(hashed)

    def reload(self) -> None:
        if self._file is not None:
            self._take(read_users(self._file))


def hash_password(password: str) -> str:
    """Return a password as a users file holds it."""
    salt = secrets.token_bytes(16)
    made = _scrypt(password.encode("utf-8", "surrogatepass"), salt, COST, BLOCKS, LANES)
    parts = (COST, BLOCKS, LANES, base64.b64encode(salt).decode(), base64.b64encode(made).decode())
    return SCRYPT + "$".join(map(str, parts))


def check_password(given: bytes, stored: str) -> bool:
    cost, blocks, lanes, salt, made = _parse(stored)
    return hmac.compare_digest(_scrypt(given, salt, cost, blocks, lanes), made)


def _scrypt(password: bytes, salt: bytes, cost: int, blocks: int, lanes: int) -> bytes:
    memory = 129 * blocks * ((1 << cost) + lanes) + (1 << 20)
    return hashlib.scrypt(password, salt=salt, n=1 << cost, r=blocks, p=lanes, maxmem=memory, dklen=32)


def _parse(stored: str) -> tuple[int, int, int, bytes, bytes]:
    try:
        cost, blocks, lanes, salt, made = stored.removeprefix(SCRYPT).split("$")
        found = int(cost), int(blocks), int(lanes), base64.b64decode(salt, validate=True), base64.b64decode(made)
    except ValueError:
        raise SettingsError("a password that begins with scrypt$ has to be one that wirelake password made") from None
    if not (1 <= found[0] <= MOST_COST and 1 <= found[1] <= 16 and 1 <= found[2] <= 16 and len(found[4]) == 32):
        raise SettingsError(f"a password with scrypt may cost at most 2 to the power of {MOST_COST} rounds")
    return found


NOBODY = f"{SCRYPT}{COST}${BLOCKS}${LANES}$AAAAAAAAAAAAAAAAAAAAAA==${base64.b64encode(bytes(32)).decode()}"
"""The password of a name that does not exist."""


def open_gate(users: dict[str, str] | None, file: Path | None, function: str, directory: Path) -> Gate:
    if users is not None or file is not None:
        return UserGate(users or {}, file)
    if not function:
        return Gate()
    judge = find_object("authenticator", function, directory)
    if not callable(judge):
        raise SettingsError(f"authenticator: {function} is not a function")
    return Gate(judge)


def read_users(path: Path) -> dict[str, str]:
    """A file in TOML: a line ``name = "password"`` for everybody, the password as ``wirelake password`` prints it."""
    reader = Reader(str(path), path.parent)
    return {name: reader.value(str, password, name, {}) for name, password in load_toml(path).items()}
