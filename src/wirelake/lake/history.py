"""Commit records and checkpoints in their order: which there are, what they add up to, and until when.

``_commits`` has the records from the checkpoint before the oldest one that somebody may still ask for; what is older is
in that checkpoint and is deleted (``sweep.py``).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime

from ..errors import LakeError
from .checkpoints import read_checkpoint
from .commit_records import COMMITS, MAX_RECORD_BYTES, NOT_OURS, Record, record_path
from .state import State
from .store import Store

_RECORD_NAME = re.compile(r"([0-9]{8,12})\.json")
_CHECKPOINT_NAME = re.compile(r"([0-9]{8,12})\.checkpoint")
_TEMPORARY_NAME = re.compile(r"[0-9]{8,12}\.(?:json|checkpoint)\.[0-9a-f]{32}\.tmp")


@dataclass(frozen=True)
class Listing:
    """The names in ``_commits``."""

    records: list[int]
    checkpoints: list[int]
    temporary: list[str]

    @classmethod
    def of(cls, store: Store) -> Listing:
        names = store.names(COMMITS)
        records, checkpoints = (
            sorted(int(match[1]) for match in map(pattern.fullmatch, names) if match)
            for pattern in (_RECORD_NAME, _CHECKPOINT_NAME)
        )
        return cls(records, checkpoints, [f"{COMMITS}/{name}" for name in names if _TEMPORARY_NAME.fullmatch(name)])

    def oldest(self) -> int:
        """Return the oldest commit whose state is known; 0 if the lake's beginning is."""
        return min(self.checkpoints) if self.checkpoints and 1 not in self.records else min(1, len(self.records))


def read_new(store: Store, state: State) -> State:
    """Return the state with all records. It is the same object if it only grows."""
    if not state.number:
        return read_state(store, Listing.of(store))
    while store.kind(path := record_path(state.number + 1)):
        state.add(_checked(store, state.number + 1, store.read(path, MAX_RECORD_BYTES)))
    if store.kind(record_path(state.number)):
        return state
    return read_state(store, Listing.of(store))  # it rested so long that even the record it knew is gone


def read_state(store: Store, listing: Listing, until: int | None = None) -> State:
    """Return the state of a commit, by default the last one: the checkpoint before it and the records behind that."""
    last = max((*listing.records, *listing.checkpoints, 0)) if until is None else until
    begin = max((number for number in listing.checkpoints if number <= last), default=0)
    state = read_checkpoint(store, begin) if begin else State()
    numbers = [number for number in listing.records if max(begin, 1) <= number <= last]
    for expected, number in enumerate([*numbers, last + 1], max(begin, 1)):
        if number != expected:
            raise LakeError(store.show(record_path(expected)), "is missing, but later commits exist; restore it")
    for number, record in zip(numbers, read_records(store, numbers), strict=True):
        if number == begin:
            state.last = record
        else:
            state.add(record)
    state.checkpoint = max((*listing.checkpoints, 0))
    return state


def read_records(store: Store, numbers: list[int]) -> list[Record]:
    data = store.read_all([record_path(number) for number in numbers], MAX_RECORD_BYTES)
    return [_checked(store, number, one) for number, one in zip(numbers, data, strict=True)]


def _checked(store: Store, number: int, data: bytes) -> Record:
    path = store.show(record_path(number))
    record = Record.from_bytes(data, path)
    if record.number != number:
        raise LakeError(path, f"is the record of commit {record.number}; {NOT_OURS}")
    return record


def drop_temporary(store: Store) -> None:
    """Delete records and checkpoints that were not completed."""
    for path in Listing.of(store).temporary:
        store.delete(path)


# --- going back


def parse_when(text: str) -> int | datetime:
    """Return the commit or the time that a text names: a number, or ISO 8601, in UTC if it does not say otherwise."""
    if text.isdecimal():
        return int(text)
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is neither the number of a commit nor a time such as 2024-05-01T12:00:00") from None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def state_at(store: Store, when: int | datetime) -> State:
    """Return the state after a commit, or at a time; raise LakeError if it is not known, or not any more."""
    listing = Listing.of(store)
    if not listing.records:
        raise LakeError(store.shown, "has no commit yet")
    oldest, newest = listing.oldest(), listing.records[-1]
    if isinstance(when, datetime):
        return read_state(store, listing, _number_at(store, [n for n in listing.records if n >= oldest], when))
    if not oldest <= when <= newest:
        raise LakeError(store.shown, f"cannot be read as of commit {when}: it has commits {oldest} to {newest}")
    return read_state(store, listing, when)


def _number_at(store: Store, numbers: list[int], when: datetime) -> int:
    def made(number: int) -> datetime:
        return time_of(read_records(store, [number])[0])

    found = bisect_right(numbers, when, key=made)
    if not found:
        first = made(numbers[0]).isoformat(timespec="seconds")
        reason = f"it reaches back to commit {numbers[0]}, made at {first}"
        raise LakeError(store.shown, f"cannot be read as of {when.isoformat(timespec='seconds')}: {reason}")
    return numbers[found - 1]


def time_of(record: Record) -> datetime:
    try:
        made = datetime.fromisoformat(record.at)
    except ValueError:
        return datetime.fromtimestamp(0, UTC)
    return made if made.tzinfo else made.replace(tzinfo=UTC)
