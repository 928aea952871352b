"""What the verbs for stores of live protocols share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from ..live.records import LIVE

STORE = "STORE"


@contextmanager
def opened(store: str) -> Iterator[Any]:
    """Open the store of the protocol that has queues: a path, or a URL of PostgreSQL."""
    from ..live.storage.database import StorageError

    (live,) = (live for live in LIVE.values() if live.has_queues)
    try:
        with live.administration(store) as found:
            yield found
    except StorageError as error:
        click.echo(f"wirelake: {error}", err=True)
        sys.exit(1)
