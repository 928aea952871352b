"""How captures are read: which protocols, on which ports, with which options, into which columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..protocols import BUILT_IN, check_distinct, load

_PLAIN_PORTS = ("tcp", "ws")
_DECLARED: dict[int, str] = {}
"""Stands for the ports that are declared."""


@dataclass(frozen=True)
class ReadSettings:
    """What is read and how. Protocols are named as ``load`` knows them.

    ``protocol``: all connections speak it. Otherwise the capture names the protocol of a connection, or ``ports`` does
    (by default the ports that ``protocols`` declare), or its first bytes show it.
    ``options`` are reading options by protocol; what they refuse is read with those of ``fallbacks`` and gets a note.
    ``columns``: the columns of each protocol's table; by default all but free-form values.
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
        check_distinct(self.protocols)
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
        """Return the protocol among ours that is loaded by this name, or calls itself so."""
        if name in self.protocols:
            return name
        return next((ours for ours in self.protocols if load(ours).name == name), None)

    def about(self, given: Mapping[str, Any] | None, name: str) -> Any:
        """Return what a mapping says about a protocol, whichever of its names it uses; None if nothing."""
        given = given or {}
        return given.get(name, given.get(load(name).name))

    def is_websocket_port(self, port: int, name: str) -> bool:
        return load(name).ports.get("ws") == port
