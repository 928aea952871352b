"""What every worker does once."""

from __future__ import annotations

import gc

from wirelake.ingest.warm_up import warm_up


def test_workers_freeze_what_they_have_loaded() -> None:
    before = gc.get_freeze_count()
    warm_up.cache_clear()
    try:
        warm_up()
        assert gc.get_freeze_count() > before
        frozen = gc.get_freeze_count()
        warm_up()
        assert gc.get_freeze_count() <= frozen
    finally:
        gc.unfreeze()
        warm_up.cache_clear()
