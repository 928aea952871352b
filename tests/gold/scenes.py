"""Traffic written out by hand: what is sent on one connection, and which of it breaks a rule."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wirelake.generate.simulation import Process, Stage
from wirelake.generate.traffic import START_US, Dials, Scene, Traffic
from wirelake.protocols import load
from wirelake.spec.resolve import layout

Line = tuple[Any, ...]
"""(direction, message), (direction, message, rule that it breaks); an int in between waits so many microseconds."""

UP, DOWN = "to_server", "to_client"


def scene(protocol: str, lines: Iterable[Line | int], **options: Any) -> Traffic:
    lines = list(lines)

    def session(stage: Stage) -> Process:
        link = stage.connect(1, port=1000)
        yield 100
        for line in lines:
            if isinstance(line, int):
                yield line
                continue
            yield 10
            direction, message, *rule = line
            if rule:
                link.violate(rule[0], direction, message)
            else:
                link.send(direction, message)
        yield 10
        link.close()

    def script(stage: Stage) -> None:
        stage.start(session(stage))

    made = layout(load(protocol), **options)
    return Traffic((Scene(made, script, 0, 1),), seed=0, start_us=START_US, dials=Dials())
