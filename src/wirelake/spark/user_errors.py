"""Errors of workers as one line.

Spark shows the traceback of a worker before its message. An error in the data or the options says in its message what
to do, so the traceback is left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import OptionError, SpecError, WireError

USER_ERRORS = (WireError, SpecError, OptionError, OSError)


@contextmanager
def user_errors() -> Iterator[None]:
    """Hide the traceback of errors that concern users. A worker ends with its first error: no second one follows."""
    try:
        yield
    except USER_ERRORS as error:
        # Spark's own switch, read by the worker when it reports an error.
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        error.__cause__ = error.__context__ = None
        raise
