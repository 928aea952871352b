"""A user's protocol as workers get it: its name together with the text of its file, which they do not have."""

from __future__ import annotations

from dataclasses import dataclass

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
