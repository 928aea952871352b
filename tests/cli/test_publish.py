"""publish, subscribe, request, respond: real processes against real servers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from click.testing import CliRunner

from tests.net.live import Live, broker, ceda_server, run
from wirelake.cli import cli
from wirelake.net import AnswerError, mb
from wirelake.net import ceda as ceda_net
from wirelake.net.mb import Message
from wirelake.net.shapes import SHAPES, parse_line

PROGRAM = (sys.executable, "-W", "error", "-c", "from wirelake.cli import main; main()")
SECONDS = 20.0


class Verb:
    """A verb that runs."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def line(self) -> Any:
        """The next object on standard output."""
        assert self.process.stdout is not None
        async with asyncio.timeout(SECONDS):
            return json.loads(await self.process.stdout.readline())

    async def says(self, words: str) -> None:
        """Waits until it says this on standard error."""
        assert self.process.stderr is not None
        async with asyncio.timeout(SECONDS):
            line = (await self.process.stderr.readline()).decode()
        assert words in line

    async def end(self, given: str = "") -> tuple[int, list[Any], str]:
        """Exit status, the objects that it printed, and what it said."""
        async with asyncio.timeout(SECONDS):
            out, err = await self.process.communicate(given.encode())
        assert self.process.returncode is not None
        assert "Traceback" not in err.decode()
        return self.process.returncode, [json.loads(line) for line in out.splitlines()], err.decode()


