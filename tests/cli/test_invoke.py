"""invoke: real processes against a real broker."""

from __future__ import annotations

from typing import Any

from tests.cli.verbs import done
from tests.live.dsa.live import boiler_and_broker
from tests.live.live import run
from wirelake.live.dsa import Call


def test_results_are_printed_as_they_come() -> None:
    async def main() -> None:
        async with boiler_and_broker() as (live, boiler):

            @boiler.action("main/echo", result="stream")
            async def echo(call: Call) -> None:
                async for value in call.inputs():
                    await call.send(value)
                    if value == "end":
                        return

            path = "downstream/boiler/main"
            status, shown, _ = await done("invoke", live.url(), f"{path}/add", '{"x": 1, "y": 2}')
            assert (status, shown) == (0, [{"path": f"{path}/add", "value": 3}])
            status, shown, _ = await done("invoke", live.url(), f"{path}/echo", "--input", given='{"a": 1}\n"end"\n')
            assert (status, [one["value"] for one in shown]) == (0, [{"a": 1}, "end"])

    run(main)


def test_an_action_that_fails_or_does_not_end_is_an_error() -> None:
    async def main() -> None:
        async with boiler_and_broker() as (live, boiler):

            @boiler.action("main/wait", result="stream")
            async def wait(call: Call) -> Any:
                async for _ in call.inputs():
                    pass

            path = "downstream/boiler/main"
            status, _, said = await done("invoke", live.url(), f"{path}/add", "{}")
            assert status == 1
            assert "invalid_parameter" in said
            status, _, said = await done("invoke", live.url(), f"{path}/wait", "--timeout", "0.1")
            assert status == 1
            assert "did not end" in said
            status, _, said = await done("invoke", live.url(), f"{path}/add", "--permission", "list")
            assert status == 1
            assert "permission_denied" in said

    run(main)
