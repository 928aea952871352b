"""Accounts: what became of every byte of a stream."""

from __future__ import annotations

import pyarrow as pa

ACCOUNTS = pa.schema(
    [
        ("connection", pa.string()),
        ("direction", pa.string()),
        ("bytes_in", pa.int64()),
        ("bytes_decoded", pa.int64()),
        ("bytes_quarantined", pa.int64()),
        ("bytes_pending", pa.int64()),
        ("bytes_missing", pa.int64()),
        ("messages", pa.int64()),
        ("protocol", pa.string()),
    ]
)


class AccountsError(RuntimeError):
    """Bytes were lost or told twice: a fault of this program, never of what was captured."""
