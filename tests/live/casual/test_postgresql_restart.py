"""A PostgreSQL server that restarts under two hubs: they end, and what was acknowledged is there when they are back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.casual.play import xid
from tests.live.casual.raw import SECONDS, Process, Wire
from tests.live.postgres import PostgresServer
from tests.needs import require
from wirelake.live.casual.wire import NIL
from wirelake.protocols import casual as c

DISK_FAILED = 74


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    require("postgres")
    server = PostgresServer()
    yield server
    server.stop()


def test_a_restart_of_the_database_loses_and_doubles_nothing(server: PostgresServer, tmp_path: Path) -> None:
    url = server.new_database()
    (tmp_path / "hub.toml").write_text(f'[casual]\nstorage = "{url}"\nqueues = [{{name = "qA", retries = 5}}]\n')
    one, two = Process(tmp_path), Process(tmp_path)
    first, second = Wire(one.address), Wire(two.address)
    try:
        acknowledged = [bytes([number]) for number in range(10)]
        for payload, wire in zip(acknowledged, (first, second) * 5, strict=True):
            assert wire.enqueue(payload) != NIL
        assert first.enqueue(b"prepared", xid(1)) != NIL and first.resource(c.ResourcePrepareRequest, xid(1)) == 0
        assert first.dequeue(xid(2)) == acknowledged[:1] and second.dequeue(xid(3)) == acknowledged[1:2]
        assert second.enqueue(b"active", xid(3)) != NIL
        server.restart()
        for process, wire in ((one, first), (two, second)):
            wire.send(c.QueueDequeueRequest, "qA", c.Xid(-1), c.Selector("", NIL), False)
            assert wire.is_closed() and process.process.wait(SECONDS) == DISK_FAILED
            wire.close()
        one.kill()
        two.kill()
        one, two = Process(tmp_path), Process(tmp_path)
        first, second = Wire(one.address), Wire(two.address)
        assert second.resource(c.ResourceCommitRequest, xid(3)) in (-4, 6), "it was active in a hub that ended"
        assert second.resource(c.ResourceCommitRequest, xid(1)) == 0
        taken = [message for wire in (first, second) * 6 for message in wire.dequeue()]
        assert sorted(taken) == sorted([*acknowledged, b"prepared"])
        assert first.dequeue() == second.dequeue() == []
    finally:
        for wire in (first, second):
            wire.close()
        one.kill()
        two.kill()
