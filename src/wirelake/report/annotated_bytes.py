"""The bytes of messages and of what is none, field by field.

A lake keeps the fields of messages, not their bytes. They are made again from the fields, with each way in which the
protocol is read from captures until the length is that of the row and reading them gives the same message; if none
does, there are none to show, unless the lake has the captured bytes (``--keep-bytes``). What only the server should
read is shown in no way, also where its message is damaged. A protocol whose declaration is not at hand has the fields
of its row, and no bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import duckdb
import pyarrow as pa

from ..capture.protocol_reader import ProtocolReader
from ..capture.redact import REDACTED
from ..capture.settings import ReadSettings
from ..codec.annotate import Annotated, annotate, describe_value
from ..codec.encoder import encode_frame
from ..columnar.messages import message_of
from ..errors import DecodeError, Incomplete, WireError
from ..gold.tables import view_name
from ..lake.allowed import is_protocol
from ..protocols import known as known_protocols
from ..protocols import load
from ..spec.resolve import Layout
from .conversation_ids import Spot
from .page_values import cut, short_fields
from .secrets import has_secrets, secret_at
from .views import quoted, rows
from .windows import give

MOST_HEX = 1024
MOST_PARTS = 100
MOST_FRAME = 1 << 20
"""Longer frames are not made again."""
MOST_RANGE = 1 << 16
"""Of a longer bad range so many bytes are looked at."""
AT_ONCE = 32 << 20
"""Bytes of frames that are read at once."""
HIDDEN = "; what follows may be a password and is not shown"
ENVELOPE = frozenset(
    ("capture", "connection", "direction", "offset", "length", "ts", "message", "code", "notes", "raw_text", "date")
)

_SPOTS = pa.schema([("connection", pa.string()), ("direction", pa.string()), ("offset", pa.int64())])
Event = dict[str, Any]


def fill(tables: duckdb.DuckDBPyConnection, has: Iterable[str], events: Iterable[Event]) -> None:
    """Gives events their fields and bytes. ``has``: the tables of the lake that have rows."""
    known = frozenset(has)
    messages: dict[str, list[Event]] = defaultdict(list)
    ranges: list[Event] = []
    for event in events:
        if event["mark"] == "quarantine":
            ranges.append(event)
        elif event["mark"] != "gap" and event["length"] <= MOST_FRAME and f"silver/{event['protocol']}" in known:
            messages[event["protocol"]].append(event)
    for protocol, listed in sorted(messages.items()):
        for some in _portions(listed):
            _fill_messages(tables, protocol, some, "bronze/chunks" in known)
    for some in _portions(ranges):
        _fill_ranges(tables, some)


def _portions(events: Sequence[Event]) -> Iterator[list[Event]]:
    """Events whose frames together are not too large."""
    portion: list[Event] = []
    size = 0
    for event in events:
        length = min(event["length"], MOST_FRAME)
        if portion and size + length > AT_ONCE:
            yield portion
            portion, size = [], 0
        portion.append(event)
        size += length
    if portion:
        yield portion


def _by_spot(tables: duckdb.DuckDBPyConnection, events: Sequence[Event]) -> dict[Spot, list[Event]]:
    """The events by where they are; the places are made a table for queries."""
    by_spot: dict[Spot, list[Event]] = defaultdict(list)
    for event in events:
        by_spot[Spot(event["connection"], event["direction"], event["offset"])].append(event)
    give(tables, "wanted_spots", _SPOTS, [(s.connection, s.direction, s.offset) for s in sorted(by_spot)])
    return by_spot


# --- messages


def _fill_messages(tables: duckdb.DuckDBPyConnection, protocol: str, events: Sequence[Event], has_chunks: bool) -> None:
    by_spot = _by_spot(tables, events)
    view = quoted(view_name(f"silver/{protocol}"))
    found = rows(tables, f'from {view} semi join wanted_spots using (connection, direction, "offset")')
    layouts = layouts_of(protocol)
    missing: dict[Spot, Mapping[str, Any]] = {}
    for row in found:
        spot = Spot(row["connection"], row["direction"], row["offset"])
        looked = _made_again(layouts, row)
        if looked is None and REDACTED not in (row["notes"] or ()):
            missing[spot] = row
        for event in by_spot[spot]:
            event["fields"] = _fields(row, looked)
            event["bytes"] = None if looked is None else _bytes(looked[0], looked[1], "fields", spot.offset)
    if missing and has_chunks:
        _fill_kept(tables, layouts, missing, by_spot)


def _made_again(layouts: Sequence[Layout], row: Mapping[str, Any]) -> tuple[bytes, Annotated] | None:
    """The frame that a row was read from, and what lies in it."""
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
        looked = annotate(layout, frame) if len(frame) == row["length"] else None
        if looked is not None and _is(looked, row):
            return frame, looked
    return None


def _is(looked: Annotated, row: Mapping[str, Any]) -> bool:
    return looked.message is not None and looked.message.__message__["name"] == row["message"]


def _fields(row: Mapping[str, Any], looked: tuple[bytes, Annotated] | None) -> dict[str, Any]:
    if looked is not None:
        return short_fields(looked[1].message.to_json()["fields"])
    return short_fields({name: value for name, value in row.items() if name not in ENVELOPE and value is not None})


@lru_cache(maxsize=64)
def layouts_of(protocol: str) -> tuple[Layout, ...]:
    """Return the layouts in which captures of a protocol are read, the strict ones first; none if it is unknown here.

    The name comes from a lake: one that is a path to a declaration would run that file.
    """
    if not is_protocol(protocol):
        return ()
    try:
        load(protocol)
    except (ValueError, WireError):
        return ()
    found: dict[Layout, None] = {}
    for websocket in (False, True):
        try:
            readings = ProtocolReader(ReadSettings(protocols=(protocol,)), protocol, websocket).readings
        except ValueError:
            continue
        strict = (readings.strict,) if readings.strict is not None else ()
        found |= dict.fromkeys((*strict, *readings.choices, readings.fallback))
    return tuple(found)


def _fill_kept(
    tables: duckdb.DuckDBPyConnection,
    layouts: Sequence[Layout],
    missing: Mapping[Spot, Mapping[str, Any]],
    by_spot: Mapping[Spot, list[Event]],
) -> None:
    """Bytes as captured, where the lake has them."""
    for spot, row in missing.items():
        frame = kept_bytes(tables, spot, row["length"])
        if frame is None:
            continue
        looked = next((found for layout in layouts if _is(found := annotate(layout, frame), row)), None)
        if looked is None and layouts:
            continue  # not the bytes of this message: those of WebSocket lie elsewhere in their stream
        for event in by_spot[spot]:
            event["bytes"] = _bytes(frame, looked, "kept", spot.offset)


def kept_bytes(tables: duckdb.DuckDBPyConnection, spot: Spot, length: int) -> bytes | None:
    """A range of a stream, put together from its chunks; None if not all of it is there."""
    found = tables.execute(
        """
