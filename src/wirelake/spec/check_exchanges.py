"""Refuses messages that cannot belong together: requests, replies, the sides that send them, and the life cycle."""

from __future__ import annotations

from typing import Any

from . import nodes as n
from .check_class import require
from .conduct import REQUEST
from .roles import field_with


def check_exchanges(protocol: n.Protocol) -> None:
    """Raise SpecError unless requests have replies that can find them, and each side sends what it may."""
    by_code = {cls.__message__["code"]: cls for cls in protocol.messages}
    for cls in protocol.messages:
        _check_request(protocol, cls, by_code)
        _check_response(protocol, cls)
        has_status = field_with(protocol, cls.__message__["name"], "status") is not None
        missing = cls.__message__["good"] and not has_status
        require(not missing, f'{cls.__name__} has good=, but no status; write role="status" for the field')
    if protocol.life_cycle is not None:
        _check_life_cycle(protocol.life_cycle, {cls.__message__["name"]: cls for cls in protocol.messages})


def _check_request(protocol: n.Protocol, cls: Any, by_code: dict[int, Any]) -> None:
    name, about = cls.__name__, cls.__message__
    answer, kind = about["answer"], about["kind"]
    if answer is None:
        asks = kind == "request" and about["name"] not in _asking_by_conduct(protocol)
        require(
            not asks, f'{name} is a request without a reply; write answer= with the code of the reply, or kind="event"'
        )
        return
    is_asking = kind in ("request", "control") or about["code"] in about["answers"]
    for answer in about["answers"]:
        require(answer in by_code, f"{name} has the reply {answer}, which is no message; write the code of its reply")
        reply = by_code[answer]
        require(is_asking, f'{name} has a reply, but its kind is {kind!r}; write kind="request"')
        fits = kind != "request" or reply is cls or reply.__message__["kind"] == "response"
        where = f"{reply.__name__} is the reply to {name}"
        require(fits, f'{where}, but its kind is {reply.__message__["kind"]!r}; write kind="response"')
        _check_sides(name, about["sent_by"], reply, where)
        _check_correlation(protocol, cls, reply)


def _check_response(protocol: n.Protocol, cls: Any) -> None:
    """Refuse a response that no request knows where the order ties them: every reply behind it would be off by one."""
    name, about = cls.__name__, cls.__message__
    if about["kind"] != "response" or not protocol.conduct.matching.in_order or protocol.conduct.parts:
        return
    is_reply = any(about["code"] in other.__message__["answers"] for other in protocol.messages)
    where = f"{name} is a response, but no request has it as a reply, and replies come in order"
    require(is_reply, f'{where}; name it in their answer=, or write kind="event"')


def _check_sides(name: str, asking: n.SentBy, reply: Any, where: str) -> None:
    replying: n.SentBy = reply.__message__["sent_by"]
    other = "server" if asking == "client" else "client"
    is_same = asking == replying and asking != "both"
    require(
        not is_same, f'{where}, but the {asking} sends both; write sent_by="{other}" for {reply.__name__} or {name}'
    )


def _asking_by_conduct(protocol: n.Protocol) -> set[str]:
    conduct = protocol.conduct
    asking = {cls.__message__["name"] for cls in protocol.messages}
    parts = [part for part in conduct.parts if part.part == REQUEST]
    return {name for part in (*parts, *conduct.no_reply) for name in (part.messages or asking)}


def _check_correlation(protocol: n.Protocol, request: Any, reply: Any) -> None:
    """A reply finds its request by a value that both have."""
    if protocol.conduct.facts is not None or protocol.conduct.matching.in_order:  # they find what no field says
        return
    for cls, other in ((request, reply), (reply, request)):
        has_one = field_with(protocol, cls.__message__["name"], "correlation") is not None
        pair = f"{reply.__name__} is the reply to {request.__name__}"
        where = f"{cls.__name__} has no field that ties it to {other.__name__}, but {pair}"
        remedy = "or, where replies come in order, conduct=Conduct(matching=Matching(in_order=True))"
        require(has_one, f'{where}; write role="correlation" for the field with the same value in both, {remedy}')


def _check_life_cycle(cycle: n.LifeCycle, messages: dict[str, Any]) -> None:
    states = set(cycle.client) | set(cycle.server)
    require(
        cycle.initial in states,
        f"the life cycle begins in {cycle.initial!r}, which is no state; name one of its states",
    )
    for side, table in (("client", cycle.client), ("server", cycle.server)):
        for state, moves in table.items():
            for name, after in moves.items():
                where = f"life cycle, state {state}"
                require(name in messages, f"{where}: {name!r} is no message; write one of {', '.join(messages)}")
                require(after in states, f"{where}: {name} leads to {after!r}, which is no state; add it or correct it")
                cls = messages[name]
                sender = cls.__message__["sent_by"]
                wrong = f"{where}: the {side} sends {name}, but {cls.__name__} has sent_by={sender!r}"
                require(sender in (side, "both"), f"{wrong}; take {name} out of the table of the {side}")
    _check_reach(cycle, messages)


def _check_reach(cycle: n.LifeCycle, messages: dict[str, Any]) -> None:
    """Refuse states that nothing leads to, and messages that no state allows."""
    reached, waiting = {cycle.initial}, [cycle.initial]
    allowed: set[str] = set()
    while waiting:
        state = waiting.pop()
        moves = {**cycle.client.get(state, {}), **cycle.server.get(state, {})}
        leads = {*cycle.client.get(state, {}).values(), *cycle.server.get(state, {}).values()}
        allowed |= moves.keys()
        waiting += leads - reached
        reached |= leads
    lost = sorted((set(cycle.client) | set(cycle.server)) - reached)
    require(not lost, f"life cycle: nothing leads to the state {lost and lost[0]}; add a message that does, or drop it")
    never = [cls.__name__ for name, cls in messages.items() if name not in allowed]
    require(not never, f"life cycle: no state allows {never and never[0]}; add it to a state")
