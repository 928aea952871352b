"""A hub serves MB as a broker."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ...protocols.mb import MAX_FRAME
from ..drive.connection import unpredictable
from ..hub.machine import Machine
from ..hub.settings import Served, ServiceSettings
from .options import BrokerOptions
from .server import MbBroker
from .wire import MB_TCP


@dataclass(frozen=True, slots=True, kw_only=True)
class MbSettings(ServiceSettings):
    options: BrokerOptions = field(default_factory=BrokerOptions)

    def serve(self, directory: Path) -> Served:
        broker = MbBroker(options=self.options, probe=Machine(), chance=unpredictable())
        return Served(broker, MB_TCP, True, MAX_FRAME)


SERVICE = MbSettings
