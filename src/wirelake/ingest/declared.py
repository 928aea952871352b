"""A user's protocol as workers get it: its name together with the text of its file, which they do not have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..capture.settings import ReadSettings
from ..errors import OptionError
from ..protocols import load, load_text
from ..spec.nodes import Protocol


@dataclass(frozen=True)
class Declared:
    """A protocol by its name. ``text`` is the content of the user's file that declares it."""

    name: str
    text: str | None = None

    @classmethod
    def named(cls, name: str) -> Declared:
        path, colon, _ = name.rpartition(":")
        try:
            text = _file_text(path) if colon and path.endswith(".py") else None
            made = cls(name, text)
            made.load()
        except ValueError as error:
            raise OptionError(str(error)) from None
        return made

    @property
    def here(self) -> str:
        """The name by which it can be loaded in this process."""
        return self.name if self.text is None else load_text(self.text, self.name.rpartition(":")[2])

    def load(self) -> Protocol:
        return load(self.here)


def _file_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise OptionError(f"the protocol's file {path} cannot be read: {error.strerror}") from None


def for_workers(reading: ReadSettings, declared: Iterable[Declared]) -> ReadSettings:
    """Return the reading with names by which workers, too, can load users' protocols."""
    names = {protocol.name: protocol.here for protocol in declared}
    if not names:
        return reading

    def renamed(given: Mapping[str, Any]) -> dict[str, Any]:
        return {names.get(name, name): value for name, value in given.items()}

    return replace(
        reading,
        protocol=reading.protocol and names.get(reading.protocol, reading.protocol),
        protocols=tuple(names.get(name, name) for name in reading.protocols),
        ports={port: names.get(name, name) for port, name in reading.ports.items()},
        options=renamed(reading.options),
        fallbacks=reading.fallbacks and renamed(reading.fallbacks),
        columns=reading.columns and renamed(reading.columns),
    )
