"""Rows of gold/open."""

from __future__ import annotations

import pyarrow as pa

from wirelake.gold.exchanges import EXCHANGES
from wirelake.gold.open import OPEN, open_requests, open_rows


def test_rows_come_by_time_then_connection_then_correlation_and_what_they_leave_out_is_null() -> None:
    rows = [
        {"kind": "transaction", "connection": "b", "correlation": "2", "since_ts": 5},
        {"kind": "transaction", "connection": "b", "correlation": "1", "since_ts": 5},
        {"kind": "session", "connection": "a", "since_ts": 5},
        {"kind": "session", "connection": None, "since_ts": None},
    ]
    table = open_rows(rows)
    assert table.schema.equals(OPEN)
    places = list(zip(table["connection"].to_pylist(), table["correlation"].to_pylist(), strict=True))
    assert places == [(None, None), ("a", None), ("b", "1"), ("b", "2")]
    assert table["limit_us"].null_count == 4


def test_an_open_request_keeps_its_address_limit_and_time() -> None:
    row = {"protocol": "mb", "connection": "c", "address": "math", "correlation": "7", "request_ts": 9, "limit_us": 5}
    (opened,) = open_requests(pa.Table.from_pylist([row], EXCHANGES)).to_pylist()
    since = opened.pop("since_ts")
    assert since.microsecond == 9
    assert opened == {
        "kind": "request",
        "protocol": "mb",
        "connection": "c",
        "address": "math",
        "correlation": "7",
        "limit_us": 5,
        "detail": "no reply yet",
    }
