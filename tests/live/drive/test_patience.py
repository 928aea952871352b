"""A loop that looks for a moment before it sleeps: finds what comes at once, and does not look in vain for ever."""

from __future__ import annotations

import asyncio
import socket
import sys

import pytest

from wirelake.live.drive import patience
from wirelake.live.drive.patience import MOST_IN_VAIN, REST, PatientSelector, new_event_loop

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the loop of Windows waits in its own way")


class Counting(PatientSelector):
    """Counts how it waits."""

    looks = waits = 0

    def select(self, timeout: float | None = None) -> list[tuple[object, int]]:  # type: ignore[override]
        before = self._in_vain, self._rest
        found = super().select(timeout)
        if (self._in_vain, self._rest) != before and not before[1]:
            self.looks += 1
        else:
            self.waits += 1
        return found  # type: ignore[return-value]


def test_what_is_there_is_found_at_once() -> None:
    selector = PatientSelector()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        selector.register(ours, 1)
        assert selector.select(0) == [] == selector.select(0.001)
        theirs.send(b"x")
        ((key, events),) = selector.select(None)
        assert (key.fileobj, events) == (ours, 1)
    selector.close()


def test_looks_that_find_nothing_are_given_up_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "LOOK_SECONDS", 0.0)
    selector = Counting()
    for _ in range(MOST_IN_VAIN + REST):
        selector.select(0.00001)
    assert selector.looks == MOST_IN_VAIN
    selector.select(0.00001)
    assert selector.looks == MOST_IN_VAIN + 1
    selector.close()


def test_a_loop_with_it_runs_timers_and_sockets() -> None:
    async def talk() -> bytes:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readexactly(3))
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        await asyncio.sleep(0.01)
        writer.write(b"abc")
        said = await reader.read()
        writer.close()
        server.close()
        return said

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        assert runner.run(talk()) == b"abc"
