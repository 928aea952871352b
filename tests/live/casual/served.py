"""A hub that serves a domain, in this process."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from wirelake.live.casual.store import DAY, Prepare, Resolve
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

@domain.conversational("chat")
async def chat(talk, value):
    return await talk.receive()
"""


def decide_at_once(store: Any, *, is_commit: bool) -> None:
    """An administrator decides every branch by hand as soon as it is prepared, before the coordinator can."""
    run = store.run

    def run_and_decide(requests: Sequence[Any]) -> Sequence[Any]:
        results: Sequence[Any] = run(requests)
        for request in requests:
            if isinstance(request, Prepare):
                run([Resolve(request.xid, is_commit, request.now + DAY, request.now)])
        return results

    store.run = run_and_decide


@asynccontextmanager
async def served(
    directory: Path,
    storage: str = "store.db",
    queues: str = '[{name = "q", retries = 1}]',
    by_hand: bool | None = None,
) -> AsyncIterator[str]:
    """Yield the URL of the domain. Its store is in the directory. ``by_hand``: how an administrator decides all."""
    module = f"services_{directory.name}"
    (directory / f"{module}.py").write_text(SERVICES)
    table = f'[casual]\nstorage = "{storage}"\nservices = "{module}:domain"\nqueues = {queues}\n'
    (directory / "hub.toml").write_text(table)
    settings = with_listeners(load_settings(directory / "hub.toml"), {"casual": {"tcp": ("127.0.0.1", 0)}})
    try:
        async with Hub(settings) as hub:
            if by_hand is not None:
                decide_at_once(hub.served["casual"].storage, is_commit=by_hand)
            yield f"casual://{hub.listening['casual']}"
    finally:
        sys.path.remove(str(directory))
