"""The conduct of casual: limits, results and transaction ids."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gold.facts_of import facts_of
from wirelake.protocols import casual

NIL, ONE, TWO = bytes(16), bytes(range(16)), bytes(range(16, 32))


def call(**changed: Any) -> casual.ServiceCallRequest:
    fields: dict[str, Any] = {
        "correlation": ONE,
        "execution": TWO,
        "service": casual.Service("order.create", 2_000_000),
        "parent": casual.Parent(""),
        "xid": casual.NULL_XID,
        "flags": 0,
        "buffer": casual.Buffer(".json/", b"{}"),
    }
    return casual.ServiceCallRequest(**(fields | changed))


def test_a_casual_call() -> None:
    [row] = facts_of("casual", call(xid=casual.Xid(42, b"g", b"b")))
    assert {
        name: row[name] for name in ("protocol", "kind", "address", "payload_bytes", "limit_us", "wants_reply")
    } == {
        "protocol": "casual",
        "kind": "request",
        "address": "order.create",
        "payload_bytes": 2,
        "limit_us": 2_000_000,
        "wants_reply": True,
    }
    assert (row["correlation"], row["execution"]) == (ONE.hex(), TWO.hex())
    assert (row["xid_format"], row["gtrid"], row["bqual"]) == (42, b"g", b"b")


def test_a_null_xid_is_no_transaction() -> None:
    for xid in (casual.Xid(-1), casual.Xid(0)):
        [row] = facts_of("casual", call(xid=xid))
        assert (row["xid_format"], row["gtrid"], row["bqual"]) == (None, None, None)


def test_flags_of_a_call_take_its_limit_and_its_reply_away() -> None:
    free, unheard, timeless = facts_of(
        "casual", call(service=casual.Service("s", 0)), call(flags=0x04), call(flags=0x20)
    )
    assert (free["limit_us"], free["wants_reply"]) == (None, True)
    assert (unheard["limit_us"], unheard["wants_reply"]) == (None, False)
    assert (timeless["limit_us"], timeless["wants_reply"]) == (None, True)


def test_the_late_profile_counts_nanoseconds() -> None:
    late = casual.ConversationConnectRequestLate(
        correlation=ONE,
        execution=TWO,
        service=casual.LateService("s", 3_000_000_000),
        parent=casual.Parent(""),
        xid=casual.NULL_XID,
        duplex=0,
        buffer=casual.Buffer("", b""),
    )
    asked = call(service=casual.Service("s", 2_000_000_000))
    assert [row["limit_us"] for row in facts_of("casual", asked, late)] == [2_000_000_000, 3_000_000]
    assert [row["limit_us"] for row in facts_of("casual", asked, late, profile="late")] == [2_000_000, 3_000_000]


@pytest.mark.parametrize(("status", "result"), [(0, "ok"), (-1, "ok"), (6, "error"), (11, "error"), (13, "timeout")])
def test_the_status_of_a_casual_reply_is_its_result(status: int, result: str) -> None:
    reply = casual.ServiceCallReply(
        correlation=ONE,
        execution=TWO,
        call=casual.Call(status, 0),
        xid=casual.NULL_XID,
        transaction=casual.TransactionState(0),
        buffer=casual.Buffer("", b""),
    )
    [row] = facts_of("casual", reply, direction="to_client")
    assert (row["status"], row["result"], row["address"], row["ends"]) == (str(status), result, None, True)


def test_other_replies_of_casual_have_their_own_ways_to_fail() -> None:
    prepared = [
        casual.ResourcePrepareReply(
            correlation=ONE, execution=TWO, xid=casual.NULL_XID, resource=casual.ResourceResult(1, code)
        )
        for code in (0, 3, 100, -4)
    ]
    stored = [casual.QueueEnqueueReply(correlation=ONE, execution=TWO, id=made) for made in (ONE, NIL)]
    connected = [
        casual.DomainConnectReply(
            correlation=ONE, execution=TWO, domain=casual.Domain(ONE, "d"), protocol=casual.Chosen(version)
        )
        for version in (1000, 0)
    ]
    results = [row["result"] for row in facts_of("casual", *prepared, *stored, *connected)]
    assert results == ["ok", "ok", "error", "error", "ok", "error", "ok", "error"]


def test_limits_that_are_not_on_the_wire() -> None:
    common: dict[str, Any] = {"correlation": ONE, "execution": TWO, "xid": casual.NULL_XID}
    dequeues = [
        casual.QueueDequeueRequest(**common, name="q", selector=casual.Selector("", NIL), block=block)
        for block in (False, True)
    ]
    commit = casual.ResourceCommitRequest(**common, resource=casual.Resource(-1), flags=0)
    assert [row["limit_us"] for row in facts_of("casual", *dequeues, commit)] == [30_000_000, None, 30_000_000]
