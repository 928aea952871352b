"""queues and transactions: stores on the disk."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.live.casual.stores.stores import Asking, uuid, xid
from wirelake.cli import cli
from wirelake.live.casual.store import Find, PeerBranch, Prepare, QueueSettings, Rollback
from wirelake.live.casual.stores import open_store

NOW = time.time_ns() - 60_000_000_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Asking]:
    """A store that a hub has open."""
    asking = Asking(lambda: open_store(tmp_path / "store.db", [QueueSettings("q"), QueueSettings("other", retries=3)]))
    yield asking
    asking.store.close()


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store.db")


def invoke(*words: str, given: str | None = None) -> tuple[int, list[dict[str, object]], str]:
    done = CliRunner().invoke(cli, words, input=given)
    return done.exit_code, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_queues_are_listed_with_depth_and_age(store: Asking, path: str) -> None:
    store.put(1, NOW, queue="q")
    store.put(2, NOW, queue="q", branch=xid(1))
    status, lines, _ = invoke("queues", path)
    assert (status, [line["queue"] for line in lines]) == (0, ["other", "other.error", "q", "q.error"])
    (line,) = invoke("queues", path, "q")[1]
    assert {key: line[key] for key in ("ready", "delayed", "added", "taken")} == {
        "ready": 1,
        "delayed": 0,
        "added": 1,
        "taken": 0,
    }
    assert 60 <= float(str(line["oldest_seconds"])) < (time.time_ns() - NOW) / 1e9 + 1


def test_messages_are_shown_moved_back_and_purged(store: Asking, path: str) -> None:
    for number in (1, 2):
        store.put(number, NOW + number, queue="q", type=".json/", payload=b'{"n": 1}', properties="p")
        store.take(NOW + 9, queue="q", branch=xid(number))
        store(Rollback(xid(number), (), 0, NOW + 9))
    status, (message,), _ = invoke("queues", path, "q.error", "--peek", "1")
    assert (status, message["id"], message["value"], message["properties"]) == (0, uuid(1).hex(), {"n": 1}, "p")
    assert invoke("queues", path, "q", "--move-back", "--id", uuid(2).hex())[1] == [{"queue": "q", "id": uuid(2).hex()}]
    assert invoke("queues", path, "q.error", "--purge", given="n\n")[0] == 1
    assert store.take_all(queue="q") == [2]
    status, lines, said = invoke("queues", path, "q.error", "--purge", given="y\n")
    assert (status, lines) == (0, [{"queue": "q.error", "deleted": 1}])
    assert "delete 1 messages of q.error?" in said
    assert invoke("queues", path, "q.error", "--purge", "--yes")[1] == [{"queue": "q.error", "deleted": 0}]


def test_a_prepared_branch_is_shown_and_decided_by_hand(store: Asking, path: str) -> None:
    store.put(1, NOW, queue="q", branch=xid(1))
    store(Prepare(xid(1), (PeerBranch("127.0.0.1:7", xid(1, b"x"), -1),), NOW))
    shown = f"42:{xid(1).gtrid.hex()}:62"
    status, (line,), _ = invoke("transactions", path)
    assert (status, line["xid"], line["state"], line["peers"]) == (0, shown, "prepared", ["127.0.0.1:7"])
    assert invoke("transactions", path, "--commit", shown, given="n\n")[0] == 1
    assert invoke("transactions", path, "--commit", shown, "--yes")[:2] == (0, [{"xid": shown, "state": "committed"}])
    assert store(Find(xid(1))).by_hand
    assert store.take_all(time.time_ns(), queue="q") == [1]
    status, _, said = invoke("transactions", path, "--rollback", shown, "--yes")
    assert (status, said) == (
        1,
        f"wirelake: {shown}: only a prepared branch can be decided by hand; this one is committed\n",
    )


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("queues", "missing.db"), 1, "missing.db: no such store"),
        (("queues", "PATH", "nowhere"), 1, "no such queue: nowhere"),
        (("queues", "PATH", "--purge"), 2, "name the one QUEUE"),
        (("queues", "PATH", "q", "--purge", "--peek", "3"), 2, "exclude each other"),
        (("queues", "PATH", "q", "--move-back", "--id", "zz"), 1, "an id has 32 hexadecimal digits"),
        (("queues", "casual://localhost:1"), 1, "name them"),
        (("transactions", "PATH", "--commit", "17", "--yes"), 1, "an xid is FORMAT:GTRID:BQUAL"),
        (("transactions", "PATH", "--commit", "1:aa:bb", "--yes"), 1, "this one is unknown"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    store: Asking, path: str, words: tuple[str, ...], status: int, said: str
) -> None:
    found = invoke(*(path if word == "PATH" else word for word in words))
    assert found[0] == status
    assert said in found[2]
