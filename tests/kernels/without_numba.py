"""The walks of the kernels as they are where numba is missing: plain Python."""

from __future__ import annotations

import importlib
import sys
from functools import lru_cache
from typing import Any

import pytest

from wirelake import kernels


@lru_cache(maxsize=1)
def plain_walks() -> tuple[Any, Any]:
    """Return the modules of the matcher and of the assembler."""
    names = [f"wirelake.kernels.{name}" for name in ("jit", "matching", "pieces")]
    for name in names:
        importlib.import_module(name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "numba", None)
        for name in names:
            patch.delitem(sys.modules, name)
            patch.setattr(kernels, name.rpartition(".")[2], None)
        return importlib.import_module(names[1]), importlib.import_module(names[2])
