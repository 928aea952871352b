"""enqueue and dequeue: real processes against a real hub."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.verbs import done, verb
from tests.live.casual.served import served
from tests.live.live import run


def test_what_is_enqueued_is_dequeued_in_order_and_can_be_enqueued_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as url:
            lines = '{"queue": "q", "value": {"n": 1}, "properties": "p"}\n{"text": "hello"}\n{"hex": "00ff"}\n'
            status, printed, _ = await done("enqueue", url, "q", "-", given=lines)
            assert (status, [one["queue"] for one in printed]) == (0, ["q"] * 3)
            status, (first,), _ = await done("dequeue", url, "q", "--properties", "p")
            assert (status, first["id"], first["value"]) == (0, printed[0]["id"], {"n": 1})
            status, rest, _ = await done("dequeue", url, "q", "--all")
            assert [(one.get("value"), one.get("hex")) for one in rest] == [("hello", None), (None, "00ff")]
            assert await done("dequeue", url, "q") == (1, [], "")
            status, again, _ = await done("enqueue", url, given=json.dumps(first))
            assert (status, again) == (0, [{"queue": "q", "id": first["id"]}])

    run(main)


def test_a_refused_message_fails(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as url:
            status, printed, said = await done("enqueue", url, "nowhere", "1")
            assert (status, printed) == (1, [])
            assert "not_enqueued" in said

    run(main)


def test_a_dequeue_can_wait_for_a_message(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as url, verb("dequeue", url, "q", "--block") as waiting:
            await done("enqueue", url, "q", "17")
            assert (await waiting.line())["value"] == 17
            assert (await waiting.end())[0] == 0

    run(main)
