"""Messages as JSON lines, for the verbs that talk to servers. What ``subscribe`` prints, ``publish`` takes.

The shape of each protocol is in its own ``message_json.py``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Outgoing:
    """A message to send: its topic (empty if the line has none), its payload, and what else the line says."""

    topic: str
    payload: Any
    more: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class MessageJson:
    read: Callable[[dict[str, Any]], Outgoing]
    """Turn a JSON object into a message to send. ValueError says what is wrong with it."""
    argument: Callable[[str], Any]
    """Turn a payload on the command line into what the client takes."""
    show: Callable[[Any], dict[str, Any]]
    """Turn a message, a request or a reply into a JSON object."""
    echo: Callable[[Any], Any]
    """Return the payload of a request, to send it back."""
    names: tuple[str, ...]
    """What a line may have. Another name is refused: it is a slip, and would be sent as nothing."""
    ignored: tuple[str, ...] = ()
    """What is shown beside that, and does no harm in a line to send."""
    empty: str | None = None
    """The payload of a request that was given none; None if a request must have one."""
    publish_keys: tuple[str, ...] = ()
    """What else of a line a publish takes; a request takes everything."""


def parse_line(shape: MessageJson, line: str) -> Outgoing:
    try:
        given = json.loads(line)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(given, dict):
        raise ValueError("not a JSON object")
    unknown = [name for name in given if name not in shape.names + shape.ignored]
    if unknown:
        known = ", ".join(f'"{name}"' for name in shape.names)
        raise ValueError(f'"{unknown[0]}" is no name of a line; it may have {known}')
    if "topic" in given:
        text_of(given, "topic")
    return shape.read(given)


def text_of(given: dict[str, Any], key: str) -> str:
    if not isinstance(given[key], str):
        raise ValueError(f'"{key}" must be text')
    return str(given[key])
