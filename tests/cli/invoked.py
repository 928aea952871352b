"""Verbs that are run in this process, and what they print."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from wirelake.cli import cli

CALL = (
    "0000000000000c1c000102030405060708090a0b0c0d0e10000000000000005510111213141516171819 1a1b1c1d1e1f"
    "00000000000000046563686f00000000002625a00000000000000000ffffffffffffffff0000000000000000"
    "00000000000000062e6a736f6e2f00000000000000035b315d"
).replace(" ", "")


def run(*arguments: str, given: str | bytes = "") -> Result:
    return CliRunner().invoke(cli, arguments, input=given)


def objects(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]
