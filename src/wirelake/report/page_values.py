"""Values shortened for a page."""

from __future__ import annotations

import json
import math
from typing import Any

MAX_CELL = 300
MAX_FACTS = 2000


def cut(text: str, length: int = MAX_CELL) -> str:
    """Cut the middle out of a long text: both ends of long names tell them apart."""
    if len(text) <= length:
        return text
    tail = length // 4
    return f"{text[: length - tail - 1]}…{text[-tail:]}"


def cell(value: Any) -> Any:
    """Return a value of a query as a value of JSON."""
    if isinstance(value, str):
        return _facts(value) if value.startswith("{") else cut(value)
    return value


def _facts(text: str) -> str:
    """Shorten a JSON object so that it stays one."""
    if len(text) <= MAX_FACTS:
        return text
    try:
        facts = json.loads(text)
    except ValueError:
        return cut(text)
    short = {cut(str(key), 60): cut(str(value), 120) for key, value in list(facts.items())[:16]}
    return json.dumps(short, ensure_ascii=False)


MAX_TEXT = 120
MAX_ITEMS = 12
MAX_DEPTH = 5


def short_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a message as values of JSON, without long texts, long lists and deep nesting."""
    return {cut(str(name), 80): _short(value, MAX_DEPTH) for name, value in list(fields.items())[:60]}


def _short(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return _number(value)
    if isinstance(value, bytes):
        size = f" ({len(value)} bytes)" if len(value) > MAX_TEXT // 2 else ""
        return cut(value[: 2 * MAX_TEXT].hex(), MAX_TEXT) + size
    if isinstance(value, str):
        return cut(value, MAX_TEXT)
    if depth and isinstance(value, dict):
        kept = {cut(str(key), 80): _short(inner, depth - 1) for key, inner in list(value.items())[:MAX_ITEMS]}
        return kept | ({"…": f"{len(value) - MAX_ITEMS} more"} if len(value) > MAX_ITEMS else {})
    if depth and isinstance(value, list | tuple):
        kept_items = [_short(inner, depth - 1) for inner in value[:MAX_ITEMS]]
        return kept_items + ([f"… {len(value) - MAX_ITEMS} more"] if len(value) > MAX_ITEMS else [])
    return cut(str(value), MAX_TEXT)


def _number(value: Any) -> Any:
    """Return a number that JSON and JavaScript can represent; others as text."""
    is_exact = abs(value) <= 1 << 53 if isinstance(value, int) else value is None or math.isfinite(value)
    return value if is_exact else str(value)
