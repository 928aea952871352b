"""Where the files of a commit lie, before and after it.

On a file system with hard links a file has two names. The one in ``_tables`` comes before the commit record and stays
until a sweep takes it: snapshots read it, so none of them ever misses a file, whatever is committed meanwhile. The one
in the directory of its table comes right after the record and goes when a commit removes the file: engines that list
directories read it, so a listing is exact outside the milliseconds of a commit.

Elsewhere a file has one name: in ``_staging`` until it is committed, then in the directory of its table, and in
``_tables`` when it is removed.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import LakeError
from .commit_records import Record
from .staging import StagedFile
from .store import Store
from .validation import SNAPSHOTS, STAGING, is_table_path


def hidden(path: str) -> str:
    """Return where snapshots find a file of a table."""
    return f"{SNAPSHOTS}/{path}"


def prepare(store: Store, files: Iterable[StagedFile]) -> None:
    """Give files the names that a commit record will say; before it, nobody looks for them there."""
    if store.links:
        store.link_all([(file.staged, hidden(file.path)) for file in files])


def undo(store: Store, number: int) -> None:
    """Take back what ``prepare`` did for a commit that was not made: its files are still staged."""
    if not store.links:
        return
    runs = [name for name in store.names(STAGING) if name.startswith(f"{number:08d}-")]
    staged = (path.split("/", 3)[-1] for run in runs for path in store.tree(f"{STAGING}/{run}"))
    store.delete_all([hidden(path) for path in staged if is_table_path(path)])


def finish(store: Store, record: Record) -> None:
    """Bring the directories in line with the last record; skip what is done already."""
    _require(store, record)
    moves = record.moves() if not store.links else _carry_moves(record)
    staged = store.sizes(source for source, _ in moves)
    store.move_all((source, target) for source, target in moves if source in staged)
    if store.links:
        store.link_all([(hidden(file.path), file.path) for file in record.files])
    hide(store, record.removed)
    store.delete_all(record.superseded)


def hide(store: Store, paths: Iterable[str]) -> None:
    """Take files out of the directories of their tables; snapshots still find them."""
    listed = list(store.sizes(paths))
    if store.links:
        store.link_all([(path, hidden(path)) for path in listed])
        store.delete_all(listed)
    else:
        store.move_all([(path, hidden(path)) for path in listed])


def places(store: Store, paths: list[str], last: Record | None) -> list[str]:
    """Return where the committed files of a table lie now."""
    if store.links:
        return [hidden(path) for path in paths]
    wanted = set(paths)
    staged = {file.path: file.staged for file in (last.files if last is not None else ()) if file.path in wanted}
    unmoved = store.sizes(staged.values())
    return [staged[path] if staged.get(path) in unmoved else path for path in paths]


def places_of_past(store: Store, paths: list[str]) -> list[str]:
    """Return where files of an earlier commit lie now; raise LakeError about one that is swept."""
    found = [*map(hidden, paths), *(() if store.links else paths)]
    there = store.sizes(found)
    lost = [path for path in paths if hidden(path) not in there and path not in there]
    if lost:
        others = len(lost) - 1
        more = f", and so {'was 1 more file' if others == 1 else f'were {others:,} more files'} of its table"
        more = more if others else ""
        raise LakeError(store.show(lost[0]), f"was removed by a later commit and swept{more}; read a later commit")
    return [path if path in there else hidden(path) for path in paths]


def _require(store: Store, record: Record) -> None:
    """Refuse to go on if a file of the last commit is nowhere."""
    if store.links:
        places = {hidden(file.path): file.path for file in record.files}
        lost = set(places) - set(store.sizes(places))
        moves = _carry_moves(record)
    else:
        places, lost, moves = {}, set(), record.moves()
    staged = store.sizes(source for source, _ in moves)
    moved = [target for source, target in moves if source not in staged]
    lost |= set(moved) - set(store.sizes(moved))
    if lost:
        path = min(places.get(path, path) for path in lost)
        raise LakeError(store.show(path), f"is missing, though commit {record.number} has it; restore it from a backup")


def _carry_moves(record: Record) -> list[tuple[str, str]]:
    return [(file.staged, file.path) for file in record.carry.values() if file is not None]
