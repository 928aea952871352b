"""The conduct of mb: which messages want a reply, and for how long."""

from __future__ import annotations

from tests.gold.facts_of import facts_of
from wirelake.protocols import mb

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
    rows = facts_of("mb", *asks)
    assert [row["step"] for row in rows] == [1, 1, 1, 0, 1, 0]
    assert [row["limit_us"] for row in rows] == [250_000, 5_000_000, None, None, None, None]
    assert [row["wants_reply"] for row in rows] == [True, True, False, None, True, None]
    assert [row["kind"] for row in rows] == ["request"] * 3 + ["control"] + ["event"] * 2
    assert rows[0]["payload_hash"] == rows[1]["payload_hash"] != rows[2]["payload_hash"]
    assert (rows[2]["place"], rows[0]["place"]) == ("a.b 1.0.0", None)
    assert [row["step"] for row in facts_of("mb", asks[4], direction="to_client")] == [0]
