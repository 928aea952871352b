"""What a test needs of PySpark: wirelake works with the newest of several minor versions (`make matrix`)."""

from __future__ import annotations

import pyspark
import pytest

VERSION = tuple(int(part) for part in pyspark.__version__.split(".")[:2])


def has(version: str) -> bool:
    """Return whether this PySpark is of that minor version, or newer."""
    return tuple(map(int, version.split("."))) <= VERSION


def since(version: str, what: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not has(version), reason=f"{what}: since PySpark {version}")
