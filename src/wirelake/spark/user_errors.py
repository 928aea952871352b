"""Errors of workers as one line.

Spark shows the traceback of a worker before its message. For a fault of our own that says nothing to anyone; for one of
the data or of the options, what to do is in the message, so that is all there is to show.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import OptionError, SpecError, WireError


@contextmanager
def user_errors() -> Iterator[None]:
    """Errors that are meant for users leave without a traceback. A worker ends with its error, so none comes later."""
    try:
        yield
    except (WireError, SpecError, OptionError, OSError) as error:
        # Spark's own switch, read by the worker when it reports an error.
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        error.__cause__ = error.__context__ = None
        raise
