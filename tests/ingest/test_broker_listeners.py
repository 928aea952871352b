"""A broker that listens on several ports, recorded by taps: the legs of its exchanges join."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from wirelake.capture.settings import ReadSettings
from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.run import ingest
from wirelake.live.core.address import parse_address, show_address
from wirelake.live.hub.hub import Hub, read_settings
from wirelake.live.mb import MbClient, Request, connect
from wirelake.live.tap.proxy import Proxy
from wirelake.live.tap.recorder import Recorder

from .lakes import table

REQUESTS, AT_ONCE = 120, 4
LISTENERS = {"mb": "mb", "mb-ws": "mb+ws"}


async def played(target: Path, *, is_audited: bool, payload: Any) -> dict[str, str]:
    """Ask services over TCP and WebSocket; return the ids that the broker gave, by those of the requesters.

    ``is_audited``: the tap records the copies for audit too.
    """
    given: dict[str, str] = {}
    everything_came = asyncio.Event()

    async with AsyncExitStack() as stack:
        recorder = Recorder(target)
        free = {"mb": dict.fromkeys(("tcp", "ws"), "127.0.0.1:0")}
        hub = await stack.enter_async_context(Hub(read_settings(free, "test", Path())))
        stack.callback(recorder.end)
        recorder.start()
        urls = {}
        for name, scheme in LISTENERS.items():
            proxy = Proxy(("127.0.0.1", 0), parse_address(hub.listening[name]), recorder)
            await proxy.start()
            stack.push_async_callback(proxy.stop, 1.0)
            urls[name] = f"{scheme}://{show_address(proxy.listening[0])}"

        async def join(url: str) -> MbClient:
            return await stack.enter_async_context(connect(url, name="one", description="a peer", reconnect=False))

        async def audit(client: MbClient, is_ready: asyncio.Event) -> None:
            async with client.subscribe("system.message") as copies:
                is_ready.set()
                async for one in copies:
                    told = json.loads(one.payload)
                    header = told["message"]["header"]
                    if header["topic"] == "math.add" and header["action"] == "request" and "maskedId" in told:
                        given[told["maskedId"]] = header["requestId"]
                    if len(given) == REQUESTS:
                        everything_came.set()

        async def serve(_: Request) -> dict[str, int]:
            return {"sum": 3}

        is_ready = asyncio.Event()
        auditor = await join(urls["mb"] if is_audited else f"mb://{hub.listening['mb']}")
        listening = asyncio.create_task(audit(auditor, is_ready))
        stack.callback(listening.cancel)
        await is_ready.wait()
        for name in LISTENERS:
            await (await join(urls[name])).respond("math.add", serve)
        clients = [await join(urls[name]) for name in LISTENERS]
        for start in range(0, REQUESTS, AT_ONCE):
            asked = [clients[i % 2].request("math.add", {"x": payload(start + i)}) for i in range(AT_ONCE)]
            await asyncio.gather(*asked)
        await asyncio.wait_for(everything_came.wait(), 30)
    return given


def legs(tmp_path: Path, given: dict[str, str]) -> Counter[tuple[str | None, bool]]:
    """How the legs in the lake were joined, and whether rightly."""
    settings = ReadSettings(protocols=("mb",))
    ingest(InlineRunner(), [str(tmp_path / "tap")], str(tmp_path / "lake"), reading=settings, final=True)
    wanted = given | {far: near for near, far in given.items()}
    rows = [row for row in table(tmp_path / "lake", "gold/exchanges") if row["address"] == "math.add"]
    assert len({row["connection"] for row in rows}) == 4
    return Counter((row["other_leg_how"], row["other_correlation"] == wanted[row["correlation"]]) for row in rows)


def test_legs_over_tcp_join_legs_over_websocket(tmp_path: Path) -> None:
    given = asyncio.run(played(tmp_path / "tap", is_audited=False, payload=int))
    assert legs(tmp_path, given) == {("guessed", True): 2 * REQUESTS}


def test_copies_for_audit_join_all_legs_whenever_they_come(tmp_path: Path) -> None:
    given = asyncio.run(played(tmp_path / "tap", is_audited=True, payload=lambda _: 1))
    assert legs(tmp_path, given) == {("audit", True): 2 * REQUESTS}
