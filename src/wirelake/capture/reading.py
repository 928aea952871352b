"""How captured traffic is read: which protocols, on which ports, with which options, into which columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from ..codec.stream import Readings, readings
from ..columnar.many import ManyDecoder
from ..columnar.schema import FRONT_NAMES, default_columns, schema
from ..protocols import BUILT_IN, load
from ..spec import nodes as n
from ..spec.columns import ENVELOPE

TIME = pa.timestamp("us", tz="UTC")
AROUND = {
    "capture": pa.string(),
    "connection": pa.string(),
    "direction": pa.string(),
    "ts": TIME,
    "order": pa.int64(),
}
"""Columns that a message has because of where it was seen."""
_PLAIN_PORTS = ("tcp", "ws")
_DECLARED: dict[int, str] = {}
"""Stands for the ports that are declared."""


@dataclass(frozen=True)
class Reading:
    """What is read and how. Protocols are named as ``load`` knows them.

    ``protocol``: everything is that. Otherwise a connection's protocol is what the capture says, or what ``ports`` says
    (by default the ports that ``protocols`` declare), or what its first bytes show.
    ``options`` are reading options by protocol; what they refuse is read with those of ``fallbacks`` and gets a note.
    ``columns``: the columns of each protocol's table, all but free-form values where nothing is said.
    ``counts_only``: messages are counted, not kept.
    """

    protocol: str | None = None
    protocols: tuple[str, ...] = BUILT_IN
    ports: Mapping[int, str] = field(default_factory=lambda: _DECLARED)
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    fallbacks: Mapping[str, Mapping[str, Any]] | None = None
    columns: Mapping[str, tuple[str, ...]] | None = None
    counts_only: bool = False
    redact: bool = True

    def __post_init__(self) -> None:
        if self.protocol is not None and self.protocol not in self.protocols:
            object.__setattr__(self, "protocols", (*self.protocols, self.protocol))
        if self.ports is _DECLARED:
            object.__setattr__(self, "ports", self._declared_ports())
        for name in {*self.options, *(self.fallbacks or {}), *(self.columns or {}), *self.ports.values()}:
            if self.named(name) is None:
                raise ValueError(f"{name} is not among the protocols that are read: {', '.join(self.protocols)}")

    def _declared_ports(self) -> dict[int, str]:
        return {
            port: name for name in self.protocols for kind, port in load(name).ports.items() if kind in _PLAIN_PORTS
        }

    def named(self, name: str) -> str | None:
        """The protocol among ours that is loaded by this name, or calls itself so."""
        if name in self.protocols:
            return name
        return next((ours for ours in self.protocols if load(ours).name == name), None)

    def about(self, given: Mapping[str, Any] | None, name: str) -> Any:
        """What a mapping says about a protocol, whichever of its names it uses; None if nothing."""
        given = given or {}
        return given.get(name, given.get(load(name).name))

    def is_websocket_port(self, port: int, name: str) -> bool:
        return load(name).ports.get("ws") == port


class Way:
    """One protocol, plain or within WebSocket messages: what its streams are decoded with."""

    def __init__(self, reading: Reading, name: str, websocket: bool) -> None:
        self.name, self.websocket = name, websocket
        self.protocol: n.Protocol = load(name)
        self.reading = reading
        self.readings: Readings = readings(self.protocol, self._options(), self._fallback())
        self.is_given = not self.readings.is_stream
        """Whether borders of messages come from outside: they have no length of their own."""
        if self.is_given and not websocket:
            raise ValueError(f"frames of {self.protocol.name} without a length cannot be told apart in a stream")

    def _options(self) -> dict[str, Any]:
        captured = self.protocol.captured
        within = captured.websocket_options if self.websocket else {}
        return {**captured.options, **within, **(self.reading.about(self.reading.options, self.name) or {})}

    def _fallback(self) -> dict[str, Any]:
        """The second reading: what the user says, or what is declared, unless the user has chosen there himself."""
        said = self.reading.about(self.reading.fallbacks, self.name)
        if said is not None or self.reading.fallbacks is not None:
            return dict(said or {})
        chosen = self.reading.about(self.reading.options, self.name) or {}
        return {key: value for key, value in self.protocol.captured.fallback.items() if key not in chosen}

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns of the result, in order."""
        if self.reading.counts_only:
            return ()
        if self.reading.columns is not None:
            return tuple(self.reading.about(self.reading.columns, self.name) or ())
        fields = [name for name in default_columns(self.protocol) if name not in FRONT_NAMES]
        return (*(name for name, _, _ in ENVELOPE), *fields, "order")

    @cached_property
    def schema(self) -> pa.Schema:
        inner = schema(self.protocol, tuple(name for name in self.columns if name not in AROUND))
        return pa.schema(
            [pa.field(name, AROUND[name]) if name in AROUND else inner.field(name) for name in self.columns]
        )

    @cached_property
    def secrets(self) -> dict[str, tuple[int, ...]]:
        """The cells that must not be shown, by message."""
        nodes = self.readings.fallback.messages.values()
        return {node.name: node.secret_cells for node in nodes if node.secret_cells} if self.reading.redact else {}

    @cached_property
    def decoder(self) -> ManyDecoder:
        needed = [name for name in self.columns if name not in AROUND]
        if self.columns and not needed:
            needed = ["offset"]  # a batch knows by its columns how many rows it has
        if self.secrets and needed and "message" not in needed:
            needed.append("message")
        return ManyDecoder(self.readings, needed)
