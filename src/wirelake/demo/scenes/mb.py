"""MB: the services of a small shop around a broker.

Customers browse and order. The orders service asks stock and payments, then publishes the order. Payments are slow, and
very slow for a while; mirrors are sold out; the daily report takes longer than its callers wait. Some clients break the
rules.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from random import Random
from typing import Any
from uuid import UUID

from ...codec import encode
from ...live import AnswerError, RequestTimeout
from ...live.mb.api import MbClient, Request, connect
from ...protocols.mb import messages
from ..stage import Crowd, RawConnection, Scene, Stage, drop_messages, raw_connection, slowness

CUSTOMERS = ("web", "app", "kiosk")
ARTICLES = ("lamp", "chair", "desk", "shelf", "clock", "vase")
SOLD_OUT = "mirror"
SOLD_OUT_EVERY = 12
"""Every Nth order asks for the sold-out article."""
ORDER_MESSAGES, SEARCH_MESSAGES, LEVEL_MESSAGES = 16.0, 4.0, 2.0
"""Messages on the wire for each, on both sides of the broker."""
ASK_SECONDS = 0.9
"""How long the orders service waits for stock and payments."""
LARGEST_AMOUNT = 870.0
"""The bank declines more than this."""
REPORT_SECONDS = 1.0


class Shop:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.orders: MbClient
        self.stock: MbClient
        self.customers: list[MbClient] = []

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Shop]:
        """Connect all services; disconnect them in the end."""
        async with AsyncExitStack() as stack:

            async def join(name: str, description: str) -> MbClient:
                return await stack.enter_async_context(
                    connect(self.stage.url, name=name, description=description, reconnect=False)
                )

            stock = self.stock = await join("stock", "what is there")
            payments = await join("payments", "takes the money")
            self.orders = await join("orders", "makes orders")
            await stock.respond("catalog.search", self.search)
            await stock.respond("stock.reserve", self.reserve)
            await payments.respond("payments.authorize", self.authorize)
            await self.orders.respond("orders.create", self.create)
            listeners = await join("notifications", "mails"), await join("analytics", "counts")
            for listener, patterns in zip(listeners, (("orders.#",), ("orders.#", "stock.#")), strict=True):
                await drop_messages(stack, listener.subscribe(*patterns))
            for name in CUSTOMERS:
                self.customers.append(await join(name, "where customers are"))
            yield self

    async def search(self, asked: Request) -> dict[str, Any]:
        await self.stage.take_time(3)
        text = asked.json()["text"]
        return {"found": [name for name in ARTICLES if set(name) & set(text)], "for": text}

    async def reserve(self, asked: Request) -> dict[str, Any]:
        await self.stage.take_time(5)
        wanted = asked.json()
        if wanted["article"] == SOLD_OUT:
            raise AnswerError("OUT_OF_STOCK", "none is left", {"article": SOLD_OUT})
        return {"reserved": wanted["quantity"]}

    async def authorize(self, asked: Request) -> dict[str, Any]:
        await self.stage.take_time(18 * slowness(self.stage.at), 0.3)
        amount = asked.json()["amount"]
        if amount > LARGEST_AMOUNT:
            raise AnswerError("CARD_DECLINED", "the bank said no", {"amount": amount})
        return {"authorized": amount}

    async def create(self, asked: Request) -> dict[str, Any]:
        """Ask stock and payments first. A refused order is a normal reply, not an error."""
        order = asked.json()
        try:
            goods = {"article": order["article"], "quantity": order["quantity"]}
            await self.orders.request("stock.reserve", goods, timeout=ASK_SECONDS, parent=asked.id)
            amount = {"amount": order["amount"], "order": order["number"]}
            await self.orders.request("payments.authorize", amount, timeout=ASK_SECONDS, parent=asked.id)
        except AnswerError as error:
            return {"number": order["number"], "status": "refused", "why": error.code}
        except RequestTimeout:
            raise AnswerError("ORDER_PENDING", "another service did not answer in time") from None
        await self.orders.publish("orders.created", order, parent=asked.id)
        return {"number": order["number"], "status": "created"}


async def back_office(participant: MbClient) -> None:
    """Report about the day, in the hub's own process: the callers wait in vain."""

    async def report(_: Request) -> dict[str, Any]:
        await asyncio.sleep(2 * REPORT_SECONDS)
        return {"rows": 0}

    await participant.respond("reports.daily", report)


