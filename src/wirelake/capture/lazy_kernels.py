"""The kernels of packets, TCP, taps and buffers, each loaded at its first use: numba takes a second."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class _Kernel:
    """A module of ``wirelake.kernels``, not loaded before something of it is needed."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        try:
            module = import_module(f"wirelake.kernels.{self._module}")
        except ImportError as error:
            raise ImportError(f"reading captures needs numba ({error}); pip install 'wirelake[columnar]'") from error
        value = self.__dict__[name] = getattr(module, name)
        return value


gather, layers, packets, pcapng, tap = map(_Kernel, ("gather", "layers", "packets", "pcapng", "tap"))
tcp, tcp_held = map(_Kernel, ("tcp", "tcp_held"))
