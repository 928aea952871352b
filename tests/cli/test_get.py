"""get: real processes against a real broker."""

from __future__ import annotations

from tests.cli.verbs import done
from tests.live.dsa.live import boiler_and_broker
from tests.live.live import run


def test_values_are_printed_and_what_has_none_fails() -> None:
    async def main() -> None:
        async with boiler_and_broker() as (live, boiler):
            boiler.nodes.add("main/bytes", value=b"\xff\0")
            path = "downstream/boiler/main"
            status, shown, said = await done("get", live.url(), f"{path}/temp", f"{path}/add", f"{path}/bytes")
            assert status == 1
            assert [(one["path"], one["value"], one["status"]) for one in shown] == [
                (f"{path}/temp", 21.5, "ok"),
                (f"{path}/bytes", {"$bin": "ff00"}, "ok"),
            ]
            assert "ts" in shown[0]["meta"]
            assert f"{path}/add: not_supported" in said

    run(main)
