"""respond: real processes against real servers."""

from __future__ import annotations

import signal
import sys

import pytest

from tests.cli.verbs import verb
from tests.live.live import broker, ceda_server, run
from wirelake.live import AnswerError, mb
from wirelake.live.ceda import api as ceda_net


def test_requests_are_answered_by_a_command():
    code = "import json,sys; asked=json.load(sys.stdin); print(asked['payload']['x'] * 2)"

    async def main() -> None:
        command = f'{sys.executable} -c "{code}"'
        async with (
            broker() as live,
            mb.connect(live.url()) as client,
            verb("respond", live.url(), "double", "--exec", command, "-n", "2") as service,
        ):
            await service.says("replying to double")
            assert (await client.request("double", {"x": 21})).json() == 42
            with pytest.raises(AnswerError) as caught:
                await client.request("double", {"y": 1})
            assert (caught.value.code, caught.value.message) == ("COMMAND_FAILED", "KeyError: 'x'")
            status, printed, _ = await service.end()
            assert status == 0
            assert [one["payload"] for one in printed] == [{"x": 21}, {"y": 1}]

    run(main)


def test_what_a_command_prints_is_passed_on_as_it_is_and_no_record_is_an_error_in_ceda():
    async def main() -> None:
        async with (
            broker() as live,
            ceda_server() as other,
            mb.connect(live.url()) as client,
            ceda_net.connect(other.url(login="me:secret@")) as asker,
            verb("respond", live.url(), "raw", "--exec", r"printf '\377x\n'", "-n", "1") as raw,
            verb("respond", other.url(login="a:secret@"), "odd", "--exec", "echo nonsense", "-n", "1") as odd,
        ):
            await raw.says("replying to raw")
            await odd.says("replying to odd")
            assert (await client.request("raw")).payload == b"\xffx"
            answer = (await asker.request("odd", {1: 1})).record
            assert answer[1] == 0 and answer[4].startswith("COMMAND_FAILED: the record must be JSON")
            assert (await raw.end())[::2] == (0, "") and (await odd.end())[::2] == (0, "")

    run(main)


def test_requests_are_answered_with_a_fixed_reply_or_with_themselves():
    async def main() -> None:
        async with (
            ceda_server() as live,
            ceda_net.connect(live.url(login="me:secret@")) as client,
            verb("respond", live.url(login="a:secret@"), "fixed", "--reply", '{"1": 5}', "-n", "1") as fixed,
            verb("respond", live.url(login="b:secret@"), "echo", "--echo", "-n", "1") as echo,
        ):
            await fixed.says("replying to fixed")
            await echo.says("replying to echo")
            assert (await client.request("fixed", {1: 1})).record == {1: 5}
            assert (await client.request("echo", {1: 1.5, 2: b"x"})).record == {1: 1.5, 2: b"x"}
            assert (await fixed.end())[0] == (await echo.end())[0] == 0

    run(main)


def test_a_responder_that_is_interrupted_ends_in_good_order():
    async def main() -> None:
        async with broker() as live, verb("respond", live.url(), "a", "--echo") as service:
            await service.says("replying to a")
            service.process.send_signal(signal.SIGINT)
            assert (await service.end())[0] == 0

    run(main)
