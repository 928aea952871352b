from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pytest

from wirelake.generate import Closed, Event, Opened, Truth
from wirelake.generate.simulation import Gone, Link, Process, Simulation, Stage
from wirelake.protocols import ceda, load
from wirelake.spec.resolve import layout


def played(script: Callable[[Stage], Process], truth: Truth | None = None, messages: int = 100) -> list[Any]:
    simulation = Simulation(1_000, truth, 0.0, Random(0))
    stage = Stage(simulation, layout(load("ceda")), Random(1), messages, 1, network=3)
    stage.start(script(stage))
    return list(simulation.run())


def test_processes_run_in_the_order_of_their_times() -> None:
    seen = []

    def process(name: str, wait: int) -> Process:
        for _ in range(2):
            yield wait
            seen.append((name, simulation.now))

    simulation = Simulation(0, None, 0.0, Random(0))
    simulation.start(process("slow", 30))
    simulation.start(process("quick", 10), 5)
    assert list(simulation.run()) == []
    assert seen == [("quick", 15), ("quick", 25), ("slow", 30), ("slow", 60)]


def test_what_is_sent_comes_out_between_the_ends_of_its_connection() -> None:
    def script(stage: Stage) -> Process:
        link = stage.connect(0)
        yield 7
        link.send("to_server", ceda.Heartbeat())
        link.close(by="server", how="reset")

    opened, event, closed = played(script)
    assert isinstance(opened, Opened) and isinstance(event, Event) and isinstance(closed, Closed)
    assert (opened.ts_us, event.ts_us, closed.by, closed.how) == (1_000, 1_007, "server", "reset")
    assert event.frame == bytes.fromhex("820101") and event.message.wire_length == 3
    assert opened.connection.client[0] == "10.3.1.1"


def test_a_process_ends_when_its_connection_is_gone() -> None:
    ended = []

    def script(stage: Stage) -> Process:
        link = stage.connect(0)
        link.close()
        yield 1
        try:
            link.send("to_server", ceda.Heartbeat())
        except Gone:
            ended.append(stage.now)
            raise
        yield 1

    assert [type(item) for item in played(script)] == [Opened, Closed]
    assert ended == [1_001]


@pytest.mark.parametrize(("reply_after", "outcome"), [(40, "ok"), (90, "timeout"), (None, "timeout")])
def test_a_request_times_out_at_its_limit(reply_after: int | None, outcome: str) -> None:
    truth = Truth()

    def script(stage: Stage) -> Process:
        link = stage.connect(0)
        exchange = link.ask("to_server", ceda.Heartbeat(), "place", "key", limit_us=50)
        yield reply_after or 60
        if reply_after:
            link.reply(exchange, ceda.Heartbeat())
        yield 100

    played(script, truth)
    (exchange,) = truth.exchanges
    assert (exchange.outcome, exchange.latency_us, exchange.address) == (outcome, reply_after, "place")


def test_a_message_that_breaks_a_rule_is_noted_with_its_event() -> None:
    truth = Truth()

    def script(stage: Stage) -> Process:
        link = stage.connect(0)
        link.send("to_server", ceda.Heartbeat())
        link.ask("to_server", ceda.Heartbeat(), "", "", breaks="state")
        link.violate("unexpected_reply", "to_client", ceda.Heartbeat())
        yield 1

    played(script, truth)
    noted = [(violation.event, violation.rule, violation.direction) for violation in truth.violations]
    assert noted == [(1, "state", "to_server"), (2, "unexpected_reply", "to_client")]


def test_a_quiet_side_acts_until_nothing_new_may_begin() -> None:
    def beat(link: Link) -> None:
        link.send("to_server", ceda.Heartbeat())

    def script(stage: Stage) -> Process:
        link = stage.connect(0)
        stage.start(link.when_quiet("to_server", 100, partial(beat, link)), 100)
        yield 250
        link.send("to_server", ceda.Logout())
        yield 1

    times = [item.ts_us for item in played(script, messages=4) if isinstance(item, Event)]
    assert times == [1_100, 1_201, 1_250, 1_351]


def test_a_connection_is_busy_while_it_is_in_use() -> None:
    def script(stage: Stage) -> Process:
        link = stage.connect(0)
        link.start(iter_process(5))
        with pytest.raises(ValueError, match="inside"), link.in_use():
            assert link.busy == 2
            raise ValueError("inside")
        assert link.busy == 1
        yield 10
        assert link.busy == 0
        link.close()

    def iter_process(wait: int) -> Process:
        yield wait

    assert isinstance(played(script)[-1], Closed)
