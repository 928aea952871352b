"""One table of cases for all protocols: gold/exchanges and gold/violations agree, however the facts are cut.

A case is a list of messages, each with the second at which the capture shows it, and the rows that come of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations, pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from wirelake.gold.connections import CONNECTIONS
from wirelake.gold.facts import FACTS
from wirelake.gold.steps import GoldSteps
from wirelake.gold.tables import ACCOUNTING
from wirelake.protocols import casual, dsa, mb

from .matched import repacked
from .played import name_of
from .scenes import DOWN, UP, scene
from .test_violations import (
    ID,
    answer,
    ask,
    call,
    connect,
    dequeue,
    handshake,
    login,
    message,
    number,
    reply,
    request,
    result,
)
from .watched import watch

SECOND = 1_000_000
LIMIT = 2
START = 1_700_000_000 * SECOND
ASK, REPLY, LATE_ASK = "ask", "reply", "ask with a limit"


class Pair(NamedTuple):
    """A request and its reply that stand for all of a protocol, and what goes before them."""

    protocol: str
    opening: list[Any]
    request: Any
    reply: Any
    options: Mapping[str, Any] = MappingProxyType({})
    repeated: str = "duplicate_request"
    """What a request repeated while it is open is: this violation, or nothing."""


CLOSING = 0x20
DEQUEUED = casual.QueueDequeueReply(correlation=number(1), execution=ID, message=())
PAIRS = {
    "casual call": Pair("casual", connect(), (UP, call(1)), (DOWN, result(1))),
    "casual dequeue": Pair("casual", connect(), (UP, dequeue(1)), (DOWN, DEQUEUED)),
    "dsa list": Pair(
        "dsa", handshake(), (UP, ask(dsa.ListRequest, 1)), (DOWN, answer(dsa.ListResponse, 1, CLOSING, body=b""))
    ),
    "dsa set": Pair(
        "dsa", handshake(), (UP, ask(dsa.SetRequest, 1, body=b"\x00\x00\x01")), (DOWN, answer(dsa.SetResponse, 1, 0))
    ),
    "mb request": Pair(
        "mb", [], (UP, message(mb.Request, 1)), (DOWN, message(mb.Response, 1)), {"framing": "tcp"}, repeated=""
    ),
    "mb request of the broker": Pair(
        "mb", [], (DOWN, message(mb.Request, 1)), (UP, message(mb.Response, 1)), {"framing": "tcp"}, repeated=""
    ),
    "ceda request": Pair("ceda", login(), (UP, request(1)), (DOWN, reply(1))),
}


class Case(NamedTuple):
    messages: tuple[tuple[float, str], ...]
    exchanges: tuple[tuple[float, str, int, float | None], ...]
    """Seconds of the request, outcome, replies, latency in seconds."""
    violations: tuple[tuple[float, str], ...] = ()
    """Seconds of the message, rule."""


CASES = {
    "a request and its reply": Case(((1, ASK), (2, REPLY)), ((1, "ok", 1, 1),)),
    "a reply before its request": Case(((1, REPLY), (1.001, ASK)), ((1.001, "ok", 1, 0),)),
    "a reply long before its request": Case(
        ((1, REPLY), (6.001, ASK)), ((6.001, "unanswered", 0, None),), ((1, "unexpected_reply"),)
    ),
    "two requests with one correlation": Case(
        ((1, ASK), (2, ASK), (3, REPLY), (5, REPLY)), ((1, "ok", 1, 4), (2, "ok", 1, 1)), ((2, "repeated"),)
    ),
    "two requests with one correlation and one reply": Case(
        ((1, ASK), (2, ASK), (3, REPLY)), ((1, "unanswered", 0, None), (2, "ok", 1, 1)), ((2, "repeated"),)
    ),
    "two replies before their two requests": Case(
        ((1, REPLY), (1.1, REPLY), (1.2, ASK), (1.3, ASK)), ((1.2, "ok", 1, 0), (1.3, "ok", 1, 0))
    ),
    "a reply after the limit": Case(((1, LATE_ASK), (4, REPLY)), ((1, "timeout", 1, 3),)),
    "a reply at the end of the window": Case(((1, LATE_ASK), (63, REPLY)), ((1, "timeout", 1, 62),)),
    "a reply behind the window": Case(
        ((1, LATE_ASK), (63.001, REPLY)), ((1, "timeout", 0, None),), ((63.001, "unexpected_reply"),)
    ),
    "a reply to nobody": Case(((1, REPLY),), (), ((1, "unexpected_reply"),)),
    "a request repeated after its reply": Case(
        ((1, ASK), (2, REPLY), (3, ASK), (4, REPLY)), ((1, "ok", 1, 1), (3, "ok", 1, 1))
    ),
    "a duplicate reply": Case(((1, ASK), (2, REPLY), (3, REPLY)), ((1, "ok", 1, 1),), ((3, "duplicate_reply"),)),
    "a second reply after a minute": Case(
        ((1, ASK), (2, REPLY), (62.001, REPLY)), ((1, "ok", 1, 1),), ((62.001, "unexpected_reply"),)
    ),
    "a request without reply": Case(((1, ASK),), ((1, "unanswered", 0, None),)),
    "a request without reply and with a limit": Case(((1, LATE_ASK),), ((1, "timeout", 0, None),)),
}
END = 100
"""Seconds at which everything is over."""


def facts_of(pair: Pair, case: Case) -> pa.Table:
    """The messages of a case as facts, at its times. Limits are those of the case, whatever the protocol has."""
    lines = [pair.reply if what == REPLY else pair.request for _, what in case.messages]
    facts = watch(scene(pair.protocol, [*pair.opening, *lines], **pair.options)).facts.sort_by("order")
    before = len(pair.opening)
    times = [START + i for i in range(before)] + [us(at) for at, _ in case.messages]
    limits = [None] * before + [LIMIT * SECOND if what == LATE_ASK else None for _, what in case.messages]
    for name, values in (("ts", times), ("limit_us", limits)):
        place = FACTS.get_field_index(name)
        facts = facts.set_column(place, FACTS.field(place), pa.array(values, FACTS.field(place).type))
    return facts


def us(at: float) -> int:
    return START + round(at * SECOND)


HEAD = pa.Table.from_pylist(
    [{"connection": name_of(0), "client": "c", "server": "s", "first_us": START, "last_us": START, "is_whole": True}],
    CONNECTIONS,
)


def rows_of(facts: pa.Table, cuts: tuple[int, ...]) -> tuple[list[Any], list[Any]]:
    """Rows of gold/exchanges and gold/violations, by the places of their messages."""
    steps, exchanges, violations = GoldSteps(), [], []
    edges = [0, *cuts, facts.num_rows]
    for start, stop in pairwise(edges):
        steps = GoldSteps(repacked(steps.carry()))
        found = steps.feed(facts.slice(start, stop - start), HEAD, ACCOUNTING.empty_table(), NO_QUARANTINE)
        now = us(case_time(facts, stop))
        exchanges += [found.exchanges, *steps.settle_exchanges(now)]
        violations += [found.violations, steps.settle_violations(now)]
    exchanges += steps.settle_exchanges(us(END), final=True)
    violations.append(steps.settle_violations(us(END), final=True))
    rows = pa.concat_tables(exchanges).to_pylist()
    wrong = pa.concat_tables(violations).to_pylist()
    return (
        sorted((row["request_ts"], row["outcome"], row["replies"], row["latency_us"]) for row in rows),
        sorted((row["ts"], row["rule"]) for row in wrong),
    )


NO_QUARANTINE = pa.schema(
    [("connection", pa.string()), ("direction", pa.string()), ("offset", pa.int64()), ("ts", pa.timestamp("us", "UTC"))]
).empty_table()


def case_time(facts: pa.Table, stop: int) -> float:
    latest: int = facts.column("ts").cast(pa.int64())[stop - 1].as_py()
    return (latest - START) / SECOND


def expected(pair: Pair, case: Case) -> tuple[list[Any], list[Any]]:
    rules = {"repeated": pair.repeated}
    return (
        [
            (moment(at), outcome, replies, None if latency is None else round(latency * SECOND))
            for at, outcome, replies, latency in case.exchanges
        ],
        [(moment(at), rules.get(rule, rule)) for at, rule in case.violations if rules.get(rule, rule)],
    )


def moment(at: float) -> Any:
    return pa.scalar(us(at), FACTS.field("ts").type).as_py()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("pair", PAIRS)
def test_the_tables_agree_on_every_case_under_any_cut(pair: str, case: str) -> None:
    facts = facts_of(PAIRS[pair], CASES[case])
    wanted = expected(PAIRS[pair], CASES[case])
    first = len(PAIRS[pair].opening)
    inner = range(first + 1, facts.num_rows)
    opening = [] if PAIRS[pair].protocol == "mb" else rows_of(facts.slice(0, first), ())[0]
    for size in range(len(inner) + 1):
        for cuts in combinations(inner, size):
            exchanges, violations = rows_of(facts, cuts)
            assert ([row for row in exchanges if row not in opening], violations) == wanted, cuts
