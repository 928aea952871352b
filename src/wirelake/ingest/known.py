"""Which captures a lake knows already, whatever they are called and however they are packed, and what is new in them.

A capture is known by the first bytes of its uncompressed content. So it may be moved, copied, compressed, unpacked and
rotated while it grows, and it is read once. Two kinds of files are known by their path alone: raw ones, which may be
equal by chance, and those that hold nothing but the head of a file, which are all equal.

A file whose size and time of change are those of its record is not opened.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import msgspec

from ..capture.read.files import CaptureFile, open_binary
from ..capture.read.listing import ListedFile, Peek, peek, place_in_order
from ..errors import CaptureError
from ..lake.inputs import HEAD_BYTES, SMALLEST_MARK, Input, head_hash, marks

T = TypeVar("T")

Change = Literal["new", "same", "grown", "changed", "shrunk"]
"""``new``: to be read from its beginning. ``same``: nothing to do. ``grown``: there is, or may be, more behind what was
read; a compressed file tells only when it is read. ``changed``: new, under the name of another capture. ``shrunk``:
it has fewer bytes than were read under this name, so it must not be read; the note says so."""


@dataclass(frozen=True)
class Seen:
    """A capture as it is now. ``hash_of`` returns the hash of its first bytes; empty if it has fewer."""

    capture: Peek
    now: Input
    hash_of: Callable[[int], str]


@dataclass(frozen=True)
class Known:
    """A capture, and what the lake knows of it."""

    capture: Peek
    now: Input
    """What to record once it is read; its position is that of ``before``."""
    before: Input | None
    """The record with which to go on: how far it was read, and under which path the carry has its resume point."""
    change: Change
    note: str = ""
    is_recorded: bool = True
    """Whether a commit should record ``now``: not if it says nothing new, or not all."""
    displaced: Input | None = None
    """What is still to be known of another capture that had this path, under a path that is no file's."""


def look(file: ListedFile, before: Input | None, kind: str | None = None) -> Seen:
    """Look at a file; ``before`` is what the lake has under its path. Raise CaptureError if it is no capture."""
    path = file.path
    if before is not None and kind in (None, before.kind) and _is_untouched(file.size, file.mtime_us, before):
        capture = Peek(path, before.kind, before.first_us, before.is_bare)
        return Seen(capture, before, lambda size: _hash_of(path, size, before))
    capture = peek(path, kind)
    content = _content(path, HEAD_BYTES)
    now = Input(
        path,
        file.size,
        file.mtime_us,
        head_hash(content),
        len(content),
        kind=capture.kind,
        first_us=capture.first_us,
        is_bare=capture.is_bare,
        marks=marks(content),
    )
    return Seen(capture, now, lambda size: _hash_of(path, size, now))


def _is_untouched(size: int, mtime_us: int | None, before: Input) -> bool:
    return bool(before.kind) and mtime_us is not None and (size, mtime_us) == (before.size, before.mtime_us)


def _content(path: str, size: int, position: int = 0) -> bytes:
    with open_binary(path) as file:
        source = CaptureFile(file, path)
        source.seek(position)
        return source.head(size)


def _hash_of(path: str, size: int, now: Input) -> str:
    if size == now.head_bytes:
        return now.head
    content = _content(path, size)
    return head_hash(content) if len(content) == size else ""


def is_still_there(one: Input) -> bool:
    """Return whether a file still begins with what it began with when it was looked at."""
    try:
        return head_hash(_content(one.path, one.head_bytes)) == one.head
    except CaptureError:
        return False


# --- the decision


def recognise(seen: Sequence[Seen], known: Mapping[str, Input]) -> list[Known]:
    """Say of each capture how it compares with what the lake knows, in the order in which they were taken.

    Of several files with one content at most one is to be read, the one with the most bytes if that can be told.
    """
    # A lake of months knows very many captures, and hardly any of them matters here.
    wanted = {_NO_KEY, *(_key(one.now) for one in seen if not _is_recorded(one, known))}
    records = defaultdict(list)
    for record in known.values():
        if (key := _key(record)) in wanted and _is_known_by_content(record):
            records[key].append(record)
    first = sorted(seen, key=lambda one: (bool(one.capture.compression), -one.now.size, one.now.path))
    decided = _one_of_each_content([(one, _compared(one, known, records)) for one in first])
    decided = _with_displaced(decided, known)
    return sorted(decided, key=lambda one: place_in_order(one.capture))


_Key = tuple[str, int | None]
_NO_KEY: _Key = ("", None)
"""That of records of an earlier wirelake."""
_TOO_SHORT = (
    "{0.path}: it became shorter than what was read of it, {0.position} bytes of its content; restore it, or give it "
    "another name if it is another capture"
)


def _key(record: Input) -> _Key:
    """What must be equal in two records of one capture; a cheap test before their hashes are compared."""
    return record.kind, record.first_us


def _is_known_by_content(record: Input) -> bool:
    return record.kind != "raw" and not record.is_bare


def _is_recorded(one: Seen, known: Mapping[str, Input]) -> bool:
    """Whether a file is as it was when it was recorded under its path."""
    here = known.get(one.now.path)
    return here is not None and _is_untouched(one.now.size, one.now.mtime_us, here)


