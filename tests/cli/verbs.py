"""Verbs as real processes."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.live.live import Live

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
