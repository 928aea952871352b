"""The memory of a hub: who is refused, and what is given back."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from tests.live.live import run
from tests.live.plainly import split_address
from tests.waiting import until
from wirelake.live.hub import machine
from wirelake.live.hub.hub import Hub, read_settings
from wirelake.live.hub.machine import MemoryGuard, available_bytes

ANY = "127.0.0.1:0"


async def greeting(hub: Hub) -> bytes:
    reader, writer = await asyncio.open_connection(*split_address(hub.listening["mb"]))
    try:
        return await reader.read(1)
    finally:
        writer.close()


def test_newcomers_are_refused_while_memory_is_short_and_those_who_are_here_stay(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with Hub(read_settings({"mb": {"tcp": ANY}}, "test", Path())) as hub:
            reader, writer = await asyncio.open_connection(*split_address(hub.listening["mb"]))
            assert await reader.read(1)
            hub.memory.limit = 1 << 20
            await until(lambda: hub.memory.is_short)
            assert await greeting(hub) == b""
            assert hub.servers["mb"].refused == 1 and hub.servers["mb"].connections == 1
            hub.memory.limit = 1 << 50
            await until(lambda: not hub.memory.is_short)
            assert await greeting(hub) != b""
            writer.close()

    run(main)
    told = [one.message for one in caplog.records if one.levelno == logging.WARNING]
    assert told == ["memory is short: nobody new is let in", "memory suffices again"]


def test_the_limit_is_a_share_of_the_machine_or_of_the_cgroup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = available_bytes()
    assert whole > 1 << 20
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(machine, "_LIMITS", (limit, tmp_path / "nowhere"))
    limit.write_text("max\n")
    assert available_bytes() >= whole
    limit.write_text("1000000\n")
    assert available_bytes() == 1_000_000


def test_memory_is_given_back_when_clients_have_gone_and_only_then(monkeypatch: pytest.MonkeyPatch) -> None:
    trims: list[int] = []
    connections = 100

    async def main() -> None:
        nonlocal connections
        monkeypatch.setattr(machine, "trim", lambda: trims.append(connections))
        guard = MemoryGuard(0.4, lambda: connections)
        guard._idle = -machine.TRIM_BYTES
        guard.look()
        assert not trims
        connections = 50
        guard.look()
        guard.look()
        assert trims == [50]
        connections = 20
        guard._trim_at = 0.0
        guard.look()
        assert trims == [50, 20], "what they took is free a moment later, so the rest counts too"

    run(main)
