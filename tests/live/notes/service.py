"""A hub serves notes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from wirelake.live.hub.settings import Served, ServiceSettings

from .sessions import LINES, NotesServer


@dataclass(frozen=True, slots=True, kw_only=True)
class NotesSettings(ServiceSettings):
    def serve(self, directory: Path) -> Served:
        return Served(NotesServer(), LINES, True, 1 << 16)


SERVICE = NotesSettings
