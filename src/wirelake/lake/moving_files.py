"""A file system that follows files of a lake which a commit moves: from ``_staging`` to the directory of their table,
and from there to ``_tables``.

Readers get it where files have one name only (``layout.py``), so that a snapshot finds its files when it opens them,
not when it was taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import fs

from .layout import hidden
from .store import Store

T = TypeVar("T")


class MovingFiles(fs.FileSystemHandler):  # type: ignore[misc]
    """Opens a file where it lies now: ``staged`` says where files of the last commit may still lie."""

    def __init__(self, store: Store, staged: Mapping[str, str]) -> None:
        self._store = store
        self._staged = dict(staged)
        self._moved = {place: path for path, place in staged.items()}

    def _find(self, place: str, action: Callable[[str], T]) -> T:
        """Look at all places of a file, in the order in which it moves, and once more: it may just be moving."""
        given = place.removeprefix(f"{self._store.root}/")
        path = self._moved.get(given, given)
        staged = [self._staged[path]] if path in self._staged else []
        for other in (given, *staged, path, hidden(path), path, hidden(path)):
            try:
                return action(self._store.full(other))
            except FileNotFoundError:
                continue
        raise FileNotFoundError(2, "No such file or directory", place)

    def open_input_file(self, path: str) -> pa.NativeFile:
        return self._find(path, self._store.files.open_input_file)

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return self._find(path, self._store.files.open_input_stream)

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        return [self._find(path, self._info) for path in paths]

    def _info(self, place: str) -> fs.FileInfo:
        info = self._store.files.get_file_info(place)
        if info.type == fs.FileType.NotFound:
            raise FileNotFoundError(place)
        return info

    def get_type_name(self) -> str:
        return "lake"

    def normalize_path(self, path: str) -> str:
        return path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MovingFiles) and other._store == self._store

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def _refuse(self, *arguments: Any) -> Any:
        raise OSError("a snapshot is for reading")

    get_file_info_selector = create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _refuse
    delete_file = move = copy_file = open_output_stream = open_append_stream = _refuse
