"""Find captures: paths, globs and directories become files, and a first look tells in which order they were taken.

Listing follows Spark's file formats: hidden names (``.x``, ``_x``) in directories are left out, a directory is
listed one level deep unless ``recursiveFileLookup`` says otherwise, and ``pathGlobFilter`` matches names, not paths.
Where directories named ``key=value`` are columns, they are listed too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyarrow import fs

from ...errors import OptionError
from . import kind_at
from .files import CaptureFile, open_binary

_GLOB = re.compile(r"[*?\[{]")


NO_FILE = "it is not a file, or its name is not UTF-8"


@dataclass(frozen=True)
class Listing:
    """Which files to list. Times are seconds since 1970."""

    paths: tuple[str, ...]
    what: str = "ingest"
    recursive: bool = False
    path_glob_filter: str | None = None
    modified_before: float | None = None
    modified_after: float | None = None
    ignore_missing_files: bool = False
    has_partitions: bool = False
    """Whether directories named ``key=value`` are listed, however deep they are."""


@dataclass(frozen=True, slots=True)
class ListedFile:
    path: str
    """A local path, or a URI that ``pyarrow.fs`` understands."""
    size: int
    is_file: bool = True
    """False for pipes, sockets, broken links and names that are not UTF-8: they are listed, but cannot be read."""
    mtime_us: int | None = None
    """When it was last changed; None where the store does not say."""


def find(options: Listing) -> list[ListedFile]:
    """Return the files in the order of their paths, each once."""
    check_paths(options)
    files = {file.path: file for path in options.paths for file in _listed(path, options)}
    return sorted(files.values(), key=lambda file: file.path)


def check_paths(options: Listing) -> None:
    """Refuse a path that does not exist, unless missing files are to be ignored."""
    if not options.paths:
        raise OptionError(f"{options.what} needs a path: .load(path)")
    if not options.ignore_missing_files:
        for path in options.paths:
            if not _exists(path):
                raise OptionError(f"path does not exist: {path}")


def _listed(path: str, options: Listing) -> Iterator[ListedFile]:
    store, inner, prefix = store_of(path)
    for info in _infos(store, inner, options):
        if _wanted(info, options):
            changed = None if info.mtime_ns is None else info.mtime_ns // 1000
            yield ListedFile(prefix + info.path, info.size or 0, info.type == fs.FileType.File, changed)


def store_of(path: str) -> tuple[Any, str, str]:
    """Return the file system of a path, the path in it, and the prefix that makes a full path of that."""
    scheme, colon, rest = path.partition(":")
    if not colon or len(scheme) < 2 or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme) or not rest.startswith("/"):
        return fs.LocalFileSystem(), os.path.abspath(os.path.expanduser(path)), ""
    if scheme == "file":
        return fs.LocalFileSystem(), "/" + rest.lstrip("/"), ""
    glob = _GLOB.search(path)
    plain = path[: glob.start()].rpartition("/")[0] if glob else path
    try:
        store, inner = fs.FileSystem.from_uri(plain)
    except (ValueError, OSError, ImportError) as error:
        raise OptionError(f"{path} cannot be read: {str(error).splitlines()[0]}") from None
    prefix = plain[: len(plain) - len(inner)] if plain.endswith(inner) else f"{scheme}://"
    return store, inner + path[len(plain) :], prefix


def full_path(path: str) -> str:
    """Return a path, or a pattern, as the paths of listed files begin."""
    _, inner, prefix = store_of(path)
    return prefix + inner.rstrip("/")


def _exists(path: str) -> bool:
    store, inner, _ = store_of(path)
    if store.get_file_info(inner).type != fs.FileType.NotFound:
        return True
    return bool(_GLOB.search(inner) and _matches(store, inner))


def _infos(store: Any, path: str, options: Listing) -> Iterator[Any]:
    """Yield the files at a path, in a directory, or that match a pattern."""
    info = store.get_file_info(path)
    if info.type == fs.FileType.NotFound and _GLOB.search(path):
        for match in _matches(store, path):
            yield from _files(store, match, options)
    elif info.type != fs.FileType.NotFound:
        yield from _files(store, info, options)


def _files(store: Any, info: Any, options: Listing, within: frozenset[str] = frozenset()) -> Iterator[Any]:
    """Yield a file, or those in a directory. A link to a directory that it lies ``within`` is not followed."""
    if info.type != fs.FileType.Directory:
        yield info
        return
    if isinstance(store, fs.LocalFileSystem):
        here = os.path.realpath(info.path)
        if here in within:
            return
        within |= {here}
    for inner in sorted(_list(store, info.path), key=lambda entry: str(entry.path)):
        is_partition = options.has_partitions and "=" in inner.base_name and inner.type == fs.FileType.Directory
        if inner.base_name.startswith((".", "_")) and not (is_partition and inner.base_name.startswith("_")):
            continue
        if inner.type != fs.FileType.Directory:
            yield inner
        elif options.recursive or is_partition:
            yield from _files(store, inner, options, within)


def _list(store: Any, path: str) -> list[Any]:
    try:
        listed = list(store.get_file_info(fs.FileSelector(path)))
    except PermissionError:
        raise OptionError(f"permission denied: cannot list the directory {path}") from None
    named = list(filter(_has_text, listed))
    if len(named) < len(listed) and isinstance(store, fs.LocalFileSystem):
        named += [fs.FileInfo(f"{path}/{name}", fs.FileType.Unknown) for name in _without_text(path)]
    return named


def _has_text(info: Any) -> bool:
    """Tell whether the name of a file is UTF-8: others cannot be opened, nor told in tables."""
    try:
        return bool(info.path)
    except UnicodeDecodeError:
        return False


def _without_text(path: str) -> list[str]:
    """Return the names in a directory that are not UTF-8, as they can be shown."""
    shown = {name: name.decode(errors="backslashreplace") for name in os.listdir(os.fsencode(path))}
    return [text for name, text in shown.items() if text.encode() != name]


def _matches(store: Any, pattern: str) -> list[Any]:
    """Return what a pattern matches, directory by directory."""
    parts = pattern.split("/")
    first = next(i for i, part in enumerate(parts) if _GLOB.search(part))
    start = store.get_file_info("/".join(parts[:first]) or "/")
    here = [start] if start.type == fs.FileType.Directory else []
    for part in parts[first:]:
        expression = re.compile(glob_expression(part))
        directories = [info for info in here if info.type == fs.FileType.Directory]
        here = [
            inner
            for info in directories
            for inner in _list(store, info.path)
            if expression.fullmatch(inner.base_name) and (part.startswith(".") or not inner.base_name.startswith("."))
        ]
    return sorted(here, key=lambda info: str(info.path))


def glob_expression(pattern: str) -> str:
    """Translate a pattern with ``*``, ``?``, ``[abc]`` and ``{a,b}`` into a regular expression."""
    out, depth, i = [], 0, 0
    while i < len(pattern):
        c = pattern[i]
        end = pattern.find("]", i + 2) if c == "[" else -1
        if c == "[" and end > 0:
            inner = pattern[i + 1 : end].replace("\\", "\\\\")
            out.append(f"[^{inner[1:]}]" if inner[0] in "!^" else f"[{inner}]")
            i = end
        elif c == "{" and "}" in pattern[i:]:
            out.append("(?:")
            depth += 1
        elif c == "}" and depth:
            out.append(")")
            depth -= 1
        elif c == "," and depth:
            out.append("|")
        else:
            out.append({"*": "[^/]*", "?": "[^/]"}.get(c, re.escape(c)))
        i += 1
    return "".join(out)


def _wanted(info: Any, options: Listing) -> bool:
    if options.path_glob_filter and not re.fullmatch(glob_expression(options.path_glob_filter), info.base_name):
        return False
    changed = info.mtime_ns / 1e9 if info.mtime_ns else None
    if changed is None:
        return True
    if options.modified_before is not None and changed >= options.modified_before:
        return False
    return options.modified_after is None or changed > options.modified_after


# --- the first look


@dataclass(frozen=True, slots=True)
class Peek:
    """The first look at a capture."""

    path: str
    kind: str
    first_us: int | None
    """The time of its first packet, if one near its beginning has a believable time. Raw files have none."""
    is_bare: bool = False
    """It holds nothing but its head."""
    compression: str = ""
    """``gzip``, ``zstd``, ``xz``, or nothing. A reader that begins inside a compressed capture unpacks all before."""


def peek(path: str, kind: str | None = None) -> Peek:
    """Look at the beginning of a capture; raise CaptureError if it is none."""
    from .first_packet import first_packet
    from .tap import TapConnections, TapReader

    with open_binary(path) as file:
        source = CaptureFile(file, path)
        kind = kind_at(source, kind)
        if kind == "raw":
            return Peek(path, kind, None, compression=source.compression)
        if kind == "tap":
            TapReader(source, TapConnections())  # refuses a head that is damaged, or of another version
            source.seek(0)
        return Peek(path, kind, *first_packet(source, kind), source.compression)


def in_order(peeks: list[Peek]) -> list[Peek]:
    """Return the captures in the order in which they were taken: a connection may go on in the next file."""
    return sorted(peeks, key=place_in_order)


def place_in_order(peek: Peek) -> tuple[bool, int, str]:
    """Return the key of that order: the first packet, then the name; captures without times come last."""
    return peek.first_us is None, peek.first_us or 0, peek.path
