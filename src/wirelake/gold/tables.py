"""Every table of a lake: its columns, and whether its rows lie under dates. One table per protocol comes beside them.

Whoever reads a lake by name (views for SQL, the report, the documents) takes them from here.
"""

from __future__ import annotations

import pyarrow as pa

from ..capture.quarantine import QUARANTINE
from ..columnar.schema import TIMESTAMP, documented, table_schema
from ..spec.nodes import Protocol
from .addresses import ADDRESSES
from .exchanges import EXCHANGES
from .facts import MESSAGES
from .open import OPEN
from .sessions import SESSIONS
from .transactions import TRANSACTIONS
from .violations import VIOLATIONS

CHUNKS = documented(
    ("capture", pa.string(), "the file or tap it came from"),
    ("connection", pa.string(), "the connection, the same in every run"),
    ("direction", pa.string(), "to_server or to_client"),
    ("offset", pa.int64(), "place of its first byte in the stream"),
    ("ts", TIMESTAMP, "when it could be read in order"),
    ("length", pa.int64(), "number of bytes"),
    ("position", pa.int64(), "place of its first byte in the (uncompressed) capture file"),
    ("client", pa.string(), "address and port of the side that connected"),
    ("server", pa.string(), "address and port of the other side"),
)
CHUNK_BYTES = documented(("bytes", pa.binary(), "the bytes; only with `--keep-bytes`")).field(0)

ACCOUNTING = documented(
    ("connection", pa.string(), "the connection"),
    ("direction", pa.string(), "to_server or to_client"),
    ("bytes_in", pa.int64(), "stream bytes that came: decoded + quarantined + pending"),
    ("bytes_decoded", pa.int64(), "bytes of messages"),
    ("bytes_quarantined", pa.int64(), "bytes in `silver/quarantine`"),
    ("bytes_pending", pa.int64(), "bytes that wait: for the rest of a message, or behind bytes that have not come yet"),
    ("bytes_missing", pa.int64(), "bytes that were never captured"),
    ("messages", pa.int64(), "number of messages"),
    ("protocol", pa.string(), "what is spoken; null if that is not known"),
)

SENSOR = documented(("sensor", pa.string(), "the place where it was captured; part of the key of every table"))


def with_sensor(schema: pa.Schema) -> pa.Schema:
    """The columns of a table as a lake has them."""
    return schema.insert(0, SENSOR.field(0))


def protocol_table(protocol: Protocol) -> pa.Schema:
    """The table of a protocol as a lake has it."""
    return with_sensor(table_schema(protocol))


_TABLES = {
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
TABLES: dict[str, pa.Schema] = {name: with_sensor(schema) for name, schema in _TABLES.items()}
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
