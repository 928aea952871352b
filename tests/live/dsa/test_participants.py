"""Links in the hub's own process: participants, and the services that a hub runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import wirelake
from tests.waiting import until
from wirelake.live.dsa.api import Call, DsaClient, Nodes
from wirelake.live.hub.hub import Hub, read_settings

SETTINGS = {"tcp": "127.0.0.1:0", "allow_all": True, "roles": {"default": {"level": "write"}}}


async def thermometer(link: DsaClient) -> None:
    """A service of the hub: nodes of its own, and what it may do as a trusted link."""
    link.nodes.add("temperature", value=21.5)

    @link.action("double", params={"x": "number"}, permission="read")
    def double(call: Call) -> float:
        return 2 * float(call["x"])

    await link.invoke("sys/roles/add-role", {"Name": "made by a service"})


def settings(**more: Any) -> Any:
    return read_settings({"dsa": {**SETTINGS, **more}}, "test", Path())


def test_a_participant_needs_no_permission_and_others_see_its_nodes() -> None:
    async def main() -> None:
        nodes = Nodes()
        nodes.add("count", value=1)
        async with Hub(settings(allow_all=False, quarantine=False)) as hub:
            async with hub.participant("dsa", name="inside", nodes=nodes) as inside:
                assert inside.path == "downstream/inside"
                assert "tokens" in (await inside.list("sys")).children
                assert (await inside.get("downstream/inside/count")).value == 1
            broker: Any = hub.servers["dsa"].session
            await until(lambda: not broker.sessions.peers)
            assert not broker.admission.clients

    asyncio.run(main())


def test_a_hub_runs_a_service_that_links_reach() -> None:
    async def main() -> None:
        async with Hub(settings(services=f"{__name__}:thermometer")) as hub:
            url = f"dsa://{hub.listening['dsa']}"
            broker: Any = hub.servers["dsa"].session
            await until(lambda: "made by a service" in broker.roles)
            async with wirelake.connect(url, name="outside", responder=False) as link:
                assert (await link.get("downstream/thermometer/temperature")).value == 21.5
                assert await link.invoke("downstream/thermometer/double", {"x": 4}) == 8.0

    asyncio.run(main())
