"""The conduct of dsa: streams and pages."""

from __future__ import annotations

from tests.gold.facts_of import facts_of
from wirelake.protocols import dsa


def test_dsa_streams() -> None:
    rows = facts_of(
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


def test_the_largest_page_count_is_no_reason_to_fail() -> None:
    headers = dsa.Headers(page_id=-(2**31), sequence_id=1)
    [row] = facts_of("dsa", dsa.InvokeResponse(request_id=5, ack_id=1, headers=headers, body=b""))
    assert (row["piece"], row["pieces"]) == (0, 2**31 - 1)
