"""The place of a lake: the few operations that it needs of a file system, and no others.

Paths are relative to the lake, with ``/`` between their parts. Every operation turns them into paths of the file system
with ``full``, which refuses whatever could lead out of the lake: ``..``, odd characters, and on a local file system
links and devices. The lake itself may lie behind a link.

A file system must be able to write a stream, move one *file* (a copy and a deletion will do), delete and list. No
directory is ever renamed; what is created exclusively goes through ``fence.py``. On a local file system, renames are
atomic and files are synced to the disk.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import pyarrow as pa
from pyarrow import fs

from ..errors import LakeError
from .places import plain_place
from .validation import is_path, shown

A = TypeVar("A")
B = TypeVar("B")

OBJECT_STORES = frozenset({"s3", "gcs", "abfs"})
"""Stores without directories: making some would only leave empty objects behind."""
MAX_REQUESTS = 16
"""Requests in flight at once, where each one crosses the network."""


@dataclass(frozen=True)
class Store:
    """A file system and a place in it. Small and picklable: it travels to workers."""

    files: fs.FileSystem
    root: str
    shown: str
    """The place as the user wrote it, for error messages."""
    durable: bool = True
    """Whether anything is synced to the disk."""
    links: bool = False
    """Whether files of this lake have a second name, see ``layout.py``."""

    @classmethod
    def at(cls, place: str | os.PathLike[str], files: fs.FileSystem | None = None) -> Store:
        """Return the store at a local path, a URI that pyarrow knows (``s3://``), or a path in ``files``."""
        text = os.fspath(place)
        if files is not None:
            return cls(files, text.rstrip("/"), text)
        try:
            plain = plain_place(text)
        except ValueError as error:
            raise LakeError(text, f"cannot be opened: {error}") from None
        if "://" not in plain:
            return cls(fs.LocalFileSystem(), os.path.abspath(os.path.expanduser(plain)), text)
        with errors(text, "cannot be opened"):
            found, root = fs.FileSystem.from_uri(plain)
            return cls(found, root.rstrip("/"), plain)

    @cached_property
    def is_local(self) -> bool:
        return bool(self.files.type_name == "local")

    @cached_property
    def has_objects(self) -> bool:
        """Whether this is an object store: no directories, and a file is never visible half-written."""
        return re.split(r"[:+]", self.files.type_name)[-1] in OBJECT_STORES  # py::fsspec+s3 is one as well

    def full(self, path: str) -> str:
        """Return the path that the file system knows; raise LakeError for one that could lead out of the lake."""
        return self.full_paths([path])[0]

    def full_paths(self, paths: Iterable[str]) -> list[str]:
        directories: set[str] = set()  # those already checked
        return [self._full(path, directories) for path in paths]

    def _full(self, path: str, directories: set[str]) -> str:
        if not path:
            return self.root
        if not is_path(path):
            raise LakeError(self.shown, f"refused the path {shown(path)}, which is not one that wirelake writes")
        if self.is_local:
            self._refuse_links(path, directories)
        return f"{self.root}/{path}"

    def _refuse_links(self, path: str, directories: set[str]) -> None:
        for end in [*(at for at, sign in enumerate(path) if sign == "/"), len(path)]:
            above = path[:end]
            if above in directories:
                continue
            try:
                mode = os.lstat(f"{self.root}/{above}").st_mode
            except OSError:  # nothing there: the operation itself says so
                return
            if stat.S_ISDIR(mode):
                directories.add(above)
            elif not stat.S_ISREG(mode):
                raise LakeError(self.show(above), "is a link or a device, and no part of a lake; remove it")

    def show(self, path: str) -> str:
        """Return a path for error messages."""
        return f"{self.shown.rstrip('/')}/{path}" if path else self.shown

    # --- listing

    def kind(self, path: str) -> str:
        """Return ``file``, ``directory``, or an empty text if there is nothing."""
        with errors(self.show(path), "cannot be read"):
            kind = self.files.get_file_info(self.full(path)).type
        return {fs.FileType.File: "file", fs.FileType.Directory: "directory"}.get(kind, "")

    def names(self, path: str) -> list[str]:
        """Return the names in a directory; none if it does not exist."""
        directory = self.full(path)
        with errors(self.show(path), "cannot be listed"):
            if self.is_local:
                with suppress(FileNotFoundError):
                    return sorted(os.listdir(directory))
                return []
            selector = fs.FileSelector(directory, allow_not_found=True)
            return sorted(info.base_name for info in self.files.get_file_info(selector))

    def tree(self, path: str) -> list[str]:
        """Return the paths of all files below a directory."""
        selector = fs.FileSelector(self.full(path), allow_not_found=True, recursive=True)
        with errors(self.show(path), "cannot be listed"):
            found = [info.path for info in self.files.get_file_info(selector) if info.is_file]
        return sorted(place[len(self.root) + 1 :] for place in found)

    def sizes(self, paths: Iterable[str]) -> dict[str, int]:
        """Return the sizes of those files that exist."""
        wanted = list(paths)
        if not wanted:
            return {}
        with errors(self.shown, "cannot be read"):
            infos = self.files.get_file_info(self.full_paths(wanted))
        return {path: info.size for path, info in zip(wanted, infos, strict=True) if info.is_file}

    # --- reading

    def open_input(self, path: str) -> pa.NativeFile:
        with errors(self.show(path), "cannot be read"):
            return self.files.open_input_file(self.full(path))

    def read(self, path: str, max_bytes: int) -> bytes:
        """Return the content of a file; raise LakeError if it is longer than ``max_bytes``."""
        with self.open_input(path) as stream, errors(self.show(path), "cannot be read"):
            size = stream.size()
            if size > max_bytes:
                raise LakeError(self.show(path), f"has {size:,} bytes, and {max_bytes:,} is the limit for such a file")
            return bytes(stream.read(size))

    def read_all(self, paths: list[str], max_bytes: int) -> list[bytes]:
        return self._each(lambda path: self.read(path, max_bytes), paths)

    # --- writing

    def make_directory(self, path: str) -> None:
        if not self.has_objects:
            with errors(self.show(path), "cannot be made"):
                self.files.create_dir(self.full(path), recursive=True)

    def open_output(self, path: str) -> pa.NativeFile:
        """Open a new file for writing; make the directories above it."""
        self.make_directory(path.rpartition("/")[0])
        with errors(self.show(path), "cannot be written"):
            return self.files.open_output_stream(self.full(path))

    def write(self, path: str, data: bytes) -> None:
        with errors(self.show(path), "cannot be written"), self.open_output(path) as stream:
            stream.write(data)

    def publish(self, path: str, data: bytes) -> None:
        """Write a file that appears whole or not at all, and survives a loss of power where the store can promise it.

        An object store puts it whole; elsewhere the file gets its name when it is complete.
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
        """Move a file; replace one that is already at the target."""
        with errors(self.show(target), "cannot be written"):
            if self.is_local:
                os.replace(self.full(source), self.full(target))
                return
            try:
                self.files.move(self.full(source), self.full(target))
            except FileNotFoundError:
                if not self.kind(target):  # another run finishes the same commit
                    raise

    def move_all(self, pairs: Iterable[tuple[str, str]]) -> None:
        moves = list(pairs)
        for directory in sorted({target.rpartition("/")[0] for _, target in moves}):
            self.make_directory(directory)
        self._each(lambda pair: self.move(*pair), moves)
        self.sync_directories(target for _, target in moves)

    def copy_all(self, pairs: Iterable[tuple[str, str]]) -> list[str]:
        """Copy files, in the store itself where that has a way; return the targets whose source is gone."""

        def copy(pair: tuple[str, str]) -> str:
            with errors(self.show(pair[1]), "cannot be written"):
                try:
                    self.files.copy_file(*self.full_paths(pair))
                except FileNotFoundError:
                    return pair[1]
            return ""

        return [target for target in self._each(copy, list(pairs)) if target]

    def link_all(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Give files a second name, and make it durable; replace a file of that name. Local file systems only."""
        links = list(pairs)
        for directory in sorted({target.rpartition("/")[0] for _, target in links}):
            self.make_directory(directory)
        for source, target in links:
            self.link(source, target)
        self.sync_directories(target for _, target in links)

    def link(self, source: str, target: str) -> None:
        with errors(self.show(target), "cannot be written"):
            source, target = self.full_paths([source, target])
            try:
                os.link(source, target, follow_symlinks=False)
            except FileExistsError:
                if not os.path.samefile(source, target):
                    os.unlink(target)
                    os.link(source, target, follow_symlinks=False)

    def can_link(self) -> bool:
        """Tell whether files can have a second name here."""
        if not self.is_local:
            return False
        names = [f"_lake.json.{uuid.uuid4().hex}.tmp" for _ in range(2)]
        self.write(names[0], b"")
        try:
            os.link(*self.full_paths(names))
        except OSError:
            return False
        finally:
            self.delete_all(names)
        return True

    def delete(self, path: str) -> None:
        """Delete a file; it may be gone already."""
        with errors(self.show(path), "cannot be deleted"), suppress(FileNotFoundError):
            self.files.delete_file(self.full(path))

    def delete_all(self, paths: Iterable[str]) -> list[str]:
        """Delete those files that still exist; return them."""
        existing = list(self.sizes(paths))
        self._each(self.delete, existing)
        self.sync_directories(existing)
        return existing

    def delete_tree(self, path: str) -> None:
        """Delete a directory and its content as far as possible: a task may still be writing into it.

        Links in it are removed, not followed.
        """
        directory = self.full(path)
        if self.is_local:
            shutil.rmtree(directory, ignore_errors=True)
        else:
            with suppress(OSError):
                self.files.delete_dir(directory)

    def _each(self, action: Callable[[A], B], items: list[A]) -> list[B]:
        """Do this with each item; with several at a time where each one crosses the network."""
        if self.is_local:
            return [action(item) for item in items]
        with ThreadPoolExecutor(MAX_REQUESTS) as pool:
            return list(pool.map(action, items))

    # --- surviving a loss of power; other stores than the local file system take care of that themselves

    @property
    def _is_synced(self) -> bool:
        return self.is_local and self.durable

    def sync(self, paths: Iterable[str]) -> None:
        if self._is_synced:
            for path in paths:
                self._fsync(path)

    def sync_directories(self, paths: Iterable[str]) -> None:
        """Make the names of these files durable, and those of the directories above them up to the lake."""
        if self._is_synced:
            above: set[str] = set()
            for path in paths:
                while path:
                    path = path.rpartition("/")[0]
                    above.add(path)
            for directory in sorted(above, key=len, reverse=True):
                self._fsync(directory)

    def sync_root(self) -> None:
        """Make the name of the lake itself durable."""
        if self._is_synced:
            replace(self, root=os.path.dirname(self.root))._fsync("")

    def _fsync(self, path: str) -> None:
        with errors(self.show(path), "cannot be written"):
            number = os.open(self.full(path), os.O_RDONLY)
            try:
                os.fsync(number)
            finally:
                os.close(number)


@contextmanager
def errors(path: str, what: str) -> Iterator[None]:
    """Turn whatever a file system raises into one line: the path, what failed, and why."""
    try:
        yield
    except LakeError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise LakeError(path, f"{what}: {reason(error)}") from error


def reason(error: Exception) -> str:
    """Return the operating system's own words if there are any, otherwise the first line of the library's."""
    number = getattr(error, "errno", None)
    if isinstance(number, int) and number:
        return os.strerror(number)
    return (str(error) or type(error).__name__).splitlines()[0]
