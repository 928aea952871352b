"""Facts of mb: what payloads say."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gold.facts_of import facts_of
from wirelake.protocols import mb


def mb_rows(*messages: Any, direction: str = "to_server") -> list[dict[str, Any]]:
    return facts_of("mb", *messages, direction=direction)


RID = "0b0c0d0e-0001-4002-8003-000000000004"


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
def test_error_replies_of_mb(payload: bytes, status: str | None, result: str) -> None:
    [row] = mb_rows(mb.Response(topic="a", version="1.0.0", request_id=RID, payload=payload))
    assert (row["status"], row["result"], row["address"]) == (status, result, None)


def test_audit_copies_of_mb_have_both_ids() -> None:
    payload = b'{"to":"s","message":{"header":{"action":"request","requestId":"far"},"payload":1},"maskedId":"near"}'
    copied, not_json = mb_rows(
        mb.Publish(topic="system.message", version="1.0.0", payload=payload),
        mb.Publish(topic="system.message", version="1.0.0", payload=payload[:-1]),
        direction="to_client",
    )
    assert (copied["audit_id"], copied["masked_id"]) == ("far", "near")
    assert (not_json["audit_id"], not_json["masked_id"]) == (None, None)


def test_a_service_introduces_itself_when_it_registers() -> None:
    registered, unnamed = mb_rows(
        mb.Request(topic="system.service.register", version="1.0.0", request_id=RID, payload=b'{"name":"orders"}'),
        mb.Request(topic="system.service.register", version="1.0.0", request_id=RID, payload=b"[]"),
    )
    assert dict(registered["introduction"]) == {"name": "orders"}
    assert not unnamed["introduction"]
