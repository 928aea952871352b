"""What all tests share: hypothesis draws the same examples every time, and takes the time it needs."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("wirelake", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("wirelake")
