"""Refuses wrong arguments of ``Protocol`` and of the parts of its frame, before anything reads them."""

from __future__ import annotations

import re
from typing import Any, get_args

from ..errors import SpecError
from . import nodes as n
from .check_class import check_word, require, spell
from .conduct import Branches, Conduct, Matching, Pieces, Streams
from .resolve import frames

RESERVED_NAMES = frozenset(("messages", "quarantine"))
"""Tables that a lake has beside one per protocol."""
TRANSPORTS = ("tcp", "tls", "ws", "wss")


def check_arguments(protocol: n.Protocol) -> None:
    """Raise SpecError unless the arguments of a protocol have the types that readers expect."""
    name: Any = protocol.name
    is_name = isinstance(name, str) and re.fullmatch("[a-z][a-z0-9_-]*", name)
    require(is_name, f"{name!r} is no name: lower case, letter first")
    require(name not in RESERVED_NAMES, f"every lake has a table silver/{name}: give the protocol another name")
    require(
        isinstance(protocol.frame, n.Frame | n.Choose), "it has no frame; write frame=Frame((Size(...), Code(...)))"
    )
    _check_tuple("messages", protocol.messages, "Hello, Report")
    _check_tuple("labels", protocol.labels, "STATUS")
    require(protocol.messages, "it has no messages; write messages=(Hello, Report)")
    for labels in protocol.labels:
        require(isinstance(labels, n.Labels), f'labels: {labels!r} are no Labels; write Labels("name", {{1: "one"}})')
    is_map = isinstance(protocol.frames, dict)
    require(is_map, f'frames= are named, not {protocol.frames!r}; write frames={{"hello": Frame((...))}}')
    for frame in (*frames(protocol), *protocol.frames.values()):
        _check_frame(frame)
    _check_tuple("begins", protocol.begins, '"hello"')
    require(n.USUAL not in protocol.frames, f"frames: {n.USUAL!r} is the name of frame=; write another one")
    _check_ports(protocol.ports)
    _check_parts(protocol)
    if protocol.topics is not None:
        check_word("topics: the style", protocol.topics.style, ("levels", "segments", "words"))
        separator: Any = protocol.topics.separator
        is_text = isinstance(separator, str) and separator
        require(is_text, f'topics: the separator is a text, not {separator!r}; write separator="/"')
        one, rest = protocol.topics.one, protocol.topics.rest
        require(one != rest, f"topics: one= and rest= are both {one!r}; write another one")
        is_usual = protocol.topics.style == "words" or separator == "."
        require(is_usual, f'topics: only words have another separator; write Topics("words", ..., {separator!r})')
    check_word("captured: websocket", protocol.captured.websocket, ("", "stream", "message", "frames"))


def _check_tuple(name: str, value: Any, example: str) -> None:
    spelled = getattr(value, "__name__", None) or repr(value)
    require(isinstance(value, tuple), f"{name} is a tuple, not {spelled}; write {name}=({example},)")


def _check_parts(protocol: n.Protocol) -> None:
    """Refuse an argument that is no record of its class, in the protocol and in its conduct."""
    given: dict[str, tuple[Any, type, bool]] = {
        "topics": (protocol.topics, n.Topics, True),
        "life_cycle": (protocol.life_cycle, n.LifeCycle, True),
        "captured": (protocol.captured, n.Captured, False),
        "conduct": (protocol.conduct, Conduct, False),
    }
    if isinstance(protocol.conduct, Conduct):
        conduct = protocol.conduct
        given["conduct.matching"] = (conduct.matching, Matching, False)
        given["conduct.streams"] = (conduct.streams, Streams, True)
        given["conduct.pieces"] = (conduct.pieces, Pieces, True)
        given["conduct.branches"] = (conduct.branches, Branches, True)
    for name, (value, cls, may_be_absent) in given.items():
        is_one = isinstance(value, cls) or (value is None and may_be_absent)
        remedy = f"write {name.rpartition('.')[2]}={cls.__name__}(...)"
        require(is_one, f"{name} is a {cls.__name__}, not {value!r}; {remedy}")


def _check_ports(ports: Any) -> None:
    require(isinstance(ports, dict), f'ports is a mapping, not {ports!r}; write ports={{"tcp": 4711}}')
    for transport, port in ports.items():
        check_word("ports: the transport", transport, TRANSPORTS)
        is_port = isinstance(port, int) and not isinstance(port, bool) and 0 < port < 65536
        where = f"ports: the port of {transport} is a number from 1 to 65535, not {port!r}"
        require(is_port, f"{where}; write ports={{{transport!r}: 4711}}")


def _check_frame(frame: Any) -> None:
    parts = getattr(frame, "parts", None)
    if not isinstance(parts, tuple):
        given = type(parts).__name__
        raise SpecError(f"a frame has a tuple of parts, not a {given}; write Frame((Size(...), Code(...)))")
    for part in parts:
        has_choice = any(isinstance(value, n.Choose | n.Setting) for value in getattr(part, "__dict__", {}).values())
        if not has_choice:  # each case is checked with its layout
            _check_part(part)


def _check_part(part: Any) -> None:
    match part:
        case n.Magic(value=value):
            require(isinstance(value, bytes), f"Magic takes bytes, not {value!r}; write Magic(b{str(value)!r})")
        case n.Size(name=name, wire=wire, counts=counts, least=least, plus=plus):
            check_word(f"Size {name}: counts", counts, get_args(n.Counts))
            is_size = isinstance(wire, n.Int | n.Escaped | n.Varint | n.Digits | n.By | str)
            require(is_size, f"Size {name}: {wire!r} is no integer type; write Size({name!r}, be.u16, ...)")
            if isinstance(wire, n.Escaped):
                is_byte = 0 < wire.escape < 256
                require(
                    is_byte, f"Size {name}: the value that announces a wide length is a byte; write Escaped(255, ...)"
                )
                is_plain = counts == "after" and not plus
                require(is_plain, f'Size {name}: an escaped length counts what follows it; write counts="after"')
            is_after = counts == "after" or not isinstance(wire, n.By | str)
            require(is_after, f'Size {name}: a field of the header says what follows it; write counts="after"')
            require(least >= 0, f"Size {name}: the least length {least} is negative; write least=0 or more")
        case n.Code(name=name, wire=wire) | n.Head(name=name, wire=wire):
            kind = type(part).__name__
            require(isinstance(name, str), f'{kind} has its name first; write {kind}("type", {spell(name)})')
            is_number = isinstance(wire, n.Int) or (
                isinstance(part, n.Code) and isinstance(wire, n.Bits | n.Run | n.Varint | n.Digits)
            )
            require(is_number, f"{kind} {name}: {wire!r} is no integer type; write {kind}({name!r}, u8)")
        case n.Opaque(most=most):
            given: Any = most
            is_size = isinstance(given, int) and given > 0
            require(is_size, f"Opaque: frames of {most!r} bytes cannot be; write Opaque(65536)")
        case n.Kept() | n.Line() | n.Trailer() | n.Until() | n.Ends():
            pass
        case n.Wire():
            raise SpecError(f'a frame has parts, not a bare {spell(part)}; write Size("length", {spell(part)}, ...)')
        case _:
            raise SpecError(
                f"{part!r} is no part of a frame; "
                "write Magic, Size, Head, Code, Kept, Line, Trailer, Until, Ends or Opaque"
            )
