"""call, and discover: real processes against a real hub."""

from __future__ import annotations

from pathlib import Path

from tests.cli.verbs import done
from tests.live.casual.served import served
from tests.live.live import run


def test_calls_print_their_replies_and_failures(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as url:
            status, printed, _ = await done("call", url, "echo", '{"a": [1, "x"]}')
            assert status == 0
            assert printed == [{"service": "echo", "value": {"a": [1, "x"]}, "code": 0, "type": ".json/"}]
            lines = '{"service": "echo", "hex": "00ff"}\nnonsense\n{"service": "fail"}\n{"service": "nobody"}\n'
            status, printed, said = await done("call", url, given=lines)
            assert status == 1
            assert "line 2: not JSON" in said
            assert printed[0] == {"service": "echo", "hex": "00ff", "code": 0, "type": "X_OCTET/"}
            assert [one["error"]["code"] for one in printed[1:]] == ["TPESVCFAIL", "TPENOENT"]
            assert (printed[1]["value"], printed[1]["code"]) == ("no", 7)

    run(main)


def test_what_a_domain_offers_is_printed(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as url:
            status, printed, said = await done("discover", url, "echo", "q", "q.error", "nobody")
            place = url.removeprefix("casual://")
            assert (status, "not offered: nobody" in said) == (1, True)
            assert printed == [
                {"service": "echo", "peer": place, "transaction": "auto", "timeout": 0.0, "hops": 1},
                {"queue": "q", "peer": place, "retries": 1},
                {"queue": "q.error", "peer": place, "retries": 0},
            ]

    run(main)


def test_a_protocol_without_calls_says_so() -> None:
    async def main() -> None:
        status, _, said = await done("call", "mb://localhost", "a")
        assert status == 2
        assert "mb has no call" in said

    run(main)
