"""Bytes that are written as others: what ends a text, and cannot stand in it as it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from ..errors import BadValue

Pairs = tuple[tuple[bytes, bytes], ...]
"""What is written, and what it stands for. All that is written begins with the same byte."""


def unescape(escapes: Pairs, raw: bytes) -> bytes:
    """Return what the bytes stand for. The offset of an error counts from their first."""
    begin = escapes[0][0][:1]
    if begin not in raw:
        return raw
    pattern, known = _written(escapes)

    def meant(found: re.Match[bytes]) -> bytes:
        if found[0] == begin:
            given = raw[found.start() : found.start() + len(escapes[0][0])]
            raise BadValue(f"{given!r} stands for nothing", rule="escape", offset=found.start())
        return known[found[0]]

    return pattern.sub(meant, raw)


def escape(escapes: Pairs, raw: bytes) -> bytes:
    """Return the bytes as they are written."""
    pattern, written = _meant(escapes)
    return pattern.sub(lambda found: written[found[0]], raw)


@lru_cache(maxsize=256)
def _written(escapes: Pairs) -> tuple[re.Pattern[bytes], Mapping[bytes, bytes]]:
    return _any_of([written for written, _ in escapes] + [escapes[0][0][:1]]), dict(escapes)


@lru_cache(maxsize=256)
def _meant(escapes: Pairs) -> tuple[re.Pattern[bytes], Mapping[bytes, bytes]]:
    return _any_of([meant for _, meant in escapes]), {meant: written for written, meant in reversed(escapes)}


def _any_of(words: list[bytes]) -> re.Pattern[bytes]:
    return re.compile(b"|".join(map(re.escape, sorted(words, key=len, reverse=True))))
