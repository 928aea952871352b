"""numba's ``njit``; without numba, a decorator that leaves functions as they are: plain Python, slower."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _plain(**_options: Any) -> Callable[[Any], Any]:
    return lambda function: function


try:
    from numba import njit
except ImportError:
    njit = _plain  # type: ignore[assignment]

__all__ = ["njit"]
