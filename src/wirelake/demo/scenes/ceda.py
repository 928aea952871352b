"""CEDA: prices, and people who look at them and trade.

A feed publishes, desks subscribe, the trading service answers. Orders take their time, more of it while the market is
slow; nobody serves old prices, so whoever asks for them waits in vain; somebody has forgotten the password.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

from ...net import AnswerError, Refused, RequestTimeout
from ...net.ceda import Blob, CedaClient, Request, connect
from ..stage import Crowd, Stage, slowness

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
"""Numbers of fields."""
TICK_MESSAGES, ASK_MESSAGES = 2.0, 4.0
"""What is on the wire for each, on both sides of the server."""
LIMIT = 800_000
"""What a desk may trade at once."""
OLD_SECONDS = 1.5
CURVE_BYTES = 90_000


class Market:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.prices = dict(TOPICS)
        self.feed: CedaClient
        self.desks: list[CedaClient] = []

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Market]:
        """Everybody is logged in; in the end they log out."""
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
                messages = await stack.enter_async_context(desk.subscribe(*patterns))
                reading = asyncio.create_task(_read(messages))
                stack.callback(reading.cancel)
                self.desks.append(desk)
            yield self

    # --- what the services do

    async def quote(self, asked: Request) -> dict[int, Any]:
        await self.stage.work(2)
        return {PRICE: self.prices[asked.record[TEXT]], TEXT: asked.record[TEXT]}

    async def trade(self, asked: Request) -> dict[int, Any]:
        await self.stage.work(25 * slowness(self.stage.at) ** 0.5)
        if asked.record[SIZE] > LIMIT:
            raise AnswerError("LIMIT_EXCEEDED", "the limit of a desk is lower")
        return {PRICE: 1, TEXT: "filled", SIZE: asked.record[SIZE]}


async def _read(messages: Any) -> None:
    async for _ in messages:
        pass


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
    """Too long for one message: sent in pieces."""
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
