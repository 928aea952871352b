"""The state of a lake for those who run it: tables, sensors, what is open, and what waits for a sweep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from .inputs import Input
from .lake import Lake
from .publications import publications

OPEN = "gold/open"


def status(lake: Lake, now: datetime | None = None) -> dict[str, Any]:
    """Return the state of a lake as JSON values. Times are ISO 8601; ``lag_seconds`` counts from now."""
    now = now or datetime.now(UTC)
    lake = lake.snapshot()
    summary, state = lake.summary(), lake.refresh()
    tables = {
        name: {
            "files": table.files,
            "rows": table.rows,
            "bytes": table.bytes,
            "first": _iso(table.min_ts),
            "last": _iso(table.max_ts),
        }
        for name, table in summary.tables.items()
    }
    published = publications(lake.store)
    return {
        "lake": lake.path,
        "commit": summary.commits,
        "committed_at": summary.last_at,
        "checkpoint": state.checkpoint,
        "swept_to": state.swept,
        "published": published[-1].commit if published else None,
        "settings": lake.settings,
        "files": sum(table.files for table in summary.tables.values()),
        "rows": sum(table.rows for table in summary.tables.values()),
        "bytes": sum(table.bytes for table in summary.tables.values()),
        "captures": summary.inputs,
        "tables": tables,
        "sensors": _sensors(lake, now),
        "open": _open(lake),
        "expired_before": lake.labels().get("expired_before"),
        "facts": summary.facts,
    }


def _sensors(lake: Lake, now: datetime) -> dict[str, dict[str, Any]]:
    newest: dict[str, Input] = {}
    count: Counter[str] = Counter()
    for one in lake.inputs().values():
        count[one.sensor] += 1
        known = newest.get(one.sensor)
        if known is None or (one.first_us or 0, one.name, one.position) >= (
            known.first_us or 0,
            known.name,
            known.position,
        ):
            newest[one.sensor] = one
    found = lake.labels().get("watermark_us")
    watermarks: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
    shown = {}
    for name in sorted({*newest, *watermarks}):
        until, capture = watermarks.get(name), newest.get(name)
        lag = None if until is None else round(now.timestamp() - until / 1e6, 1)
        shown[name] = {
            "captures": count[name],
            "capture": capture.path if capture else None,
            "position": capture.position if capture else None,
            "until": _iso(until),
            "lag_seconds": lag,
        }
    return shown


def _open(lake: Lake) -> dict[str, int]:
    """Return how many things of each kind are not decided yet."""
    if not lake.files(OPEN):
        return {}
    dataset = lake.dataset(OPEN)
    if "kind" not in dataset.schema.names:
        return {"rows": dataset.count_rows()}
    kinds = dataset.to_table(columns=["kind"]).column("kind").to_pylist()
    return dict(sorted(Counter(kinds).items()))


def _iso(time_us: int | None) -> str | None:
    if time_us is None:
        return None
    try:
        return datetime.fromtimestamp(time_us / 1e6, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return None
