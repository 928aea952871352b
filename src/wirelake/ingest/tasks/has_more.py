"""Find out whether a compressed capture holds more than was read of it: that shows only when it is unpacked."""

from __future__ import annotations

from dataclasses import dataclass

from ...capture.read.files import open_binary


@dataclass(frozen=True)
class HasMoreTask:
    """``length``: how many bytes the content had."""

    path: str
    length: int

    def run(self) -> bool:
        with open_binary(self.path) as file:
            file.seek(self.length)
            return bool(file.read(1))
