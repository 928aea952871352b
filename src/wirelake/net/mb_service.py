"""A hub serves MB as a broker."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ..protocols.mb import MAX_FRAME
from ..sessions.mb_broker import MbBroker
from ..sessions.mb_services import BrokerOptions
from ..sessions.mb_wire import MB_TCP
from .hub_settings import Served, ServiceSettings, unpredictable
from .machine import Machine
from .settings import rules


@dataclass(frozen=True, slots=True, kw_only=True)
class MbSettings(ServiceSettings):
    """``options`` are those of the broker."""

    options: BrokerOptions = field(default_factory=BrokerOptions, metadata=rules(without=("max_connections",)))

    def serve(self, directory: Path) -> Served:
        broker = MbBroker(options=self.options, probe=Machine(), chance=unpredictable())
        return Served(broker, MB_TCP, True, MAX_FRAME)


SERVICE = MbSettings
