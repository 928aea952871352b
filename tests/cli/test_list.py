"""list: real processes against a real broker."""

from __future__ import annotations

import asyncio

from tests.cli.verbs import PROGRAM, done, verb
from tests.live.dsa.live import boiler_and_broker
from tests.live.live import run

TREE = """\
downstream/boiler
├── main
│   ├── temp  type=number writable=write
│   └── add  invokable=read
├── pub
└── sys
"""


def test_a_list_is_one_object() -> None:
    async def main() -> None:
        async with boiler_and_broker() as (live, _):
            status, (shown,), said = await done("list", live.url(), "downstream/boiler/main")
            assert (status, said) == (0, "")
            assert shown == {
                "path": "downstream/boiler/main",
                "list": {"temp": {"$type": "number", "$writable": "write"}, "add": {"$invokable": "read"}},
                "status": "ok",
            }
            status, shown, _ = await done("list", live.url(), "downstream", "--depth", "3")
            assert status == 0
            paths = [one["path"] for one in shown]
            assert paths[:2] == ["downstream", "downstream/boiler"]
            assert "downstream/boiler/main" in paths

    run(main)


def test_a_tree_is_drawn_for_people() -> None:
    async def main() -> None:
        async with boiler_and_broker() as (live, _):
            process = await asyncio.create_subprocess_exec(
                *PROGRAM, "list", live.url(), "downstream/boiler", "--tree", "--depth", "2",
                stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
            out, _ = await process.communicate()
            assert (process.returncode, out.decode()) == (0, TREE)

    run(main)


def test_changes_are_followed() -> None:
    async def main() -> None:
        async with (
            boiler_and_broker() as (live, boiler),
            verb("list", live.url(), "downstream/boiler/main", "--follow") as follower,
        ):
            first = await follower.line()
            assert first["refreshed"]
            assert set(first["changed"]) == {"temp", "add"}
            boiler.nodes.add("main/new", value="x")
            assert (await follower.line())["changed"] == {"new": {"$type": "string"}}
            boiler.nodes["main/new"].remove()
            assert (await follower.line())["removed"] == ["new"]

    run(main)


def test_what_does_not_exist_or_fit_is_an_error() -> None:
    async def main() -> None:
        async with boiler_and_broker() as (live, _):
            status, shown, said = await done("list", live.url(), "nowhere")
            assert (status, shown) == (1, [])
            assert "not_supported" in said
            status, _, said = await done("list", live.url(), "--follow", "--tree")
            assert status == 2
            status, _, said = await done("list", "mb://localhost")
            assert status == 2
            assert "mb has no list" in said

    run(main)
