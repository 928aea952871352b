"""The same casual traffic for all tests, played once."""

from __future__ import annotations

from functools import cache
from typing import Any

from wirelake.generate import Event, Traffic, generate

MESSAGES = 9_000


@cache
def traffic(profile: str = "document") -> Traffic:
    return generate("casual", messages=MESSAGES, connections=8, seed=11, profile=profile)


@cache
def events(profile: str = "document") -> list[Event]:
    return list(traffic(profile))


def messages(kind: Any, profile: str = "document") -> list[Any]:
    return [event.message for event in events(profile) if isinstance(event.message, kind)]
