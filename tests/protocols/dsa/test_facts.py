"""Facts of dsa: the status of replies and closes."""

from __future__ import annotations

import pytest

from tests.gold.facts_of import facts_of
from wirelake.protocols import dsa


@pytest.mark.parametrize(
    ("headers", "status", "result"),
    [
        (dsa.Headers(), "32", "ok"),
        (dsa.Headers(status=0x10), "32", "ok"),
        (dsa.Headers(error_detail="why"), "80", "error"),
        (dsa.Headers(status=0x45, error_detail="why"), "69", "error"),
        (dsa.Headers(status=0x20), "32", "ok"),
    ],
)
def test_a_close_ends_its_stream_with_a_status_or_an_explanation(
    headers: dsa.Headers, status: str, result: str
) -> None:
    [row] = facts_of("dsa", dsa.Close(request_id=5, ack_id=1, headers=headers))
    assert (row["status"], row["result"]) == (status, result)


def test_a_reply_without_status_has_status_0_and_a_request_has_none() -> None:
    request, reply = facts_of(
        "dsa",
        dsa.SetRequest(request_id=5, ack_id=1, headers=dsa.Headers(target_path="a"), value=1),
        dsa.SetResponse(request_id=5, ack_id=1),
    )
    assert (request["status"], reply["status"], reply["result"]) == (None, "0", "ok")
