"""The bytes of messages and quarantined ranges, annotated field by field.

A lake keeps the fields of messages, not their bytes. The report re-encodes the fields with each layout that captures of
the protocol are read with, until the frame has the length of the row and decodes to the same message. If none fits, the
captured bytes are shown where the lake has them (``--keep-bytes``). Secrets for the server are never shown, not even
those of a quarantined login. A protocol without a declaration here has the fields of its row, and no bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import duckdb

from ..capture.protocol_reader import ProtocolReader
from ..capture.redact import REDACTED
from ..capture.settings import ReadSettings
from ..codec.annotate import Annotated, annotate, describe_value
from ..codec.encoder import encode_frame
from ..columnar.messages import message_of
from ..errors import DecodeError, Incomplete, SpecError, WireError
from ..gold.tables import view_name
from ..lake.validation import is_protocol
from ..protocols import known, load
from ..spec.resolve import Layout
from .conversation_ids import Spot
from .database import quoted, register_spots, rows
from .page_values import cut, short_fields
from .secrets import has_secrets, secret_at

MAX_HEX_BYTES = 1024
MAX_PARTS = 100
MAX_FRAME_BYTES = 1 << 20
"""Longer frames are not re-encoded."""
MAX_RANGE_BYTES = 1 << 16
"""Longer quarantined ranges are cut."""
BATCH_BYTES = 32 << 20
"""Bytes of frames that are read at once."""
HIDDEN = "; what follows may be a password and is not shown"
ENVELOPE = frozenset(
    ("capture", "connection", "direction", "offset", "length", "ts", "message", "code", "notes", "raw_text", "date")
)

Event = dict[str, Any]


def add_bytes(tables: duckdb.DuckDBPyConnection, filled: Iterable[str], events: Iterable[Event]) -> None:
    """Add fields and bytes to events. ``filled``: the tables of the lake that have rows."""
    existing = frozenset(filled)
    messages: dict[str, list[Event]] = defaultdict(list)
    ranges: list[Event] = []
    for event in events:
        if event["mark"] == "quarantine":
            ranges.append(event)
        elif event["mark"] == "gap" or event["length"] > MAX_FRAME_BYTES:
            continue
        elif f"silver/{event['protocol']}" in existing:
            messages[event["protocol"]].append(event)
    for protocol, listed in sorted(messages.items()):
        for batch in _batches(listed):
            _add_to_messages(tables, protocol, batch, "bronze/chunks" in existing)
    for batch in _batches(ranges):
        _add_to_ranges(tables, batch)


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


def _by_spot(tables: duckdb.DuckDBPyConnection, events: Sequence[Event]) -> dict[Spot, list[Event]]:
    """Return events by their spots; register the spots for queries."""
    by_spot: dict[Spot, list[Event]] = defaultdict(list)
    for event in events:
        by_spot[Spot.of(event)].append(event)
    register_spots(tables, by_spot)
    return by_spot


# --- messages


def _add_to_messages(
    tables: duckdb.DuckDBPyConnection, protocol: str, events: Sequence[Event], has_chunks: bool
) -> None:
    by_spot = _by_spot(tables, events)
    view = quoted(view_name(f"silver/{protocol}"))
    layouts = layouts_of(protocol)
    missing: dict[Spot, Mapping[str, Any]] = {}
    for row in rows(tables, f'from {view} semi join wanted_spots using (connection, direction, "offset")'):
        spot = Spot.of(row)
        encoded = _reencode(layouts, row)
        if encoded is None and REDACTED not in (row["notes"] or ()):
            missing[spot] = row
        for event in by_spot[spot]:
            event["fields"] = _fields(row, encoded)
            event["bytes"] = None if encoded is None else _bytes(*encoded, "fields", spot.offset)
    if missing and has_chunks:
        _add_captured(tables, layouts, missing, by_spot)


def _reencode(layouts: Sequence[Layout], row: Mapping[str, Any]) -> tuple[bytes, Annotated] | None:
    """Return the frame that a row was decoded from, with its annotation."""
    if REDACTED in (row["notes"] or ()):
        return None
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


def _is_message(annotated: Annotated, row: Mapping[str, Any]) -> bool:
    return annotated.message is not None and annotated.message.__message__["name"] == row["message"]


def _fields(row: Mapping[str, Any], encoded: tuple[bytes, Annotated] | None) -> dict[str, Any]:
    if encoded is not None:
        return short_fields(encoded[1].message.to_json()["fields"])
    return short_fields({name: value for name, value in row.items() if name not in ENVELOPE and value is not None})


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
        layouts |= dict.fromkeys((*strict, *readings.choices, readings.fallback))
    return tuple(layouts)


def _add_captured(
    tables: duckdb.DuckDBPyConnection,
    layouts: Sequence[Layout],
    missing: Mapping[Spot, Mapping[str, Any]],
    by_spot: Mapping[Spot, list[Event]],
) -> None:
    """Add captured bytes, where the lake has them."""
    for spot, row in missing.items():
        frame = _captured_bytes(tables, spot, row["length"])
        if frame is None:
            continue
        readings = (annotate(layout, frame) for layout in layouts)
        annotated = next((reading for reading in readings if _is_message(reading, row)), None)
        if annotated is None and layouts:
            continue  # not the bytes of this message: those of WebSocket lie elsewhere in their stream
        for event in by_spot[spot]:
            event["bytes"] = _bytes(frame, annotated, "kept", spot.offset)


def _captured_bytes(tables: duckdb.DuckDBPyConnection, spot: Spot, length: int) -> bytes | None:
    """Return a range of a stream, joined from its chunks; None if a part is missing."""
    chunks = tables.execute(
        """
