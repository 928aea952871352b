"""Conversations in a page: compressed in blocks, which the browser unpacks when it needs one of their conversations.

As plain JSON they would be ten times as large, and a page would have a tenth of them.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator, Mapping
from typing import Any

SHARED_RATIO = 0.8
"""Size of a conversation in a block relative to its size alone; observed: 0.6 to 0.75."""
BLOCK_BYTES = 1_000_000
"""JSON of a block: a browser unpacks it without a noticeable pause."""
SUMMARY = ("id", "kind", "title", "protocol", "why")
SEARCHED = ("address", "message", "rule", "connection", "correlation")
MAX_WORDS = 24
MAX_WORD_LENGTH = 80


def packed(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report as pages have it: a summary of each conversation, and all of them in blocks."""
    if "blocks" in report:
        return dict(report)
    conversations = report["conversations"]
    listed = [_summary(conversation) for conversation in conversations.values()]
    return {**report, "conversations": listed, "blocks": list(_blocks(conversations))}


def _summary(conversation: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a list shows, and the words that a search matches; those of marked events come first."""
    events = sorted(conversation["events"], key=lambda event: not event["mark"])
    texts = [text for line in conversation["lifelines"] for text in (line["name"], line["label"])]
    texts += [event[name] for name in SEARCHED for event in events]
    words = list(dict.fromkeys(str(text)[:MAX_WORD_LENGTH] for text in texts if text))[:MAX_WORDS]
    return {name: conversation[name] for name in SUMMARY} | {"words": words}


def _blocks(conversations: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    block: dict[str, str] = {}
    size = 0
    for name, conversation in conversations.items():
        text = _json(conversation)
        if block and size + len(text) > BLOCK_BYTES:
            yield _block(block)
            block, size = {}, 0
        block[name] = text
        size += len(text)
    if block:
        yield _block(block)


def _block(texts: Mapping[str, str]) -> dict[str, Any]:
    compressed = _compressed(f"[{','.join(texts.values())}]")
    return {"ids": list(texts), "gzip": base64.b64encode(compressed).decode()}


def json_size(value: Any) -> int:
    """Return the bytes of a value as JSON in a page, where < > and & take six characters."""
    text = _json(value)
    return len(text.encode("utf-8", "surrogatepass")) + 5 * sum(text.count(sign) for sign in "<>&")


def packed_size(conversation: Mapping[str, Any]) -> int:
    """Estimate the bytes of a conversation in a page from its size alone, where it compresses worse."""
    alone = len(_compressed(_json(conversation))) * 4 / 3
    return round(SHARED_RATIO * alone) + json_size(_summary(conversation)) + len(conversation["id"]) + 60


def _compressed(text: str) -> bytes:
    data = text.encode("utf-8", "backslashreplace")  # halves of characters, as JSON writes them: \\udc80
    return gzip.compress(data, 6, mtime=0)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
