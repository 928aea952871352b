"""Steps that read the matcher's result, together with a matcher: facts in, rows out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from wirelake.gold.branch_events import BranchEvents, BranchEventsCarry
from wirelake.gold.exchanges import Exchanges, ExchangesCarry
from wirelake.gold.matching import Matching, MatchingCarry
from wirelake.gold.violations import Violations, ViolationsCarry
from wirelake.ingest.carry import pack, unpack

T = TypeVar("T")
Ended = Mapping[str, int | None]


def repacked(carry: T) -> T:
    """Return the carry as the lake gives it back."""
    return unpack(pack(carry), type(carry))


@dataclass
class ExchangesOfFactsCarry:
    matching: MatchingCarry
    exchanges: ExchangesCarry


class ExchangesOfFacts:
    def __init__(self, carry: ExchangesOfFactsCarry | None = None) -> None:
        self.matching = Matching(carry.matching if carry else None)
        self.exchanges = Exchanges(carry.exchanges if carry else None)

    def carry(self) -> ExchangesOfFactsCarry:
        return ExchangesOfFactsCarry(self.matching.carry(), self.exchanges.carry())

    def feed(self, facts: pa.Table, ended: Ended | None = None) -> pa.Table:
        return self.exchanges.feed(self.matching.feed(facts, ended).rows(), ended)

    def settle(
        self, watermark: int | None, final: bool = False, known_until: Callable[[str], int | None] | None = None
    ) -> Iterator[pa.Table]:
        self.matching.settle(watermark or 0, final, known_until)
        return self.exchanges.settle(watermark, final, known_until)

    def open(self) -> Iterator[pa.Table]:
        return self.exchanges.open()


@dataclass
class ViolationsOfFactsCarry:
    matching: MatchingCarry
    violations: ViolationsCarry


class ViolationsOfFacts:
    def __init__(self, carry: ViolationsOfFactsCarry | None = None) -> None:
        self.matching = Matching(carry.matching if carry else None)
        self.violations = Violations(carry.violations if carry else None)

    def carry(self) -> ViolationsOfFactsCarry:
        return ViolationsOfFactsCarry(self.matching.carry(), self.violations.carry())

    def feed(self, facts: pa.Table, connections: pa.Table, quarantined: pa.Table | None = None) -> pa.Table:
        return self.violations.feed(self.matching.feed(facts), connections, quarantined)

    def settle(self, watermark: int, final: bool = False) -> pa.Table:
        self.matching.settle(watermark, final)
        return self.violations.settle(watermark, final)


@dataclass
class EventsOfFactsCarry:
    matching: MatchingCarry
    events: BranchEventsCarry


class EventsOfFacts:
    """Events that move transactions."""

    def __init__(self, carry: EventsOfFactsCarry | None = None) -> None:
        self.matching = Matching(carry.matching if carry else None)
        self.events = BranchEvents(carry.events if carry else None)

    def carry(self) -> EventsOfFactsCarry:
        return EventsOfFactsCarry(self.matching.carry(), self.events.carry())

    def feed(self, facts: pa.Table, ended: Ended | None = None) -> pa.Table:
        return self.events.feed(self.matching.feed(facts, ended).rows(), ended or {})

    def settle(self, watermark: int) -> None:
        self.matching.settle(watermark)
        self.events.settle(watermark)
