"""What verbs print on standard output: one JSON object per line."""

from __future__ import annotations

import os
import sys
from typing import Any

from ..codec.content import dump_json


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

    def emit(self, shown: dict[str, Any]) -> None:
        """Print an object; one with ``"ok": false`` is an error."""
        self.errors += not shown["ok"]
        emit(shown)

    def exit(self) -> None:
        sys.stdout.flush()
        if self.errors:
            sys.exit(1)
