"""Options of formats and functions: strings by name, checked once, as frozen classes.

Names are Spark's where Spark has one, and ignore case. A protocol's own reading options keep their names, except
``mode``: that word is Spark's, so here it is ``profile``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from ..capture.read.listing import Listing
from ..errors import OptionError
from ..ingest.declared import Declared
from ..protocols import BUILT_IN
from ..spec.nodes import Protocol
from . import session_settings
from .partition_columns import Places

Mode = Literal["PERMISSIVE", "DROPMALFORMED", "FAILFAST"]
MODES = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")
CORRUPT_RECORD = "_corrupt_record"
PARTITION_BYTES = 128 << 20
KINDS = ("pcap", "pcapng", "tap", "raw")

_UNITS = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30}


# --- how options are read


class Given:
    """Options as the user gave them. Each method takes one out; ``finish`` refuses what is left."""

    def __init__(self, options: Mapping[str, Any] | None, what: str) -> None:
        self.what = what
        self.left = {str(name).lower(): (str(name), value) for name, value in (options or {}).items()}
        self.known: list[str] = []

    def text(self, name: str, default: str | None = None) -> str | None:
        self.known.append(name)
        _, value = self.left.pop(name.lower(), (name, None))
        return default if value is None else _spelled(value)

    def choice(self, name: str, allowed: Iterable[str], default: str) -> str:
        value = self.text(name, default)
        assert value is not None
        for choice in allowed:
            if choice.lower() == value.lower():
                return choice
        raise self.wrong(name, value, f"one of {', '.join(allowed)}")

    def flag(self, name: str, default: bool = False) -> bool:
        return self.choice(name, ("true", "false"), str(default).lower()) == "true"

    def maybe(self, name: str) -> bool | None:
        self.known.append(name)
        return self.flag(name) if self.has(name) else None

    def has(self, name: str) -> bool:
        """Return whether an option was given, and nothing has read it."""
        return name.lower() in self.left

    def place(self, name: str) -> str | None:
        """Return a path, or a URI as pyarrow knows it."""
        value = self.text(name)
        return None if value is None else self.plain(value)

    def plain(self, path: str) -> str:
        if ":/" not in path:
            return path
        from ..lake.places import plain_place

        try:
            return plain_place(path)
        except ValueError as error:
            raise OptionError(f"{self.what}: {path} cannot be read or written: {error}") from None

    def size(self, name: str, default: int) -> int:
        value = self.text(name)
        if value is None:
            return default
        size = _bytes(value)
        if not size:
            raise self.wrong(name, value, "a number of bytes such as 134217728 or 128m")
        return size

    def time(self, name: str, zone: str | None) -> float | None:
        """Return seconds since 1970; a time without a zone is in that of the session."""
        value = self.text(name)
        if value is None:
            return None
        try:
            seconds = session_settings.parse_time(value, zone)
        except ValueError:
            raise self.wrong(name, value, "a time such as 2024-06-01T13:00:00") from None
        if seconds is None:
            raise OptionError(
                f"{self.what}: the option {name} is {value!r} without a zone, and formats do not know that of the "
                "session: give one as in 2024-06-01T13:00:00Z or by the option timeZone, or call "
                "wirelake.spark.register(spark)"
            )
        return seconds

    def zone(self) -> str | None:
        value = self.text("timeZone")
        if value is not None:
            try:
                session_settings.parse_time("2024-06-01T13:00:00", value)
            except (ValueError, KeyError, OSError):
                raise self.wrong("timeZone", value, "a zone such as Europe/Stockholm or +02:00") from None
        return value

    def names(self, name: str) -> tuple[str, ...] | None:
        value = self.text(name)
        if value is None:
            return None
        names = tuple(part.strip() for part in value.split(",") if part.strip())
        if not names:
            raise self.wrong(name, value, "names separated by commas")
        return tuple(dict.fromkeys(names))

    def reading(self, protocol: Protocol) -> dict[str, Any]:
        """Return the protocol's own reading options that were given."""
        chosen: dict[str, Any] = {}
        for name, option in protocol.options.items():
            spelled = "profile" if name == "mode" else name
            value = self.text(spelled)
            if value is None:
                continue
            known = next((known for known in option.values if str(known).lower() == value.lower()), None)
            if option.values and known is None:
                shown = ", ".join(map(_spelled, option.values))
                raise self.wrong(spelled, value, f"for {protocol.name} one of {shown}")
            chosen[name] = known if option.values else value
        return chosen

    def wrong(self, name: str, value: Any, expected: str) -> OptionError:
        return OptionError(f"{self.what}: the option {name} is {value!r}; it must be {expected}")

    def finish(self) -> None:
        """Refuse options that nothing has read."""
        if self.left:
            unknown = ", ".join(repr(spelled) for spelled, _ in self.left.values())
            known = ", ".join(sorted(dict.fromkeys(self.known), key=str.lower))
            raise OptionError(f"{self.what} has no option {unknown}; it has: {known}")


def _bytes(text: str) -> int | None:
    match = re.fullmatch(r"\s*(\d+)\s*([a-zA-Z]*)\s*", text)
    unit = _UNITS.get(match[2].lower()) if match is not None else None
    return None if match is None or unit is None else int(match[1]) * unit


