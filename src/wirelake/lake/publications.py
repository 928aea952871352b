"""Which commits were published to tables of another format, and when: ``_tables/_published.json``.

A published table names the files of its commit until the next publication, however late that comes. So a sweep waits
for it, and then for the grace period of those who still read the old one.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from ..errors import LakeError
from .store import Store
from .validation import SNAPSHOTS, Count, Text

PUBLISHED = f"{SNAPSHOTS}/_published.json"
MOST = 1000
_MAX_BYTES = 1 << 20


class Publication(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    commit: Count
    at: Text
    """When it was complete, ISO 8601."""


def publications(store: Store) -> list[Publication]:
    """Return the publications that matter to a sweep, oldest first; none if nothing is published."""
    if store.kind(PUBLISHED) != "file":
        return []
    try:
        return msgspec.json.decode(store.read(PUBLISHED, _MAX_BYTES), type=list[Publication])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = f"does not say what was published ({str(error).splitlines()[0]}); publish again after deleting it"
        raise LakeError(store.show(PUBLISHED), reason) from error


def note_publication(store: Store, commit: int, cutoff: datetime) -> None:
    """Remember that a commit is published now; forget those that no sweep needs: all but one before the cutoff."""
    made = [*publications(store), Publication(commit, datetime.now(UTC).isoformat(timespec="milliseconds"))]
    over = [one for one in made if _time(one) <= cutoff][-1:]
    kept = [*over, *(one for one in made if _time(one) > cutoff)]
    store.publish(PUBLISHED, msgspec.json.encode(kept[:1] + kept[1:][-MOST:]))


def swept_until(store: Store, cutoff: datetime, newest: int) -> int:
    """Return the last commit whose removed files no publication names that somebody may still read."""
    made = publications(store)
    over = [one.commit for one in made if _time(one) <= cutoff]
    return newest if not made else max(over, default=0)


def _time(publication: Publication) -> datetime:
    try:
        made = datetime.fromisoformat(publication.at)
    except ValueError:
        return datetime.fromtimestamp(0, UTC)
    return made if made.tzinfo else made.replace(tzinfo=UTC)
