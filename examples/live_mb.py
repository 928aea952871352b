"""Services that talk through an MB broker of ours: one replies, one subscribes, one sends requests.

python examples/live_mb.py
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import wirelake
from wirelake.live import AnswerError
from wirelake.live.hub.hub import Hub, read_settings
from wirelake.live.mb import Request

SETTINGS = read_settings({"mb": {"tcp": "127.0.0.1:0"}}, "example", Path())


async def add(asked: Request) -> dict[str, float]:
    """Reply to a request with what is returned; an AnswerError is an error reply."""
    given = asked.json()
    if not {"x", "y"} <= given.keys():
        raise AnswerError("BAD_ARGUMENTS", "x and y are needed", {"given": sorted(given)})
    return {"sum": given["x"] + given["y"]}


async def ask(url: str) -> None:
    async with wirelake.connect(url, name="asker") as client:
        answer = await client.request("math.add", {"x": 1, "y": 2}, timeout=2)
        print("1 + 2 =", answer.json()["sum"])
        try:
            await client.request("math.add", {"x": 1})
        except AnswerError as error:
            print(error.code, error.details)
        for celsius in (20.5, 81.5, 99.0):
            await client.publish("plant.boiler", {"celsius": celsius}, confirm=True)


async def main() -> None:
    async with Hub(SETTINGS) as hub:
        url = f"mb://{hub.listening['mb']}"
        async with (
            wirelake.connect(url, name="calculator") as service,
            wirelake.connect(url, name="display") as display,
        ):
            await service.respond("math.add", add)
            async with display.subscribe("plant.#") as messages:
                await ask(url)
                for _ in range(3):
                    message = await messages.get(timeout=5)
                    print(message.topic, message.json()["celsius"])
            services = (await service.request("system.service.list")).json()["services"]
            print("connected:", *(one["name"] for one in services))


if __name__ == "__main__":
    asyncio.run(main())
