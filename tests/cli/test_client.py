"""What the verbs that connect share: their options, and the end of a connection."""

from __future__ import annotations

import asyncio
import signal

import pytest
from click.testing import CliRunner

from tests.cli.verbs import SECONDS, done, verb
from tests.live.live import broker, ceda_server, run
from tests.waiting import until
from wirelake.cli import cli


def test_an_interrupted_publish_does_not_hang_in_its_input():
    async def main() -> None:
        async with broker() as live, verb("publish", live.url()) as publisher:
            await until(lambda: any(service.name for service in live.session.services.values()))
            publisher.process.send_signal(signal.SIGINT)
            async with asyncio.timeout(SECONDS):
                assert await publisher.process.wait() == 130

    run(main)


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
        (("publish", "http://h", "a", "b"), "is not a protocol to connect to"),
        (("publish", "-p", "ceda", "mb://h", "a", "b"), "is a URL of mb"),
        (("publish", "ceda://h", "a", "{}", "--confirm"), "--confirm is an option of mb, not of ceda"),
        (("publish", "mb://h", "a", "b", "--user", "me"), "--user is an option of ceda, not of mb"),
        (("publish", "ceda://h", "a", "{}", "--name", "me"), "--name is an option of mb, not of ceda"),
        (("publish", "mb://h", "a", "b", "--ca", __file__), "has no TLS"),
        (("subscribe", "mb://h"), "Missing argument"),
        (("subscribe", "mb://h", "a", "--image"), "--image is an option of ceda, not of mb"),
        (("subscribe", "mb://h", "a", "-n", "0"), "0 is not in the range"),
        (("request", "mb://h", "a", "--server-id", "x"), "--server-id is an option of ceda, not of mb"),
        (("respond", "mb://h", "a"), "give one of --exec, --reply and --echo"),
        (("respond", "mb://h", "a", "--echo", "--reply", "1"), "give one of --exec, --reply and --echo"),
        (("respond", "ceda://h", "a", "--reply", "nonsense"), "the record must be JSON"),
        (("publish", "ceda://h", "a", "[1]"), "record"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_wrong_use_is_told(words: tuple[str, ...], complaint: str):
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 2
    assert complaint in result.output
