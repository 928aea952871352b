"""Those who break the rules: plain sockets that say what no client of ours would say.

Bytes that are no message, a message that ends in its middle, and good messages at the wrong moment.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from random import Random
from uuid import UUID

from ..codec import encode
from ..protocols import ceda, mb
from ..spec import Cell
from .scenes.ceda import USERS
from .stage import Stage

READ_SECONDS = 2.0
NAME, PASSWORD = 4, 5
"""Fields of a login."""
LOGIN = 3
"""Control code of a login by name."""


class Wire:
    """A connection on which anything can be said."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def say(self, data: bytes) -> None:
        """Says it. The other side may have had enough already."""
        with suppress(ConnectionError):
            self._writer.write(data)
            await self._writer.drain()

    async def hear(self) -> bytes:
        """What comes next; nothing if nothing does, or the other side has gone."""
        with suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(READ_SECONDS):
                return await self._reader.read(1 << 16)
        return b""

    async def close(self) -> None:
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


@asynccontextmanager
async def _connected(stage: Stage) -> AsyncIterator[Wire]:
    wire = Wire(*await asyncio.open_connection(*stage.address))
    try:
        yield wire
    finally:
        await wire.close()


# --- mb


async def break_mb(stage: Stage) -> None:
    chance = stage.chance("misdeeds")
    for at, misdeed in ((0.15, _mb_garbage), (0.38, _mb_answers_to_nothing), (0.57, _mb_torn), (0.82, _mb_garbage)):
        await stage.until(at)
        async with _connected(stage) as wire:
            await wire.hear()
            await misdeed(chance, wire)


def _mb_id(chance: Random) -> str:
    return str(UUID(int=chance.getrandbits(128), version=4))


def _mb_frame(message: mb.MbMessage) -> bytes:
    return encode(message, framing="tcp")


async def _mb_register(chance: Random, wire: Wire, name: str) -> None:
    payload = json.dumps({"name": name, "description": "a stranger"}).encode()
    asked = mb.Request(topic="system.service.register", version="1.0.0", request_id=_mb_id(chance), payload=payload)
    await wire.say(_mb_frame(asked))
    await wire.hear()


async def _mb_garbage(chance: Random, wire: Wire) -> None:
    """Well packed, but there is no such action; then something that is not even packed."""
    await _mb_register(chance, wire, "scanner")
    for message in (b"shout:orders.created:1.0.0\n{}", b"publish:orders created:1.0.0\n{}"):
        await wire.say(len(message).to_bytes(4, "big") + message)
        await wire.hear()
    await wire.say(b"GET / HTTP/1.1\r\nHost: shop\r\n\r\n")
    await wire.hear()


async def _mb_answers_to_nothing(chance: Random, wire: Wire) -> None:
    """Answers that nobody asked for."""
    await _mb_register(chance, wire, "impostor")
    for topic in ("payments.authorize", "stock.reserve"):
        answer = mb.Response(topic=topic, version="1.0.0", request_id=_mb_id(chance), payload=b'{"authorized":0.01}')
        await wire.say(_mb_frame(answer))
        await wire.hear()


async def _mb_torn(chance: Random, wire: Wire) -> None:
    """Goes in the middle of a message."""
    await _mb_register(chance, wire, "weak-link")
    whole = _mb_frame(mb.Publish(topic="stock.lamp", version="1.0.0", payload=b'{"left":12,"where":"shelf 4"}'))
    await wire.say(whole[: len(whole) // 2])


# --- ceda


async def break_ceda(stage: Stage) -> None:
    chance = stage.chance("misdeeds")
    for at, misdeed in ((0.2, _ceda_too_early), (0.45, _ceda_garbage), (0.63, _ceda_torn), (0.85, _ceda_to_nothing)):
        await stage.until(at)
        async with _connected(stage) as wire:
            await misdeed(chance, wire)


def _ceda_frame(message: ceda.CedaMessage) -> bytes:
    return encode(message, dialect="ceda4-ws")


async def _ceda_log_in(wire: Wire) -> None:
    record = (Cell(NAME, "STRING", "visitor"), Cell(PASSWORD, "STRING", USERS["visitor"]))
    await wire.say(_ceda_frame(ceda.Login(control_code=LOGIN, record=record)))
    await wire.hear()


async def _ceda_too_early(_: Random, wire: Wire) -> None:
    """Publishes before it has logged in."""
    price = (Cell(1, "DOUBLE", 9.99),)
    await wire.say(_ceda_frame(ceda.Publish(topic="FX.SPOT.EURUSD", record=price)))
    await wire.hear()


async def _ceda_garbage(chance: Random, wire: Wire) -> None:
    await _ceda_log_in(wire)
    await wire.say(b"\x00\x01 this is no message " + chance.randbytes(24))
    await wire.hear()


async def _ceda_torn(_: Random, wire: Wire) -> None:
    """Goes in the middle of a message."""
    await _ceda_log_in(wire)
    whole = _ceda_frame(ceda.Publish(topic="FX.SPOT.GBPUSD", record=(Cell(1, "DOUBLE", 1.2), Cell(4, "STRING", "x"))))
    await wire.say(whole[: len(whole) - 5])


async def _ceda_to_nothing(_: Random, wire: Wire) -> None:
    """Answers a question that nobody has asked."""
    await _ceda_log_in(wire)
    record = (Cell(1, "DOUBLE", 0.0),)
    answer = ceda.Reply(topic="1.1.77", connection_id=1, server_id="MQ", signal_id="", record=record)
    await wire.say(_ceda_frame(answer))
    await wire.hear()
