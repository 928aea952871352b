"""wirelake speaks, records and analyses message-middleware protocols.

>>> import wirelake
>>> wirelake.decode("ceda", bytes.fromhex("820101")).to_json()["message"]
'heartbeat'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import columnar
    from .codec import decode, encode
    from .codec.stream import StreamDecoder
    from .live.drive.client import connect
    from .protocols import load

__all__ = ["StreamDecoder", "__version__", "columnar", "connect", "decode", "encode", "load"]

_HOME = {
    "decode": ".codec",
    "encode": ".codec",
    "StreamDecoder": ".codec.stream",
    "connect": ".live.drive.client",
    "load": ".protocols",
}


def __getattr__(name: str) -> Any:
    """Loads the rooms of the house when they are first entered."""
    import importlib

    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name], __name__), name)
    elif name in ("columnar", "live", "spark", "protocols"):
        value = importlib.import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value
