"""The bytes of messages and quarantined ranges, annotated field by field.

A lake keeps the fields of messages, not their bytes. The report re-encodes the fields with each layout that captures of
the protocol are read with, until the frame has the length of the row and decodes to the same message. If none fits, the
captured bytes are shown where the lake has them (``--keep-bytes``). A protocol without a declaration here has the
fields of its row, and no bytes.

Secrets for the server are never shown. Tables leave them out of messages, but a quarantined login still has its
password in it: the head of a secret cell tells where it begins. In a message that has such cells, but no such head,
everything after its type may be the secret.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ..capture.protocol_reader import ProtocolReader
from ..capture.redact import REDACTED
from ..capture.settings import ReadSettings
from ..codec.annotate import Annotated, annotate, describe_value
from ..codec.encoder import encode_frame
from ..columnar.row_to_message import message_of
from ..errors import DecodeError, Incomplete, SpecError, WireError
from ..gold.tables import view_name
from ..lake.validation import is_protocol
from ..protocols import known, load
from ..spec.columns import ENVELOPE
from ..spec.nodes import Cells
from ..spec.resolve import Layout
from .conversation_ids import Spot
from .database import SPOT, Row, Tables, quoted, register, rows
from .page_values import cut, short_fields

MAX_HEX_BYTES = 1024
MAX_PARTS = 100
MAX_FRAME_BYTES = 1 << 20
"""Longer frames are not re-encoded."""
MAX_RANGE_BYTES = 1 << 16
"""Longer quarantined ranges are cut."""
BATCH_BYTES = 32 << 20
"""Bytes of frames that are read at once."""
HIDDEN = "; what follows may be a password and is not shown"
NO_FIELDS = frozenset({"sensor", "date", *(name for name, _, _ in ENVELOPE)})

Event = dict[str, Any]


def add_bytes(tables: Tables, filled: Iterable[str], events: Iterable[Event]) -> None:
    """Add fields and bytes to events. ``filled``: the tables of the lake that have rows."""
    existing = frozenset(filled)
    by_table: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        if event["mark"] == "quarantine":
            by_table["silver/quarantine"].append(event)
        elif event["mark"] != "gap" and event["length"] <= MAX_FRAME_BYTES:
            by_table[f"silver/{event['protocol']}"].append(event)
    for table in sorted(existing & by_table.keys()):
        for batch in _batches(by_table[table]):
            if table == "silver/quarantine":
                _add_to_ranges(tables, batch)
            else:
                _add_to_messages(tables, table, batch, "bronze/chunks" in existing)


def _batches(events: Sequence[Event]) -> Iterator[list[Event]]:
    """Yield events whose frames together are not too large."""
    batch: list[Event] = []
    size = 0
    for event in events:
        length = min(event["length"], MAX_FRAME_BYTES)
        if batch and size + length > BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(event)
        size += length
    if batch:
        yield batch


def _by_spot(tables: Tables, events: Sequence[Event]) -> dict[Spot, list[Event]]:
    """Return events by their spots; register the spots for queries."""
    by_spot: dict[Spot, list[Event]] = defaultdict(list)
    for event in events:
        by_spot[Spot.of(event)].append(event)
    register(tables, "wanted_spots", SPOT, by_spot)
    return by_spot


# --- messages


def _add_to_messages(tables: Tables, table: str, events: Sequence[Event], has_chunks: bool) -> None:
    by_spot = _by_spot(tables, events)
    layouts = layouts_of(table.removeprefix("silver/"))
    view = quoted(view_name(table))
    for row in rows(tables, f'from {view} semi join wanted_spots using (sensor, connection, direction, "offset")'):
        spot = Spot.of(row)
        is_redacted = REDACTED in (row["notes"] or ())
        encoded = None if is_redacted else _reencode(layouts, row)
        shown = None if encoded is None else _bytes(*encoded, "fields", spot.offset)
        if encoded is None and has_chunks and not is_redacted:
            shown = _captured(tables, layouts, spot, row)
        for event in by_spot[spot]:
            event["fields"], event["bytes"] = _fields(row, encoded), shown


def _reencode(layouts: Sequence[Layout], row: Row) -> tuple[bytes, Annotated] | None:
    """Return the frame that a row was decoded from, with its annotation."""
    for layout in layouts:
        if any(row.get(name) not in (None, shown) for name, shown in layout.shown.items()):
            continue
        try:
            message = message_of(layout, row)
            padding = layout.of(message).padding
            frame = encode_frame(layout, message, padded=padding is not None and padding.note in (row["notes"] or ()))
        except (WireError, TypeError, ValueError, AttributeError, KeyError):
            continue
        annotated = annotate(layout, frame) if len(frame) == row["length"] else None
        if annotated is not None and _is_message(annotated, row):
            return frame, annotated
    return None


def _is_message(annotated: Annotated, row: Row) -> bool:
    return annotated.message is not None and annotated.message.__message__["name"] == row["message"]


def _fields(row: Row, encoded: tuple[bytes, Annotated] | None) -> dict[str, Any]:
    if encoded is not None:
        return short_fields(encoded[1].message.to_json()["fields"])
    return short_fields({name: value for name, value in row.items() if name not in NO_FIELDS and value is not None})


def layouts_of(protocol: str) -> tuple[Layout, ...]:
    """Return the layouts in which captures of a protocol are read, the strict ones first; none if it is unknown here.

    The name comes from a lake: loading one that is the path of a declaration would run that file.
    """
    return _layouts(protocol, len(known())) if is_protocol(protocol) else ()


@lru_cache(maxsize=64)
def _layouts(protocol: str, protocols_known: int) -> tuple[Layout, ...]:
    """Remember layouts, and unknown names until another declaration is loaded."""
    try:
        load(protocol)
    except (ValueError, SpecError):
        return ()
    layouts: dict[Layout, None] = {}
    for websocket in (False, True):
        try:
            readings = ProtocolReader(ReadSettings(protocols=(protocol,)), protocol, websocket).readings
        except ValueError:
            continue
        strict = (readings.strict,) if readings.strict is not None else ()
        layouts |= dict.fromkeys((*strict, *readings.known, readings.fallback))
    return tuple(layouts)


def _captured(tables: Tables, layouts: Sequence[Layout], spot: Spot, row: Row) -> dict[str, Any] | None:
    """Return the captured bytes, where the lake has them."""
    frame = _captured_bytes(tables, spot, row["length"])
    if frame is None:
        return None
    readings = (annotate(layout, frame) for layout in layouts)
    annotated = next((reading for reading in readings if _is_message(reading, row)), None)
    if annotated is None and layouts:
        return None  # not the bytes of this message: those of WebSocket lie elsewhere in their stream
    return _bytes(frame, annotated, "kept", spot.offset)


def _captured_bytes(tables: Tables, spot: Spot, length: int) -> bytes | None:
    """Return a range of a stream, joined from its chunks; None if a part is missing."""
    chunks = tables.execute(
        """
