"""Conversations in a page: compressed in blocks, which the browser opens when one of theirs is asked for.

As plain JSON they would be ten times as large, and a page would hold a tenth of them.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

AMONG_OTHERS = 0.8
"""What of its size alone a conversation has in a block; seen: 0.6 to 0.75."""
BLOCK_BYTES = 1_000_000
"""JSON of a block: what a browser opens at once, without a pause that one would notice."""
SUMMARY = ("id", "kind", "title", "protocol", "why")
SEARCHED = ("address", "message", "rule", "connection", "correlation")
MOST_WORDS = 24
LONGEST_WORD = 80


def packed(report: Mapping[str, Any]) -> dict[str, Any]:
    """A report as pages have it: of each conversation what a list shows, and all of them in blocks."""
    if "blocks" in report:
        return dict(report)
    conversations = report["conversations"]
    listed = [_listed(one) for one in conversations.values()]
    return {**report, "conversations": listed, "blocks": list(_blocks(conversations))}


def _listed(one: Mapping[str, Any]) -> dict[str, Any]:
    """What a list shows, and the words by which a search finds it; those of what is marked come first."""
    events = sorted(one["events"], key=lambda event: not event["mark"])
    found = [text for line in one["lifelines"] for text in (line["name"], line["label"])]
    found += [event[name] for name in SEARCHED for event in events]
    words = list(dict.fromkeys(str(word)[:LONGEST_WORD] for word in found if word))[:MOST_WORDS]
    return {name: one[name] for name in SUMMARY} | {"words": words}


def _blocks(conversations: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    ids: list[str] = []
    texts: list[str] = []
    size = 0
    for name, one in conversations.items():
        text = _json(one)
        if ids and size + len(text) > BLOCK_BYTES:
            yield _block(ids, texts)
            ids, texts, size = [], [], 0
        ids.append(name)
        texts.append(text)
        size += len(text)
    if ids:
        yield _block(ids, texts)


def _block(ids: list[str], texts: list[str]) -> dict[str, Any]:
    return {"ids": ids, "gzip": base64.b64encode(_compressed(f"[{','.join(texts)}]")).decode()}


def size_in_page(report: Mapping[str, Any]) -> int:
    """Bytes of a report in its page."""
    return json_size(packed(report))


def json_size(value: Any) -> int:
    """Bytes of a value as JSON in a page, where < > and & are written as six characters."""
    text = _json(value)
    return len(text.encode("utf-8", "surrogatepass")) + 5 * sum(text.count(sign) for sign in "<>&")


def packed_size(conversation: Mapping[str, Any]) -> int:
    """Bytes of a conversation in a page, most likely less: alone it is compressed worse than among others."""
    alone = len(_compressed(_json(conversation))) * 4 / 3
    return round(AMONG_OTHERS * alone) + json_size(_listed(conversation)) + len(conversation["id"]) + 60


def _compressed(text: str) -> bytes:
    data = text.encode("utf-8", "backslashreplace")  # halves of characters, as JSON writes them: \\udc80
    made = zlib.compressobj(6, wbits=31)
    return made.compress(data) + made.flush()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
