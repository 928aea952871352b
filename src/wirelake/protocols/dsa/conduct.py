"""The conduct of dsa: streams that are repeated and closed, messages in pages."""

from __future__ import annotations

from ...spec.conduct import Conduct, Matching, Pieces

SUBSCRIBE, LIST = 0x01, 0x03
INVOKED, SET = 0x83, 0x84

CONDUCT = Conduct(
    matching=Matching(repeatable=frozenset({SUBSCRIBE, LIST}), closed_by_replier=frozenset({INVOKED, SET})),
    pieces=Pieces("page_order", "page", per_stream=True),
)