async def _ask(client: MbClient, topic: str, payload: dict[str, Any], timeout: float) -> None:
    """Send a request and ignore its outcome."""
    with suppress(AnswerError, RequestTimeout):
        await client.request(topic, payload, timeout=timeout)


async def play(stage: Stage) -> None:
    async with Shop(stage).open() as shop, asyncio.TaskGroup() as group:
        crowd = Crowd(group)
        group.create_task(_orders(shop, crowd))
        group.create_task(_browsing(shop, crowd))
        group.create_task(_levels(shop))
        group.create_task(_reports(shop))


async def _orders(shop: Shop, crowd: Crowd) -> None:
    chance = shop.stage.chance("orders")
    count = max(SOLD_OUT_EVERY, round(0.55 * shop.stage.messages / ORDER_MESSAGES))
    async for number in shop.stage.beats(count, chance):
        article = SOLD_OUT if number % SOLD_OUT_EVERY == 5 else chance.choice(ARTICLES)
        order = {"number": 1000 + number, "article": article, "quantity": chance.randint(1, 4)}
        order["amount"] = chance.randint(500, 90_000) / 100
        await crowd.add(_ask(chance.choice(shop.customers), "orders.create", order, 5))


async def _browsing(shop: Shop, crowd: Crowd) -> None:
    chance = shop.stage.chance("browsing")
    async for _ in shop.stage.beats(round(0.35 * shop.stage.messages / SEARCH_MESSAGES), chance):
        wanted = {"text": chance.choice(ARTICLES)}
        await crowd.add(_ask(chance.choice(shop.customers), "catalog.search", wanted, 2))


async def _levels(shop: Shop) -> None:
    chance = shop.stage.chance("levels")
    async for _ in shop.stage.beats(round(0.1 * shop.stage.messages / LEVEL_MESSAGES), chance):
        await shop.stock.publish(f"stock.{chance.choice(ARTICLES)}", {"left": chance.randint(0, 99)})


async def _reports(shop: Shop) -> None:
    """Ask twice for a report that never comes in time."""
    for at in (0.2, 0.6):
        await shop.stage.until(at)
        await _ask(shop.customers[0], "reports.daily", {"day": "yesterday"}, REPORT_SECONDS)


async def break_rules(stage: Stage) -> None:
    chance = stage.chance("misdeeds")
    for at, misdeed in ((0.15, _garbage), (0.38, _unsolicited_replies), (0.57, _torn), (0.82, _garbage)):
        await stage.until(at)
        async with raw_connection(stage) as connection:
            await connection.receive()
            await misdeed(chance, connection)


def _id(chance: Random) -> str:
    return str(UUID(int=chance.getrandbits(128), version=4))


def _frame(message: messages.MbMessage) -> bytes:
    return encode(message, framing="tcp")


async def _register(chance: Random, connection: RawConnection, name: str) -> None:
    payload = json.dumps({"name": name, "description": "a stranger"}).encode()
    asked = messages.Request(topic="system.service.register", version="1.0.0", request_id=_id(chance), payload=payload)
    await connection.send(_frame(asked))
    await connection.receive()


async def _garbage(chance: Random, connection: RawConnection) -> None:
    """Send frames with an unknown action and a malformed topic, then bytes that are not even framed."""
    await _register(chance, connection, "scanner")
    for message in (b"shout:orders.created:1.0.0\n{}", b"publish:orders created:1.0.0\n{}"):
        await connection.send(len(message).to_bytes(4, "big") + message)
        await connection.receive()
    await connection.send(b"GET / HTTP/1.1\r\nHost: shop\r\n\r\n")
    await connection.receive()


async def _unsolicited_replies(chance: Random, connection: RawConnection) -> None:
    """Reply to requests that nobody sent."""
    await _register(chance, connection, "impostor")
    for topic in ("payments.authorize", "stock.reserve"):
        answer = messages.Response(topic=topic, version="1.0.0", request_id=_id(chance), payload=b'{"authorized":0.01}')
        await connection.send(_frame(answer))
        await connection.receive()


async def _torn(chance: Random, connection: RawConnection) -> None:
    """Close the connection in the middle of a message."""
    await _register(chance, connection, "weak-link")
    whole = _frame(messages.Publish(topic="stock.lamp", version="1.0.0", payload=b'{"left":12,"where":"shelf 4"}'))
    await connection.send(whole[: len(whole) // 2])


SCENE = Scene(parts=(play, break_rules), hub_settings={"services": f"{__name__}:back_office"})
