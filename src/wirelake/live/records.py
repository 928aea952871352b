"""The protocols that can be spoken live. A new one adds its package, and its record here."""

from __future__ import annotations

from .casual.record import RECORD as CASUAL
from .ceda.record import RECORD as CEDA
from .core.record import TRANSPORTS, Live, VerbOption
from .dsa.record import RECORD as DSA
from .mb.record import RECORD as MB

__all__ = ["LIVE", "TRANSPORTS", "Live", "VerbOption"]

LIVE = {record.name: record for record in (MB, CEDA, DSA, CASUAL)}
