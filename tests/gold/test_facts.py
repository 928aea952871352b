"""Facts: what the roles of a declaration give, and what its conduct adds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.codec import encode
from wirelake.columnar import decode
from wirelake.columnar.schema import TIMESTAMP
from wirelake.generate import generate
from wirelake.gold import arrays
from wirelake.gold.facts import FACTS, MESSAGES, facts, needed_columns
from wirelake.protocols import casual, ceda, dsa, load, mb

from .matched import ExchangesOfFacts
from .played import play

SENSOR, ORDERS = (f"{Path(__file__).parents[2] / 'examples' / name}.py:PROTOCOL" for name in ("sensor", "orders"))
NIL, ONE, TWO = bytes(16), bytes(range(16)), bytes(range(16, 32))


def of(protocol: str, *messages: Any, direction: str = "to_server", **options: Any) -> list[dict[str, Any]]:
    """The facts of these messages."""
    framing = {"framing": "tcp"} if protocol == "mb" else {}
    data = b"".join(encode(message, **framing) for message in messages)
    batch = decode(protocol, data, ["offset", "length", "message", "code", *needed_columns(protocol)], **framing)
    assert len(batch.records) == len(messages)
    size = len(messages)
    records = pa.RecordBatch.from_arrays(
        [
            pa.array(["c"] * size),
            pa.array([direction] * size),
            pa.array(range(size), TIMESTAMP),
            *batch.records.columns,
        ],
        names=["connection", "direction", "ts", *batch.records.schema.names],
    )
    made = facts(protocol, records, **options)
    assert made.schema.equals(FACTS)
    return list(made.to_pylist())


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
    [row] = of("casual", call(xid=casual.Xid(42, b"g", b"b")))
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
        [row] = of("casual", call(xid=xid))
        assert (row["xid_format"], row["gtrid"], row["bqual"]) == (None, None, None)


def test_flags_of_a_call_take_its_limit_and_its_reply_away() -> None:
    free, unheard, timeless = of("casual", call(service=casual.Service("s", 0)), call(flags=0x04), call(flags=0x20))
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
    assert [row["limit_us"] for row in of("casual", asked, late)] == [2_000_000_000, 3_000_000]
    assert [row["limit_us"] for row in of("casual", asked, late, profile="late")] == [2_000_000, 3_000_000]


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
    [row] = of("casual", reply, direction="to_client")
    assert (row["status"], row["result"], row["address"], row["ends"]) == (str(status), result, None, True)


def test_other_answers_of_casual_have_their_own_ways_to_fail() -> None:
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
    results = [row["result"] for row in of("casual", *prepared, *stored, *connected)]
    assert results == ["ok", "ok", "error", "error", "ok", "error", "ok", "error"]


def test_limits_that_are_not_on_the_wire() -> None:
    common: dict[str, Any] = {"correlation": ONE, "execution": TWO, "xid": casual.NULL_XID}
    dequeues = [
        casual.QueueDequeueRequest(**common, name="q", selector=casual.Selector("", NIL), block=block)
        for block in (False, True)
    ]
    commit = casual.ResourceCommitRequest(**common, resource=casual.Resource(-1), flags=0)
    assert [row["limit_us"] for row in of("casual", *dequeues, commit)] == [30_000_000, None, 30_000_000]


def mb_rows(*messages: Any, direction: str = "to_server") -> list[dict[str, Any]]:
    return of("mb", *messages, direction=direction)


RID = "0b0c0d0e-0001-4002-8003-000000000004"


def test_mb_requests_and_publishes() -> None:
    asks = [
        mb.Request(topic="a.b", version="1.0.0", request_id=RID, timeout=250, payload=b"x"),
        mb.Request(topic="a.b", version="1.0.0", request_id=RID, payload=b"x"),
        mb.Request(topic="a.b", version="1.0.0", payload=b"y"),
        mb.Request(topic="system.heartbeat", version="1.0.0", payload=b"{}"),
        mb.Publish(topic="a.b", version="1.0.0", request_id=RID),
        mb.Publish(topic="a.b", version="1.0.0"),
    ]
    rows = mb_rows(*asks)
    assert [row["step"] for row in rows] == [1, 1, 1, 0, 1, 0]
    assert [row["limit_us"] for row in rows] == [250_000, 5_000_000, None, None, None, None]
    assert [row["wants_reply"] for row in rows] == [True, True, False, None, True, None]
    assert [row["kind"] for row in rows] == ["request"] * 3 + ["control"] + ["event"] * 2
    assert rows[0]["payload_hash"] == rows[1]["payload_hash"] != rows[2]["payload_hash"]
    assert (rows[2]["place"], rows[0]["place"]) == ("a.b 1.0.0", None)
    assert [row["step"] for row in mb_rows(asks[4], direction="to_client")] == [0]


@pytest.mark.parametrize(
    ("payload", "status", "result"),
    [
        (b'{"error":{"code":"NO_ROUTE_FOUND","message":"m","timestamp":"t"}}', "NO_ROUTE_FOUND", "error"),
        (b' { "error" : {"code":"TIMEOUT","message":"m","timestamp":"t"}}', "TIMEOUT", "timeout"),
        (b'error:{"code":"FULL","message":"m","timestamp":"t"}', "FULL", "error"),
        (b'{"status":"success"}', None, "ok"),
        (b'{"error":"only a word"}', None, "ok"),
        (b'{"error":{"code":', None, "ok"),
        (b"", None, "ok"),
        (b'text about {"error":{"code":"X"}}', None, "ok"),
    ],
)
def test_error_answers_of_mb(payload: bytes, status: str | None, result: str) -> None:
    [row] = mb_rows(mb.Response(topic="a", version="1.0.0", request_id=RID, payload=payload))
    assert (row["status"], row["result"], row["address"]) == (status, result, None)


def test_audit_copies_of_mb_tell_both_ids() -> None:
    payload = b'{"to":"s","message":{"header":{"action":"request","requestId":"far"},"payload":1},"maskedId":"near"}'
    told, not_json = mb_rows(
        mb.Publish(topic="system.message", version="1.0.0", payload=payload),
        mb.Publish(topic="system.message", version="1.0.0", payload=payload[:-1]),
        direction="to_client",
    )
    assert (told["audit_id"], told["masked_id"]) == ("far", "near")
    assert (not_json["audit_id"], not_json["masked_id"]) == (None, None)


def test_dsa_streams() -> None:
    rows = of(
        "dsa",
        dsa.ListRequest(request_id=5, ack_id=1, headers=dsa.Headers(target_path="a/b", no_stream=True)),
        dsa.ListResponse(request_id=5, ack_id=1, headers=dsa.Headers(status=0x01), entries=()),
        dsa.ListResponse(request_id=5, ack_id=1, headers=dsa.Headers(status=0x20), entries=()),
        dsa.SetResponse(request_id=6, ack_id=1, headers=dsa.Headers(status=0x45)),
        dsa.SubscribeRequest(request_id=5, ack_id=1, headers=dsa.Headers(target_path="a")),
        dsa.Close(request_id=5, ack_id=1),
        dsa.Ping(),
    )
    assert [row["step"] for row in rows] == [1, 2, 2, 2, 1, 3, 0]
    assert [row["lane"] for row in rows] == [0, 0, 0, 0, 1, 0, 0]
    assert [row["ends"] for row in rows] == [False, False, True, True, False, False, False]
    assert [row["result"] for row in rows] == [None, "ok", "ok", "error", None, "ok", None]
    assert (rows[0]["address"], rows[0]["correlation"], rows[0]["once"], rows[1]["more"]) == ("a/b", "5", True, True)


def test_ceda_requests_without_reply_topic_want_no_reply() -> None:
    names: dict[str, Any] = {"topic": "T", "connection_id": 1, "server_id": "", "signal_id": ""}
    asked, lost = of(
        "ceda", ceda.Request(**names, reply_topic="1.1.1", record=()), ceda.Request(**names, reply_topic="", record=())
    )
    assert (asked["correlation"], asked["wants_reply"]) == ("1.1.1", True)
    assert (lost["correlation"], lost["wants_reply"], lost["address"]) == (None, False, "T")


def test_messages_are_the_first_part_of_the_facts() -> None:
    names = [name for name in FACTS.names if name != "order"]
    assert names[: len(MESSAGES)] == MESSAGES.names and MESSAGES.names[-1] == "payload_bytes"


def test_a_protocol_of_a_user_works_by_its_roles() -> None:
    traffic = generate(SENSOR, seed=3, messages=400)
    whole = play(traffic)
    step = ExchangesOfFacts()
    rows = pa.concat_tables([step.feed(whole.facts, whole.ended), *step.settle(whole.end_us, final=True)]).to_pylist()
    found = {(row["connection"], row["direction"], row["request_offset"]): row for row in rows}
    truth = {whole.place[one.request]: one for one in traffic.truth.exchanges}
    assert truth and found.keys() == truth.keys()
    for place, one in truth.items():
        row = found[place]
        assert (row["outcome"], row["latency_us"], row["correlation"]) == (one.outcome, one.latency_us, one.correlation)


def test_a_user_declares_limits_results_pieces_heartbeats_transactions_and_introductions() -> None:
    hello, welcome, alive, order, ordered, *_, picture = load(ORDERS).messages
    asked = [order(number=7, basket=basket, item="apples") for basket in (12, 0)]
    replied = [ordered(number=7, outcome=outcome) for outcome in (0, 99, 2)]
    requests = of(ORDERS, *asked)
    assert [(row["limit_us"], row["xid_format"], row["gtrid"]) for row in requests] == [
        (2_000_000, 0, b"12"),
        (2_000_000, None, None),
    ]
    assert [row["result"] for row in of(ORDERS, *replied)] == ["ok", "error", "timeout"]
    pieces = of(ORDERS, *(picture(item="new", page=page, pages=2, data=b"") for page in (0, 1)))
    assert [(row["piece"], row["pieces"], row["piece_key"]) for row in pieces] == [(0, 2, "new"), (1, 2, "new")]
    rows = of(ORDERS, hello(till="a", versions=(1, 2)), *(welcome(warehouse="w", accepted=ok) for ok in (True, False)))
    assert [dict(row["introduction"]) for row in rows] == [
        {"till": "a", "versions": "1,2"},
        {"warehouse": "w", "handshake": "complete"},
        {"handshake": "refused"},
    ]
    assert [row["heartbeat"] for row in of(ORDERS, alive(), asked[0])] == [True, False]


def test_the_largest_page_count_is_no_reason_to_fail() -> None:
    headers = dsa.Headers(page_id=-(2**31), sequence_id=1)
    [row] = of("dsa", dsa.InvokeResponse(request_id=5, ack_id=1, headers=headers, body=b""))
    assert (row["piece"], row["pieces"]) == (0, 2**31 - 1)


def test_a_missing_column_is_named() -> None:
    records = pa.RecordBatch.from_pydict({"code": pa.array([1], pa.int32())})
    with pytest.raises(ValueError, match="facts of mb need the columns topic"):
        facts("mb", records)


@pytest.mark.parametrize("name", ["casual", "dsa", "mb", "ceda"])
def test_nothing_gives_no_facts(name: str) -> None:
    batch = decode(name, b"", ["offset", "length", "message", "code", *needed_columns(name)])
    envelope = pa.RecordBatch.from_arrays(
        [pa.array([], pa.string()), *batch.records.columns], names=["direction", *batch.records.schema.names]
    )
    assert facts(load(name), envelope).num_rows == 0


@given(st.lists(st.none() | st.binary(max_size=40)), st.integers(0, 3))
def test_hex_and_hashes_are_right_for_any_slice(values: list[bytes | None], skip: int) -> None:
    column = pa.array(values, pa.binary()).slice(skip)
    assert arrays.hexed(column).to_pylist() == [None if one is None else one.hex() for one in values[skip:]]
    hashes = arrays.hashed(column).tolist()
    few = arrays.hashed_few(column).tolist()
    alone = [arrays.hashed(pa.array([one or b""])).tolist()[0] for one in values[skip:]]
    assert hashes == alone and few == alone
    assert len(set(alone)) == len({one or b"" for one in values[skip:]})
