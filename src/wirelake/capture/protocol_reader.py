"""One protocol as captures carry it: its layouts, the columns of its table, its secrets, its decoder."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import pyarrow as pa

from ..codec.stream import Readings, readings
from ..columnar.schema import CODED, FRONT_NAMES, TIMESTAMP, default_columns, schema
from ..columnar.streams import StreamsDecoder
from ..errors import OptionError
from ..protocols import load
from ..spec import nodes as n
from ..spec.columns import ENVELOPE
from .settings import ReadSettings

ENVELOPE_TYPES = {
    "capture": CODED,
    "connection": CODED,
    "direction": CODED,
    "ts": TIMESTAMP,
    "order": pa.int64(),
}
"""Columns that a message has because of where and when it was seen."""


class ProtocolReader:
    """One protocol, plain or within WebSocket messages: what its streams are decoded with."""

    def __init__(self, settings: ReadSettings, name: str, websocket: bool) -> None:
        self.name, self.websocket = name, websocket
        self.protocol: n.Protocol = load(name)
        self.settings = settings
        self.readings: Readings = readings(self.protocol, self._options(), self._fallback())
        self.is_given = not self.readings.is_stream
        """Frames have no length of their own: WebSocket says where messages end."""
        if self.is_given and not websocket:
            raise ValueError(f"frames of {self.protocol.name} without a length cannot be separated in a stream")

    def _options(self) -> dict[str, Any]:
        captured = self.protocol.captured
        within = captured.websocket_options if self.websocket else {}
        return {**captured.options, **within, **(self.settings.about(self.settings.options, self.name) or {})}

    def _fallback(self) -> dict[str, Any]:
        """Return the options of the second reading: those of the user, or the declared ones that the user left open."""
        said = self.settings.about(self.settings.fallbacks, self.name)
        if said is not None or self.settings.fallbacks is not None:
            return dict(said or {})
        chosen = self.settings.about(self.settings.options, self.name) or {}
        return {key: value for key, value in self.protocol.captured.fallback.items() if key not in chosen}

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns of the result, in order."""
        if self.settings.counts_only:
            return ()
        if self.settings.columns is not None:
            return tuple(self.settings.about(self.settings.columns, self.name) or ())
        fields = [name for name in default_columns(self.protocol) if name not in FRONT_NAMES]
        return (*(name for name, _, _ in ENVELOPE), *fields)

    @cached_property
    def schema(self) -> pa.Schema:
        inner = schema(self.protocol, tuple(name for name in self.columns if name not in ENVELOPE_TYPES))
        around = {name: pa.field(name, kind) for name, kind in ENVELOPE_TYPES.items()}
        return pa.schema([around.get(name) or inner.field(name) for name in self.columns])

    @cached_property
    def secrets(self) -> dict[str, tuple[int, ...]]:
        """The cells that must not be shown, by message."""
        nodes = self.readings.fallback.messages.values()
        return {node.name: node.secret_cells for node in nodes if node.secret_cells} if self.settings.redact else {}

    @cached_property
    def decoder(self) -> StreamsDecoder:
        needed = [name for name in self.columns if name not in ENVELOPE_TYPES]
        if self.columns and not needed:
            needed = ["offset"]  # a batch knows by its columns how many rows it has
        if self.secrets and needed and "message" not in needed:
            needed.append("message")
        return StreamsDecoder(self.readings, needed)


class ProtocolReaders:
    """The protocol readers in use, by number: for each protocol one for plain streams and one for WebSocket."""

    def __init__(self, settings: ReadSettings) -> None:
        self._settings = settings
        self._readers: list[ProtocolReader] = []

    def __getitem__(self, number: int) -> ProtocolReader:
        return self._readers[number]

    def number(self, name: str, websocket: bool) -> int:
        for number, reader in enumerate(self._readers):
            if (reader.name, reader.websocket) == (name, websocket):
                return number
        known = self._settings.protocols
        if name not in known:
            # Carried state alone does not load a protocol: a name can be the path of code.
            raise OptionError(f"a connection goes on in {name!r}, but only {', '.join(known)} are read; add it with -p")
        self._readers.append(ProtocolReader(self._settings, name, websocket))
        return len(self._readers) - 1

    def get(self, name: str, websocket: bool) -> ProtocolReader:
        return self._readers[self.number(name, websocket)]

    @property
    def names(self) -> list[str]:
        """The names by which the protocols are loaded."""
        return [reader.name for reader in self._readers]

    @property
    def protocols(self) -> list[str]:
        """The names by which the protocols call themselves."""
        return [reader.protocol.name for reader in self._readers]
