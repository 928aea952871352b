"""No request looks through all messages: what it costs does not depend on how many there are."""

from __future__ import annotations

import sqlite3
from typing import Any

from tests.live.casual.stores.stores import QUEUES, Asking, T, uuid, xid
from wirelake.live.casual.store import (
    Commit,
    CountBranches,
    ListBranches,
    ListQueues,
    Load,
    Peek,
    Prepare,
    Purge,
    Resolve,
    Restore,
    Rollback,
    Told,
)
from wirelake.live.casual.stores import MemoryStore


class Explaining(sqlite3.Connection):
    """Notes how each statement finds its rows."""

    plans: list[str]

    def execute(self, sql: str, arguments: Any = ()) -> sqlite3.Cursor:
        if sql.lstrip().startswith(("SELECT", "UPDATE", "DELETE")):
            steps = super().execute(f"EXPLAIN QUERY PLAN {sql}", arguments).fetchall()
            self.plans += [f"{step[3]}: {sql}" for step in steps]
        return super().execute(sql, arguments)


def test_no_request_scans_all_messages_or_all_tombstones() -> None:
    store = MemoryStore(QUEUES)
    database: Any = store.rules._carry_out[ListQueues].__self__._database  # type: ignore[attr-defined]
    explaining = sqlite3.connect(":memory:", isolation_level=None, factory=Explaining)
    explaining.plans = []
    for (sql,) in store._connection.execute(
        "SELECT sql FROM sqlite_master WHERE sql NOT NULL AND name NOT LIKE 'sqlite%'"
    ):
        explaining.execute(sql)
    for row in store._connection.execute("SELECT * FROM queues").fetchall():
        explaining.execute(f"INSERT INTO queues VALUES ({', '.join('?' * len(row))})", row)
    store._connection.close()
    store._connection = database.connection = explaining
    ask = Asking(lambda: store)
    for number in range(1, 5):
        ask.put(number, queue="small" if number < 3 else "a", available=0 if number % 2 else T * 2, properties="p")
    ask.put(9, branch=xid(1))
    ask.take(branch=xid(1))
    ask.take(branch=xid(2), properties="p")
    ask.take(branch=xid(3), id=uuid(4))
    for request in (
        Prepare(xid(1), (), T),
        ListQueues(T),
        ListBranches(),
        CountBranches(),
        Peek("a", 3),
        Commit(xid(1), (), T + 5, T),
        Rollback(xid(2), (), T + 5, T),
        Resolve(xid(3), True, T, T),
        Told(xid(1), T + 9, T),
        Load(T + 7),
        Restore("a", None, T),
        Purge("a"),
    ):
        ask(request)
    assert len(explaining.plans) > 40
    assert [plan for plan in explaining.plans if plan.startswith(("SCAN messages:", "SCAN branches:"))] == []
    store.close()
