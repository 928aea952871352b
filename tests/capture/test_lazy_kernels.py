"""Kernels are loaded when the first capture is read, and without numba a sentence says what to install."""

from __future__ import annotations

import subprocess
import sys


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_importing_the_room_loads_no_numba_and_the_first_number_of_a_kernel_does() -> None:
    code = "import sys; from wirelake.capture import decode; from wirelake.capture.lazy_kernels import tcp"
    assert run(f"{code}; print('numba' in sys.modules, tcp.FLOW, 'numba' in sys.modules)") == "False 16 True"


def test_without_numba_the_error_says_what_to_install() -> None:
    code = "import sys; sys.modules['numba'] = None; from wirelake.capture.tcp import Tracker\n"
    shown = run(code + "try:\n    Tracker()\nexcept ImportError as error:\n    print(error)")
    assert shown.startswith("reading captures needs numba (") and shown.endswith("pip install 'wirelake[columnar]'")
