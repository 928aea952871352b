"""subscribe: real processes against real servers."""

from __future__ import annotations

import asyncio
import json
import signal

import pytest

from tests.cli.verbs import PROGRAM, SECONDS, done, verb
from tests.live.dsa.live import boiler_and_broker
from tests.live.live import broker, run
from tests.waiting import POLL_SECONDS
from wirelake.live.mb import api as mb


def test_subscribing_ends_when_the_time_is_over():
    async def main() -> None:
        async with broker() as live:
            assert (await done("subscribe", live.url(), "a", "--timeout", "0.1"))[0] == 0
            assert (await done("subscribe", live.url(), "a", "-n", "1", "--timeout", "0.1"))[0] == 1

    run(main)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_subscription_ends_in_good_order(number: signal.Signals):
    async def main() -> None:
        async with broker() as live, verb("subscribe", live.url(), "a") as subscriber:
            await subscriber.says("subscribed")
            subscriber.process.send_signal(number)
            assert (await subscriber.end())[0] == 0

    run(main)


def test_a_reader_that_closes_its_pipe_ends_the_subscription():
    async def main() -> None:
        async with broker() as live, mb.connect(live.url()) as client:
            shell = f'"$@" subscribe {live.url()} a 2>/dev/null | head -n 1'
            process = await asyncio.create_subprocess_exec(
                "bash", "-c", shell, "bash", *PROGRAM, stdout=asyncio.subprocess.PIPE
            )
            ending = asyncio.ensure_future(process.communicate())
            async with asyncio.timeout(SECONDS):
                while not (await asyncio.wait({ending}, timeout=POLL_SECONDS))[0]:
                    await client.publish("a", 1)
            out, _ = ending.result()
            assert [json.loads(line)["payload"] for line in out.splitlines()] == [1]

    run(main)


def test_values_of_a_node_are_printed_as_they_come() -> None:
    async def main() -> None:
        async with (
            boiler_and_broker() as (live, boiler),
            verb("subscribe", live.url(), "downstream/boiler/main/temp", "--qos", "1", "-n", "3") as subscriber,
        ):
            await subscriber.says("subscribed")
            assert (await subscriber.line())["value"] == 21.5
            boiler.nodes["main/temp"].set(22)
            boiler.nodes["main/temp"].set(23)
            status, shown, _ = await subscriber.end()
            assert (status, [one["value"] for one in shown]) == (0, [22, 23])

    run(main)
