"""The part of the capture that is not live yet: conversations of the other protocols, made for the same seconds.

They have what a demonstration needs: services that fail, transactions that were rolled back, one that was left in
doubt, peers that break the rules, a few damaged frames. Chance is asked again until all of it is there.
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

NAME = "generated.tap"
LEAST_MESSAGES = 300
"""Of each protocol: with fewer there is hardly a transaction in it."""
SAMPLE_MESSAGES = 5000
MESSAGES_PER_CONNECTION = 600
MOST_CONNECTIONS = 24
CORRUPT, VIOLATIONS = 0.002, 0.012
MOST_TRIES = 300
TOLD_MESSAGES = 100
OPENING_SHARE = 0.9
"""New conversations begin in this share of the time; in the rest they come to their ends."""


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
    """Writes a tap of these protocols beside the live one; tells what is in it. ``made`` hears how far it is."""
    names = tuple(protocols)
    share = max(LEAST_MESSAGES, messages // max(1, len(names)))
    scenes = tuple(_scene(name, share, seed, seconds) for name in names)
    dials = Dials(corrupt=max(CORRUPT, 2 / share), violations=max(VIOLATIONS, 5 / share))
    for number in count():
        traffic = _Told(made, scenes, seed=1000 * seed + number, start_us=start_us, dials=dials, seconds=seconds)
        truth = Truth()
        write_tap(traffic, directory / NAME, truth=truth)
        if number == MOST_TRIES or has_everything(truth, names):
            return truth
    raise AssertionError


class _Told(Traffic):
    """Tells how far it is while it is played."""

    def __init__(self, made: Callable[[int], None], scenes: tuple[Scene, ...], **options: Any) -> None:
        super().__init__(scenes, **options)
        self._made = made

    def timeline(self, truth: Truth | None = None) -> Iterator[Item]:
        for number, item in enumerate(super().timeline(truth), start=1):
            if number % TOLD_MESSAGES == 0:
                self._made(TOLD_MESSAGES)
            yield item


def has_everything(truth: Truth, protocols: Iterable[str]) -> bool:
    """Whether what people should see is there."""
    outcomes = Counter(one.outcome for one in truth.transactions)
    broken = {one.protocol for one in truth.violations}
    has_transactions = "casual" not in protocols or (outcomes["in_doubt"] > 0 and outcomes["rolled_back"] > 0)
    return has_transactions and broken >= set(protocols) and len(truth.damages) > 0


def _scene(name: str, messages: int, seed: int, seconds: float) -> Scene:
    """A scene that takes about so long: its pace is found by playing a part of it at the usual one."""
    connections = min(MOST_CONNECTIONS, max(4, messages // MESSAGES_PER_CONNECTION))
    sample = min(messages, SAMPLE_MESSAGES)
    usual = generate(name, seed=seed, messages=sample, connections=connections)
    usual_seconds = _seconds(usual, sample) * messages / sample
    (scene,) = usual.scenes
    return replace(scene, messages=messages, pace=usual_seconds / (OPENING_SHARE * seconds))


def _seconds(traffic: Traffic, messages: int) -> float:
    """How long it takes until so many messages were sent."""
    last = traffic.start_us
    for number, event in enumerate(traffic, start=1):
        last = event.ts_us
        if number == messages:
            break
    return max(1, last - traffic.start_us) / 1e6
