"""Where a lake lies: the few operations that it needs of a file system, and no others.

Paths are relative to the lake, with ``/`` between their parts. What is asked of a file system: a stream that is written
and then there, moving one *file* (a copy and a deletion will do), deleting, listing. No directory is ever renamed, and
nothing is created exclusively. A local file system gives more (rename is atomic, fsync), and that is used.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyarrow import fs

from ..errors import LakeError

BUCKETS = frozenset({"s3", "gcs", "abfs"})
"""Stores that have objects, but no directories: making some would only leave empty objects behind."""
REQUESTS = 16
"""How many requests are under way at once, where each is a journey over the network."""


@dataclass(frozen=True)
class Store:
    """A file system and a place in it. Small and picklable: it goes to whoever writes or reads."""

    files: fs.FileSystem
    root: str
    shown: str
    """The place as the user wrote it, for messages."""

    @classmethod
    def at(cls, place: str | os.PathLike[str], files: fs.FileSystem | None = None) -> Store:
        """From a local path, a URI that pyarrow knows (``file://``, ``s3://``, ``hdfs://``), or a path in ``files``."""
        text = os.fspath(place)
        if files is not None:
            return cls(files, text.rstrip("/"), text)
        if "://" not in text:
            return cls(fs.LocalFileSystem(), os.path.abspath(os.path.expanduser(text)), text)
        with errors(text, "cannot be opened"):
            found, root = fs.FileSystem.from_uri(text)
            return cls(found, root.rstrip("/"), text)

    @cached_property
    def is_local(self) -> bool:
        return bool(self.files.type_name == "local")

    @cached_property
    def has_objects(self) -> bool:
        """Whether this is an object store: no directories, and a file is never seen half-written."""
        return re.split(r"[:+]", self.files.type_name)[-1] in BUCKETS  # py::fsspec+s3 is one as well

    def full(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def show(self, path: str) -> str:
        return f"{self.shown.rstrip('/')}/{path}" if path else self.shown

    # --- looking

    def kind(self, path: str) -> str:
        """``file``, ``directory`` or nothing."""
        with errors(self.show(path), "cannot be read"):
            found = self.files.get_file_info(self.full(path)).type
        return {fs.FileType.File: "file", fs.FileType.Directory: "directory"}.get(found, "")

    def names(self, path: str) -> list[str]:
        """What lies directly in a directory; nothing if there is none."""
        return sorted(info.base_name for info in self._infos(path, recursive=False))

    def tree(self, path: str) -> list[str]:
        """All files below a directory, as paths in the lake."""
        start = len(self.root) + 1
        return sorted(info.path[start:] for info in self._infos(path, recursive=True) if info.is_file)

    def _infos(self, path: str, recursive: bool) -> list[fs.FileInfo]:
        wanted = fs.FileSelector(self.full(path), allow_not_found=True, recursive=recursive)
        with errors(self.show(path), "cannot be listed"):
            return list(self.files.get_file_info(wanted))

    def sizes(self, paths: Iterable[str]) -> dict[str, int]:
        """The sizes of those of these files that exist."""
        wanted = list(paths)
        if not wanted:
            return {}
        with errors(self.shown, "cannot be read"):
            infos = self.files.get_file_info([self.full(path) for path in wanted])
        return {path: info.size for path, info in zip(wanted, infos, strict=True) if info.is_file}

    # --- reading

    def open_input(self, path: str) -> pa.NativeFile:
        with errors(self.show(path), "cannot be read"):
            return self.files.open_input_file(self.full(path))

    def read(self, path: str) -> bytes:
        with errors(self.show(path), "cannot be read"), self.files.open_input_stream(self.full(path)) as stream:
            return bytes(stream.read())

    def read_all(self, paths: Iterable[str]) -> list[bytes]:
        """Many small files; several at a time where reading one is a journey."""
        if self.is_local:
            return [self._read_local(path) for path in paths]
        with ThreadPoolExecutor(REQUESTS) as pool:
            return list(pool.map(self.read, paths))

    def _read_local(self, path: str) -> bytes:
        with errors(self.show(path), "cannot be read"), open(self.full(path), "rb") as stream:
            return stream.read()

    # --- writing

    def make_directory(self, path: str) -> None:
        if not self.has_objects:
            with errors(self.show(path), "cannot be made"):
                self.files.create_dir(self.full(path), recursive=True)

    def open_output(self, path: str) -> pa.NativeFile:
        """A new file; the directories above it are made."""
        self.make_directory(path.rpartition("/")[0])
        with errors(self.show(path), "cannot be written"):
            return self.files.open_output_stream(self.full(path))

    def write(self, path: str, data: bytes) -> None:
        with errors(self.show(path), "cannot be written"), self.open_output(path) as stream:
            stream.write(data)

    def publish(self, path: str, data: bytes) -> None:
        """A file that is there whole or not at all, and stays after a loss of power where that can be asked for.

        An object store puts it whole; elsewhere it gets its name when it is complete.
        """
        if self.has_objects:
            self.write(path, data)
            return
        temporary = f"{path}.{uuid.uuid4().hex}.tmp"
        try:
            self.write(temporary, data)
            self.sync([temporary])
            self.move(temporary, path)
        except BaseException:
            with suppress(LakeError):
                self.delete(temporary)
            raise
        self.sync_directories([path])

    def move(self, source: str, target: str) -> None:
        """Moves a file; one that is already at the target is replaced."""
        with errors(self.show(target), "cannot be written"):
            if self.is_local:
                os.replace(self.full(source), self.full(target))
            else:
                self.files.move(self.full(source), self.full(target))

    def move_all(self, pairs: Iterable[tuple[str, str]]) -> None:
        moves = list(pairs)
        for directory in sorted({target.rpartition("/")[0] for _, target in moves}):
            self.make_directory(directory)
        self._each(lambda pair: self.move(*pair), moves)
        self.sync_directories(target for _, target in moves)

    def delete(self, path: str) -> None:
        """Deletes a file; it may be gone already."""
        with errors(self.show(path), "cannot be deleted"), suppress(FileNotFoundError):
            self.files.delete_file(self.full(path))

    def delete_all(self, paths: Iterable[str]) -> None:
        """Deletes those of these files that still exist."""
        there = list(self.sizes(paths))
        self._each(self.delete, there)
        self.sync_directories(there)

    def delete_tree(self, path: str) -> None:
        """Deletes a directory with all that is in it, as far as that goes: somebody may still be writing into it."""
        if self.is_local:
            shutil.rmtree(self.full(path), ignore_errors=True)
        else:
            with suppress(OSError):
                self.files.delete_dir(self.full(path))

    def _each(self, action: Any, items: list[Any]) -> None:
        if self.is_local:
            for item in items:
                action(item)
        else:
            with ThreadPoolExecutor(REQUESTS) as pool:
                list(pool.map(action, items))

    # --- surviving a loss of power; stores other than the local file system see to that themselves

    def sync(self, paths: Iterable[str]) -> None:
        if self.is_local:
            for path in paths:
                self._fsync(path)

    def sync_directories(self, paths: Iterable[str]) -> None:
        """Makes the names of these files durable, and those of the directories above them up to the lake's own."""
        if self.is_local:
            above: set[str] = set()
            for path in paths:
                while path:
                    path = path.rpartition("/")[0]
                    above.add(path)
            for directory in sorted(above, key=len, reverse=True):
                self._fsync(directory)

    def sync_root(self) -> None:
        """Makes the name of the lake itself durable."""
        if self.is_local:
            Store(self.files, os.path.dirname(self.root), self.shown)._fsync("")

    def _fsync(self, path: str) -> None:
        with errors(self.show(path), "cannot be written"):
            number = os.open(self.full(path), os.O_RDONLY)
            try:
                os.fsync(number)
            finally:
                os.close(number)


@contextmanager
def errors(path: str, what: str) -> Iterator[None]:
    """Whatever a file system raises becomes one line: the path, what failed, and why."""
    try:
        yield
    except LakeError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise LakeError(path, f"{what}: {reason(error)}") from error


def reason(error: Exception) -> str:
    """The operating system's own word if there is one, otherwise the first line of what the library says."""
    number = getattr(error, "errno", None)
    if isinstance(number, int) and number:
        return os.strerror(number)
    return (str(error) or type(error).__name__).splitlines()[0]
