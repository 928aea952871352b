"""What clients do, in one line, for the examples of docs/rules.md: ``mb client.close(); client.publish("a", 1)``."""

from __future__ import annotations

import asyncio

import pytest

import wirelake
from tests.live.live import broker, ceda_server
from wirelake.errors import WireError


def told_by_client(example: str) -> str:
    """The rule that the last of these calls breaks."""
    protocol, _, calls = example.partition(" ")
    return asyncio.run(_told(protocol, calls.split("; ")))


async def _told(protocol: str, calls: list[str]) -> str:
    async with broker() if protocol == "mb" else ceda_server() as gone:
        pass
    async with broker() if protocol == "mb" else ceda_server() as live:
        url = live.url(login="me:secret@" if protocol == "ceda" else "")
        async with wirelake.connect(url) as client:
            names = {"client": client, "connect": wirelake.connect, "url": url, "nowhere": gone.url()}
            for call in calls[:-1]:
                await eval(call, names)
            with pytest.raises(WireError) as caught:
                await eval(calls[-1], names)
    return caught.value.rule
