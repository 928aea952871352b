"""Notes as hub, URLs, metrics and command line know it."""

from __future__ import annotations

from pathlib import Path

from wirelake.live.core.record import Live, VerbOption
from wirelake.live.records import LIVE
from wirelake.protocols import load

RECORD = Live(
    "notes",
    __package__,
    options={"publish": (VerbOption("loud", "in capital letters.", bool),)},
    hub_ports={"ws": 7908},
    message_counts=("lines",),
)


def register() -> None:
    """The one line, and the declaration, which a protocol of wirelake has in ``protocols``."""
    load(f"{Path(__file__).with_name('declaration.py')}:PROTOCOL")
    LIVE[RECORD.name] = RECORD
