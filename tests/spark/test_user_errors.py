"""Errors that concern users cross over to Spark without a traceback; those that are ours keep it."""

from __future__ import annotations

import os

import pytest

from wirelake.errors import OptionError
from wirelake.spark.user_errors import user_errors

SWITCH = "SPARK_HIDE_TRACEBACK"


@pytest.fixture(autouse=True)
def _switch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the process its own switch back after each test."""
    monkeypatch.setenv(SWITCH, "0")


def test_the_traceback_of_an_error_for_users_is_hidden() -> None:
    with pytest.raises(OptionError) as error, user_errors():
        try:
            raise KeyError("inside")
        except KeyError as cause:
            raise OptionError("the option mode is wrong") from cause
    assert (error.value.__cause__, error.value.__context__, os.environ[SWITCH]) == (None, None, "1")


def test_any_other_error_shows_where_it_came_from() -> None:
    with pytest.raises(ZeroDivisionError), user_errors():
        raise ZeroDivisionError
    assert os.environ[SWITCH] == "0"
