"""The rules of queues: order, visibility, selectors, redelivery, error queues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...storage.database import Database, Row, any_of
from ..store import (
    NIL,
    Dequeue,
    Dequeued,
    Enqueue,
    ListQueues,
    Peek,
    Purge,
    QueueReport,
    QueueSettings,
    Ready,
    Restore,
    StoredMessage,
    error_queue,
)
from .enqueues import Enqueues, Queue
from .schema import (
    ADDED,
    DELAYED,
    PREPARING,
    READY,
    STORED,
    TAKEN,
    pack_text,
    pack_xid,
    read_message,
    selector_of,
    unpack_text,
)

SECOND = 1_000_000_000
FREE = (READY, DELAYED)
"""The states of messages that nobody has. Each has its index: a query names one state, never both."""

FIRST = """SELECT seq FROM messages WHERE queue = ? AND state = 0
    ORDER BY timestamp, available, seq LIMIT 1 {skip_locked}"""
FIRST_SELECTED = """SELECT seq FROM messages
    WHERE queue = ? AND state = 0 AND selector <> 0 AND selector = ? AND properties = ?
    ORDER BY timestamp, available, seq LIMIT 1 {skip_locked}"""
BY_ID = "SELECT seq FROM messages WHERE queue = ? AND id = ? AND state IN (0, 1) {skip_locked}"


class Queues:
    """The queues of a store, and what is done to one message after the other."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.enqueue_all = Enqueues(database, self.find, self._is_full).enqueue_all
        self._by_name: dict[str, Queue] = {}
        self._by_number: dict[int, Queue] = {}

    # --- which there are

    def configure(self, settings: Iterable[QueueSettings]) -> None:
        """Make queues that are missing, and give all their settings. Queues that are not named stay as they are."""
        wanted = {one.name: one for one in settings}
        for name, one in wanted.items():
            is_error = name.endswith(".error") and name.removesuffix(".error") in wanted
            error = (
                None if is_error else self._make(wanted.get(error_queue(name), QueueSettings(error_queue(name))), None)
            )
            self._make(one, error)
        self._by_name.clear()
        self._by_number.clear()

    def _make(self, settings: QueueSettings, error: int | None) -> int:
        rows = self._database.execute(
            """INSERT INTO queues (name, retries, retry_delay, capacity, error) VALUES (?, ?, ?, ?, ?)
            ON CONFLICT (name) DO UPDATE SET retries = excluded.retries, retry_delay = excluded.retry_delay,
                capacity = excluded.capacity, error = excluded.error
            RETURNING number""",
            (
                pack_text(settings.name),
                settings.retries,
                round(settings.retry_seconds * SECOND),
                settings.limit,
                error,
            ),
        )
        return int(rows[0][0])

    def find(self, name: str) -> Queue | None:
        """Return the queue; one that another process made too."""
        return self._by_name.get(name) or self._read("name = ?", pack_text(name))

    def numbered(self, number: int) -> Queue:
        queue = self._by_number.get(number) or self._read("number = ?", number)
        assert queue is not None
        return queue

    def _read(self, condition: str, value: object) -> Queue | None:
        row = self._database.find(
            f"SELECT number, name, retries, retry_delay, capacity, error FROM queues WHERE {condition}", (value,)
        )
        return None if row is None else self._remember(row)

    def _remember(self, row: Row) -> Queue:
        number, name, retries, retry_delay, capacity, error = row
        queue = Queue(number, unpack_text(name), retries, retry_delay, capacity, error)
        self._by_name[queue.name] = self._by_number[number] = queue
        return queue

    # --- one message

    def takes_any_order(self, request: Enqueue) -> bool:
        """Tell whether an enqueue has the same result before or after the end of some branch."""
        queue = self.find(request.queue)
        return request.is_unique and (queue is None or not queue.capacity)

    def _is_full(self, queue: Queue) -> bool:
        return bool(queue.capacity) and self._depth(queue, queue.capacity) >= queue.capacity

    def _depth(self, queue: Queue, most: int) -> int:
        """Count messages in any state, up to so many: each kind by its own index."""
        depth = 0
        for kind in ("state = 0", "state = 1", "branch IS NOT NULL"):
            if depth < most:
                row = self._database.find(
                    f"SELECT count(*) FROM (SELECT 1 FROM messages WHERE queue = ? AND {kind} LIMIT ?) AS counted",
                    (queue.number, most),
                )
                depth += 0 if row is None else row[0]
        return depth

    def is_closed(self, branch: bytes) -> bool:
        """Tell whether a branch takes no more work: it is prepared or finished."""
        return (
            self._database.find("SELECT 1 FROM branches WHERE xid = ? AND state <> ?", (branch, PREPARING)) is not None
        )

    def dequeue(self, request: Dequeue) -> Dequeued:
        queue = self.find(request.queue)
        branch = None if request.xid is None else pack_xid(request.xid)
        if queue is None or (branch is not None and self.is_closed(branch)):
            return Dequeued(None)
        self._wake(queue, request.now)
        if request.id != NIL:
            message = self._take(BY_ID, (queue.number, request.id), branch)
        elif request.properties:
            properties = pack_text(request.properties)
            message = self._take(FIRST_SELECTED, (queue.number, selector_of(properties), properties), branch)
        else:
            message = self._take(FIRST, (queue.number,), branch)
        return Dequeued(message) if message is not None else Dequeued(None, self._next_available(queue))

    def _wake(self, queue: Queue, now: int) -> None:
        """Make messages ready whose time has come."""
        self._database.execute(
            """UPDATE messages SET state = 0 WHERE seq IN
                (SELECT seq FROM messages WHERE queue = ? AND state = 1 AND available < ? {skip_locked})""",
            (queue.number, now),
        )

    def _next_available(self, queue: Queue) -> int | None:
        row = self._database.find("SELECT min(available) FROM messages WHERE queue = ? AND state = 1", (queue.number,))
        return None if row is None or row[0] is None else row[0] + 1

    def _take(self, candidate: str, arguments: tuple[object, ...], branch: bytes | None) -> StoredMessage | None:
        if branch is None:
            rows = self._database.execute(
                f"DELETE FROM messages WHERE seq = ({candidate}) RETURNING {STORED}", arguments
            )
        else:
            rows = self._database.execute(
                f"""UPDATE messages SET state = {TAKEN}, branch = ?, owner = ? WHERE seq = ({candidate})
                RETURNING {STORED}""",
                (branch, self._database.owner, *arguments),
            )
        return read_message(rows[0]) if rows else None

    # --- the work of a branch

    def commit(self, ending: Mapping[bytes, int]) -> dict[bytes, list[Ready]]:
        """End branches, each at its time: what was added is there, what was taken is gone. Return what became ready."""
        ready: dict[bytes, list[Ready]] = {branch: [] for branch in ending}
        marks, branches = any_of(ending)
        rows = self._database.execute(
            f"""SELECT branch, seq, state, queue, id, properties, available FROM messages WHERE branch IN ({marks})
            ORDER BY seq""",
            branches,
        )
        into: dict[int, list[int]] = {READY: [], DELAYED: [], TAKEN: []}
        for branch, seq, state, number, id_, properties, available in rows:
            if state == ADDED:
                key = bytes(branch)
                state = READY if available < ending[key] else DELAYED
                ready[key].append(self._ready(number, id_, properties, available))
            into[state].append(seq)
        for state, seqs in into.items():
            if seqs:
                marks, values = any_of(seqs)
                if state == TAKEN:
                    self._database.execute(f"DELETE FROM messages WHERE seq IN ({marks})", values)
                else:
                    self._database.execute(
                        f"UPDATE messages SET state = {state}, branch = NULL, owner = NULL WHERE seq IN ({marks})",
                        values,
                    )
        return ready

    def roll_back(self, ending: Mapping[bytes, int]) -> dict[bytes, list[Ready]]:
        """End branches, each at its time: what was added is gone; what was taken is back, or in the error queue if that
        happened too often. Return what became ready.
        """
        ready: dict[bytes, list[Ready]] = {branch: [] for branch in ending}
        marks, branches = any_of(ending)
        self._database.execute(f"DELETE FROM messages WHERE branch IN ({marks}) AND state = {ADDED}", branches)
        rows = self._database.execute(
            f"""SELECT branch, seq, queue, id, properties, redelivered FROM messages WHERE branch IN ({marks})
            ORDER BY seq""",
            branches,
        )
        for branch, *row in rows:
            key = bytes(branch)
            ready[key].append(self._give_back(row, ending[key]))
        return ready

    def _give_back(self, row: Sequence[Any], now: int) -> Ready:
        seq, number, id_, properties, redelivered = row
        queue = self.numbered(number)
        redelivered += 1
        available = now + queue.retry_delay if queue.retry_delay else 0
        if queue.error is not None and redelivered > queue.retries:
            number, redelivered, available = queue.error, 0, 0
        self._database.execute(
            """UPDATE messages SET state = ?, branch = NULL, owner = NULL, queue = ?, redelivered = ?, available = ?
            WHERE seq = ?""",
            (DELAYED if available else READY, number, redelivered, available, seq),
        )
        return self._ready(number, id_, properties, available)

    def _ready(self, number: int, id_: bytes, properties: bytes, available: int) -> Ready:
        return Ready(self.numbered(number).name, bytes(id_), unpack_text(properties), available)

    # --- administration

    def list(self, request: ListQueues) -> tuple[QueueReport, ...]:
        rows = self._database.execute("SELECT number, name, retries, retry_delay, capacity, error FROM queues")
        queues = sorted((self._remember(row) for row in rows), key=lambda queue: queue.name)
        held = self._database.execute(
            "SELECT queue, state, count(*) FROM messages WHERE branch IS NOT NULL GROUP BY queue, state"
        )
        counts = {(queue, state): count for queue, state, count in held}
        return tuple(self._report(queue, request.now, counts) for queue in queues)

    def _report(self, queue: Queue, now: int, held: dict[tuple[int, int], int]) -> QueueReport:
        counted = "SELECT count(*), min(timestamp) FROM messages WHERE queue = ? AND"
        ready, oldest = self._database.execute(f"{counted} state = 0", (queue.number,))[0]
        due, oldest_due = self._database.execute(f"{counted} state = 1 AND available < ?", (queue.number, now))[0]
        later = self._database.execute(
            "SELECT count(*) FROM messages WHERE queue = ? AND state = 1 AND available >= ?", (queue.number, now)
        )
        return QueueReport(
            queue.name,
            queue.retries,
            queue.retry_delay / SECOND,
            ready + due,
            later[0][0],
            held.get((queue.number, ADDED), 0),
            held.get((queue.number, TAKEN), 0),
            min((time for time in (oldest, oldest_due) if time is not None), default=None),
        )

    def peek(self, request: Peek) -> tuple[StoredMessage, ...]:
        queue = self.find(request.queue)
        if queue is None:
            return ()
        rows: list[Row] = []
        for state in FREE:
            rows += self._database.execute(
                f"""SELECT seq, {STORED} FROM messages WHERE queue = ? AND state = {state}
                ORDER BY timestamp, available, seq LIMIT ?""",
                (queue.number, request.most),
            )
        found = sorted(((read_message(row[1:]), row[0]) for row in rows), key=_order)
        return tuple(message for message, _ in found[: request.most])

    def restore(self, request: Restore) -> tuple[Ready, ...]:
        queue = self.find(request.queue)
        if queue is None or queue.error is None:
            return ()
        rows: list[Row] = []
        for state in FREE:
            rows += self._database.execute(
                f"SELECT seq, id, properties FROM messages WHERE queue = ? AND state = {state} {{skip_locked}}",
                (queue.error,),
            )
        moved = [row for row in sorted(rows) if request.ids is None or bytes(row[1]) in request.ids]
        for seq, _, _ in moved:
            self._database.execute(
                "UPDATE messages SET queue = ?, state = 0, redelivered = 0, available = 0 WHERE seq = ?",
                (queue.number, seq),
            )
        return tuple(self._ready(queue.number, id_, properties, 0) for _, id_, properties in moved)

    def purge(self, request: Purge) -> int:
        queue = self.find(request.queue)
        if queue is None:
            return 0
        return sum(
            len(
                self._database.execute(
                    f"DELETE FROM messages WHERE queue = ? AND state = {state} RETURNING seq", (queue.number,)
                )
            )
            for state in FREE
        )


def _order(found: tuple[StoredMessage, int]) -> tuple[int, int, int]:
    message, seq = found
    return message.timestamp, message.available, seq
