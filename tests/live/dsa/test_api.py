"""Links that ask and reply through our broker, over real sockets."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

import wirelake
from tests.live.certificates import Authority
from tests.live.dsa.live import dsa_broker
from tests.live.live import QUICK, TRANSPORTS, authority, run
from tests.waiting import until
from wirelake.live import ConnectionFailed, RequestTimeout, dsa
from wirelake.live.dsa import Call, DsaClient, Nodes, StatusError
from wirelake.live.dsa.service import RoleSettings
from wirelake.live.hub.hub import Hub, read_settings

__all__ = ["authority"]


def boiler() -> Nodes:
    nodes = Nodes()
    nodes.add("main/temp", value=21.5, writable="write", unit="C")

    @nodes.action("main/add", params={"x": "number", "y": "number"})
    def add(call: Call) -> Any:
        return call["x"] + call["y"]

    @nodes.action("main/count", params={"to": "number"}, result="table")
    async def count(call: Call) -> Any:
        yield {"columns": [{"name": "n", "type": "number"}]}
        for number in range(call["to"]):
            yield {"rows": [[number]]}

    @nodes.action("main/echo", result="stream")
    async def echo(call: Call) -> None:
        async for value in call.inputs():
            await call.send(value)
            if value == "end":
                return

    return nodes


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_list_get_set_subscribe_and_invoke_work_over_every_transport(transport: str, authority: Authority) -> None:
    async def main() -> None:
        async with dsa_broker(transport, authority=authority) as live:
            options: dict[str, Any] = {"ca": authority.path} if transport in ("tls", "wss") else {}
            nodes = boiler()
            async with (
                wirelake.connect(live.url(transport), name="boiler", nodes=nodes, **options) as link,
                dsa.connect(live.url(transport), name="ask", responder=False, **options) as ask,
            ):
                assert (link.path, ask.path) == ("downstream/boiler", "")
                assert link.broker == ask.broker
                listing = await ask.list("downstream/boiler/main")
                assert listing.children["temp"] == {"$type": "number", "$writable": "write"}
                assert (await ask.get("downstream/boiler/main/temp")).value == 21.5
                async with ask.subscribe("downstream/boiler/main/temp", qos=1) as values:
                    assert (await values.get(5)).value == 21.5
                    await ask.set("downstream/boiler/main/temp", 30)
                    update = await values.get(5)
                    assert (update.path, update.value, update.status) == ("downstream/boiler/main/temp", 30, "ok")
                    assert update.time is not None
                await ask.set("downstream/boiler/main/temp", "K", attribute="@unit")
                assert nodes["main/temp"].get("@unit") == "K"
                assert await ask.invoke("downstream/boiler/main/add", {"x": 1, "y": 2}) == 3

    run(main)


def test_the_other_spelling_of_tls_is_understood(authority: Authority) -> None:
    async def main() -> None:
        async with dsa_broker("tls", authority=authority) as live:
            url = live.url("tls").replace("dsa+tls", "dsas")
            async with wirelake.connect(url, ca=authority.path) as link:
                assert link.is_connected

    run(main)


def with_boiler(test: Any, **settings: Any) -> None:
    """Run a test with a link that asks, a link that replies, and the broker between them."""

    async def main() -> None:
        async with (
            dsa_broker(**settings) as live,
            dsa.connect(live.url(), name="boiler", nodes=boiler(), reconnect=QUICK) as link,
            dsa.connect(live.url(), name="ask", responder=False, reconnect=QUICK) as ask,
        ):
            await test(live, link, ask)

    run(main)


def test_results_come_one_by_one_or_as_a_table() -> None:
    async def test(live: Any, link: DsaClient, ask: DsaClient) -> None:
        path = "downstream/boiler/main/count"
        async with ask.results(path, {"to": 3}) as results:
            assert [result.value["rows"] async for result in results if "rows" in result.value] == [[[0]], [[1]], [[2]]]
        async with ask.results(path, {"to": 500}) as results:
            table = await results.table()
        assert table.columns == [{"name": "n", "type": "number"}]
        assert table.rows == [[number] for number in range(500)]

    with_boiler(test)


def test_a_running_action_takes_input_and_is_cancelled_when_nobody_waits() -> None:
    async def test(live: Any, link: DsaClient, ask: DsaClient) -> None:
        async with ask.results("downstream/boiler/main/echo") as results:
            for value in ("a", {"b": [1, None]}, "end"):
                await results.send(value)
            assert [result.value async for result in results] == ["a", {"b": [1, None]}, "end"]
        async with ask.results("downstream/boiler/main/echo") as results:
            await results.send("x")
            await anext(results)
            assert len(link._calls._running) == 1
        await until(lambda: not link._calls._running)

    with_boiler(test)


def test_long_values_parameters_and_results_pass_in_pages() -> None:
    async def test(live: Any, link: DsaClient, ask: DsaClient) -> None:
        text = "é" * 100_000
        link.nodes.add("main/text", value=text, writable="write")

        @link.action("main/twice")
        def twice(call: Call) -> Any:
            return call["text"] * 2

        assert (await ask.get("downstream/boiler/main/text")).value == text
        await ask.set("downstream/boiler/main/text", text + "!")
        assert link.nodes["main/text"].value == text + "!"
        assert await ask.invoke("downstream/boiler/main/twice", {"text": text}) == text * 2

    with_boiler(test)


def test_a_watch_follows_children_that_come_and_go() -> None:
    async def test(live: Any, link: DsaClient, ask: DsaClient) -> None:
        async with ask.watch("downstream/boiler/main") as lists:
            assert set((await anext(lists)).children) == {"temp", "add", "count", "echo"}
            node = link.nodes.add("main/new", value=1)
            assert "new" in (await anext(lists)).children
            node.remove()
            listing = await anext(lists)
            while "new" in listing.children:
                listing = await anext(lists)

    with_boiler(test)


def test_a_list_can_be_read_update_by_update() -> None:
    async def test(live: Any, link: DsaClient, ask: DsaClient) -> None:
        for number in range(5_000):
            link.nodes.root.add(f"n{number}")
        names: set[str] = set()
        async with ask.watch("downstream/boiler", merge=False) as updates:
            async for update in updates:
                names |= update.entries.keys()
                if not update.is_partial:
                    break
        assert {f"n{number}" for number in range(5_000)} <= names

    with_boiler(test)


def test_refusals_are_errors_with_their_status() -> None:
    async def test(live: Any, link: DsaClient, ask: DsaClient) -> None:
        base = "downstream/boiler/main"
        for ask_for, status in (
            (ask.set(f"{base}/temp", "hot"), 0x45),
            (ask.set(f"{base}/add", 1), 0x41),
            (ask.get(f"{base}/nothing"), 0x41),
            (ask.invoke(f"{base}/temp"), 0x41),
            (ask.invoke(f"{base}/add", {"x": 1}), 0x45),
            (ask.invoke(f"{base}/add", {"x": 1, "y": "no"}), 0x50),
            (ask.list("nowhere"), 0x41),
        ):
            with pytest.raises(StatusError) as refused:
                await ask_for
            assert refused.value.status == status, refused.value
        with pytest.raises(StatusError):
            async with ask.subscribe(f"{base}/nothing") as values:
                await values.get(5)
        assert await ask.preflight("downstream")

    logging.getLogger("wirelake.live").setLevel(logging.CRITICAL)
    try:
        with_boiler(test)
    finally:
        logging.getLogger("wirelake.live").setLevel(logging.NOTSET)


def test_a_value_that_never_comes_is_a_timeout() -> None:
    async def test(live: Any, link: DsaClient, ask: DsaClient) -> None:
        link.nodes.add("main/later", type="number")
        with pytest.raises(RequestTimeout, match="main/later"):
            await ask.get("downstream/boiler/main/later", timeout=0.05)
        await until(lambda: not link._session.responder._streams)

    with_boiler(test)


def test_a_function_decides_about_a_set() -> None:
    async def test(live: Any, link: DsaClient, ask: DsaClient) -> None:
        async def decide(node: Any, value: Any) -> None:
            if value > 100:
                raise ValueError("too hot")
            if value < 0:
                raise StatusError(0x40, "no")

        link.nodes.add("main/limit", value=1, writable="write", on_set=decide)
        path = "downstream/boiler/main/limit"
        await ask.set(path, 50)
        assert link.nodes["main/limit"].value == 50
        for value, status in ((200, 0x45), (-1, 0x40)):
            with pytest.raises(StatusError) as refused:
                await ask.set(path, value)
            assert refused.value.status == status
        assert link.nodes["main/limit"].value == 50

    with_boiler(test)


def test_subscriptions_and_lists_go_on_after_the_broker_was_away(tmp_path: Path) -> None:
    async def main() -> None:
        table = {"tcp": "127.0.0.1:0", "allow_all": True, "key_file": "broker.key", "store": "dsa.db"}
        tables: dict[str, Any] = {"dsa": {**table, "roles": {"default": {"level": "config"}}}}
        hub = Hub(read_settings(tables, "test", tmp_path))
        await hub.start()
        tables["dsa"]["tcp"] = hub.listening["dsa"]
        url, nodes = f"dsa://{hub.listening['dsa']}", boiler()
        async with (
            dsa.connect(url, name="boiler", nodes=nodes, reconnect=QUICK) as link,
            dsa.connect(url, name="ask", responder=False, reconnect=QUICK) as ask,
            ask.subscribe("downstream/boiler/main/temp", qos=1) as values,
            ask.watch("downstream/boiler/main") as lists,
        ):
            assert (await values.get(5)).value == 21.5
            await anext(lists)
            await hub.close()
            hub = Hub(read_settings(tables, "test", tmp_path))
            await hub.start()
            await until(lambda: link.is_connected and ask.is_connected)
            nodes["main/temp"].set(99)
            nodes.add("main/new", value=1)
            while (update := await values.get(5)).value != 99:
                assert update.status in ("not_available", "ok")
            while "new" not in (await anext(lists)).children:
                pass
        await hub.close()

    run(main)


def test_a_broker_that_admits_nobody_is_an_error_that_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        async with dsa_broker(allow_all=False, quarantine=False) as live:
            with pytest.raises(ConnectionFailed, match="token"):
                await dsa.connect(live.url(), name="stranger", reconnect=False)

    run(main)


def test_a_key_file_gives_the_same_identity_each_time(tmp_path: Path) -> None:
    async def main() -> None:
        async with dsa_broker() as live:
            ids = set()
            for _ in range(2):
                async with dsa.connect(live.url(), name="x", key_file=tmp_path / "x.key") as link:
                    ids.add((link.dsid, link.path))
            assert len(ids) == 1

    run(main)


def test_a_permission_that_is_too_low_is_told() -> None:
    async def main() -> None:
        async with (
            dsa_broker(roles={"default": RoleSettings(level="list")}) as live,
            dsa.connect(live.url(), name="boiler", nodes=boiler()),
            dsa.connect(live.url(), name="ask", responder=False) as ask,
        ):
            with pytest.raises(StatusError) as refused:
                await ask.get("downstream/boiler/main/temp")
            assert refused.value.status == 0x40

    run(main)


def test_closing_a_link_ends_what_waits() -> None:
    async def test(live: Any, link: DsaClient, ask: DsaClient) -> None:
        async with ask.subscribe("downstream/boiler/main/temp") as values, ask.watch("downstream") as lists:
            await values.get(5)
            await anext(lists)
            await ask.close()
            assert {value.status async for value in values} <= {"not_available"}
            assert {listing.status async for listing in lists} <= {0x0E}

    with_boiler(test)


def test_ten_thousand_values_of_quality_1_arrive_in_order() -> None:
    async def test(live: Any, link: DsaClient, ask: DsaClient) -> None:
        node = link.nodes["main/temp"]
        got: list[int] = []
        async with ask.subscribe("downstream/boiler/main/temp", qos=1, queue_size=1_000_000) as values:
            await values.get(5)
            for start in range(0, 10_000, 100):
                for number in range(start, start + 100):
                    node.set(number)
                await asyncio.sleep(0)
                while len(got) < start + 100:
                    got.append((await values.get(5)).value)
        assert got == list(range(10_000))

    with_boiler(test)
