"""The part of the capture that is not live: generated conversations of the other protocols, in the same seconds.

They have what the demonstration shows: failing services, transactions that are rolled back and one left in doubt,
peers that break the rules, a few corrupted frames. Another seed is tried until all of it is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from ..generate import Traffic, Truth, generate, write_tap
from ..generate.simulation import Item
from ..generate.traffic import Dials, Scene
from ..protocols import load

NAME = "generated.tap"
LEAST_MESSAGES = 300
"""Per protocol: fewer hold hardly a transaction."""
SAMPLE_MESSAGES = 5000
MESSAGES_PER_CONNECTION = 600
MOST_CONNECTIONS = 24
CORRUPT, VIOLATIONS = 0.002, 0.012
MOST_TRIES = 300
REPORTED_MESSAGES = 100
OPENING_SHARE = 0.9
"""New conversations begin in this share of the time and end in the rest."""


def write(
    directory: Path,
    protocols: Iterable[str],
    *,
    messages: int,
    seed: int,
    start_us: int,
    seconds: float,
    made: Callable[[int], None] = lambda _: None,
) -> Truth:
    """Write a tap of these protocols beside the live one; return the truth about it. ``made`` is told the progress."""
    names = tuple(protocols)
    share = max(LEAST_MESSAGES, messages // max(1, len(names)))
    scenes = tuple(_scene(name, share, seed, seconds) for name in names)
    dials = Dials(corrupt=max(CORRUPT, 2 / share), violations=max(VIOLATIONS, 5 / share))
    for number in count():
        traffic = _Reporting(made, scenes, seed=1000 * seed + number, start_us=start_us, dials=dials, seconds=seconds)
        truth = Truth()
        write_tap(traffic, directory / NAME, truth=truth)
        if number == MOST_TRIES or has_everything(truth, names):
            return truth
    raise AssertionError


class _Reporting(Traffic):
    """Traffic that reports its progress while it is played."""

    def __init__(self, made: Callable[[int], None], scenes: tuple[Scene, ...], **options: Any) -> None:
        super().__init__(scenes, **options)
        self._made = made

    def timeline(self, truth: Truth | None = None) -> Iterator[Item]:
        for number, item in enumerate(super().timeline(truth), start=1):
            if number % REPORTED_MESSAGES == 0:
                self._made(REPORTED_MESSAGES)
            yield item


def has_everything(truth: Truth, protocols: Iterable[str]) -> bool:
    """Return whether the traffic has everything that the demonstration shows."""
    outcomes = Counter(transaction.outcome for transaction in truth.transactions)
    broken = {violation.protocol for violation in truth.violations}
    transactional = any(load(name).conduct.branches is not None for name in protocols)
    has_transactions = not transactional or (outcomes["in_doubt"] > 0 and outcomes["rolled_back"] > 0)
    return has_transactions and broken >= set(protocols) and len(truth.corruptions) > 0


def _scene(name: str, messages: int, seed: int, seconds: float) -> Scene:
    """Return a scene that takes about so long; a sample at the usual pace tells which pace it needs."""
    connections = min(MOST_CONNECTIONS, max(4, messages // MESSAGES_PER_CONNECTION))
    sample = min(messages, SAMPLE_MESSAGES)
    usual = generate(name, seed=seed, messages=sample, connections=connections)
    usual_seconds = _seconds(usual, sample) * messages / sample
    (scene,) = usual.scenes
    return replace(scene, messages=messages, pace=usual_seconds / (OPENING_SHARE * seconds))


def _seconds(traffic: Traffic, messages: int) -> float:
    """Return the seconds until so many messages are sent."""
    last = traffic.start_us
    for number, event in enumerate(traffic, start=1):
        last = event.ts_us
        if number == messages:
            break
    return max(1, last - traffic.start_us) / 1e6
