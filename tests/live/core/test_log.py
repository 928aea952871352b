"""The log of the live side."""

from __future__ import annotations

import logging

import pytest

from wirelake.live.core.log import log


def test_what_is_given_by_name_is_a_field_beside_the_text(caplog: pytest.LogCaptureFixture) -> None:
    log.warning("100% of it", peer="127.0.0.1:1", name="mb")
    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.WARNING, "100% of it")
    assert vars(record)["fields"] == {"peer": "127.0.0.1:1", "name": "mb"}


def test_an_exception_is_no_field(caplog: pytest.LogCaptureFixture) -> None:
    error = ValueError("wrong")
    log.error("it failed", exc_info=error, topic="a")
    (record,) = caplog.records
    assert record.exc_info is not None and record.exc_info[1] is error
    assert vars(record)["fields"] == {"topic": "a"}
