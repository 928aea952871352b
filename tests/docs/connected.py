"""What clients do, in one line, for the examples of docs/rules.md: ``mb client.close(); client.publish("a", 1)``."""

from __future__ import annotations

import asyncio
import inspect
import tempfile
from pathlib import Path
from typing import Any

import pytest

import wirelake
from tests.live.casual.served import served
from tests.live.live import broker, ceda_server
from wirelake.errors import WireError
from wirelake.live.casual.values import to_value
from wirelake.live.casual.wire import Buffer


def told_by_client(example: str) -> str:
    """The rule that the last of these calls breaks."""
    protocol, _, calls = example.partition(" ")
    return asyncio.run(_told(protocol, calls.split("; ")))


async def _told(protocol: str, calls: list[str]) -> str:
    if protocol == "casual":
        return await _told_by_domain(calls)
    async with broker() if protocol == "mb" else ceda_server() as gone:
        pass
    async with broker() if protocol == "mb" else ceda_server() as live:
        url = live.url(login="me:secret@" if protocol == "ceda" else "")
        async with wirelake.connect(url) as client:
            names = {"client": client, "connect": wirelake.connect, "url": url, "nowhere": gone.url()}
            return await _broken(calls, names)


async def _told_by_domain(calls: list[str]) -> str:
    """The same for domains: ``transaction`` and ``talk`` are open, and two domains can ``disagree``."""
    with tempfile.TemporaryDirectory() as folder:
        async with served(Path(folder)) as url, wirelake.connect(url) as client:
            transaction = await client.transaction().__aenter__()
            talk = await client.conversation("chat", transaction=None)
            names = {"client": client, "transaction": transaction, "talk": talk, "disagree": _disagree}
            names["read"] = lambda kind, payload: to_value(Buffer(kind, payload))
            return await _broken(calls, names)


async def _broken(calls: list[str], names: dict[str, Any]) -> str:
    for call in calls[:-1]:
        await _call(call, names)
    with pytest.raises(WireError) as caught:
        await _call(calls[-1], names)
    return caught.value.rule


async def _call(call: str, names: dict[str, Any]) -> None:
    result = eval(call, names)
    if inspect.isawaitable(result):
        await result


async def _disagree() -> None:
    """Commit in two domains, of which the administrator of one rolls back by hand."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        async with (
            served(Path(one)) as url,
            served(Path(other), by_hand=False) as hasty,
            wirelake.connect(url, peers=[hasty]) as client,
            client.transaction(),
        ):
            await client.enqueue("q", 1)
            await client.enqueue("q", 1, peer=hasty.removeprefix("casual://"))
