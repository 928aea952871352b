"""One process per store: a file beside it, which the operating system unlocks when the process ends."""

from __future__ import annotations

import os
from pathlib import Path

from .database import StorageError

try:
    import fcntl
except ImportError:  # pragma: no cover - not on Windows
    fcntl = None  # type: ignore[assignment]


class Lock:
    """Held from here to ``release``. StorageError names the process that holds it."""

    def __init__(self, store: Path) -> None:
        path = store.with_name(f"{store.name}.lock")
        try:
            self._number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0), 0o600)
        except OSError as error:
            raise StorageError(f"{path}: cannot be written: {error.strerror}") from None
        try:
            if fcntl is not None:
                fcntl.flock(self._number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(self._number, 20).decode("ascii", "replace").strip() or "?"
            os.close(self._number)
            raise StorageError(f"{store}: process {holder} uses this store; stop it, or choose another path") from None
        os.ftruncate(self._number, 0)
        os.pwrite(self._number, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._number)
