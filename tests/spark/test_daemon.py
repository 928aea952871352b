"""The process that forks Spark's Python workers, without Spark."""

from __future__ import annotations

import os
import subprocess
import sys

import pyarrow as pa
import pytest

SCRIPT = """
import os, sys
from wirelake.spark import daemon
assert "pyarrow" not in sys.modules
daemon._use_one_allocator()
import pyarrow
print(pyarrow.default_memory_pool().backend_name)
"""


@pytest.mark.parametrize("chosen", ["", "system"])
def test_arrow_allocates_everything_with_jemalloc_unless_the_user_says_otherwise(chosen: str) -> None:
    if "jemalloc" not in pa.supported_memory_backends():
        pytest.skip("this pyarrow has no jemalloc")
    environment = {name: value for name, value in os.environ.items() if name != "ARROW_DEFAULT_MEMORY_POOL"}
    if chosen:
        environment["ARROW_DEFAULT_MEMORY_POOL"] = chosen
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == (chosen or "jemalloc", "")
