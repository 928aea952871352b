"""CEDA: a market with a price feed, desks that subscribe and trade, and a trading service.

Orders take a while, and longer while the market is slow. Nobody serves old prices, so requests for them get no reply.
Somebody has forgotten the password. Some clients break the rules.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from random import Random
from typing import Any

from ...codec import encode
from ...live import AnswerError, Refused, RequestTimeout
from ...live.ceda.api import Blob, CedaClient, Request, connect
from ...protocols.ceda import messages
from ...spec import Cell
from ..stage import Crowd, RawConnection, Scene, Stage, drop_messages, raw_connection, slowness

USERS = {name: f"secret of {name}" for name in ("feed", "trading", "desk-fx", "desk-rates", "visitor")}
TOPICS = {
    "FX.SPOT.EURUSD": 1.085,
    "FX.SPOT.USDJPY": 151.2,
    "FX.SPOT.GBPUSD": 1.264,
    "RATES.SWAP.5Y": 2.71,
    "RATES.SWAP.10Y": 2.83,
}
DESKS = {"desk-fx": ("FX.SPOT.*", "RISK.*"), "desk-rates": ("RATES.**", "RISK.*")}
PRICE, TEXT, SIZE, CURVES = 1, 4, 7, 9
"""Field numbers."""
TICK_MESSAGES, ASK_MESSAGES = 2.0, 4.0
"""Messages on the wire for each, on both sides of the server."""
LIMIT = 800_000
"""The largest order of a desk."""
OLD_SECONDS = 1.5
CURVE_BYTES = 90_000
LOGIN_BY_NAME = 3
"""Control code."""
LOGIN_NAME, LOGIN_PASSWORD = 4, 5
"""Field numbers of a login."""


class Market:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.prices = dict(TOPICS)
        self.feed: CedaClient
        self.desks: list[CedaClient] = []

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Market]:
        """Log everybody in; log them out in the end."""
        async with AsyncExitStack() as stack:

            async def log_in(user: str) -> CedaClient:
                opening = connect(self.stage.url, user=user, password=USERS[user], reconnect=False)
                return await stack.enter_async_context(opening)

            self.feed = await log_in("feed")
            trading = await log_in("trading")
            await trading.respond("QUOTE.GET", self.quote)
            await trading.respond("ORDER.NEW", self.trade)
            for user, patterns in DESKS.items():
                desk = await log_in(user)
                await drop_messages(stack, desk.subscribe(*patterns))
                self.desks.append(desk)
            yield self

    async def quote(self, asked: Request) -> dict[int, Any]:
        await self.stage.take_time(2)
        return {PRICE: self.prices[asked.record[TEXT]], TEXT: asked.record[TEXT]}

    async def trade(self, asked: Request) -> dict[int, Any]:
        await self.stage.take_time(25 * slowness(self.stage.at) ** 0.5)
        if asked.record[SIZE] > LIMIT:
            raise AnswerError("LIMIT_EXCEEDED", "the order is above the limit of a desk")
        return {PRICE: 1, TEXT: "filled", SIZE: asked.record[SIZE]}


async def play(stage: Stage) -> None:
    async with Market(stage).open() as market, asyncio.TaskGroup() as group:
        group.create_task(_ticks(market))
        group.create_task(_questions(market, Crowd(group)))
        group.create_task(_curves(market))
        group.create_task(_stranger(stage))
        group.create_task(_old_prices(market))


async def _ticks(market: Market) -> None:
    chance = market.stage.chance("ticks")
    async for _ in market.stage.beats(round(0.6 * market.stage.messages / TICK_MESSAGES), chance):
        topic = chance.choice(list(market.prices))
        market.prices[topic] = round(market.prices[topic] * (1 + chance.gauss(0, 0.0004)), 5)
        await market.feed.publish(topic, {PRICE: market.prices[topic], SIZE: chance.randint(1, 50) * 100_000})


async def _questions(market: Market, crowd: Crowd) -> None:
    chance = market.stage.chance("questions")
    async for number in market.stage.beats(max(15, round(0.4 * market.stage.messages / ASK_MESSAGES)), chance):
        record: dict[int, Any] = {TEXT: chance.choice(list(market.prices))}
        topic = "ORDER.NEW" if number % 3 == 2 else "QUOTE.GET"
        if topic == "ORDER.NEW":
            record[SIZE] = chance.randint(1, 9) * 100_000
        await crowd.add(_ask(chance.choice(market.desks), topic, record))


async def _ask(desk: CedaClient, topic: str, record: dict[int, Any]) -> None:
    with suppress(RequestTimeout):
        await desk.request(topic, record, timeout=5)


async def _curves(market: Market) -> None:
    """Publish what is too long for one message: it is sent in pieces."""
    chance = market.stage.chance("curves")
    for at in (0.3, 0.6, 0.9):
        await market.stage.until(at)
        blob = Blob(CURVES, chance.randbytes(CURVE_BYTES))
        await market.feed.publish("RISK.CURVES", {TEXT: "all curves"}, blob=blob)


async def _stranger(stage: Stage) -> None:
    for at in (0.12, 0.16):
        await stage.until(at)
        with suppress(Refused):
            async with connect(stage.url, user="desk-fx", password="forgotten", reconnect=False):
                pass


async def _old_prices(market: Market) -> None:
    for at in (0.25, 0.55):
        await market.stage.until(at)
        with suppress(RequestTimeout):
            await market.desks[0].request("HISTORY.GET", {TEXT: "FX.SPOT.EURUSD"}, timeout=OLD_SECONDS)


async def break_rules(stage: Stage) -> None:
    chance = stage.chance("misdeeds")
    for at, misdeed in ((0.2, _too_early), (0.45, _garbage), (0.63, _torn), (0.85, _unsolicited_reply)):
        await stage.until(at)
        async with raw_connection(stage) as connection:
            await misdeed(chance, connection)


def _frame(message: messages.CedaMessage) -> bytes:
    return encode(message, dialect="ceda4-ws")


async def _log_in(connection: RawConnection) -> None:
    record = (Cell(LOGIN_NAME, "STRING", "visitor"), Cell(LOGIN_PASSWORD, "STRING", USERS["visitor"]))
    await connection.send(_frame(messages.Login(control_code=LOGIN_BY_NAME, record=record)))
    await connection.receive()


async def _too_early(_: Random, connection: RawConnection) -> None:
    """Publish before logging in."""
    price = (Cell(1, "DOUBLE", 9.99),)
    await connection.send(_frame(messages.Publish(topic="FX.SPOT.EURUSD", record=price)))
    await connection.receive()


async def _garbage(chance: Random, connection: RawConnection) -> None:
    await _log_in(connection)
    await connection.send(b"\x00\x01 not a message " + chance.randbytes(24))
    await connection.receive()


async def _torn(_: Random, connection: RawConnection) -> None:
    """Close the connection in the middle of a message."""
    await _log_in(connection)
    whole = _frame(messages.Publish(topic="FX.SPOT.GBPUSD", record=(Cell(1, "DOUBLE", 1.2), Cell(4, "STRING", "x"))))
    await connection.send(whole[: len(whole) - 5])


async def _unsolicited_reply(_: Random, connection: RawConnection) -> None:
    """Reply to a request that nobody sent."""
    await _log_in(connection)
    record = (Cell(1, "DOUBLE", 0.0),)
    answer = messages.Reply(topic="1.1.77", connection_id=1, server_id="MQ", signal_id="", record=record)
    await connection.send(_frame(answer))
    await connection.receive()


SCENE = Scene(parts=(play, break_rules), hub_settings={"users": USERS})
