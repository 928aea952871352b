"""What all tests share: hypothesis draws the same examples every time, and takes the time it needs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("wirelake", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("wirelake")


@pytest.fixture(scope="session")
def executor_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``wirelake package`` makes, once for all tests: compiling the kernels takes a while."""
    from wirelake.spark.package import build

    return build(tmp_path_factory.mktemp("package") / "wirelake.tar.gz").path
