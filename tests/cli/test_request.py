"""request: real processes against real servers."""

from __future__ import annotations

from typing import Any

from tests.cli.verbs import done, place
from tests.live.live import broker, ceda_server, run
from wirelake.live import AnswerError, mb


def test_a_request_prints_its_answer():
    async def main() -> None:
        async with broker() as live, mb.connect(live.url()) as client:
            await client.respond("math.add", lambda asked: {"sum": asked.json()["x"] + asked.json()["y"]})
            status, printed, _ = await done("request", "-p", "mb", place(live), "math.add", '{"x": 1, "y": 2}')
            assert (status, printed) == (0, [{"topic": "math.add", "payload": {"sum": 3}, "version": "1.0.0"}])
            lines = "".join(f'{{"payload":{{"x":{number},"y":1}}}}\n' for number in range(3))
            status, printed, _ = await done("request", live.url(), "math.add", "-", given=lines)
            assert (status, [one["payload"]["sum"] for one in printed]) == (0, [1, 2, 3])
            status, (listing,), _ = await done("request", live.url(), "system.service.list")
            assert status == 0 and "wirelake" in [one["name"] for one in listing["payload"]["services"]]

    run(main)


def test_an_error_answer_is_printed_and_fails():
    def refuse(asked: Any) -> None:
        raise AnswerError("NO", "not today", {"until": "tomorrow"})

    async def main() -> None:
        async with broker() as live, mb.connect(live.url()) as client:
            await client.respond("a", refuse)
            status, printed, _ = await done("request", live.url(), "a")
            error = {"code": "NO", "message": "not today", "details": {"until": "tomorrow"}}
            assert (status, printed) == (1, [{"topic": "a", "error": error}])

    run(main)


def test_no_answer_in_time_fails():
    async def main() -> None:
        async with ceda_server() as live:
            url = live.url(login="me:secret@")
            status, printed, said = await done("request", url, "nobody", '{"1": 1}', "--timeout", "0.1")
            assert (status, printed) == (1, []) and "request_timeout" in said

    run(main)
