"""Quotes over a CEDA server of ours: a source publishes and replies, a screen logs in, subscribes and sends requests.

python examples/live_ceda.py
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from wirelake.live.ceda import Blob, CedaClient, Cell, Request, connect
from wirelake.live.hub.hub import Hub, read_settings
from wirelake.live.hub.users import hash_password

USERS = {"source": hash_password("s3cret"), "screen": hash_password("0pen")}
SETTINGS = read_settings({"ceda": {"tcp": "127.0.0.1:0", "users": USERS}}, "example", Path())
PRICE, NAME, SIZE, CHART = 1, 3, 7, 9


def quote(asked: Request) -> dict[int, object]:
    """Reply to a request with a record, values by number."""
    return {NAME: asked.record[NAME], PRICE: 1.085}


async def publish(source: CedaClient) -> None:
    await source.publish("FX.SPOT.EURUSD", {PRICE: 1.085, NAME: "firm"})
    await source.publish("FX.SPOT.USDJPY", (Cell(PRICE, "FLOAT", 0.5), Cell(SIZE, "SHORT", 100)))
    await source.publish("FX.CHART", {NAME: "a picture"}, blob=Blob(CHART, bytes(100_000)))


async def main() -> None:
    async with Hub(SETTINGS) as hub:
        url = f"ceda://{hub.listening['ceda']}"
        async with connect(url, user="source", password="s3cret") as source:
            await source.respond("QUOTE.GET", quote)
            async with connect(url, user="screen", password="0pen") as screen:
                async with screen.subscribe("FX.**") as messages:
                    await publish(source)
                    for _ in range(3):
                        message = await messages.get(timeout=5)
                        shown = {number: value for number, value in message.record.items() if number != CHART}
                        print(message.topic, shown, len(message.record.get(CHART, b"")))
                answer = await screen.request("QUOTE.GET", {NAME: "EURUSD"}, timeout=5)
                print(answer.record)


if __name__ == "__main__":
    asyncio.run(main())
