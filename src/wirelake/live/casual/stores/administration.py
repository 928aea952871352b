"""What an administrator does to a store, with results to print as JSON. A hub may use the store meanwhile."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from ....protocols.casual import Xid
from ...core.effects import Failed
from ...storage.database import StorageError
from ..store import (
    DAY,
    BranchRecord,
    ListBranches,
    ListQueues,
    Peek,
    Purge,
    QueueReport,
    Request,
    Resolve,
    Restore,
    Settled,
    StoredMessage,
)
from ..values import to_value
from ..wire import Buffer, show_xid
from . import open_store


class Administration:
    """A store as an administrator sees it. StorageError says what is wrong."""

    def __init__(self, where: str) -> None:
        self._store = open_store(where, is_guest=True)

    def __enter__(self) -> Administration:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.close()

    def _ask(self, request: Request) -> Any:
        (result,) = self._store.run([request])
        if isinstance(result, Failed):
            raise StorageError(f"the store takes no more: {result.error}")
        return result.value

    # --- queues

    def queues(self, names: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Return all queues, or these: how many messages are in which state, and how old the oldest is."""
        now = time.time_ns()
        reports: tuple[QueueReport, ...] = self._ask(ListQueues(now))
        self._refuse_unknown([name for name in names if name not in {report.name for report in reports}])
        return [_shown_queue(report, now) for report in reports if not names or report.name in names]

    def _refuse_unknown(self, unknown: Sequence[str]) -> None:
        if unknown:
            raise StorageError(f"no such queue: {', '.join(unknown)}")

    def peek(self, queue: str, most: int) -> list[dict[str, Any]]:
        """Return the first messages of a queue, which stay there."""
        self.queues([queue])
        found: tuple[StoredMessage, ...] = self._ask(Peek(queue, most))
        return [{"queue": queue} | _shown_message(message) for message in found]

    def restore(self, queue: str, idents: Sequence[str]) -> list[dict[str, Any]]:
        """Move messages back from the error queue of a queue: these, or all."""
        self.queues([queue])
        try:
            ids = tuple(bytes.fromhex(ident.replace("-", "")) for ident in idents) if idents else None
        except ValueError:
            raise StorageError("an id has 32 hexadecimal digits") from None
        moved = self._ask(Restore(queue, ids, time.time_ns()))
        return [{"queue": queue, "id": one.id.hex()} for one in moved]

    def purge(self, queue: str) -> int:
        """Delete all messages of a queue that no transaction has; return how many."""
        self.queues([queue])
        count: int = self._ask(Purge(queue))
        return count

    # --- transactions

    def transactions(self) -> list[dict[str, Any]]:
        """Return the branches that are not finished: prepared, preparing, or with domains that have to be told."""
        now = time.time_ns()
        records: tuple[BranchRecord, ...] = self._ask(ListBranches())
        return [_shown_branch(record, now) for record in records]

    def resolve(self, text: str, *, is_commit: bool) -> dict[str, Any]:
        """Decide a prepared branch by hand."""
        xid = read_xid(text)
        now = time.time_ns()
        settled: Settled = self._ask(Resolve(xid, is_commit, now + DAY, now))
        state = settled.record.state if settled.record is not None else "unknown"
        if state != "prepared":
            raise StorageError(f"{text}: only a prepared branch can be decided by hand; this one is {state}")
        return {"xid": text, "state": "committed" if is_commit else "rolled_back"}


def read_xid(text: str) -> Xid:
    """Return the xid that ``transactions`` shows like this."""
    try:
        format_, gtrid, bqual = text.split(":")
        return Xid(int(format_), bytes.fromhex(gtrid), bytes.fromhex(bqual))
    except ValueError:
        raise StorageError(f"{text}: an xid is FORMAT:GTRID:BQUAL, the last two in hexadecimal digits") from None


def _shown_queue(report: QueueReport, now: int) -> dict[str, Any]:
    shown = {
        "queue": report.name,
        "retries": report.retries,
        "ready": report.ready,
        "delayed": report.delayed,
        "added": report.added,
        "taken": report.taken,
    }
    if report.retry_seconds:
        shown["retry_seconds"] = report.retry_seconds
    if report.oldest is not None:
        shown |= {"oldest": _shown_time(report.oldest), "oldest_seconds": _seconds(now - report.oldest)}
    return shown


def _shown_message(message: StoredMessage) -> dict[str, Any]:
    value = to_value(Buffer(message.type, message.payload))
    shown: dict[str, Any] = {"hex": value.hex()} if isinstance(value, bytes) else {"value": value}
    shown |= {"id": message.id.hex(), "type": message.type, "redelivered": message.redelivered}
    shown |= {key: text for key in ("properties", "reply") if (text := getattr(message, key))}
    if message.available > 0:
        shown["available"] = _shown_time(message.available)
    return shown | {"enqueued": _shown_time(message.timestamp)}


def _shown_branch(record: BranchRecord, now: int) -> dict[str, Any]:
    return {
        "xid": show_xid(record.xid),
        "state": record.state,
        "since": _shown_time(record.since),
        "seconds": _seconds(now - record.since),
        "peers": [one.peer for one in record.peers],
        **({"by_hand": True} if record.by_hand else {}),
    }


def _shown_time(nanoseconds: int) -> str:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC).isoformat()


def _seconds(nanoseconds: int) -> float:
    return round(nanoseconds / 1e9, 3)
