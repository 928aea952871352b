"""Delete what nobody can ask for any more: removed files whose grace period is over, and records that a checkpoint
covers.

A file that a commit removed stays readable for snapshots, and for published tables that still name it, until the grace
period has passed. So a snapshot that is younger than that never misses a file.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from .checkpoints import checkpoint_path
from .commit_records import Record, record_path
from .history import Listing, read_records, time_of
from .layout import hidden
from .publications import swept_until
from .state import State
from .store import Store

EVERY = 64
"""Commits from one sweep to the next within a run; each run begins with one."""
GRACE_SECONDS = 600
AT_ONCE = 256


def sweep(store: Store, state: State, grace: timedelta, now: datetime | None = None) -> int:
    """Sweep; return the number of files that were deleted. The state knows how far, and the next record says it."""
    cutoff = (now or datetime.now(UTC)) - grace
    listing = Listing.of(store)
    last = swept_until(store, cutoff, state.number)
    deleted = _sweep_files(store, state, [n for n in listing.records if state.swept < n <= last], cutoff)
    _drop_history(store, listing, state.swept, cutoff)
    return deleted


def _sweep_files(store: Store, state: State, numbers: list[int], cutoff: datetime) -> int:
    deleted = 0
    for at in range(0, len(numbers), AT_ONCE):
        records = read_records(store, numbers[at : at + AT_ONCE])
        due = [record for record in records if time_of(record) <= cutoff]
        gone = [hidden(path) for record in due for path in record.removed]
        deleted += len(store.delete_all(gone))
        state.swept = max((record.number for record in due), default=state.swept)
        if len(due) < len(records):
            break
    return deleted


def _drop_history(store: Store, listing: Listing, swept: int, cutoff: datetime) -> None:
    """Delete records and checkpoints before the one from which every commit since the cutoff can be read.

    A reader may have listed the newest checkpoint while the next was made, so the last two always stay.
    """
    old = [number for number in listing.checkpoints[:-1] if number <= swept]
    first = next((number for number in reversed(old) if _time(store, number) <= cutoff), 0)
    for number in listing.records:
        if number < first:
            store.delete(record_path(number))
    for number in listing.checkpoints:
        if number < first:
            store.delete(checkpoint_path(number))


def _time(store: Store, number: int) -> datetime:
    record: Record = read_records(store, [number])[0]
    return time_of(record)
