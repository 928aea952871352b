"""A new protocol is one package and one line: hub, settings, URLs, clients, participants, metrics and verbs follow."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import wirelake
from tests.cli import verbs
from tests.live.live import run
from tests.live.notes.record import register
from tests.live.plainly import get, split_address
from wirelake.live.drive.urls import parse_url
from wirelake.live.hub.hub import Hub, load_settings
from wirelake.live.records import LIVE

ANY = "127.0.0.1:0"
PROGRAM = "from tests.live.notes.record import register; register(); from wirelake.cli import main; main()"


@pytest.fixture(autouse=True)
def notes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(verbs, "PROGRAM", (sys.executable, "-W", "error", "-c", PROGRAM))
    register()
    yield
    del LIVE["notes"]


def test_a_hub_serves_it_from_settings_and_clients_and_participants_speak_it(tmp_path: Path) -> None:
    file = tmp_path / "hub.toml"
    file.write_text(f'[notes]\ntcp = "{ANY}"\nws = "{ANY}"\n[metrics]\nlisten = "{ANY}"\n')

    async def main() -> None:
        async with Hub(load_settings(file)) as hub, hub.participant("notes") as inside:
            assert set(hub.listening) == {"notes", "notes-ws", "metrics"}
            for url in (f"notes://{hub.listening['notes']}", f"notes+ws://{hub.listening['notes-ws']}"):
                async with wirelake.connect(url) as client, client.subscribe("a.one") as messages:
                    await inside.publish("a.one", "hello you")
                    assert await messages.get(5) == ("a.one", "hello you", "")
                    async with await inside.respond("double", lambda asked: asked.text * 2):
                        assert (await client.request("double", "xy")).text == "xyxy"
            _, _, told = await get(split_address(hub.listening["metrics"]), "/metrics")
            assert 'wirelake_messages_total{protocol="notes"}' in told.decode()

    run(main)


def test_verbs_serve_and_speak_it() -> None:
    async def main() -> None:
        async with verbs.verb("serve", "--notes", ANY) as hub:
            url = f"notes://{(await hub.line())['listening']['notes']}"
            async with verbs.verb("subscribe", url, "a.b", "-n", "2") as reader:
                await reader.says("subscribed to a.b")
                assert (await verbs.done("publish", url, "a.b", "quiet"))[0] == 0
                assert (await verbs.done("publish", url, "a.b", "noise", "--loud"))[0] == 0
                status, printed, _ = await reader.end()
            assert (status, [one["text"] for one in printed]) == (0, ["quiet", "NOISE"])

    run(main)


def test_its_urls_are_understood_and_its_settings_are_known() -> None:
    assert parse_url("notes://here").port == 7907 and parse_url("notes+ws://here").port == 7908
    with pytest.raises(ValueError, match="has no login"):
        parse_url("notes://me:secret@here")
