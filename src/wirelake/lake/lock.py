"""One writer per lake.

On a local file system the lock is the operating system's own: it ends with the process, however that ends. Other stores
have nothing like it; there it is a duty of whoever starts runs, and a commit that finds its number taken says so.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from ..errors import LakeError
from .store import Store, errors

try:
    import fcntl
except ImportError:  # pragma: no cover - not on Windows
    fcntl = None  # type: ignore[assignment]

LOCK = "_lock"


@contextmanager
def locked(store: Store) -> Iterator[None]:
    """Holds the lock of a lake, or raises LakeError that says who holds it."""
    if not store.is_local or fcntl is None:
        yield
        return
    with errors(store.show(LOCK), "cannot be written"):
        number = os.open(store.full(LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LakeError(store.shown, f"another run {_holder(number)} is writing to this lake") from None
        except OSError as error:
            raise LakeError(store.show(LOCK), f"cannot be locked: {error.strerror}") from error
        with errors(store.show(LOCK), "cannot be written"):
            _sign(number)
        yield
    finally:
        os.close(number)


def _sign(number: int) -> None:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    text = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": now})
    os.ftruncate(number, 0)
    os.pwrite(number, text.encode(), 0)


def _holder(number: int) -> str:
    try:
        found = json.loads(os.pread(number, 4096, 0))
        return f"(pid {found['pid']} on {found['host']}, since {found['since']})"
    except (ValueError, KeyError, TypeError):
        return "(just started)"