def _spelled(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- functions


@dataclass(frozen=True)
class Decoding:
    """How to decode a column of frames, and into what."""

    declared: Declared
    reading: tuple[tuple[str, Any], ...] = ()
    columns: tuple[str, ...] | None = None
    mode: Mode = "FAILFAST"
    corrupt: str | None = None

    @classmethod
    def of(cls, declared: Declared, options: Mapping[str, Any] | None, what: str) -> Decoding:
        given = Given(options, what)
        made = cls(
            declared,
            tuple(given.reading(declared.load()).items()),
            given.names("columns"),
            _function_mode(given),
            given.text("columnNameOfCorruptRecord"),
        )
        given.finish()
        return made


def _function_mode(given: Given) -> Mode:
    mode = given.choice("mode", MODES, "FAILFAST")
    if mode == "DROPMALFORMED":
        raise OptionError(
            f"{given.what}: a function cannot drop rows, so it has no mode DROPMALFORMED; "
            "use PERMISSIVE and filter out nulls"
        )
    return cast(Mode, mode)


@dataclass(frozen=True)
class Encoding:
    """How to encode structs as frames."""

    declared: Declared
    reading: tuple[tuple[str, Any], ...] = ()
    mode: Mode = "FAILFAST"
    captured: bool = False
    """Whether rows are those of captures: notes tell of padding, and of what was removed, and ``length`` is known."""

    @classmethod
    def of(cls, declared: Declared, options: Mapping[str, Any] | None, what: str) -> Encoding:
        given = Given(options, what)
        made = cls(declared, tuple(given.reading(declared.load()).items()), _function_mode(given))
        given.finish()
        return made


# --- formats


@dataclass(frozen=True)
class StreamOptions:
    """Of ``readStream`` alone."""

    most_bytes: int | None = None
    most_files: int | None = None
    fail_on_data_loss: bool = True
    state_location: str | None = None


@dataclass(frozen=True)
class ReadOptions(Listing):
    """How to list, read and show captures."""

    protocols: tuple[Declared, ...] = ()
    is_common: bool = False
    """Whether the rows are the common view over all protocols."""
    reading: tuple[tuple[str, tuple[tuple[str, Any], ...]], ...] = ()
    """Reading options by protocol."""
    ports: tuple[tuple[int, str], ...] = ()
    columns: tuple[str, ...] | None = None
    mode: Mode = "PERMISSIVE"
    corrupt: str = CORRUPT_RECORD
    skip_corrupt: bool | None = None
    """Whether to skip files that are no captures; None: as the session does when a query runs."""
    skip_missing: bool | None = None
    assumed: session_settings.Settings = ()
    """Settings of the session that count here, as far as they were known when this was made."""
    partition_bytes: int = PARTITION_BYTES
    rotated: bool = False
    kind: str | None = None
    push_filters: Literal["auto", "true", "false"] = "auto"
    index_cache: bool = True
    """Whether to keep where files are cut for the next action."""
    shows_corrupt: bool = False
    """Whether the user named the column for corrupt records, and so wants it."""
    stream: StreamOptions = StreamOptions()
    places: Places = field(default_factory=lambda: Places(()))
    """Where directories named ``key=value`` begin."""
    infers_partitions: bool = True
    """Whether the columns that directories make have types, or are all text."""


@dataclass(frozen=True)
class WriteOptions:
    """Where and how to write captures."""

    what: str
    path: str
    encoding: Encoding
    kind: str | None = None
    """``tap`` or ``raw``; None: as the columns allow."""
    compression: str = "none"
    if_exists: str = "append"
    """What ``append`` does where there is something already; Spark lets no other mode of its own reach a format."""


def write_options(name: str, options: Mapping[str, Any]) -> WriteOptions:
    """Return the options of ``df.write.format(name)``."""
    given = Given(options, f'write.format("{name}")')
    protocol = given.text("protocol") if name == "wire" else name
    if protocol is None:
        raise OptionError(f'{given.what}: frames are of one protocol: name it with the option "protocol"')
    declared, path = Declared.named(protocol), given.place("path")
    if path is None:
        raise OptionError(f"{given.what} needs a path: .save(path)")
    reading = given.reading(declared.load())
    if "framing" in declared.load().options:
        reading.setdefault("framing", "tcp")
    drops = given.choice("mode", ("FAILFAST", "DROPMALFORMED"), "FAILFAST") == "DROPMALFORMED"
    made = WriteOptions(
        given.what,
        path,
        Encoding(declared, tuple(reading.items()), "PERMISSIVE" if drops else "FAILFAST", captured=True),
        given.choice("kind", ("auto", "tap", "raw"), "auto").replace("auto", "") or None,
        given.choice("compression", ("none", "gzip", "zstd"), "none"),
        given.choice("ifExists", ("append", "error", "ignore"), "append"),
    )
    given.finish()
    return made


def _stream_options(given: Given) -> StreamOptions:
    most_bytes, most_files = given.size("maxBytesPerTrigger", 0) or None, given.text("maxFilesPerTrigger")
    if most_files is not None and (not most_files.isdecimal() or int(most_files) == 0):
        raise given.wrong("maxFilesPerTrigger", most_files, "a number of files")
    if most_bytes is not None and most_files is not None:
        raise OptionError(f"{given.what}: choose maxBytesPerTrigger or maxFilesPerTrigger, not both")
    return StreamOptions(
        most_bytes,
        int(most_files) if most_files is not None else None,
        given.flag("failOnDataLoss", default=True),
        given.text("stateLocation"),
    )


def _view(given: Given, protocol: str | None) -> str:
    """Return whether rows are the common view or the fields of the protocol: of one's own, its fields."""
    view = given.choice("view", ("common", "fields"), "common" if protocol in (None, *BUILT_IN) else "fields")
    if view == "fields" and protocol is None:
        raise OptionError(f'{given.what}: view=fields is the table of one protocol: name it with the option "protocol"')
    return view


def read_options(name: str, options: Mapping[str, Any], session: session_settings.Settings = ()) -> ReadOptions:
    """Return the options of ``spark.read.format(name)``, in a session with these settings."""
    given = Given(options, f'format("{name}")')
    is_wire = name == "wire"
    protocol = given.text("protocol") if is_wire else name
    declared = (Declared.named(protocol),) if protocol else tuple(map(Declared, BUILT_IN))
    is_common = is_wire and _view(given, protocol) == "common"
    corrupt = given.text("columnNameOfCorruptRecord")
    recursive = given.flag("recursiveFileLookup")
    skip_missing = given.maybe("ignoreMissingFiles")
    known, zone, assumed = dict(session), given.zone(), {}
    if zone is None and session_settings.ZONE in known:
        zone = known[session_settings.ZONE]
        if given.has("modifiedBefore") or given.has("modifiedAfter"):
            assumed[session_settings.ZONE] = zone
    if not given.has("maxPartitionBytes"):
        assumed[session_settings.PARTITION_BYTES] = known.get(session_settings.PARTITION_BYTES, f"{PARTITION_BYTES}b")
    default_bytes = _bytes(assumed.get(session_settings.PARTITION_BYTES, "")) or PARTITION_BYTES
    made = ReadOptions(
        what=given.what,
        protocols=declared,
        is_common=is_common,
        paths=_paths(given),
        reading=_readings(given, declared),
        ports=_ports(given, declared),
        columns=given.names("columns"),
        mode=cast(Mode, given.choice("mode", MODES, "PERMISSIVE")),
        corrupt=corrupt or CORRUPT_RECORD,
        shows_corrupt=corrupt is not None,
        path_glob_filter=given.text("pathGlobFilter"),
        recursive=recursive,
        has_partitions=not recursive,
        modified_before=given.time("modifiedBefore", zone),
        modified_after=given.time("modifiedAfter", zone),
        skip_corrupt=given.maybe("ignoreCorruptFiles"),
        skip_missing=skip_missing,
        ignore_missing_files=skip_missing is True,
        assumed=tuple(assumed.items()),
        partition_bytes=given.size("maxPartitionBytes", default_bytes),
        infers_partitions=known.get(session_settings.INFERENCE, "true").lower() == "true",
        rotated=given.flag("rotated"),
        kind=given.choice("kind", (*KINDS, "auto"), "auto").replace("auto", "") or None,
        index_cache=given.flag("indexCache", default=True),
        push_filters=cast(Any, given.choice("pushFilters", ("auto", "true", "false"), "auto")),
        stream=_stream_options(given),
    )
    base = given.place("basePath")
    given.finish()
    return replace(made, places=Places.of(made, base))


def _readings(given: Given, declared: tuple[Declared, ...]) -> tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]:
    """Return each protocol's options. Several protocols together are read by their defaults."""
    if len(declared) == 1:
        protocol = declared[0].load()
        return ((protocol.name, tuple(given.reading(protocol).items())),)
    return ()


def _paths(given: Given) -> tuple[str, ...]:
    single, several = given.text("path"), given.text("paths")
    paths: tuple[str, ...] = (single,) if single else ()
    if several:
        try:
            listed = json.loads(several)
        except ValueError:
            listed = [several]
        paths += tuple(map(str, listed))
    return tuple(map(given.plain, paths))


def _ports(given: Given, declared: tuple[Declared, ...]) -> tuple[tuple[int, str], ...]:
    """Return ``ports``: 7771,7772 if there is one protocol, else 7771=casual,8088=ceda."""
    value = given.text("ports")
    ports = []
    for part in (value or "").split(","):
        if not part.strip():
            continue
        number, equals, name = part.strip().partition("=")
        if not number.strip().isdecimal() or not 0 < int(number) < 65536 or (len(declared) > 1 and not equals):
            raise given.wrong("ports", value, "ports with their protocols, such as 7771=casual,8088=ceda")
        if equals and name not in (names := [known.load().name for known in declared]):
            raise given.wrong("ports", value, f"ports of {', '.join(names)}")
        ports.append((int(number), name or declared[0].load().name))
    return tuple(ports)
