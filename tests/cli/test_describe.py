from __future__ import annotations

import pytest

from tests.cli.invoked import run


@pytest.mark.parametrize("message", ["3100", "service_call_request"])
def test_one_message_is_described_by_name_or_code(message: str) -> None:
    result = run("describe", "casual", message)
    assert result.exit_code == 0
    assert "service_call_request" in result.stdout and "flags" in result.stdout
    assert "domain_connect_request" not in result.stdout


def test_a_whole_protocol_is_described_as_text_or_markdown() -> None:
    plain, markdown = run("describe", "ceda").stdout, run("describe", "ceda", "--markdown").stdout
    assert all(name in plain and name in markdown for name in ("heartbeat", "login", "group_pub"))
    assert "| --- |" not in plain and "\n|" in markdown


def test_a_message_that_the_protocol_does_not_have_is_refused() -> None:
    result = run("describe", "mb", "nothing")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "mb has no message 'nothing'; it has: publish" in " ".join(result.stderr.split())
