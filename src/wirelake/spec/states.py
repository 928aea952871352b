"""Which frames may come next in the stream of one side: what ``then=`` in the class lines of messages says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from . import nodes as n
from .conduct import When

Then = tuple[tuple[tuple[str, ...], When | None], ...]
"""Names of frames, and when they are the next ones."""


def normal_then(given: Any) -> Then:
    """Return what a class line says in the form in which it is kept; the usual frame has no name."""
    pairs = given.items() if isinstance(given, Mapping) else [(given, None)] if given else []
    return tuple((_places(key), when) for key, when in pairs)


def _places(given: str | tuple[str, ...]) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else given
    return tuple("" if name == n.USUAL else name for name in names)


def state_name(places: tuple[str, ...]) -> str:
    """Return the name of the state in which these frames may come."""
    return "+".join(place or n.USUAL for place in places)


def states(protocol: n.Protocol) -> Mapping[str, tuple[str, ...]]:
    """Return the frames that may come, by state; nothing where every frame may always come."""
    led_to = {state_name(places): places for cls in protocol.messages for places, _ in cls.__message__["then"]}
    if not led_to:
        return {}
    every = (*protocol.frames, "")
    behind = {place for places in led_to.values() for place in places if place}
    return {
        n.ANY: tuple(place for place in every if not is_opaque(protocol, place)),
        n.BEGIN: _places(protocol.begins) or tuple(place for place in every if place not in behind),
        **led_to,
    }


def is_opaque(protocol: n.Protocol, place: str) -> bool:
    """Return whether a frame holds any bytes."""
    frame: Any = protocol.frames[place] if place else protocol.frame
    return any(isinstance(part, n.Opaque) for part in getattr(frame, "parts", ()))


def check_then(protocol: n.Protocol) -> Iterator[str]:
    """Yield what is wrong with the states of a protocol."""
    frames = ", ".join(map(repr, (n.USUAL, *protocol.frames)))
    senders = {
        place: {cls.__message__["sent_by"] for cls in protocol.messages if cls.__message__["frame"] == place}
        for place in ("", *protocol.frames)
    }
    for cls in protocol.messages:
        about = cls.__message__
        looked_up = {made.name for made in cls.__derived_fields__ if isinstance(made.how, n.Lookup)}
        names = looked_up | {field.name for field in cls.__wire_fields__}
        for places, when in about["then"]:
            for place in places:
                where = f"{cls.__name__}: then= names the frame {place!r}"
                if place and place not in protocol.frames:
                    yield f"{where}, which is none of {frames}; write one of them"
                elif not any({about["sent_by"], sender} != {"client", "server"} for sender in senders[place]):
                    yield f"{where}, which its sender never sends; name a frame of the {about['sent_by']}"
            if when is not None and when.field.partition(".")[0] not in names:
                yield f"{cls.__name__}: then= asks for {when.field!r}, which is no field of it; name a field"
    for place in _places(protocol.begins):
        if place and place not in protocol.frames:
            yield f"begins= names the frame {place!r}, which is none of {frames}; write one of them"
    if protocol.begins and not states(protocol):
        yield "begins= is for messages that lead to other frames; write then= in a class line, or leave begins= out"
    behind = {place for cls in protocol.messages for places, _ in cls.__message__["then"] for place in places}
    begins = states(protocol).get(n.BEGIN, ())
    for place in ("", *protocol.frames):
        if is_opaque(protocol, place) and (not place or place not in behind or place in begins):
            where = f"the frame {place or n.USUAL!r} is opaque, so it comes behind a message only"
            yield f"{where}; write it in frames=, and then={place or 'raw'!r} in a class line"