def _compared(one: Seen, known: Mapping[str, Input], records: Mapping[_Key, list[Input]]) -> Known:
    now, here = one.now, known.get(one.now.path)
    if here is not None and _is_recorded(one, known):
        return Known(one.capture, here, here, "same", is_recorded=False)
    candidates = [here] if here is not None else []
    if _is_known_by_content(now):
        candidates += [record for key in (_key(now), _NO_KEY) for record in records.get(key, ())]
    same = [record for record in candidates if _agree(one, record)]
    if not same:
        now = msgspec.structs.replace(now, origin=_origin(now))
        return Known(one.capture, now, None, *_under_this_name(now, here))
    before = max(same, key=lambda record: record.position)
    origin = before.origin or _origin(now)
    read = {"position": before.position, "length": before.length, "behind": before.behind}
    now = msgspec.structs.replace(now, **read, origin=origin)
    if here in same and _is_shorter(one, here):
        return Known(one.capture, now, before, "shrunk", _TOO_SHORT.format(here), is_recorded=False)
    return Known(one.capture, now, before, "grown" if _may_have_more(one, before, same) else "same")


def _under_this_name(now: Input, here: Input | None) -> tuple[Change, str]:
    return ("new", "") if here is None else ("changed", f"{now.path}: another capture than before has this name")


def _agree(one: Seen, record: Input) -> bool:
    """Whether the content of a capture goes on with that of a record, or is a part of it."""
    now = one.now
    count = len(now.marks)
    if now.head_bytes >= record.head_bytes:
        if one.hash_of(record.head_bytes) == record.head:
            return True
        # What was no packet may be one now: only the bytes before it are still the same.
        count = sum(SMALLEST_MARK << n <= record.position for n in range(count)) if record.behind else 0
    return not now.is_bare and _key(now) == _key(record) and count > 0 and now.marks[:count] == record.marks[:count]


def _length(one: Seen) -> int | None:
    """The bytes of its content; None for a compressed file that has more than was looked at."""
    if not one.capture.compression:
        return one.now.size
    return one.now.head_bytes if one.now.head_bytes < HEAD_BYTES else None


def _is_shorter(one: Seen, here: Input) -> bool:
    if one.now.head_bytes < here.head_bytes:
        return True
    return not one.capture.compression and one.now.size < min(here.size, here.position)


def _may_have_more(one: Seen, before: Input, same: list[Input]) -> bool:
    length = _length(one)
    if before.behind and not one.capture.compression:
        size = len(before.behind) // 2
        return _content(one.now.path, size, before.position).hex() != before.behind
    if length is not None:
        return length > max(before.position, before.length)
    stored = one.now.size, one.now.mtime_us
    return all((record.size, record.mtime_us) != stored for record in same)


def _origin(now: Input) -> str:
    if now.is_bare:
        return ""
    identity = f"{now.head}:{now.head_bytes}"
    return f"{identity}:{now.path}" if now.kind == "raw" else identity


def _one_of_each_content(compared: list[tuple[Seen, Known]]) -> list[Known]:
    """Leave files alone whose content is read from another file."""
    chosen: dict[_Key, list[Seen]] = defaultdict(list)
    decided = []
    for one, made in compared:
        if made.change in ("new", "grown", "changed") and _is_known_by_content(one.now):
            alike = chosen[_key(one.now)]
            if (other := next((each for each in alike if _has_content_of(one, each)), None)) is not None:
                note = f"{one.now.path}: it has the content of {other.now.path}, which is read instead"
                made = replace(made, change="same", note=note, is_recorded=False)
            else:
                alike.append(one)
        decided.append(made)
    return decided


def _has_content_of(one: Seen, other: Seen) -> bool:
    size = min(one.now.head_bytes, other.now.head_bytes)
    return one.hash_of(size) == other.hash_of(size)


# --- names that other captures had


def _with_displaced(decided: list[Known], known: Mapping[str, Input]) -> list[Known]:
    """Keep what is known of captures whose names others took, unless another record says as much of them."""
    displaced = {one.now.path: here for one in decided if (here := _displaced_by(one, known)) is not None}
    if not displaced:
        return decided
    kept = [record for path, record in known.items() if path not in displaced]
    kept += [one.now for one in decided if one.is_recorded]
    read_to: dict[str, int] = {}
    for record in kept:
        read_to[record.origin] = max(record.position, read_to.get(record.origin, 0))
    aside = {path: here for path, here in displaced.items() if read_to.get(here.origin, -1) < here.position}
    return [replace(one, displaced=_aside(aside[one.now.path])) if one.now.path in aside else one for one in decided]


def _displaced_by(one: Known, known: Mapping[str, Input]) -> Input | None:
    here = known.get(one.now.path)
    is_other = one.is_recorded and here is not None and here.origin != one.now.origin
    return here if is_other and here is not None and _is_known_by_content(here) else None


def _aside(record: Input) -> Input:
    return msgspec.structs.replace(record, path=f"{record.path}#{record.head}")


def beside(found: Sequence[Known], left_at: Mapping[str, T]) -> tuple[list[Input], dict[str, T]]:
    """Return what a commit has to record beside the captures that it read, and where these were left, by path.

    ``left_at`` says where each capture was left before. These are captures that are the same under another name or
    with another time of change, and captures whose name another one took.
    """
    moved = [(one.now, one.before.path) for one in found if one.change == "same" and one.is_recorded and one.before]
    displaced = [(one.displaced, one.now.path) for one in found if one.displaced is not None]
    kept = [*moved, *displaced]
    return [record for record, _ in kept], {record.path: left_at[path] for record, path in kept if path in left_at}
