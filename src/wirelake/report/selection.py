"""The selection of conversations for a page: those with violations or in doubt, undecided transactions, the slowest,
failed ones, and a sample, among them what the tables of the page list.

Two limits decide: the packed bytes in the page, and the unpacked bytes in the memory of the browser. Conversations are
chosen round-robin, one of each kind, until a limit is reached; first with the bytes of marked messages, then, while
there is room, with those of all other messages.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import Any

from .annotated_bytes import add_bytes
from .conversation_ids import Spot
from .conversations import Draft, read_conversations
from .database import Tables
from .packing import json_size, packed_size
from .queries import MAX_CANDIDATES, Query, sample

REASONS = ("violation", "in_doubt", "open", "slow", "failed", "sample")
LISTED = ("transactions", "sessions")
"""Tables of the page whose other rows should open too, if there is room."""
BATCH = 1000
"""Conversations that are read at once, before it is known whether there is room for more."""
BYTES_PER_EVENT = 250
"""Rough size of the fields and bytes of a message in a page."""
MIN_ROOM = 20_000
"""With less room, reading the tables again does not pay."""
MAX_UNPACKED_BYTES = 45_000_000
"""JSON of all conversations of a page."""


class Selection:
    """The conversations of a page. ``filled``: the tables of the lake that have rows."""

    def __init__(self, tables: Tables, filled: Iterable[str], max_bytes: int, has_sensors: bool) -> None:
        self.tables = tables
        self.filled = tuple(filled)
        self.has_sensors = has_sensors
        self.room = max_bytes
        self.unpacked_room = MAX_UNPACKED_BYTES
        self.reasons: dict[str, list[str]] = defaultdict(list)
        self.drafts: dict[str, Draft] = {}

    def choose(self, queries: Mapping[str, Query]) -> None:
        """Choose conversations until there is no room for more."""
        candidates = self._candidates(queries)
        for why, ids in candidates.items():
            for id_ in ids:
                self.reasons[id_].append(why)
        wanted = _round_robin(candidates.values())
        for id_ in (id_ for name in LISTED for id_ in self._ids(queries[name].sql)):
            if id_ not in self.reasons:
                self.reasons[id_] = ["sample"]
                wanted.append(id_)
        for start in range(0, len(wanted), BATCH):
            if not self._add(wanted[start : start + BATCH]):
                break
        self._add_bytes_of_others()

    def _add(self, ids: list[str]) -> bool:
        """Add those conversations that fit; tell whether there may be room for more."""
        drafts = read_conversations(self.tables, ids)
        for draft in drafts.values():
            draft.shown["why"] = self.reasons[draft.id]
        add_bytes(self.tables, self.filled, [event for draft in drafts.values() for event in _marked(draft)])
        too_large = 0
        for draft in drafts.values():
            if self._reserve(packed_size(draft.shown), json_size(draft.shown)):
                self.drafts[draft.id] = draft
            else:
                too_large += 1
        return too_large * 4 < len(drafts)

    def _reserve(self, size: int, unpacked: int) -> bool:
        """Take so much room if there is."""
        if size > self.room or unpacked > self.unpacked_room:
            return False
        self.room -= size
        self.unpacked_room -= unpacked
        return True

    def _candidates(self, queries: Mapping[str, Query]) -> dict[str, list[str]]:
        """Return ids by reason, the most wanted first."""
        transactions = queries["transactions"].up_to(MAX_CANDIDATES).sql
        return {
            "violation": self._ids(queries["violations"].up_to(MAX_CANDIDATES).sql),
            "in_doubt": self._ids(f"from ({transactions}) where outcome = 'in_doubt'"),
            "open": self._ids(f"from ({transactions}) where outcome = 'open'"),
            "slow": self._ids(queries["slow_exchanges"].sql),
            "failed": self._ids(queries["failures"].sql),
            "sample": self._ids(sample(self.has_sensors)),
        }

    def _ids(self, sql: str) -> list[str]:
        result = self.tables.execute(sql)
        names = [column[0] for column in result.description or ()]
        at = names.index("conversation") if "conversation" in names else 0
        return list(dict.fromkeys(row[at] for row in result.fetchall() if row[at] is not None))

    def _add_bytes_of_others(self) -> None:
        """Add fields and bytes of unmarked messages, as long as there is room for all of a conversation."""
        drafts = list(self.drafts.values())
        while drafts and self.room > MIN_ROOM and self.unpacked_room > MIN_ROOM:
            some = _likely_to_fit(drafts, self.room)
            drafts = drafts[len(some) :]
            before = {draft.id: (packed_size(draft.shown), json_size(draft.shown)) for draft in some}
            add_bytes(self.tables, self.filled, [event for draft in some for event in _others(draft)])
            for draft in some:
                size, unpacked = before[draft.id]
                if not self._reserve(packed_size(draft.shown) - size, json_size(draft.shown) - unpacked):
                    for event in _others(draft):
                        event["fields"] = event["bytes"] = None

    def conversations(self) -> dict[str, dict[str, Any]]:
        return {name: draft.shown for name, draft in self.drafts.items()}

    def counts(self) -> dict[str, int]:
        """Return the number of chosen conversations by reason; of violations, the number that they show."""
        counts = {why: sum(why in self.reasons[name] for name in self.drafts) for why in REASONS}
        marked: dict[Spot, int] = {}
        for draft in self.drafts.values():
            marked |= draft.broken
        return counts | {"violation": sum(marked.values())}


def _marked(draft: Draft) -> Iterator[dict[str, Any]]:
    return (event for event in draft.shown["events"] if event["mark"])


def _others(draft: Draft) -> list[dict[str, Any]]:
    return [event for event in draft.shown["events"] if not event["mark"]]


def _likely_to_fit(drafts: list[Draft], room: int) -> list[Draft]:
    """Return the first drafts, as many as probably fit: reading the tables is expensive."""
    kept: list[Draft] = []
    size = 0
    for draft in drafts:
        size += BYTES_PER_EVENT * len(_others(draft))
        if kept and size > room:
            break
        kept.append(draft)
    return kept


def _round_robin(lists: Iterable[list[str]]) -> list[str]:
    """Return the first of each list, then the second of each, and so on."""
    return list(dict.fromkeys(id_ for ids in zip_longest(*lists) for id_ in ids if id_ is not None))
