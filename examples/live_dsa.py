"""A DSA link: a boiler whose temperature others read, and which they heat. The broker and the one who asks are in the
same process.

python examples/live_dsa.py
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import wirelake
from wirelake.live.dsa import Call, Nodes, StatusError
from wirelake.live.hub.hub import Hub, read_settings

SETTINGS = read_settings(
    {"dsa": {"tcp": "127.0.0.1:0", "allow_all": True, "roles": {"default": {"level": "config"}}}}, "example", Path()
)

nodes = Nodes()
temperature = nodes.add("main/temperature", value=70.0, unit="°C")
limit = nodes.add("main/limit", value=85.0, writable="write", unit="°C")


@nodes.action("main/heat", params={"by": "number"}, permission="write")
def heat(call: Call) -> float:
    if temperature.value + call["by"] > limit.value:
        raise StatusError(0x45, f"above the limit of {limit.value} °C")
    temperature.set(temperature.value + call["by"])
    return temperature.value


async def main() -> None:
    async with Hub(SETTINGS) as hub:
        url = f"dsa://{hub.listening['dsa']}"
        async with wirelake.connect(url, name="boiler", nodes=nodes) as boiler, wirelake.connect(url) as ask:
            print((await ask.get(f"{boiler.path}/main/temperature")).value)
            print(await ask.invoke(f"{boiler.path}/main/heat", {"by": 10}))
            try:
                await ask.invoke(f"{boiler.path}/main/heat", {"by": 10})
            except StatusError as error:
                print(error.code)


asyncio.run(main())
