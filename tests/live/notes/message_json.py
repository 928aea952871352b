"""Notes as JSON lines."""

from __future__ import annotations

from wirelake.live.core.message_json import MessageJson, Outgoing

MESSAGE_JSON = MessageJson(
    read=lambda given: Outgoing(given.get("topic", ""), given["text"]),
    argument=lambda text: text,
    show=lambda note: {"topic": note.topic, "text": note.text},
    echo=lambda asked: asked.text,
    names=("topic", "text"),
    empty="",
)