@asynccontextmanager
async def verb(*words: str, **variables: str) -> AsyncIterator[Verb]:
    process = await asyncio.create_subprocess_exec(
        *PROGRAM, *words,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env=os.environ | variables,
    )  # fmt: skip
    try:
        yield Verb(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        process._transport.close()  # type: ignore[attr-defined]


async def done(*words: str, given: str = "", **variables: str) -> tuple[int, list[Any], str]:
    async with verb(*words, **variables) as running:
        return await running.end(given)


def place(live: Live) -> str:
    return f"127.0.0.1:{live.ports['tcp']}"


# --- publish and subscribe


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
            assert "no JSON" in said and "has no topic" in said and "[topic]" in said
            assert [(await messages.get(5)).json() for _ in range(2)] == [1, 3]

    run(main)


def test_a_confirmed_publish_that_nobody_gets_fails():
    async def main() -> None:
        async with broker() as live:
            status, _, said = await done("publish", live.url(), "a", "1", "--confirm")
            assert status == 1 and "NO_ROUTE_FOUND" in said
            assert (await done("publish", live.url(), "a", "1"))[0] == 0

    run(main)


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


def test_an_interrupted_publish_does_not_hang_in_its_input():
    async def main() -> None:
        async with broker() as live, verb("publish", live.url()) as publisher:
            await until_connected(live)
            publisher.process.send_signal(signal.SIGINT)
            async with asyncio.timeout(SECONDS):
                assert await publisher.process.wait() == 130

    run(main)


async def until_connected(live: Live) -> None:
    async with asyncio.timeout(SECONDS):
        while not any(service.name for service in live.session.services.values()):
            await asyncio.sleep(0.01)


def test_a_reader_that_closes_its_pipe_ends_the_subscription():
    async def main() -> None:
        async with broker() as live, mb.connect(live.url()) as client:
            shell = f'"$@" subscribe {live.url()} a 2>/dev/null | head -n 1'
            process = await asyncio.create_subprocess_exec(
                "bash", "-c", shell, "bash", *PROGRAM, stdout=asyncio.subprocess.PIPE
            )
            async with asyncio.timeout(SECONDS):
                while process.returncode is None:
                    await client.publish("a", 1)
                    await asyncio.sleep(0.01)
                    if not live.server.endpoint.pipes or process.returncode is not None:
                        break
                out, _ = await process.communicate()
            assert [json.loads(line)["payload"] for line in out.splitlines()] == [1]

    run(main)


# --- request and respond


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


def test_requests_are_answered_by_a_command():
    code = "import json,sys; asked=json.load(sys.stdin); print(asked['payload']['x'] * 2)"

    async def main() -> None:
        command = f'{sys.executable} -c "{code}"'
        async with (
            broker() as live,
            mb.connect(live.url()) as client,
            verb("respond", live.url(), "double", "--exec", command, "-n", "2") as service,
        ):
            await service.says("answering double")
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
            await raw.says("answering raw")
            await odd.says("answering odd")
            assert (await client.request("raw")).payload == b"\xffx"
            answer = (await asker.request("odd", {1: 1})).record
            assert answer[1] == 0 and answer[4].startswith("COMMAND_FAILED: the record is JSON")
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
            await fixed.says("answering fixed")
            await echo.says("answering echo")
            assert (await client.request("fixed", {1: 1})).record == {1: 5}
            assert (await client.request("echo", {1: 1.5, 2: b"x"})).record == {1: 1.5, 2: b"x"}
            assert (await fixed.end())[0] == (await echo.end())[0] == 0

    run(main)


def test_a_responder_that_is_interrupted_ends_in_good_order():
    async def main() -> None:
        async with broker() as live, verb("respond", live.url(), "a", "--echo") as service:
            await service.says("answering a")
            service.process.send_signal(signal.SIGINT)
            assert (await service.end())[0] == 0

    run(main)


# --- what goes wrong before anything is said


def test_what_is_wrong_with_the_connection_is_told_in_one_line():
    async def main() -> None:
        async with ceda_server() as live:
            status, _, said = await done("publish", live.url(login="me:wrong@"), "a", "{}")
            assert status == 1 and said.count("\n") == 1
            assert "refused the login: Username or Password is error" in said
            port = live.ports["tcp"]
        status, _, said = await done("request", f"mb://127.0.0.1:{port}", "a")
        assert (status, said) == (1, f"wirelake: cannot connect to mb://127.0.0.1:{port}: connection refused\n")

    run(main)


def test_a_loss_without_reconnecting_is_told():
    async def main() -> None:
        async with broker() as live, verb("subscribe", live.url(), "a", "--no-reconnect") as subscriber:
            await subscriber.says("subscribed")
            await live.kill()
            status, _, said = await subscriber.end()
            assert status == 1 and "is lost" in said

    run(main)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("publish", "localhost", "a", "b"), "does not say which protocol"),
        (("publish", "http://h", "a", "b"), "is no protocol to connect to"),
        (("publish", "-p", "ceda", "mb://h", "a", "b"), "is a URL of mb"),
        (("publish", "ceda://h", "a", "{}", "--confirm"), "only mb has confirmations"),
        (("publish", "mb://h", "a", "b", "--user", "me"), "mb has no login"),
        (("publish", "ceda://h", "a", "{}", "--name", "me"), "only mb has names"),
        (("publish", "mb://h", "a", "b", "--ca", __file__), "has no TLS"),
        (("subscribe", "mb://h"), "Missing argument"),
        (("subscribe", "mb://h", "a", "--image"), "only ceda has images"),
        (("subscribe", "mb://h", "a", "-n", "0"), "0 is not in the range"),
        (("request", "mb://h", "a", "--server-id", "x"), "only ceda has it"),
        (("respond", "mb://h", "a"), "one of --exec, --reply and --echo"),
        (("respond", "mb://h", "a", "--echo", "--reply", "1"), "one of --exec, --reply and --echo"),
        (("respond", "ceda://h", "a", "--reply", "nonsense"), "the record is JSON"),
        (("publish", "ceda://h", "a", "[1]"), "record"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_wrong_use_is_told(words: tuple[str, ...], complaint: str):
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 2
    assert complaint in result.output


# --- lines


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "is no JSON"),
        ("5", "is no JSON object"),
        ('{"topic":5}', '"topic" is text'),
        ('{"topic":"a","payload":1,"text":"x"}', "payload and text"),
        ('{"topic":"a","text":5}', '"text" is text'),
        ('{"topic":"a","hex":"xyz"}', "hex"),
        ('{"topic":"a","version":1}', '"version" is text'),
    ],
)
def test_a_line_of_mb_that_makes_no_sense_is_refused(line: str, complaint: str):
    with pytest.raises(ValueError, match=complaint):
        parse_line(SHAPES["mb"], line)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"topic":"a","record":5}', "the record is"),
        ('{"topic":"a","record":{"x":1}}', "'x' is no number"),
        ('{"topic":"a","record":{"1":true}}', "field 1: true"),
        ('{"topic":"a","record":{"1":[]}}', "field 1"),
        ('{"topic":"a","record":[{"fid":1,"type":"TEXT"}]}', "not a field type"),
        ('{"topic":"a","signal_id":1}', '"signal_id" is text'),
    ],
)
def test_a_line_of_ceda_that_makes_no_sense_is_refused(line: str, complaint: str):
    with pytest.raises(ValueError, match=complaint):
        parse_line(SHAPES["ceda"], line)


@pytest.mark.parametrize("payload", [b"", b"{}", b"17", b'"text"', b"text", b"NaN", b"\xff", b'{"a":1}\n', b"[" * 5000])
def test_what_is_shown_of_a_payload_can_be_read_again(payload: bytes):
    shown = SHAPES["mb"].show(Message("a", payload, "1.2.3"))
    again = parse_line(SHAPES["mb"], json.dumps(shown))
    assert (again.topic, again.more) == ("a", {"version": "1.2.3"})
    assert again.payload == payload.strip()
