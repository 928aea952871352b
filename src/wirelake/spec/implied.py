"""What the class lines of messages say about exchanges, as conduct: ``answer=``, ``failure=``, ``good=``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from . import nodes as n
from .conduct import REPLY, REQUEST, STATUS, Part, Result, When

_FROM_CLIENT, _FROM_SERVER = (When("direction", one_of=(way,)) for way in ("to_server", "to_client"))


def completed(protocol: n.Protocol) -> n.Protocol:
    """Return the protocol with the conduct that its messages imply; what the conduct itself says comes later, and wins.

    Gold and the generator then read one thing.
    """
    parts, results, instead = list(_parts(protocol)), list(_results(protocol)), set(_instead(protocol))
    if not (parts or results or instead):
        return protocol
    old = protocol.conduct
    matching = replace(old.matching, instead=old.matching.instead | instead)
    conduct = replace(old, parts=(*parts, *old.parts), results=(*results, *old.results), matching=matching)
    return replace(protocol, conduct=conduct)


def _about(protocol: n.Protocol) -> Iterator[dict[str, Any]]:
    return (cls.__message__ for cls in protocol.messages)


def _parts(protocol: n.Protocol) -> Iterator[Part]:
    """A message that replies to itself is a request of the client, and the server's reply."""
    for about in _about(protocol):
        if about["code"] in about["answers"]:
            name = about["name"]
            yield Part(REQUEST, name, "request", messages=(name,), when=_FROM_CLIENT)
            yield Part(REPLY, "", "response", messages=(name,), when=_FROM_SERVER)


def _results(protocol: n.Protocol) -> Iterator[Result]:
    failures = tuple(about["name"] for about in _about(protocol) if about["failure"])
    if failures:
        yield Result("error", messages=failures)
    for about in _about(protocol):
        if about["good"]:
            yield Result("error", messages=(about["name"],), when=When(STATUS, none_of=about["good"]))


def _instead(protocol: n.Protocol) -> Iterator[tuple[int, int]]:
    for about in _about(protocol):
        usual = about["code"] if about["code"] in about["answers"] else about["answer"]
        yield from ((usual, other) for other in about["answers"] if other != usual)
