"""What numba compiled from older files is not used."""

from __future__ import annotations

import os
from pathlib import Path

from wirelake.kernels import _drop_stale_cache


def test_a_kernel_is_compiled_again_when_a_file_that_it_calls_into_is_newer(tmp_path: Path) -> None:
    cache = tmp_path / "__pycache__"
    cache.mkdir()
    for name, age in (("kernel.py", 100), ("__pycache__/old.nbi", 50), ("helper.py", 20), ("__pycache__/new.nbi", 10)):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (1_000_000 - age, 1_000_000 - age))
    _drop_stale_cache(tmp_path)
    assert [path.name for path in cache.iterdir()] == ["new.nbi"]
