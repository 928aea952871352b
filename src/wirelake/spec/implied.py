"""What the class lines of messages say about exchanges, as conduct: ``answer=``, ``failure=``, ``good=``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from zlib import crc32

from . import nodes as n
from .check_class import require
from .conduct import REPLY, REQUEST, STATUS, Part, Result, When
from .declare import in_32_bits
from .resolve import sides_of
from .states import states

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


def with_sides(protocol: n.Protocol) -> n.Protocol:
    """Return the protocol with numbers for its replies, and with a reading option, where codes depend on the side.

    Of two messages with one code, that of the server has its negative number in tables.
    """
    given: Any = protocol.messages
    messages = [cls for cls in given if hasattr(cls, "__message__")] if isinstance(given, tuple) else []
    if any(cls.__protocol__ is not None for cls in messages):
        return protocol
    _number_apart(messages)
    sides = {cls.__message__["code"]: cls for cls in messages if cls.__message__["sent_by"] == "client"}
    shared = {}
    for cls in messages:
        about = cls.__message__
        other = sides.get(about["code"])
        if about["sent_by"] == "server" and other is not None and other.__message__["frame"] == about["frame"]:
            shared[about["code"]] = -about["code"] or n.SERVER_ZERO
    for cls in messages:
        if cls.__message__["sent_by"] == "server" and cls.__message__["code"] in shared:
            cls.__message__["code"] = shared[cls.__message__["code"]]
    by_name = {cls.__message__["name"]: cls.__message__["code"] for cls in messages}
    for cls in messages:
        asks = cls.__message__["sent_by"] == "client"
        numbers = tuple(_number(cls, given, by_name, shared if asks else {}) for given in cls.__message__["answers"])
        cls.__message__ |= {"answers": numbers, "answer": numbers[0] if numbers else None}
    known = {**protocol.options, **_states(protocol, messages)}
    if not shared and not _has_frames_of_sides(protocol.frames, messages):
        return protocol if len(known) == len(protocol.options) else replace(protocol, options=known)
    undecided = next((name for name, option in protocol.options.items() if option.auto), None)
    where = f"how it is read depends on the side, so the option {undecided!r} cannot be found"
    require(undecided is None, f"{where}; leave auto= out")
    option = n.Option(("auto", "client", "server"), "auto", "which side sends", auto="client")
    return replace(protocol, options={**known, n.SIDE: option})


def _number_apart(messages: list[Any]) -> None:
    """Give a message another number in tables, if one of another frame has its code."""
    first: dict[int, str] = {}
    for cls in sorted(messages, key=lambda cls: bool(cls.__message__["frame"])):
        about = cls.__message__
        code, frame = about["code"], about["frame"]
        if code is not None and first.setdefault(code, frame) != frame:
            cls.__message__ = {**about, "code": crc32(f"{frame}/{code}".encode()) >> 1}


def _states(protocol: n.Protocol, messages: list[Any]) -> dict[str, n.Option]:
    """Return the reading option that says which frames may come, where messages say which come next."""
    if not isinstance(protocol.frames, dict):
        return {}
    names = tuple(states(replace(protocol, messages=tuple(messages))))
    undecided = next((name for name, option in protocol.options.items() if option.auto), None)
    where = f"messages lead to other frames, so the option {undecided!r} cannot be found"
    require(not names or undecided is None, f"{where}; leave auto= out")
    return {n.STATE: n.Option(names, n.ANY, "which frames may come")} if names else {}


def _has_frames_of_sides(frames: Any, messages: list[Any]) -> bool:
    """Return whether one frame is only the client's, and another one only the server's."""
    sides = [sides_of(messages, place) for place in ("", *frames)] if isinstance(frames, dict) else []
    return {"client"} in sides and {"server"} in sides


def _number(cls: Any, given: Any, by_name: Mapping[str, int], shared: Mapping[int, int]) -> int:
    """Return the number of a reply that is named by its code, or by its name."""
    if isinstance(given, str):
        where = f"{cls.__name__} has the reply {given!r}, which is no message"
        require(given in by_name, f"{where}; write one of {', '.join(map(repr, by_name))}")
        return by_name[given]
    number = in_32_bits(given)
    return shared.get(number, number)


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
