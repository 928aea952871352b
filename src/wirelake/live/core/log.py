"""The log of the live side: texts, and beside them fields, which are given by name."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any


class _Log(logging.LoggerAdapter[logging.Logger]):
    def process(self, msg: str, kwargs: MutableMapping[str, Any]) -> tuple[str, MutableMapping[str, Any]]:
        error = kwargs.pop("exc_info", None)
        return msg, {"exc_info": error, "extra": {"fields": dict(kwargs)}}


log = _Log(logging.getLogger("wirelake.live"), {})
