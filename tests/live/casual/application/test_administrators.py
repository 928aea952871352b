"""Queues looked after from afar: at a domain, and in the metrics of a hub."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.live.live import run
from tests.waiting import until
from wirelake.live.casual.application.administrators import administration
from wirelake.live.casual.stores.administration import Administration
from wirelake.live.hub.hub import Hub, read_settings
from wirelake.live.storage.database import StorageError

TABLES = {
    "casual": {"tcp": "127.0.0.1:0", "storage": "store.db", "queues": [{"name": "q", "retries": 1}]},
    "metrics": {"listen": "127.0.0.1:0"},
}


def with_hub(directory: Path, test: Callable[[Hub, Any], Awaitable[None]]) -> None:
    async def main() -> None:
        async with Hub(read_settings(TABLES, "test", directory)) as hub, hub.participant("casual") as client:
            await test(hub, client)

    run(main)


async def ask(where: str, act: Callable[[Any], Any]) -> Any:
    def do() -> Any:
        with administration(where) as found:
            return act(found)

    return await asyncio.to_thread(do)


async def fail(client: Any, value: object) -> str:
    """Enqueue a message that ends in the error queue; return its id."""
    ident: str = await client.enqueue("q", value, properties="p", reply="r")
    for _ in range(2):
        async with client.transaction() as transaction:
            assert (await client.dequeue("q", id=ident)) is not None
            await transaction.rollback()
    return ident


def test_a_domain_tells_of_named_queues_moves_and_purges(tmp_path: Path) -> None:
    async def test(hub: Hub, client: Any) -> None:
        url = f"casual://{hub.listening['casual']}"
        assert await ask(url, lambda found: found.queues(["q.error", "q"])) == [
            {"queue": "q.error", "retries": 0},
            {"queue": "q", "retries": 1},
        ]
        idents = [await fail(client, {"n": number}) for number in range(3)]
        (moved,) = await ask(url, lambda found: found.restore("q", [idents[1]]))
        message = await client.dequeue("q")
        assert (message.id, message.value, message.properties, message.reply) == (moved["id"], {"n": 1}, "p", "r")
        assert message.type == ".json/" and message.redelivered == 0
        assert len(await ask(url, lambda found: found.restore("q", []))) == 2
        assert await client.dequeue("q.error") is None
        assert await ask(url, lambda found: found.purge("q")) == 2 and await client.dequeue("q") is None

    with_hub(tmp_path, test)


def test_the_metrics_of_a_hub_list_its_queues(tmp_path: Path) -> None:
    async def test(hub: Hub, client: Any) -> None:
        await client.enqueue("q", 1)
        url = f"http://{hub.listening['metrics']}"
        meter = hub.meters[0]
        await until(lambda: meter.families)
        meter.families = list(await asyncio.to_thread(meter._read))
        first, second = await ask(url, lambda found: found.queues())
        assert first.pop("oldest_seconds") >= 0
        assert first == {"queue": "q", "ready": 1, "delayed": 0, "added": 0, "taken": 0}
        assert second == {"queue": "q.error", "ready": 0, "delayed": 0, "added": 0, "taken": 0}
        assert await ask(f"{url}/metrics", lambda found: found.queues(["q.error"])) == [second]

    with_hub(tmp_path, test)


def test_what_cannot_be_done_from_afar_says_where_it_can(tmp_path: Path) -> None:
    async def test(hub: Hub, client: Any) -> None:
        domain, metrics = f"casual://{hub.listening['casual']}", f"http://{hub.listening['metrics']}"
        refused: list[tuple[str, Callable[[Any], Any], str]] = [
            (domain, lambda found: found.queues(), "a domain does not list its queues: name them"),
            (domain, lambda found: found.queues(["nowhere"]), "no such queue: nowhere"),
            (domain, lambda found: found.peek("q", 1), "without taking them, give the STORE"),
            (domain, lambda found: found.transactions(), "give the STORE"),
            (domain, lambda found: found.purge("nowhere"), "no such queue: nowhere"),
            (metrics, lambda found: found.queues(["nowhere"]), "no such queue: nowhere"),
            (metrics, lambda found: found.restore("q", []), "give the URL of the domain"),
            (metrics, lambda found: found.purge("q"), "give the URL of the domain"),
            (f"{metrics}/nothing", lambda found: found.queues(), "Not Found"),
        ]
        for where, act, said in refused:
            with pytest.raises(StorageError, match=said):
                await ask(where, act)

    with_hub(tmp_path, test)


@pytest.mark.parametrize("where", ["casual://127.0.0.1", "casual://127.0.0.1:x"])
def test_a_url_that_makes_no_sense_is_refused(where: str) -> None:
    with pytest.raises(StorageError), administration(where) as found:
        found.queues(["q"])


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", "not HTTP"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 100\r\n\r\n#", "not whole"),
        (b"HTTP/1.0 200 OK\r\n\r\n<html><body>Welcome</body></html>", "not the metrics of a hub"),
        (b"HTTP/1.0 200 OK\r\n\r\nwirelake_queue_messages 3\n", "not the metrics of a hub"),
    ],
)
def test_a_server_that_is_no_hub_is_refused_in_one_sentence(reply: bytes, said: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(reply)

        thread = Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(StorageError, match=said), administration(url) as found:
            found.queues()
        thread.join()


def test_a_path_is_a_store(tmp_path: Path) -> None:
    with_hub(tmp_path, lambda hub, client: asyncio.sleep(0))
    with administration(str(tmp_path / "store.db")) as found:
        assert isinstance(found, Administration) and [one["queue"] for one in found.queues()] == ["q", "q.error"]
