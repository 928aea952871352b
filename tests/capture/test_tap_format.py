"""The layout of tap files: sizes as docs/tap-format.md has them, and the same numbers in the kernel."""

from __future__ import annotations

import pytest

from wirelake.capture import tap_format
from wirelake.kernels import tap as kernel


@pytest.mark.parametrize("name", ["MARK", "MAX_BODY", "OPEN", "DATA", "CLOSE", "TIME"])
def test_the_kernel_has_the_same_numbers(name: str) -> None:
    assert getattr(kernel, name) == getattr(tap_format, name)


def test_the_kernel_has_the_same_sizes() -> None:
    assert kernel.HEAD == 4 + tap_format.RECORD_HEAD.size == 16
    assert kernel.DATA_HEAD == tap_format.DATA_HEAD.size - tap_format.RECORD_HEAD.size == 16
    assert (tap_format.OPEN_BODY.size, tap_format.CLOSE_BODY.size) == (kernel.OPEN_LEAST, kernel.CLOSE_LENGTH)
    assert tap_format.TIME_BODY.size == kernel.TIME_LENGTH
    assert tap_format.MAX_DATA == tap_format.MAX_BODY - kernel.DATA_HEAD
    assert tap_format.FILE_HEAD_BYTES == 44
