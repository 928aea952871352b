"""DSA: a plant of boilers and pumps, links that watch and control them, and a broker between them.

Values change all the time; panels subscribe to them, change set points and run actions. The self-test is slow, and
slower for a while. One boiler may not be reset, one panel writes where it may not, and an old panel asks for a pump
that is gone. Some clients break the rules.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from random import Random
from typing import Any

from ...live import AnswerError, RequestTimeout
from ...live.dsa import wire
from ...live.dsa.api import Call, DsaClient, Nodes, StatusError, connect
from ...live.dsa.handshake import ClientHandshake, Identity
from ...protocols import dsa as messages
from ..stage import Crowd, RawConnection, Scene, Stage, drop_messages, raw_connection, slowness

BOILERS, PUMPS = ("boiler-1", "boiler-2"), ("pump-1", "pump-2", "pump-3")
PANELS = ("panel-hall", "panel-office")
SEALED = "boiler-2"
"""Nobody may reset this one."""
UPDATE_MESSAGES, ASK_MESSAGES = 7.0, 9.0
"""Messages on the wire for each, acks among them."""
HOTTEST = 95.0
TEST_SECONDS = 0.5
"""How long panels wait for a self-test."""
OUT_OF_RANGE = 0x44


class Plant:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.nodes = Nodes()
        self.path = ""
        self.panels: list[DsaClient] = []

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Plant]:
        """Connect the plant, then the panels, which subscribe to all that it measures."""
        self._declare()
        async with AsyncExitStack() as stack:
            plant = await stack.enter_async_context(
                connect(self.stage.url, name="plant", nodes=self.nodes, reconnect=False)
            )
            self.path = plant.path
            for name in PANELS:
                panel = await stack.enter_async_context(
                    connect(self.stage.url, name=name, responder=False, reconnect=False)
                )
                paths = [self.of(f"{unit}/temperature") for unit in BOILERS] + [
                    self.of(f"{pump}/flow") for pump in PUMPS
                ]
                await drop_messages(stack, panel.subscribe(*paths, qos=1))
                self.panels.append(panel)
            yield self

    def of(self, path: str) -> str:
        """Return the path of a node of the plant, as others see it."""
        return f"{self.path}/main/{path}"

    def _declare(self) -> None:
        for unit in BOILERS:
            self.nodes.add(f"main/{unit}/temperature", value=60.0, unit="C")
            self.nodes.add(f"main/{unit}/setpoint", value=60.0, writable=True, on_set=self._check_setpoint, unit="C")
            self.nodes.action(f"main/{unit}/reset", permission="write")(self._reset)
            self.nodes.action(f"main/{unit}/selftest", result="table")(self._selftest)
        for pump in PUMPS:
            self.nodes.add(f"main/{pump}/flow", value=1.0, unit="l/s")
            self.nodes.add(f"main/{pump}/on", value=True, writable=True)

    def _check_setpoint(self, _: Any, value: Any) -> None:
        if value > HOTTEST:
            raise StatusError(OUT_OF_RANGE, f"the boiler stands at most {HOTTEST:g} C")

    async def _reset(self, call: Call) -> Any:
        await self.stage.take_time(6)
        if SEALED in call.node.path:
            raise StatusError(OUT_OF_RANGE, "this boiler is sealed")
        return {"reset": True}

    async def _selftest(self, call: Call) -> AsyncIterator[list[list[Any]]]:
        for step in ("valve", "burner", "sensor"):
            await self.stage.take_time(6 * slowness(self.stage.at), 0.3)
            yield [[step, "ok"]]


async def play(stage: Stage) -> None:
    async with Plant(stage).open() as plant, asyncio.TaskGroup() as group:
        crowd = Crowd(group)
        group.create_task(_measure(plant))
        group.create_task(_control(plant, crowd))
        group.create_task(_look_around(plant))
        group.create_task(_old_panel(plant))


async def _measure(plant: Plant) -> None:
    chance = plant.stage.chance("values")
    async for _ in plant.stage.beats(round(0.6 * plant.stage.messages / UPDATE_MESSAGES), chance):
        if chance.random() < 0.5:
            plant.nodes[f"main/{chance.choice(BOILERS)}/temperature"].set(round(chance.gauss(70, 4), 2))
        else:
            plant.nodes[f"main/{chance.choice(PUMPS)}/flow"].set(round(chance.uniform(0.2, 3.0), 3))


async def _control(plant: Plant, crowd: Crowd) -> None:
    chance = plant.stage.chance("control")
    async for number in plant.stage.beats(max(15, round(0.4 * plant.stage.messages / ASK_MESSAGES)), chance):
        panel, boiler, pump = chance.choice(plant.panels), chance.choice(BOILERS), chance.choice(PUMPS)
        match number % 5:
            case 0:
                await crowd.add(_ignoring(panel.set(plant.of(f"{boiler}/setpoint"), float(chance.randint(40, 100)))))
            case 1:
                await crowd.add(_ignoring(panel.set(plant.of(f"{pump}/on"), chance.random() < 0.8)))
            case 2:
                await crowd.add(_ignoring(panel.invoke(plant.of(f"{boiler}/reset"))))
            case 3:
                await crowd.add(_ignoring(panel.get(plant.of(f"{boiler}/setpoint"))))
            case _:
                await crowd.add(_ignoring(panel.invoke(plant.of(f"{boiler}/selftest"), timeout=TEST_SECONDS)))


async def _ignoring(request: Any) -> None:
    """Wait for a request, and ignore how it ends."""
    with suppress(AnswerError, RequestTimeout):
        await request


async def _look_around(plant: Plant) -> None:
    for at in (0.05, 0.35, 0.75):
        await plant.stage.until(at)
        for path in ("downstream", plant.of("boiler-1"), plant.of("pump-1")):
            await plant.panels[0].list(path)


async def _old_panel(plant: Plant) -> None:
    """Ask for a node that is gone, and write to one that nobody may write."""
    for at in (0.25, 0.65):
        await plant.stage.until(at)
        await _ignoring(plant.panels[1].invoke(plant.of("pump-9/reset"), timeout=1.0))
        await _ignoring(plant.panels[1].set(plant.of("boiler-1/temperature"), 20.0))


async def break_rules(stage: Stage) -> None:
    chance = stage.chance("misdeeds")
    for at, misdeed in ((0.22, _too_early), (0.47, _wrong_proof), (0.64, _garbage), (0.86, _torn)):
        await stage.until(at)
        async with raw_connection(stage) as connection:
            await misdeed(chance, connection)


def _introduce(chance: Random, name: str) -> ClientHandshake:
    return ClientHandshake(Identity.make(chance, f"{name}-"), chance.randbytes(32))


def _subscribe(path: str) -> bytes:
    headers = wire.write_headers(messages.Headers(target_path=path))
    return wire.Outgoing(messages.SUB, 1, headers).stamped(1)


async def _too_early(_: Random, connection: RawConnection) -> None:
    """Subscribe before the handshake."""
    await connection.send(_subscribe("downstream"))
    await connection.receive()


async def _wrong_proof(chance: Random, connection: RawConnection) -> None:
    """Claim a key that the client does not have."""
    await connection.send(wire.control(messages.F0, _introduce(chance, "impostor").hello()))
    await connection.receive()
    proof = messages.HandshakeF2(token="", is_responder=False, path="", auth=chance.randbytes(32))
    await connection.send(wire.control(messages.F2, wire.write_body(proof)))
    await connection.receive()


async def _garbage(chance: Random, connection: RawConnection) -> None:
    await connection.send(b"GET / HTTP/1.1\r\nHost: plant\r\n\r\n" + chance.randbytes(16))
    await connection.receive()


async def _torn(chance: Random, connection: RawConnection) -> None:
    """Close the connection in the middle of a message."""
    whole = wire.control(messages.F0, _introduce(chance, "weak-link").hello())
    await connection.send(whole[: len(whole) // 2])


SCENE = Scene(parts=(play, break_rules), hub_settings={"allow_all": True, "roles": {"default": {"level": "write"}}})