select "offset", bytes from bronze_chunks
where connection = ? and direction = ? and "offset" < ? and "offset" + length > ? and bytes is not null
order by "offset" """,
        [spot.connection, spot.direction, spot.offset + length, spot.offset],
    )
    joined = b""
    for offset, data in chunks.fetchall():
        at = spot.offset + len(joined)
        if offset > at:
            return None
        joined += data[at - offset : spot.offset + length - offset]
    return joined if len(joined) == length else None


# --- quarantined ranges


def _add_to_ranges(tables: duckdb.DuckDBPyConnection, events: Sequence[Event]) -> None:
    by_spot = _by_spot(tables, events)
    quarantined = rows(
        tables,
        f"""
select connection, direction, "offset", length, rule, path, detail, protocol, bytes[1:{MAX_RANGE_BYTES}] as bytes
from silver_quarantine semi join wanted_spots using (connection, direction, "offset")
where bytes is not null""",
    )
    for row in quarantined:
        spot = Spot.of(row)
        shown = _range(row, spot.offset)
        for event in by_spot[spot]:
            event["bytes"] = shown


def _range(row: Mapping[str, Any], base: int) -> dict[str, Any]:
    """Return a quarantined range, annotated as far as it can be decoded, with the recorded fault at its byte."""
    data: bytes = row["bytes"]
    annotated = _as_recorded(layouts_of(row["protocol"]) if row["protocol"] else (), data, row)
    end = _secret_start(row)
    shown = _bytes(data[:end], annotated, "quarantine", base)
    at = _fault_offset(annotated, row)
    detail = cut(row["detail"] or "", 400)
    if end is not None:
        shown["parts"] = [part for part in shown["parts"] if part["offset"] + part["length"] <= end]
        detail += HIDDEN
    return shown | {
        "total": row["length"],
        "error": {"offset": at, "path": row["path"] or "", "rule": row["rule"], "detail": detail},
    }


def _secret_start(row: Mapping[str, Any]) -> int | None:
    """Return where in a range a secret for the server may begin; None if there is none."""
    if row["direction"] != "to_server":
        return None
    names = (row["protocol"],) if row["protocol"] else tuple(one.name for one in known())
    layouts = [layout for name in names for layout in layouts_of(name) if has_secrets(layout)]
    return secret_at(
        layouts, row["bytes"], (annotated for layout in layouts for annotated in _annotations(layout, row["bytes"]))
    )


def _fault_offset(annotated: Annotated | None, row: Mapping[str, Any]) -> int:
    """Return the offset of the fault in the range; where bytes are missing, that of the length that declares them."""
    if annotated is None:
        return 0
    error = annotated.error
    if error is not None and _is_recorded(error, row) and not error.incomplete:
        return min(error.offset or 0, max(len(row["bytes"]) - 1, 0))
    return next((seen.offset for seen in annotated.seen if row["path"] and seen.path == row["path"]), 0)


def _as_recorded(layouts: Sequence[Layout], data: bytes, row: Mapping[str, Any]) -> Annotated | None:
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


def _is_recorded(error: DecodeError, row: Mapping[str, Any]) -> bool:
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
