"""Tasks: each reads its share, writes files on the side and returns what the driver must know about them.

Rows never pass through the driver, and no commit names the files of a failed or repeated attempt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import LakeError, WireError


class Task(Protocol):
    def run(self) -> Any: ...


@dataclass(frozen=True)
class Failure:
    """An error for users, as a value: its text is all there is to show, so it crosses without a traceback."""

    text: str


def run_task(task: Task) -> Any:
    """Run a task; return its result, or a ``Failure``."""
    try:
        return task.run()
    except (WireError, LakeError, OSError) as error:
        return Failure(str(error))
