"""publish: real processes against real servers."""

from __future__ import annotations

from tests.cli.verbs import done, place, verb
from tests.live.live import broker, ceda_server, run
from wirelake.live.mb import api as mb


def test_what_is_published_is_printed_and_can_be_published_again():
    async def main() -> None:
        async with broker() as live, verb("subscribe", live.url(), "plant.#", "-n", "4") as subscriber:
            await subscriber.says("subscribed to plant.#")
            status, printed, said = await done("publish", live.url(), "plant.boiler", '{"celsius": 81.50}', "--confirm")
            assert (status, printed, said) == (0, [], "")
            lines = '{"payload":[1,null]}\n\n{"topic":"plant.x","text":"no JSON"}\n{"topic":"plant.y","hex":"ff00"}'
            assert (await done("publish", live.url(), "plant.a", "-", given=lines))[0] == 0
            status, printed, _ = await subscriber.end()
            assert status == 0
            assert printed == [
                {"topic": "plant.boiler", "payload": {"celsius": 81.5}, "version": "1.0.0"},
                {"topic": "plant.a", "payload": [1, None], "version": "1.0.0"},
                {"topic": "plant.x", "text": "no JSON", "version": "1.0.0"},
                {"topic": "plant.y", "hex": "ff00", "version": "1.0.0"},
            ]

    run(main)


def test_ceda_records_are_published_and_printed():
    async def main() -> None:
        async with (
            ceda_server() as live,
            verb(
                "subscribe", "-p", "ceda", place(live), "FX.*", "-n", "2", "--user", "me", WIRELAKE_PASSWORD="secret"
            ) as subscriber,
        ):
            await subscriber.says("subscribed to FX.*")
            url = live.url(login="me:secret@")
            assert (await done("publish", url, "FX.EUR", '{"1": 1.5, "3": "firm", "4": 7}'))[0] == 0
            line = '{"topic":"FX.USD","record":[{"fid":7,"type":"SHORT","value":-2}]}\n'
            assert (await done("publish", url, given=line))[0] == 0
            status, (first, second), _ = await subscriber.end()
            assert status == 0
            assert first["topic"] == "FX.EUR"
            assert [(cell["fid"], cell["type"], cell["value"]) for cell in first["record"]] == [
                (1, "DOUBLE", 1.5),
                (3, "STRING", "firm"),
                (4, "INT", 7),
            ]
            assert second == {"topic": "FX.USD", "record": [{"fid": 7, "type": "SHORT", "value": -2}]}

    run(main)


def test_bad_lines_are_told_and_the_others_are_sent():
    lines = '{"topic":"a","payload":1}\nnonsense\n[]\n{"payload":2}\n{"topic":"a b"}\n{"topic":"a","payload":3}\n'

    async def main() -> None:
        async with broker() as live, mb.connect(live.url()) as client, client.subscribe("a") as messages:
            status, _, said = await done("publish", live.url(), given=lines)
            assert status == 1
            assert [line.split(": ")[1] for line in said.splitlines()] == ["line 2", "line 3", "line 4", "line 5"]
            assert "not JSON" in said and "has no topic" in said and "[topic]" in said
            assert [(await messages.get(5)).json() for _ in range(2)] == [1, 3]

    run(main)


def test_a_confirmed_publish_that_nobody_gets_fails():
    async def main() -> None:
        async with broker() as live:
            status, _, said = await done("publish", live.url(), "a", "1", "--confirm")
            assert status == 1 and "NO_ROUTE_FOUND" in said
            assert (await done("publish", live.url(), "a", "1"))[0] == 0

    run(main)
