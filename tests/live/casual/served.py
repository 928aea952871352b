"""A hub that serves a domain, in this process."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from wirelake.live.hub.hub import Hub, load_settings, with_listeners

SERVICES = """
from wirelake.live.casual import Domain, Reply

domain = Domain()

@domain.service("echo", transaction="auto")
def echo(value):
    return value

@domain.service("fail")
def fail(value):
    return Reply("no", code=7, failed=True)
"""


@asynccontextmanager
async def served(
    directory: Path, storage: str = "store.db", queues: str = '[{name = "q", retries = 1}]'
) -> AsyncIterator[str]:
    """Yield the URL of the domain. Its store is in the directory."""
    module = f"services_{directory.name}"
    (directory / f"{module}.py").write_text(SERVICES)
    table = f'[casual]\nstorage = "{storage}"\nservices = "{module}:domain"\nqueues = {queues}\n'
    (directory / "hub.toml").write_text(table)
    settings = with_listeners(load_settings(directory / "hub.toml"), {"casual": {"tcp": ("127.0.0.1", 0)}})
    try:
        async with Hub(settings) as hub:
            yield f"casual://{hub.listening['casual']}"
    finally:
        sys.path.remove(str(directory))