select "offset", bytes from bronze_chunks
where sensor = ? and connection = ? and direction = ? and "offset" < ? and "offset" + length > ? and bytes is not null
order by "offset" """,
        [spot.sensor, spot.connection, spot.direction, spot.offset + length, spot.offset],
    )
    joined = b""
    for offset, data in chunks.fetchall():
        at = spot.offset + len(joined)
        if offset > at:
            return None
        joined += data[at - offset : spot.offset + length - offset]
    return joined if len(joined) == length else None


# --- quarantined ranges


def _add_to_ranges(tables: Tables, events: Sequence[Event]) -> None:
    by_spot = _by_spot(tables, events)
    quarantined = rows(
        tables,
        f"""
select sensor, connection, direction, "offset", length, rule, path, detail, protocol,
       bytes[1:{MAX_RANGE_BYTES}] as bytes
from silver_quarantine semi join wanted_spots using (sensor, connection, direction, "offset")
where bytes is not null""",
    )
    for row in quarantined:
        shown = _range(row)
        for event in by_spot[Spot.of(row)]:
            event["bytes"] = shown


def _range(row: Row) -> dict[str, Any]:
    """Return a quarantined range, annotated as far as it can be decoded, with the recorded fault at its byte."""
    data: bytes = row["bytes"]
    annotated = _as_recorded(layouts_of(row["protocol"]) if row["protocol"] else (), data, row)
    end = _secret_start(row)
    shown = _bytes(data[:end], annotated, "quarantine", row["offset"])
    detail = cut(row["detail"] or "", 400)
    if end is not None:
        shown["parts"] = [part for part in shown["parts"] if part["offset"] + part["length"] <= end]
        detail += HIDDEN
    fault = {"offset": _fault_offset(annotated, row), "path": row["path"] or "", "rule": row["rule"], "detail": detail}
    return shown | {"total": row["length"], "error": fault}


def _secret_start(row: Row) -> int | None:
    """Return where in a range a secret for the server may begin; None if there is none."""
    if row["direction"] != "to_server":
        return None
    data: bytes = row["bytes"]
    names = (row["protocol"],) if row["protocol"] else tuple(protocol.name for protocol in known())
    secrets = {layout: _secrets(layout) for name in names for layout in layouts_of(name)}
    starts = [start for _, heads in secrets.values() for head in heads if (start := data.find(head)) >= 0]
    if not starts:
        starts = [
            seen.offset + seen.length
            for layout, (messages, _) in secrets.items()
            if messages
            for annotated in _annotations(layout, data)
            for seen in annotated.seen
            if seen.what in messages
        ]
    return min(starts, default=None)


@lru_cache(maxsize=64)
def _secrets(layout: Layout) -> tuple[frozenset[str], frozenset[bytes]]:
    """Return the names of the messages that have secret cells, and the heads that such cells can have."""
    guarded = [node for node in layout.messages.values() if node.secret_cells]
    heads = {
        (cell << wire.id_shift | low).to_bytes(wire.head.size, "little" if wire.head.little else "big")
        for node in guarded
        for wire in (field.wire for field in node.fields)
        if isinstance(wire, Cells)
        for cell in node.secret_cells
        for low in range(1 << wire.id_shift)
    }
    return frozenset(node.name for node in guarded), frozenset(heads)


def _fault_offset(annotated: Annotated | None, row: Row) -> int:
    """Return the offset of the fault in the range; where bytes are missing, that of the length that declares them."""
    if annotated is None:
        return 0
    error = annotated.error
    if error is not None and _is_recorded(error, row) and not error.incomplete:
        return min(error.offset or 0, max(len(row["bytes"]) - 1, 0))
    return next((seen.offset for seen in annotated.seen if row["path"] and seen.path == row["path"]), 0)


def _as_recorded(layouts: Sequence[Layout], data: bytes, row: Row) -> Annotated | None:
    """Return the annotation with the recorded fault; if there is none, the one with most fields."""
    best = None
    for layout in layouts:
        for annotated in _annotations(layout, data):
            if annotated.error is not None and _is_recorded(annotated.error, row):
                return annotated
            if best is None or len(annotated.seen) > len(best.seen):
                best = annotated
    return best


def _annotations(layout: Layout, data: bytes) -> Iterator[Annotated]:
    """Annotate a range as it is, and as if its frame were whole: its end may have been taken for the next message."""
    annotated = annotate(layout, data)
    yield annotated
    error = annotated.error
    if isinstance(error, Incomplete) and len(data) < error.needed <= MAX_RANGE_BYTES:
        whole = annotate(layout, data.ljust(error.needed, b"\0"))
        yield replace(whole, seen=[seen for seen in whole.seen if seen.offset + seen.length <= len(data)])


def _is_recorded(error: DecodeError, row: Row) -> bool:
    return error.rule == row["rule"] and (error.path or "") == (row["path"] or "")


# --- both


def _bytes(data: bytes, annotated: Annotated | None, source: str, base: int) -> dict[str, Any]:
    return {
        "from": source,
        "base": base,
        "total": len(data),
        "hex": data[:MAX_HEX_BYTES].hex(),
        "parts": _parts(annotated) if annotated is not None else [],
        "error": None,
    }


def _parts(annotated: Annotated) -> list[dict[str, Any]]:
    """Return the fields within the shown bytes."""
    return [
        {
            "offset": seen.offset,
            "length": seen.length,
            "path": cut(seen.path, 120),
            "what": seen.what,
            "value": cut(describe_value(seen.value, seen.labels), 120),
        }
        for seen in annotated.seen
        if seen.offset < MAX_HEX_BYTES
    ][:MAX_PARTS]
