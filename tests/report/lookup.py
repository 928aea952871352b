"""Conversations of a lake, looked up by what they are about."""

from __future__ import annotations

from typing import Any

from wirelake.lake import Lake
from wirelake.report import find_conversation
from wirelake.report.conversation_ids import Spot


def spot(row: dict[str, Any]) -> Spot:
    return Spot.of(row)


def found(lake: Lake, name: str) -> dict[str, Any]:
    conversation = find_conversation(lake, name)
    assert conversation is not None, name
    return conversation


def exchange_of(lake: Lake, row: dict[str, Any]) -> dict[str, Any]:
    """The conversation of a row of gold/exchanges."""
    letter = "s" if row["direction"] == "to_server" else "c"
    return found(lake, f"x:{row['connection']}:{letter}:{row['request_offset']}")
