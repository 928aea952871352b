"""Every table of a lake: its columns, and whether its rows lie under dates. One table per protocol comes beside them.

Whoever reads a lake by name (views for SQL, the report, the documents) takes them from here.
"""

from __future__ import annotations

import pyarrow as pa

from ..capture.quarantine import QUARANTINE
from ..columnar.schema import TIMESTAMP
from .addresses import ADDRESSES
from .exchanges import EXCHANGES
from .facts import MESSAGES
from .open import OPEN
from .schema import column
from .sessions import SESSIONS
from .transactions import TRANSACTIONS
from .violations import VIOLATIONS

CHUNKS = pa.schema(
    [
        column("capture", pa.string(), "the file or tap it came from"),
        column("connection", pa.string(), "the connection, the same in every run"),
        column("direction", pa.string(), "to_server or to_client"),
        column("offset", pa.int64(), "place of its first byte in the stream"),
        column("ts", TIMESTAMP, "when it could be read in order"),
        column("length", pa.int64(), "number of bytes"),
        column("position", pa.int64(), "place of its first byte in the (uncompressed) capture file"),
        column("client", pa.string(), "address and port of the side that connected"),
        column("server", pa.string(), "address and port of the other side"),
    ]
)
CHUNK_BYTES = column("bytes", pa.binary(), "the bytes; only with `--keep-bytes`")

ACCOUNTING = pa.schema(
    [
        column("connection", pa.string(), "the connection"),
        column("direction", pa.string(), "to_server or to_client"),
        column("bytes_in", pa.int64(), "stream bytes that came: decoded + quarantined + pending"),
        column("bytes_decoded", pa.int64(), "bytes of messages"),
        column("bytes_quarantined", pa.int64(), "bytes in `silver/quarantine`"),
        column("bytes_pending", pa.int64(), "bytes of a message that is not complete yet"),
        column("bytes_missing", pa.int64(), "bytes that were never captured"),
        column("messages", pa.int64(), "number of messages"),
        column("protocol", pa.string(), "what is spoken; null if that is not known"),
    ]
)

TABLES: dict[str, pa.Schema] = {
    "bronze/chunks": CHUNKS.append(CHUNK_BYTES),
    "silver/messages": MESSAGES,
    "silver/quarantine": QUARANTINE,
    "gold/exchanges": EXCHANGES,
    "gold/sessions": SESSIONS,
    "gold/transactions": TRANSACTIONS,
    "gold/addresses": ADDRESSES,
    "gold/violations": VIOLATIONS,
    "gold/open": OPEN,
    "accounting": ACCOUNTING,
}
"""The tables that every lake has, beside one per protocol."""
REPLACED = ("accounting", "gold/open", "gold/addresses")
"""Tables of which a commit may replace files; to all others it only adds."""
UNDATED = ("gold/open", "accounting")
DATE = pa.field("date", pa.date32())
"""The column that is in the names of directories."""


def with_date(table: str, schema: pa.Schema) -> pa.Schema:
    """The columns that a reader sees."""
    return schema if table in UNDATED or DATE.name in schema.names else schema.append(DATE)


def view_name(table: str) -> str:
    """What a table is called in SQL: ``gold/open`` is ``gold_open``."""
    return table.replace("/", "_")
