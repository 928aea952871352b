"""The declarations behind the names of protocols that facts carry."""

from __future__ import annotations

from collections.abc import Mapping

from ..protocols import BUILT_IN, load
from ..spec.conduct import Conduct
from ..spec.nodes import Protocol

_PLAIN = Conduct()


class Declarations:
    """Built-in protocols, and those of users by the name that facts have for them."""

    def __init__(self, declared: Mapping[str, Protocol] | None = None) -> None:
        self._declared = dict(declared or {})
        self._conducts: dict[str | None, Conduct] = {None: _PLAIN}

    def protocol(self, name: str) -> Protocol | None:
        """Return the declaration; None for a name that nobody declared."""
        return self._declared.get(name) or (load(name) if name in BUILT_IN else None)

    def conduct(self, name: str | None) -> Conduct:
        if name not in self._conducts and name is not None:
            protocol = self.protocol(name)
            self._conducts[name] = _PLAIN if protocol is None else protocol.conduct
        return self._conducts[name]
