"""Clients of a hub in its own process, and the Python services that it runs."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

import wirelake
from tests.live.live import run
from tests.waiting import until
from wirelake.live import AnswerError
from wirelake.live.hub.hub import Hub, HubSettings, SettingsError, read_settings
from wirelake.live.records import LIVE

ANY = "127.0.0.1:0"
PAYLOAD: dict[str, Any] = {"mb": {"number": 17}, "ceda": {10: "seventeen"}}
NAMED: dict[str, dict[str, Any]] = {"mb": {"name": "inside"}, "ceda": {"user": "inside"}}
LOGIN = {"mb": "", "ceda": "ann:secret@"}
EACH = pytest.mark.parametrize("protocol", [name for name, live in LIVE.items() if "publish" in live.verbs])


def settings(directory: Path = Path(), **tables: Any) -> HubSettings:
    both: dict[str, Any] = {"mb": {"tcp": ANY}, "ceda": {"tcp": ANY, "users": {"ann": "secret"}}}
    return read_settings({name: {**both[name], **tables.get(name, {})} for name in both}, "test", directory)


def url(hub: Hub, protocol: str) -> str:
    return f"{protocol}://{LOGIN[protocol]}{hub.listening[protocol]}"


def content(message: Any) -> Any:
    """What a message carries, in the form in which it was given."""
    return message.json() if hasattr(message, "json") else dict(message.record)


@EACH
def test_a_participant_publishes_subscribes_requests_and_responds_without_a_socket(protocol: str) -> None:
    async def main() -> None:
        async with Hub(settings()) as hub, hub.participant(protocol, **NAMED[protocol]) as inside:
            assert inside.is_connected and str(inside.target) == f"{protocol} of this hub"
            async with wirelake.connect(url(hub, protocol)) as outside:
                async with inside.subscribe("news.one") as here, outside.subscribe("news.two") as there:
                    await outside.publish("news.one", PAYLOAD[protocol])
                    await inside.publish("news.two", PAYLOAD[protocol])
                    assert content(await here.get(5)) == content(await there.get(5)) == PAYLOAD[protocol]
                await inside.respond("double", lambda asked: PAYLOAD[protocol])
                assert content(await outside.request("double", PAYLOAD[protocol], timeout=5)) == PAYLOAD[protocol]
                await outside.respond("triple", lambda asked: PAYLOAD[protocol])
                assert content(await inside.request("triple", PAYLOAD[protocol], timeout=5)) == PAYLOAD[protocol]

    run(main)


def test_many_messages_pass_in_order_and_a_slow_participant_stops_the_reading() -> None:
    async def main() -> None:
        async with (
            Hub(settings(mb={"slow_reader": "slow"})) as hub,
            hub.participant("mb", name="writer") as writer,
            hub.participant("mb", name="reader") as reader,
            reader.subscribe("load", limit=10) as messages,
        ):

            async def write() -> None:
                for number in range(3_000):
                    await writer.publish("load", b"%06d" % number + bytes(1_000))

            writing = asyncio.create_task(write())
            await until(lambda: messages.waiting >= 10)
            done, _ = await asyncio.wait([writing], timeout=0.2)
            assert not done  # 3 MB do not fit anywhere: the writer waits for the reader
            assert [int((await messages.get(5)).payload[:6]) for _ in range(3_000)] == list(range(3_000))
            await writing

    run(main)


def test_participants_are_trusted_but_strangers_still_need_a_password() -> None:
    async def main() -> None:
        async with Hub(settings()) as hub:
            async with hub.participant("ceda", user="anybody") as inside:
                assert inside.is_connected
            with pytest.raises(wirelake.live.Refused):
                await wirelake.connect(f"ceda://anybody:wrong@{hub.listening['ceda']}", reconnect=False)

    run(main)


def test_the_end_of_a_hub_ends_its_participants() -> None:
    async def main() -> None:
        hub = Hub(settings())
        await hub.start()
        client = await hub.participant("mb", name="late", reconnect=False)
        await hub.close()
        with pytest.raises(wirelake.live.ConnectionLost):
            await client.wait_closed()
        with pytest.raises(wirelake.live.ConnectionFailed, match="shutting down"):
            await hub.participant("mb", name="too late", reconnect=False)

    run(main)


def test_without_a_broker_what_clients_send_goes_to_participants_only() -> None:
    record = PAYLOAD["ceda"]
    alone = {"options": {"broker": False}, "services": "tests.live.hub.test_participants:idle"}

    async def main() -> None:
        async with (
            Hub(settings(ceda=alone)) as hub,
            hub.participant("ceda", user="inside") as inside,
            wirelake.connect(url(hub, "ceda")) as one,
            wirelake.connect(url(hub, "ceda")) as other,
            inside.subscribe("news") as here,
            other.subscribe("news") as there,
        ):
            await one.publish("news", record)
            assert content(await here.get(5)) == record
            await inside.respond("ask", lambda asked: record)
            assert content(await one.request("ask", record, timeout=5)) == record
            await one.respond("back", lambda asked: record)
            assert content(await inside.request("back", record, timeout=5)) == record
            await inside.publish("news", {11: "from inside"})
            assert content(await there.get(5)) == {11: "from inside"}

    run(main)


async def idle(participant: Any) -> None:
    """A service that does nothing."""


def test_a_hub_without_a_broker_and_without_services_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"options.broker = false needs services"):
        settings(ceda={"options": {"broker": False}})


SERVICES = """
import asyncio

async def prices(participant):
    await participant.respond("price.of", lambda asked: {"price": len(asked.json()["what"])})

class Clock:
    async def __call__(self, participant):
        while True:
            await participant.publish("tick", {})
            await asyncio.sleep(0.005)

async def broken(participant):
    raise RuntimeError("on purpose")

all_of_them = [broken, Clock(), prices]
number = 17
def plain(participant): pass
"""


def test_a_hub_runs_the_services_of_its_settings_and_one_that_fails_harms_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "shop_services.py").write_text(SERVICES)

    async def main() -> None:
        async with (
            Hub(settings(tmp_path, mb={"services": "shop_services:all_of_them"})) as hub,
            wirelake.connect(url(hub, "mb")) as client,
        ):
            async with client.subscribe("tick") as ticks:
                await ticks.get(5)
            await until(lambda: _failures(caplog) == ["broken"])
            while True:
                try:
                    reply = await client.request("price.of", {"what": "lamp"}, timeout=5)
                    break
                except AnswerError:  # the service has not begun yet
                    continue
            assert reply.json() == {"price": 4}
            names = await client.request("system.service.list", timeout=5)
            assert {"Clock", "prices"} <= {one["name"] for one in names.json()["services"]}

    run(main)


def _failures(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.fields["service"] for one in caplog.records if one.levelno == logging.ERROR]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nowhere_at_all:x", "services: cannot import nowhere_at_all"),
        ("shop_services", "services: 'shop_services' has to be module:attribute"),
        ("shop_services:none", "services: shop_services has no none"),
        ("shop_services:number", "has to be an async function, or a list of them"),
        ("shop_services:plain", "has to be an async function, or a list of them"),
    ],
)
def test_services_that_are_none_are_refused_before_the_hub_begins(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "shop_services.py").write_text(SERVICES)

    async def main() -> None:
        with pytest.raises(SettingsError, match=reason):
            await Hub(settings(tmp_path, mb={"services": name})).start()

    run(main)
