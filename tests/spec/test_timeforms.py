"""Forms of times as text: directives of fixed sizes, and the rest."""

from __future__ import annotations

import pytest

from wirelake.spec.timeforms import Piece, fault_of, microseconds, pieces_of


def test_a_form_is_directives_and_the_text_between_them() -> None:
    assert pieces_of("%Y%m%d-%3f%%") == (
        Piece("Y", ""), Piece("m", ""), Piece("d", ""), Piece("", "-"), Piece("3f", ""), Piece("", "%"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("form", "fault"),
    [
        ("%Y-%m-%d", ""),
        ("%j of %Y", ""),
        ("%d %b %Y", ""),
        ("%m-%d", "says no day of a year, or two"),
        ("%Y %j %m %d", "says no day of a year, or two"),
        ("%Y %m %b %d", "says no day of a year, or two"),
        ("%Y %Y %j", "says something twice"),
        ("%Y %j %f %3f", "has two fractions"),
        ("%Y %j %", "has %, which is none of %Y, %m, %d, %j, %H, %M, %S, %3f, %f, %b, %a"),
    ],
)
def test_a_form_says_a_day_of_a_year_once(form: str, fault: str) -> None:
    assert fault_of(form) == fault


@pytest.mark.parametrize(
    ("form", "unit"),
    [("%Y %j", 86_400_000_000), ("%Y %j %H", 3_600_000_000), ("%Y %j %H%M%S.%3f", 1000), ("%Y %j %H%M%S.%f", 1)],
)
def test_the_unit_is_that_of_the_finest_directive(form: str, unit: int) -> None:
    assert microseconds(form) == unit
