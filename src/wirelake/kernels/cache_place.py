"""A place for what Numba compiles, where Numba finds none.

Numba takes ``NUMBA_CACHE_DIR``, the directory beside the kernels, or the user's cache directory, and fails where it may
write to none of them: in a container with a read-only file system, or for a user without a home.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path


def find_place(room: Path) -> None:
    """Have Numba keep compiled kernels in a temporary directory if it may write to no other."""
    if _is_writable(room / "__pycache__"):
        return
    given = os.environ.get("NUMBA_CACHE_DIR")
    if (given and _is_writable(Path(given))) or _is_writable(_users_place()):
        return
    os.environ["NUMBA_CACHE_DIR"] = str(temporary_place(room))
    if "numba" in sys.modules:
        sys.modules["numba"].config.CACHE_DIR = os.environ["NUMBA_CACHE_DIR"]


def _is_writable(place: Path) -> bool:
    try:
        place.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=place).close()
    except OSError:
        return False
    return True


def _users_place() -> Path:
    try:
        from numba.misc.appdirs import AppDirs
    except ImportError:
        return Path(os.curdir)  # without Numba nothing is kept
    return Path(AppDirs(appname="numba", appauthor=False).user_cache_dir)


def temporary_place(room: Path) -> Path:
    """Return a directory that all processes of the user share, another one for every state of the sources.

    What lies there is run: so it must belong to the user, and nobody else may write to it. Otherwise this process gets
    one for itself.
    """
    state = repr(sorted((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in room.glob("*.py")))
    key = hashlib.sha256(f"{room}{state}".encode()).hexdigest()[:16]
    user = os.getuid() if hasattr(os, "getuid") else None
    place = Path(tempfile.gettempdir()) / f"wirelake-kernels-{user}-{key}"
    place.mkdir(mode=0o700, exist_ok=True)
    found = place.lstat()
    if not place.is_symlink() and user in (None, found.st_uid) and not found.st_mode & 0o022:
        return place
    alone = Path(tempfile.mkdtemp(prefix="wirelake-kernels-"))
    atexit.register(shutil.rmtree, alone, ignore_errors=True)
    return alone
