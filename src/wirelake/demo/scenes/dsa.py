"""DSA: the boilers of a plant, and who watches and operates them through a broker.

Each boiler tells its temperature and pressure; a panel and a historian subscribe to all of it. An operator moves
setpoints, vents boilers, which is slow for a while, and reads their logs, which are longer than a message. Some
requests are refused; some clients break the rules.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from random import Random
from typing import Any

from ...live.dsa import wire
from ...live.dsa.api import Call, DsaClient, Nodes, StatusError, connect
from ...live.dsa.handshake import ClientHandshake, Identity
from ...live.dsa.wire import Outgoing, Received, write_headers, write_value
from ...protocols import dsa as p
from ...protocols.dsa import Headers
from ..stage import Crowd, RawConnection, Scene, Stage, drop_messages, raw_connection, slowness

BOILERS = ("north", "south", "west")
UPDATE_MESSAGES, REQUEST_MESSAGES = 6.0, 8.0
"""Messages on the wire for each, acks included."""
REFUSED_EVERY = 9
"""Every Nth request of the operator is one that the plant refuses."""
LOG_LINES = 3_000
"""More than one message holds."""
HIGHEST = 120.0


class Plant:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.nodes = Nodes()
        self.operator: DsaClient
        self.path = ""
        for name in BOILERS:
            self._build(name)

    def _build(self, name: str) -> None:
        self.nodes.add(f"{name}/temperature", value=80.0, unit="°C")
        self.nodes.add(f"{name}/pressure", value=1.2, unit="bar")
        self.nodes.add(f"{name}/setpoint", value=85.0, writable="write", unit="°C")
        self.nodes.action(f"{name}/vent", params={"seconds": "number"}, permission="write")(self.vent)
        self.nodes.action(f"{name}/log", result="table")(self.log)

    async def vent(self, call: Call) -> float:
        await self.stage.take_time(15 * slowness(self.stage.at), 0.3)
        if call["seconds"] > HIGHEST:
            raise StatusError(0x45, f"at most {HIGHEST:g} seconds")
        return float(call["seconds"]) * 0.8

    async def log(self, call: Call) -> dict[str, Any]:
        await self.stage.take_time(4)
        rows = [[number, f"burner at {number % 100} %, all well"] for number in range(LOG_LINES)]
        return {"columns": [{"name": "line", "type": "number"}, {"name": "text", "type": "string"}], "rows": rows}

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Plant]:
        """Connect all links; disconnect them in the end."""
        async with AsyncExitStack() as stack:

            async def join(name: str, **more: Any) -> DsaClient:
                return await stack.enter_async_context(connect(self.stage.url, name=name, reconnect=False, **more))

            plant = await join("plant", nodes=self.nodes)
            self.path = plant.path
            self.operator = await join("operator", responder=False)
            for name, qos in (("panel", 1), ("historian", 2)):
                watcher = await join(name, responder=False)
                await watcher.list(self.path)
                for boiler in BOILERS:
                    for value in ("temperature", "pressure"):
                        await drop_messages(stack, watcher.subscribe(f"{self.path}/{boiler}/{value}", qos=qos))
            yield self


async def play(stage: Stage) -> None:
    async with Plant(stage).open() as plant, asyncio.TaskGroup() as group:
        crowd = Crowd(group)
        group.create_task(_values(plant))
        group.create_task(_operating(plant, crowd))
        group.create_task(_logs(plant))


async def _values(plant: Plant) -> None:
    chance = plant.stage.chance("values")
    async for _ in plant.stage.beats(round(0.5 * plant.stage.messages / UPDATE_MESSAGES), chance):
        name, value = chance.choice(BOILERS), chance.choice(("temperature", "pressure"))
        node = plant.nodes[f"{name}/{value}"]
        node.set(round(node.value * chance.uniform(0.97, 1.03), 2))


async def _operating(plant: Plant, crowd: Crowd) -> None:
    chance = plant.stage.chance("operating")
    count = max(REFUSED_EVERY, round(0.4 * plant.stage.messages / REQUEST_MESSAGES))
    async for number in plant.stage.beats(count, chance):
        boiler = f"{plant.path}/{chance.choice(BOILERS)}"
        if number % REFUSED_EVERY == 4:
            await crowd.add(_ask(plant.operator, f"{plant.path}/east/vent", {"seconds": 5}))
        elif chance.random() < 0.3:
            await crowd.add(_set(plant.operator, f"{boiler}/setpoint", chance.randint(700, 950) / 10))
        else:
            await crowd.add(_ask(plant.operator, f"{boiler}/vent", {"seconds": chance.randint(1, 130)}))


async def _logs(plant: Plant) -> None:
    for at, boiler in ((0.3, "north"), (0.7, "west")):
        await plant.stage.until(at)
        await _ask(plant.operator, f"{plant.path}/{boiler}/log", None)


async def _ask(link: DsaClient, path: str, params: dict[str, Any] | None) -> None:
    """Invoke an action and ignore its outcome."""
    with suppress(StatusError, TimeoutError):
        await link.invoke(path, params, timeout=5)


async def _set(link: DsaClient, path: str, value: float) -> None:
    with suppress(StatusError, TimeoutError):
        await link.set(path, value, timeout=5)


async def break_rules(stage: Stage) -> None:
    chance = stage.chance("misdeeds")
    for at, misdeed in ((0.2, _too_early), (0.4, _garbage), (0.6, _unsolicited_reply), (0.85, _torn)):
        await stage.until(at)
        async with raw_connection(stage) as connection:
            await misdeed(chance, connection)


def _list() -> bytes:
    return Outgoing(p.LIST, 1, write_headers(Headers(target_path="downstream"))).stamped(1)


async def _message(connection: RawConnection) -> Received:
    data = await connection.receive()
    return wire.read_frame(data, 4, int.from_bytes(data[:4], "little"))


async def _greet(chance: Random, connection: RawConnection, name: str) -> None:
    handshake = ClientHandshake(Identity.make(chance, f"{name}-"), chance.randbytes(32), is_responder=False)
    await connection.send(wire.control(p.F0, handshake.hello()))
    await connection.send(wire.control(p.F2, handshake.answer(await _message(connection))))
    await connection.receive()


async def _too_early(chance: Random, connection: RawConnection) -> None:
    """Ask before the handshake."""
    await connection.send(_list())
    await connection.receive()


async def _garbage(chance: Random, connection: RawConnection) -> None:
    await _greet(chance, connection, "scanner")
    await connection.send(_list())
    await connection.receive()
    await connection.send(b"GET / HTTP/1.1\r\nHost: plant\r\n\r\n" + chance.randbytes(8))
    await connection.receive()


async def _unsolicited_reply(chance: Random, connection: RawConnection) -> None:
    """Tell values that nobody has subscribed to."""
    await _greet(chance, connection, "impostor")
    for request_id in (7, 8):
        reply = Outgoing(p.SUB_R, request_id, wire.OK, write_value(999.9))
        await connection.send(reply.stamped(request_id))
    await connection.receive()


async def _torn(chance: Random, connection: RawConnection) -> None:
    """Close the connection in the middle of a message."""
    await _greet(chance, connection, "weak-link")
    whole = _list()
    await connection.send(whole[: len(whole) // 2])


SCENE = Scene(parts=(play, break_rules), hub_settings={"allow_all": True, "roles": {"default": {"level": "config"}}})
