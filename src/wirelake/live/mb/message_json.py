"""MB messages as JSON lines: ``{"topic", "payload", "version"}``.

A payload that is not JSON is ``"text"`` instead of ``"payload"``; one that is not even UTF-8 is ``"hex"``.
"""

from __future__ import annotations

import json
from typing import Any

from ..core.message_json import MessageJson, Outgoing, text_of


def _read(given: dict[str, Any]) -> Outgoing:
    kinds = [key for key in ("payload", "text", "hex") if key in given]
    if len(kinds) > 1:
        raise ValueError(f"has {' and '.join(kinds)}; give only one of them")
    match kinds:
        case ["text"]:
            payload: Any = text_of(given, "text").encode()
        case ["hex"]:
            payload = bytes.fromhex(text_of(given, "hex"))
        case ["payload"]:
            payload = json.dumps(given["payload"], ensure_ascii=False, separators=(",", ":")).encode()
        case _:
            payload = b"{}"
    more = {"version": text_of(given, "version")} if "version" in given else {}
    return Outgoing(given.get("topic", ""), payload, more)


def _show(message: Any) -> dict[str, Any]:
    try:
        text = message.payload.decode()
        shown = {"payload": json.loads(text, parse_constant=_refuse)}
    except UnicodeDecodeError:
        shown = {"hex": message.payload.hex()}
    except (ValueError, RecursionError):
        shown = {"text": text}
    return {"topic": message.topic, **shown, "version": message.version}


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


MESSAGE_JSON = MessageJson(
    _read,
    argument=lambda text: text.encode("utf-8", "surrogateescape"),
    show=_show,
    echo=lambda asked: asked.payload,
    names=("topic", "payload", "text", "hex", "version"),
    empty="{}",
    publish_keys=("version",),
)
