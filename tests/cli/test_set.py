"""set: real processes against a real broker."""

from __future__ import annotations

from tests.cli.verbs import done
from tests.live.dsa.live import boiler_and_broker
from tests.live.live import run


def test_values_and_attributes_are_set_or_refused() -> None:
    async def main() -> None:
        async with boiler_and_broker() as (live, boiler):
            temp, path = boiler.nodes["main/temp"], "downstream/boiler/main/temp"
            assert await done("set", live.url(), path, "85.5") == (0, [], "")
            assert temp.value == 85.5
            assert (await done("set", live.url(), path, "K", "--attribute", "@unit"))[0] == 0
            assert temp.get("@unit") == "K"
            status, _, said = await done("set", live.url(), path, "hot")
            assert status == 1
            assert "invalid_parameter" in said
            status, _, said = await done("set", live.url(), path, "1", "--attribute", "unit")
            assert status == 2
            assert "begins with @" in said

    run(main)
