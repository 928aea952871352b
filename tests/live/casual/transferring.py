"""``python -m tests.live.casual.transferring STORAGE HERE THERE``: moves money between two domains until it is stopped.

Every transfer is a transaction of this process: a dequeue here and an enqueue there, or a call of a service which does
both, so that the domain in the middle coordinates too. After "stop" on standard input it only tells what is decided.
"""

from __future__ import annotations

import asyncio
import random
import sys
from typing import Any

import wirelake
from wirelake.errors import WireError
from wirelake.live.drive.connection import Reconnect

QUEUE = "money"


async def transfer(client: Any, here: str, there: str, by_service: bool) -> None:
    async with client.transaction():
        if by_service:
            await client.call("forward", there, peer=here)
        else:
            message = await client.dequeue(QUEUE, peer=here)
            if message is not None:
                await client.enqueue(QUEUE, message.value, peer=there)


async def main(storage: str, *urls: str) -> None:
    chance = random.Random()
    loop = asyncio.get_running_loop()
    told: asyncio.Future[str] = asyncio.ensure_future(loop.run_in_executor(None, sys.stdin.readline))
    places = [url.removeprefix("casual://") for url in urls]
    options = {"timeout": 60.0, "reconnect": Reconnect(seconds=0.02, most_seconds=0.2)}
    async with wirelake.connect(urls[0], peers=urls[1:], storage=storage, name="bank", **options) as client:
        print("ready", flush=True)
        while not told.done():
            here, there = chance.sample(places, 2)
            try:
                async with asyncio.timeout(20):
                    await transfer(client, here, there, chance.random() < 0.3)
            except (WireError, TimeoutError) as error:
                print(f"failed {type(error).__name__} {error}", flush=True)
            else:
                print("moved", flush=True)
        print("stopped", flush=True)
        await loop.run_in_executor(None, sys.stdin.readline)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
