"""Private keys in files: made on first use, and never readable for anybody but their owner."""

from __future__ import annotations

import os
import random
from pathlib import Path

from .handshake import KEY_BYTES, Identity, new_key


def load_identity(path: Path, prefix: str = "", chance: random.Random | None = None) -> Identity:
    """Return the identity whose key is in a file. The first time the file is made."""
    try:
        if path.stat().st_mode & 0o077:
            raise ValueError(f"{path} holds a private key and others may read it: run chmod 600 {path}")
        content = path.read_bytes()
    except FileNotFoundError:
        content = _write(path, new_key(chance or random.SystemRandom()))
    try:
        key = bytes.fromhex(content.decode("ascii"))
        Identity(key)
    except ValueError:
        raise ValueError(f"{path} is no key file: it has to hold {KEY_BYTES} bytes in hex") from None
    return Identity(key, prefix)


def _write(path: Path, key: bytes) -> bytes:
    """Write a key file that others cannot read, not even for a moment; return what is in it."""
    content = key.hex().encode() + b"\n"
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(fresh, path)  # unlike a rename, this never replaces a key that somebody made meanwhile
        except FileExistsError:
            return path.read_bytes()
    finally:
        fresh.unlink()
    return content
