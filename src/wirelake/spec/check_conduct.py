"""Refuses conduct that no reader could follow, and says which part of it is wrong."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..errors import SpecError
from . import nodes as n
from .check_class import check_word, require
from .columns import Column, columns
from .conduct import (
    CLOSE,
    COMPLETE,
    EVERYWHERE,
    NO_PART,
    REFUSED,
    REPLY,
    REQUEST,
    RESULTS,
    STATUS,
    Branches,
    Conduct,
    Limit,
    Pieces,
    Selection,
    When,
    paths,
    selections,
)
from .roles import field_with

_WORDS = {
    "result": RESULTS,
    "unit": ("ns", "us", "ms", "s"),
    "handshake": ("", COMPLETE, REFUSED),
    "part": (NO_PART, REQUEST, REPLY, CLOSE),
}
"""What takes one of a few words, by its name."""
_NUMBERS = frozenset(("int16", "int32", "int64", "decimal", "bool"))
_TEXTS = {"string": str, "binary": bytes}


def check_conduct(protocol: n.Protocol) -> None:
    """Raise SpecError unless everything that the conduct names exists and fits together."""
    conduct = protocol.conduct
    messages = {cls.__message__["name"]: cls for cls in protocol.messages}
    known = columns(protocol)
    for purpose, selection in selections(conduct):
        where = f"conduct.{purpose}"
        _check_words(where, selection)
        _check_names(where, selection.messages, messages)
        _check_option(where, selection, protocol)
        for when in selection.conditions:
            _check_condition(where, when, _type_of(where, when.field, known, protocol))
    for purpose, path in paths(conduct):
        _check_path(f"conduct.{purpose}", path, known, protocol)
    for name in conduct.facts_read:
        require(name in known, f"conduct.facts_read: there is no column {name!r}; name a column of the table")
    _check_parts(conduct, messages)
    _check_matching(conduct, {cls.__message__["code"] for cls in protocol.messages})
    _check_refusal(protocol)
    if conduct.streams is not None:
        _check_names("conduct.streams.lanes", [name for lane in conduct.streams.lanes for name in lane], messages)
    if conduct.pieces is not None:
        _check_pieces(conduct.pieces, known, messages)
    if conduct.branches is not None:
        _check_branches(conduct.branches, messages, protocol)


def _check_names(where: str, names: Iterable[str], messages: dict[str, Any]) -> None:
    if isinstance(names, str):
        raise SpecError(f"{where}: messages is a tuple, not {names!r}; write messages=({names!r},)")
    for name in names:
        require(name in messages, f"{where}: {name!r} is no message; write one of {', '.join(messages)}")


def _check_words(where: str, selection: Selection) -> None:
    """Refuse words that are none of those a selection takes, and conditions that are none."""
    for name, allowed in _WORDS.items():
        if hasattr(selection, name):
            check_word(f"{where}: {name}", getattr(selection, name), allowed)
    conditions = selection.when if isinstance(selection.when, tuple) else (selection.when,)
    for when in conditions:
        require(isinstance(when, When), f"{where}: when= is a condition, not {when!r}; write when=When({when!r})")
    limit = getattr(selection, "limit_us", 0)
    require(
        isinstance(limit, int), f"{where}: a limit is a whole number of microseconds, not {limit!r}; write 2_000_000"
    )


def _check_option(where: str, selection: Selection, protocol: n.Protocol) -> None:
    if selection.only is not None:
        option, value = selection.only
        require(option in protocol.options, f"{where}: there is no option {option!r}")
        require(value in protocol.options[option].values, f"{where}: {option}={value!r} cannot be")


def _find(path: str, known: dict[str, Column]) -> Column | None:
    first, *inner = path.split(".")
    column = known.get(first)
    for name in inner:
        column = None if column is None else column.children.get(name)
    return column


def _type_of(where: str, path: str, known: dict[str, Column], protocol: n.Protocol) -> str:
    """Return the type that a condition on this field deals with."""
    if path in EVERYWHERE:
        return "string"
    if path == STATUS:
        fields = (field_with(protocol, cls.__message__["name"], "status") for cls in protocol.messages)
        types = {_value_type(field.wire) for field in fields if field is not None}
        require(types, f'{where}: no field has the role status; write role="status" for it')
        return types.pop() if len(types) == 1 else "string"
    column = _find(path, known)
    if column is None:
        raise SpecError(f"{where}: there is no field {path!r}; name a column of the table, with dots")
    return column.kind if column.kind in ("list", "struct", "cells", "order") else column.type


def _value_type(wire: Any) -> str:
    inner = wire.wire if isinstance(wire, n.Tag) else wire
    return "int64" if isinstance(inner, n.Int | n.Bool | None) or getattr(inner, "number", False) else "string"


def _check_condition(where: str, when: When, type_: str) -> None:
    is_text = type_ in _TEXTS
    ordered = when.least is not None or when.most is not None or when.bits
    require(not (is_text and ordered), f"{where}: {when.field} is no number, so it has no bits, no least and no most")
    require(type_ == "string" or not when.prefix, f"{where}: {when.field} is no text, so it has no prefix")
    if not is_text and type_ not in _NUMBERS:
        require(when.is_bare, f"{where}: {when.field} has no values to compare; a condition can ask if it is set")
    kind = _TEXTS.get(type_, int)
    for value in (*when.one_of, *when.none_of):
        require(isinstance(value, kind), f"{where}: {when.field} is never {value!r}, which is no {kind.__name__}")


def _check_path(where: str, path: str, known: dict[str, Column], protocol: n.Protocol) -> None:
    type_ = _type_of(where, path, known, protocol)
    require(type_ != "cells", f"{where}: {path} are cells, of which one may be a password; use conduct.facts")
    require(type_ != "struct", f"{where}: {path} is a structure; name a field in it")


def _check_parts(conduct: Conduct, messages: dict[str, Any]) -> None:
    asking = {name for name, cls in messages.items() if cls.__message__["answer"] is not None}
    codes = {cls.__message__["code"]: name for name, cls in messages.items()}
    replying = {codes.get(cls.__message__["answer"]) for cls in messages.values()}
    replying |= {name for part in conduct.parts if part.part == REPLY for name in part.messages or messages}
    for part in conduct.parts:
        if part.part == REQUEST and part.reply in messages:
            where = f"conduct.parts: {part.reply!r} replies to what is a request only here, and is no reply itself"
            require(part.reply in replying, f"{where}; add Part(REPLY, messages=({part.reply!r},))")
        if part.part == REQUEST:
            require(
                part.reply in messages,
                f"conduct.parts: the reply {part.reply!r} is no message; name the message that replies",
            )
            asking |= set(part.messages or messages)
    for selection in (*conduct.limits, *conduct.no_reply):
        where = "conduct.limits" if isinstance(selection, Limit) else "conduct.no_reply"
        wrong = next((name for name in selection.messages if name not in asking), None)
        require(wrong is None, f"{where}: {wrong!r} is no request; name messages with answer=")
        require(not isinstance(selection, Limit) or selection.limit_us >= 0, f"{where}: a limit is not negative")


def _check_matching(conduct: Conduct, codes: set[int]) -> None:
    matching = conduct.matching
    named = matching.repeatable | matching.closed_by_replier | {code for pair in matching.instead for code in pair}
    for wrong in sorted(named - codes):
        raise SpecError(f"conduct.matching: {wrong} is the code of no message")


def _check_refusal(protocol: n.Protocol) -> None:
    state, cycle = protocol.conduct.after_refusal, protocol.life_cycle
    states = set() if cycle is None else set(cycle.client) | set(cycle.server)
    require(
        not state or state in states,
        f"conduct.after_refusal: {state!r} is no state of the life cycle; name one of its states",
    )


def _check_pieces(pieces: Pieces, known: dict[str, Column], messages: dict[str, Any]) -> None:
    require(pieces.rule in ("page_order", "group_order"), f"conduct.pieces: {pieces.rule!r} is no rule")
    require(pieces.index, "conduct.pieces: no field numbers the pieces")
    require(pieces.count or pieces.signed, "conduct.pieces: no field says how many pieces there are")
    require(pieces.key or pieces.per_stream, "conduct.pieces: no key ties the pieces of a message")
    for path in filter(None, (pieces.index, pieces.count)):
        column = _find(path, known)
        require(column and column.type in _NUMBERS, f"conduct.pieces: {path} is no number")
    _check_names("conduct.pieces.keys", pieces.keys, messages)


def _check_branches(branches: Branches, messages: dict[str, Any], protocol: n.Protocol) -> None:
    pairs = {
        "prepare": (branches.prepare, branches.prepared),
        "commit": (branches.commit, branches.committed),
        "rollback": (branches.rollback, branches.rolled_back),
    }
    _check_names("conduct.branches.work", sorted(branches.work), messages)
    for step, (request, reply) in pairs.items():
        _check_names(f"conduct.branches.{step}", filter(None, (request, reply)), messages)
        require(bool(request) == bool(reply), f"conduct.branches: {step} needs a request and its reply")
    steps = [request for request, _ in pairs.values() if request]
    require(steps, "conduct.branches: nothing ends a transaction; name a commit or a rollback")
    for name in (*sorted(branches.work), *steps):
        require(field_with(protocol, name, "xid"), f"conduct.branches: {name} has no field with the role xid")