select "offset", bytes from bronze_chunks
where connection = ? and direction = ? and "offset" < ? and "offset" + length > ? and bytes is not null
order by "offset" """,
        [spot.connection, spot.direction, spot.offset + length, spot.offset],
    )
    made = b""
    for offset, data in found.fetchall():
        at = spot.offset + len(made)
        if offset > at:
            return None
        made += data[at - offset : spot.offset + length - offset]
    return made if len(made) == length else None


# --- what is no message


def _fill_ranges(tables: duckdb.DuckDBPyConnection, events: Sequence[Event]) -> None:
    by_spot = _by_spot(tables, events)
    found = rows(
        tables,
        f"""
select connection, direction, "offset", length, rule, path, detail, protocol, bytes[1:{MOST_RANGE}] as bytes
from silver_quarantine semi join wanted_spots using (connection, direction, "offset")
where bytes is not null""",
    )
    for row in found:
        spot = Spot(row["connection"], row["direction"], row["offset"])
        made = _range(row, spot.offset)
        for event in by_spot[spot]:
            event["bytes"] = made


def _range(row: Mapping[str, Any], base: int) -> dict[str, Any]:
    """A bad range, read as far as it goes, with the recorded fault at the byte where it is."""
    data: bytes = row["bytes"]
    looked = _as_recorded(layouts_of(row["protocol"]) if row["protocol"] else (), data, row)
    end = _secret(row)
    made = _bytes(data[:end], looked, "quarantine", base)
    at = _fault(looked, row)
    detail = cut(row["detail"] or "", 400)
    if end is not None:
        made["parts"] = [part for part in made["parts"] if part["offset"] + part["length"] <= end]
        detail += HIDDEN
    return made | {
        "total": row["length"],
        "error": {"offset": at, "path": row["path"] or "", "rule": row["rule"], "detail": detail},
    }


def _secret(row: Mapping[str, Any]) -> int | None:
    """Where in a range something may be that only the server should read; None if nothing is."""
    if row["direction"] != "to_server":
        return None
    names = (row["protocol"],) if row["protocol"] else tuple(one.name for one in known_protocols())
    layouts = [layout for name in names for layout in layouts_of(name) if has_secrets(layout)]
    return secret_at(layouts, row["bytes"], (looked for layout in layouts for looked in _looks(layout, row["bytes"])))


def _fault(looked: Annotated | None, row: Mapping[str, Any]) -> int:
    """The byte that is to blame, counted in the range: where bytes are missing, that of the length that wants them."""
    if looked is None:
        return 0
    error = looked.error
    if error is not None and _same(error, row) and not error.incomplete:
        return min(error.offset or 0, max(len(row["bytes"]) - 1, 0))
    return next((seen.offset for seen in looked.seen if row["path"] and seen.path == row["path"]), 0)


def _as_recorded(layouts: Sequence[Layout], data: bytes, row: Mapping[str, Any]) -> Annotated | None:
    """The range as read in the way that finds the recorded fault; if none does, in the way that sees most."""
    best = None
    for layout in layouts:
        for looked in _looks(layout, data):
            if looked.error is not None and _same(looked.error, row):
                return looked
            if best is None or len(looked.seen) > len(best.seen):
                best = looked
    return best


def _looks(layout: Layout, data: bytes) -> Iterator[Annotated]:
    """The range as it is, and as if its frame were whole: its end may have been taken for the next message."""
    looked = annotate(layout, data)
    yield looked
    error = looked.error
    if isinstance(error, Incomplete) and len(data) < error.needed <= MOST_RANGE:
        whole = annotate(layout, data.ljust(error.needed, b"\0"))
        yield replace(whole, seen=[seen for seen in whole.seen if seen.offset + seen.length <= len(data)])


def _same(error: DecodeError, row: Mapping[str, Any]) -> bool:
    return error.rule == row["rule"] and (error.path or "") == (row["path"] or "")


# --- both


def _bytes(data: bytes, looked: Annotated | None, source: str, base: int) -> dict[str, Any]:
    return {
        "from": source,
        "base": base,
        "total": len(data),
        "hex": data[:MOST_HEX].hex(),
        "parts": _parts(looked) if looked is not None else [],
        "error": None,
    }


def _parts(looked: Annotated) -> list[dict[str, Any]]:
    """The fields within the bytes that are shown."""
    return [
        {
            "offset": seen.offset,
            "length": seen.length,
            "path": cut(seen.path, 120),
            "what": seen.what,
            "value": cut(describe_value(seen.value, seen.labels), 120),
        }
        for seen in looked.seen
        if seen.offset < MOST_HEX
    ][:MOST_PARTS]
