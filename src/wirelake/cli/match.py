"""match: topic patterns against topics."""

from __future__ import annotations

import json
from typing import Any

import click

from ..codec.topics import TopicError, match_topic
from ..spec.nodes import Protocol
from .inputs import open_inputs, read_lines
from .options import protocol_option
from .output import Tally, emit


@click.command()
@protocol_option
@click.argument("files", nargs=-1, metavar="[FILE...|-]")
def match(protocol: Protocol, files: tuple[str, ...]) -> None:
    """Match topics against patterns: JSON lines {"pattern", "topic"} to {"matches"}.

    An invalid pattern or topic matches nothing; "error" names the rule it breaks.

    \b
    echo '{"pattern": "orders.#", "topic": "orders.created"}' | wirelake match -p mb -
    """
    if protocol.topics is None:
        raise click.UsageError(f"{protocol.name} has no topics to match")
    tally = Tally()
    for _, file in open_inputs(files):
        for line in read_lines(file):
            if line.strip():
                emit(_match(protocol, line, tally))
    tally.exit()


def _match(protocol: Protocol, line: str, tally: Tally) -> dict[str, Any]:
    try:
        asked = json.loads(line)
        pattern, topic = asked["pattern"], asked["topic"]
        if not isinstance(pattern, str) or not isinstance(topic, str):
            raise TypeError
    except (ValueError, TypeError, KeyError):
        tally.errors += 1
        return {"matches": False, "error": "json_shape"}
    try:
        return {"matches": match_topic(protocol, pattern, topic)}
    except TopicError as error:
        tally.errors += 1
        return {"matches": False, "error": error.rule}
