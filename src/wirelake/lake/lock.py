"""One writer per lake.

On a local file system the lock is the operating system's own: it ends with the process, however that ends. Other stores
have nothing like it: there, start only one run at a time; a commit that finds its number taken aborts.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import msgspec

from ..errors import LakeError
from .store import Store, errors
from .validation import printable

try:
    import fcntl
except ImportError:  # pragma: no cover - not on Windows
    fcntl = None  # type: ignore[assignment]

LOCK = "_lock"
_MAX_BYTES = 4096
_START = b'{"pid"'


class _Holder(msgspec.Struct):
    """The content of the lock: who writes."""

    pid: int
    host: str
    since: str


@contextmanager
def locked(store: Store, lock: str = LOCK, doing: str = "is writing to this lake") -> Iterator[None]:
    """Hold the lock of a lake, or raise LakeError that names the holder and what it is doing."""
    if not store.is_local or fcntl is None:
        yield
        return
    # A lake may come from a stranger: neither follow a link nor wait for the other end of a pipe.
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    with errors(store.show(lock), "cannot be written"):
        number = os.open(store.full(lock), flags, 0o644)
    try:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LakeError(store.shown, f"another run {_holder(number)} {doing}") from None
        except OSError as error:
            raise LakeError(store.show(lock), f"cannot be locked: {error.strerror}") from error
        if not _is_ours(number):
            raise LakeError(store.show(lock), "is not a lock of wirelake; remove it")
        with errors(store.show(lock), "cannot be written"):
            _sign(number)
        yield
    finally:
        os.close(number)


def _is_ours(number: int) -> bool:
    """Tell whether the file may be overwritten: a hard link can lead to any file."""
    status = os.fstat(number)
    if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_BYTES:
        return False
    content = os.pread(number, _MAX_BYTES, 0).strip(b"\0")  # a loss of power can leave zeros
    return not content or content.startswith(_START)


def _sign(number: int) -> None:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    os.ftruncate(number, 0)
    os.pwrite(number, msgspec.json.encode(_Holder(os.getpid(), socket.gethostname(), now)), 0)


def _holder(number: int) -> str:
    try:
        holder = msgspec.json.decode(os.pread(number, _MAX_BYTES, 0), type=_Holder)
    except (msgspec.DecodeError, UnicodeDecodeError, OSError):
        return "(just started)"
    return f"(pid {holder.pid} on {printable(holder.host)}, since {printable(holder.since)})"
