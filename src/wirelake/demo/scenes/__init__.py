"""Live scenes, by protocol: each module here is named after its protocol and offers its record as ``SCENE``."""

from __future__ import annotations

import importlib
import pkgutil

from ...protocols import BUILT_IN
from ..stage import Scene

_THERE = {module.name for module in pkgutil.iter_modules(__path__)}
SCENES: dict[str, Scene] = {
    name: importlib.import_module(f".{name}", __name__).SCENE for name in BUILT_IN if name in _THERE
}
