"""What an administrator sees of queues, wherever they are: in a store, at a domain, or in the metrics of a hub.

A store shows all. The protocol neither lists queues nor shows a message without taking it, so a domain tells of named
queues what it offers, and moves or deletes messages by taking them, each in a transaction. The metrics of a hub list
its queues with their depths.
"""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from http.client import HTTPException
from typing import Any, TypeVar

from ....errors import WireError
from ...storage.database import StorageError
from ..api import CasualClient, connect
from ..store import error_queue
from ..stores.administration import Administration
from ..wire import Buffer

T = TypeVar("T")
SECONDS = 10.0
STORES = "a path or postgresql://…"
METRICS = "http://HOST:PORT of its hub's metrics"
STATES = ("ready", "delayed", "added", "taken")
MESSAGES, OLDEST = "wirelake_queue_messages", "wirelake_queue_oldest_seconds"


class _Distant:
    """Queues that are not in a store of ours: what cannot be done there is refused, with what to do instead."""

    def __enter__(self) -> _Distant:
        return self

    def __exit__(self, *_: object) -> None: ...

    def peek(self, queue: str, most: int) -> list[dict[str, Any]]:
        raise StorageError(f"to look at messages of {queue} without taking them, give the STORE: {STORES}")

    def transactions(self) -> list[dict[str, Any]]:
        raise StorageError(f"to see transactions, give the STORE: {STORES}")

    def resolve(self, text: str, *, is_commit: bool) -> dict[str, Any]:
        raise StorageError(f"to decide transactions, give the STORE: {STORES}")


class RemoteDomain(_Distant):
    """The queues of a domain, by its protocol."""

    def __init__(self, url: str) -> None:
        self._url = url

    def _run(self, act: Callable[[CasualClient], Awaitable[T]]) -> T:
        async def run() -> T:
            async with connect(self._url, timeout=SECONDS) as client:
                return await act(client)

        try:
            return asyncio.run(run())
        except WireError as error:
            raise StorageError(str(error.detail)) from None
        except ValueError as error:
            raise StorageError(str(error)) from None

    def queues(self, names: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Return what the domain offers of these queues."""
        if not names:
            raise StorageError(
                f"a domain does not list its queues: name them, or give {METRICS}, or the STORE: {STORES}"
            )

        async def ask(client: CasualClient) -> list[dict[str, Any]]:
            return await _offered(client, names)

        return self._run(ask)

    def restore(self, queue: str, idents: Sequence[str]) -> list[dict[str, Any]]:
        """Take messages from the error queue, and enqueue them again, each in a transaction: they get new ids."""

        async def move(client: CasualClient) -> list[dict[str, Any]]:
            await _offered(client, [queue])
            moved: list[dict[str, Any]] = []
            for ident in idents or iter(str, None):
                new = await _move(client, queue, ident, {one["id"] for one in moved})
                if new:
                    moved.append({"queue": queue, "id": new})
                elif not idents:
                    break
            return moved

        return self._run(move)

    def purge(self, queue: str) -> int:
        """Take what is there, and forget it; return how many messages that were."""

        async def take_all(client: CasualClient) -> int:
            await _offered(client, [queue])
            count = 0
            while await client.dequeue(queue) is not None:
                count += 1
            return count

        return self._run(take_all)


async def _offered(client: CasualClient, names: Sequence[str]) -> list[dict[str, Any]]:
    found = {offer.name: offer for offer in (await client.discover(queues=names)).queues}
    unknown = [name for name in names if name not in found]
    if unknown:
        raise StorageError(f"no such queue: {', '.join(unknown)}")
    return [{"queue": name, "retries": found[name].retries} for name in names]


async def _move(client: CasualClient, queue: str, ident: str, moved: set[str]) -> str:
    """Move a message back, and return its new id; nothing if there is none, or only one that has failed again."""
    async with client.transaction() as transaction:
        message = await client.dequeue(error_queue(queue), id=ident)
        if message is None:
            return ""
        if message.id in moved:
            await transaction.rollback()
            return ""
        return await client.enqueue(
            queue, Buffer(message.type, message.payload), properties=message.properties, reply=message.reply
        )


class HubFigures(_Distant):
    """The queues of a hub, as its metrics show them."""

    def __init__(self, url: str) -> None:
        self._url = url if url.rstrip("/").count("/") > 2 else f"{url.rstrip('/')}/metrics"

    def queues(self, names: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Return all queues, or these: how many messages are in which state, and how old the oldest is."""
        shown: dict[str, dict[str, Any]] = {}
        try:
            for name, labels, value in self._samples():
                queue = labels["queue"]
                line = shown.setdefault(queue, {"queue": queue} | dict.fromkeys(STATES, 0))
                if name == MESSAGES:
                    line[labels["state"]] = int(value)
                elif line["ready"]:
                    line["oldest_seconds"] = round(value, 3)
        except (KeyError, ValueError, OverflowError):
            raise StorageError(f"{self._url}: these are not the metrics of a hub") from None
        unknown = [name for name in names if name not in shown]
        if unknown:
            raise StorageError(f"no such queue: {', '.join(unknown)}")
        return [line for queue, line in sorted(shown.items()) if not names or queue in names]

    def _samples(self) -> list[tuple[str, dict[str, str], float]]:
        from prometheus_client.parser import text_string_to_metric_families

        try:
            with closing(urllib.request.urlopen(self._url, timeout=SECONDS)) as reply:
                text = reply.read().decode()
        except HTTPException:
            raise StorageError(f"{self._url}: what it says is not HTTP, or not whole; give {METRICS}") from None
        except (OSError, ValueError) as error:
            raise StorageError(f"{self._url}: {getattr(error, 'reason', error)}") from None
        found = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        return [(one.name, one.labels, one.value) for one in found if one.name in (MESSAGES, OLDEST)]

    def restore(self, queue: str, idents: Sequence[str]) -> list[dict[str, Any]]:
        raise StorageError(f"to move messages, give the URL of the domain, or the STORE: {STORES}")

    def purge(self, queue: str) -> int:
        raise StorageError(f"to delete messages, give the URL of the domain, or the STORE: {STORES}")


def administration(where: str) -> Administration | RemoteDomain | HubFigures:
    """Return the queues of a store, of a domain, or of a hub."""
    scheme = where.partition("://")[0]
    if scheme in ("http", "https"):
        return HubFigures(where)
    return RemoteDomain(where) if scheme == "casual" and "://" in where else Administration(where)
