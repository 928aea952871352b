"""What verbs print on standard output: one JSON object per line."""

from __future__ import annotations

import os
import sys
from typing import Any

from ..codec.content import dump_json
from ..codec.json import error_json
from ..errors import DecodeError
from ..spec.nodes import Protocol


def emit(shown: dict[str, Any]) -> None:
    """Print an object as one line."""
    sys.stdout.write(dump_json(shown) + "\n")


def emit_now(shown: dict[str, Any]) -> None:
    """Print an object and flush: somebody may be waiting for this line."""
    emit(shown)
    sys.stdout.flush()


def announce(shown: dict[str, Any]) -> None:
    """Print where a server listens. A closed standard output is no reason to stop serving."""
    try:
        emit_now(shown)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Tally:
    """Count the inputs that could not be read; the exit status tells of them."""

    def __init__(self) -> None:
        self.errors = 0

    def error(self, error: DecodeError, protocol: Protocol, **more: Any) -> None:
        self.errors += 1
        emit(error_json(error, protocol.name) | more)

    def exit(self) -> None:
        sys.stdout.flush()
        if self.errors:
            sys.exit(1)
