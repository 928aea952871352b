"""The kernels of packets and TCP, loaded when the first capture is read: numba takes a second."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple


class PacketKernels(NamedTuple):
    packets: Any
    tcp: Any


@lru_cache(maxsize=1)
def kernels() -> PacketKernels:
    try:
        from ..kernels import packets, tcp
    except ImportError as error:
        raise ImportError(f"reading captures needs numba ({error}); pip install 'wirelake[columnar]'") from error
    return PacketKernels(packets, tcp)
