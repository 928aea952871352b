"""An object store on a disk: keys and objects, nothing else.

It has no directories, cannot rename, and creates nothing exclusively; an object is there when its writer closes it. A
move is a copy and a deletion, with a moment between them. It survives the process, so that processes can be killed.
"""

from __future__ import annotations

import io
import os
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa
from pyarrow import fs


class FlatStore(fs.FileSystemHandler):
    """Every object is one file in one directory, named by its quoted key."""

    def __init__(self, place: str) -> None:
        self.place = place
        Path(place).mkdir(parents=True, exist_ok=True)

    def __reduce__(self) -> tuple[Any, ...]:
        return FlatStore, (self.place,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FlatStore) and other.place == self.place

    __hash__ = None  # type: ignore[assignment]

    def get_type_name(self) -> str:
        return "s3"

    def normalize_path(self, path: str) -> str:
        return path.strip("/")

    # --- objects

    def _file(self, key: str) -> Path:
        return Path(self.place, quote(key.strip("/"), safe=""))

    def _keys(self) -> list[str]:
        return sorted(unquote(name) for name in os.listdir(self.place) if not name.endswith(".part"))

    def _put(self, key: str, data: bytes) -> None:
        part = Path(self.place, f"{uuid.uuid4().hex}.part")
        part.write_bytes(data)
        os.replace(part, self._file(key))

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(io.BytesIO(self._file(path).read_bytes()), mode="r")

    open_input_file = open_input_stream

    def open_output_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        return pa.PythonFile(_Upload(self, path), mode="w")

    def delete_file(self, path: str) -> None:
        self._file(path).unlink()

    def copy_file(self, src: str, dest: str) -> None:
        self._put(dest, self._file(src).read_bytes())

    def move(self, src: str, dest: str) -> None:
        self.copy_file(src, dest)
        self.delete_file(src)

    # --- what only looks like directories

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        return [self._info(path) for path in paths]

    def _info(self, path: str) -> fs.FileInfo:
        file = self._file(path)
        if file.exists():
            return fs.FileInfo(path, fs.FileType.File, size=file.stat().st_size)
        is_prefix = any(key.startswith(path.strip("/") + "/") for key in self._keys())
        return fs.FileInfo(path, fs.FileType.Directory if is_prefix else fs.FileType.NotFound)

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        base = selector.base_dir.strip("/") + "/"
        below = [key for key in self._keys() if key.startswith(base)]
        if selector.recursive:
            return [self._info(key) for key in below]
        return [self._info(base + name) for name in sorted({key[len(base) :].split("/")[0] for key in below})]

    def delete_dir(self, path: str) -> None:
        for key in self._keys():
            if key.startswith(path.strip("/") + "/"):
                self.delete_file(key)

    delete_dir_contents = delete_dir

    def create_dir(self, path: str, recursive: bool) -> None:
        raise OSError("an object store has no directories")

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError

    def open_append_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        raise NotImplementedError


class _Upload(io.BytesIO):
    def __init__(self, store: FlatStore, key: str) -> None:
        super().__init__()
        self._store, self._key = store, key

    def close(self) -> None:
        if not self.closed:
            self._store._put(self._key, self.getvalue())
        super().close()


def flat(place: Path) -> fs.PyFileSystem:
    return fs.PyFileSystem(FlatStore(str(place)))
