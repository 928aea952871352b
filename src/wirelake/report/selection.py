"""Which conversations a page holds: all with violations or in doubt, transactions that are not decided, the slowest,
those that failed, and some others, among them what the page's tables list.

There is room for so many bytes in the page, where they lie packed, and for so many in the memory of whoever opens it.
Conversations are taken in turns, one of each kind, until it is used up; first with the bytes of what is marked, then,
as long as there is room, with those of all other messages.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import Any

import duckdb

from .annotated_bytes import fill
from .conversation_ids import Spot
from .conversations import Draft, make_conversations
from .packing import json_size, packed_size
from .queries import MOST, Query, piece

WHYS = ("violation", "in_doubt", "open", "slow", "failed", "sample")
LISTED = ("transactions", "sessions")
"""Tables of the page whose other rows it holds too, if there is room: each of them should open."""
TAKEN = 1000
"""Conversations that are made at once, before it is known whether there is room for more."""
PER_EVENT = 250
"""Bytes that fields and bytes of a message take in a page, roughly."""
LEAST_ROOM = 20_000
"""With less room it is not worth while to read tables again."""
MOST_UNPACKED = 45_000_000
"""JSON of all conversations of a page."""


class Holding:
    """The conversations of a page."""

    def __init__(self, tables: duckdb.DuckDBPyConnection, has: Iterable[str], most_bytes: int) -> None:
        self.tables = tables
        self.has = tuple(has)
        self.room = most_bytes
        self.unpacked = MOST_UNPACKED
        self.whys: dict[str, list[str]] = defaultdict(list)
        self.held: dict[str, Draft] = {}

    def take(self, questions: Mapping[str, Query]) -> None:
        """Takes what there is room for."""
        chosen = self._chosen(questions)
        for why, ids in chosen.items():
            for one in ids:
                self.whys[one].append(why)
        listed = [one for name in LISTED for one in self._ids(questions[name].sql) if one not in self.whys]
        for one in listed:
            self.whys[one] = ["sample"]
        wanted = [*_in_turns(chosen.values()), *dict.fromkeys(listed)]
        for start in range(0, len(wanted), TAKEN):
            if not self._take(wanted[start : start + TAKEN]):
                break
        self._fill_others()

    def _take(self, ids: list[str]) -> bool:
        """Takes of these what there is room for; whether there may be room for more."""
        drafts = make_conversations(self.tables, ids)
        for draft in drafts.values():
            draft.shown["why"] = self.whys[draft.id]
        fill(self.tables, self.has, [event for draft in drafts.values() for event in _marked(draft)])
        left_out = 0
        for draft in drafts.values():
            if self._has_room(packed_size(draft.shown), json_size(draft.shown)):
                self.held[draft.id] = draft
            else:
                left_out += 1
        return left_out * 4 < len(drafts)

    def _has_room(self, size: int, unpacked: int) -> bool:
        """Whether there is room for so much; then it is taken."""
        if size > self.room or unpacked > self.unpacked:
            return False
        self.room -= size
        self.unpacked -= unpacked
        return True

    def _chosen(self, questions: Mapping[str, Query]) -> dict[str, list[str]]:
        """Ids by why, the most wanted first."""
        transactions = questions["transactions"].up_to(MOST).sql
        return {
            "violation": self._ids(questions["violations"].up_to(MOST).sql),
            "in_doubt": self._ids(f"from ({transactions}) where outcome = 'in_doubt'"),
            "open": self._ids(f"from ({transactions}) where outcome = 'open'"),
            "slow": self._ids(questions["slow_exchanges"].sql),
            "failed": self._ids(questions["failures"].sql),
            "sample": self._ids(piece("_sample")),
        }

    def _ids(self, sql: str) -> list[str]:
        found = self.tables.execute(sql)
        names = [column[0] for column in found.description or ()]
        at = names.index("conversation") if "conversation" in names else 0
        return list(dict.fromkeys(row[at] for row in found.fetchall() if row[at] is not None))

    def _fill_others(self) -> None:
        """Fields and bytes of messages that are not marked, as long as there is room for all of a conversation's."""
        drafts = list(self.held.values())
        while drafts and self.room > LEAST_ROOM and self.unpacked > LEAST_ROOM:
            some = _some(drafts, self.room)
            drafts = drafts[len(some) :]
            before = {draft.id: (packed_size(draft.shown), json_size(draft.shown)) for draft in some}
            fill(self.tables, self.has, [event for draft in some for event in _others(draft)])
            for draft in some:
                size, unpacked = before[draft.id]
                if not self._has_room(packed_size(draft.shown) - size, json_size(draft.shown) - unpacked):
                    for event in _others(draft):
                        event["fields"] = event["bytes"] = None

    def conversations(self) -> dict[str, dict[str, Any]]:
        return {name: draft.shown for name, draft in self.held.items()}

    def counts(self) -> dict[str, int]:
        """How many of each kind are held; of violations, how many are marked in what is held."""
        found = {why: sum(why in self.whys[name] for name in self.held) for why in WHYS}
        marked: dict[Spot, int] = {}
        for draft in self.held.values():
            marked |= draft.broken
        return found | {"violation": sum(marked.values())}


def _marked(draft: Draft) -> Iterator[dict[str, Any]]:
    return (event for event in draft.shown["events"] if event["mark"])


def _others(draft: Draft) -> list[dict[str, Any]]:
    return [event for event in draft.shown["events"] if not event["mark"]]


def _some(drafts: list[Draft], room: int) -> list[Draft]:
    """The first of these, as many as the room is likely to be enough for; tables should not be read often."""
    kept: list[Draft] = []
    size = 0
    for draft in drafts:
        size += PER_EVENT * len(_others(draft))
        if kept and size > room:
            break
        kept.append(draft)
    return kept


def _in_turns(lists: Iterable[list[str]]) -> list[str]:
    """The first of each list, then the second of each."""
    return list(dict.fromkeys(one for turn in zip_longest(*lists) for one in turn if one is not None))
