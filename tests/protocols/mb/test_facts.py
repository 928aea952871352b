"""Facts of mb: which messages want a reply, and what payloads say."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gold.facts_of import facts_of
from wirelake.protocols import mb


def mb_rows(*messages: Any, direction: str = "to_server") -> list[dict[str, Any]]:
    return facts_of("mb", *messages, direction=direction)


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
