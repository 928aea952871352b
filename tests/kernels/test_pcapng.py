"""The pcapng kernel's own parts."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from wirelake.kernels import pcapng


@given(time=st.integers(0, 2**62), digits=st.integers(0, 19))
def test_decimal_units_of_time_become_microseconds(time: int, digits: int) -> None:
    exact = Fraction(time, 10**digits) * 10**6
    if exact < 2**62:
        assert pcapng.microseconds(time, digits) == exact // 1


@given(time=st.integers(0, 2**62), digits=st.integers(0, 63))
def test_binary_units_of_time_become_microseconds(time: int, digits: int) -> None:
    exact = Fraction(time, 2**digits) * 10**6
    if exact < 2**62:
        assert exact // 1 - pcapng.microseconds(time, digits | pcapng.BINARY) in (0, 1)
