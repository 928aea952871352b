"""``generate``: protocols and dials -> traffic that can be played as often as one likes, always the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import takewhile
from random import Random
from typing import Any

from ..protocols import load
from ..spec import nodes as n
from ..spec.resolve import Layout, layout, settle
from . import generic
from .simulation import Event, Item, Simulation, Stage
from .truth import Truth

START_US = 1_704_067_200_000_000
"""2024-01-01 00:00 UTC."""
CONNECTIONS = 4

Script = Callable[[Stage], None]


@dataclass(frozen=True)
class Scene:
    """One protocol's part of the traffic."""

    layout: Layout
    script: Script
    messages: int
    connections: int
    pace: float = 1.0
    """How much more often than usual something is begun."""


@dataclass(frozen=True)
class Dials:
    """How bad the world is: shares between 0 and 1."""

    corrupt: float = 0.0
    ipv6: float = 0.0
    violations: float = 0.0
    disorder: float = 0.0
    gaps: float = 0.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"{name} is a share between 0 and 1, not {value}")


@dataclass(eq=False)
class Traffic:
    """Generated traffic. Iterating plays it from the start, in the order of time, and keeps nothing."""

    scenes: tuple[Scene, ...]
    seed: int
    start_us: int
    dials: Dials
    seconds: float | None = None
    run: str = ""
    """Names the connections: traffic of the same name has the same ones."""

    @property
    def protocols(self) -> tuple[n.Protocol, ...]:
        return tuple(scene.layout.protocol for scene in self.scenes)

    def __iter__(self) -> Iterator[Event]:
        return (item for item in self.timeline() if isinstance(item, Event))

    def timeline(self, truth: Truth | None = None) -> Iterator[Item]:
        """Yield messages, and where connections open and close; fill ``truth`` on the way."""
        dials = self.dials
        simulation = Simulation(self.start_us, truth, dials.corrupt, Random(f"{self.seed} damage"))
        for network, scene in enumerate(self.scenes, start=1):
            rng = Random(f"{self.seed} {scene.layout.protocol.name}")
            shares = dials.ipv6, dials.violations, scene.pace, self._first_port()
            scene.script(Stage(simulation, scene.layout, rng, scene.messages, scene.connections, network, *shares))
        end_us = math.inf if self.seconds is None else self.start_us + self.seconds * 1e6
        return takewhile(lambda item: item.ts_us <= end_us, simulation.run())

    def _first_port(self) -> int:
        """Return where client ports begin: another place for other traffic, the same for the same."""
        scenes = [(each.layout.protocol.name, each.messages, each.connections, each.pace) for each in self.scenes]
        name = self.run or f"{self.seed} {self.start_us} {self.dials} {scenes}"
        return int.from_bytes(blake2b(name.encode(), digest_size=4).digest(), "big") % 28000

    @cached_property
    def truth(self) -> Truth:
        """Play the traffic once; return what happened in it."""
        truth = Truth()
        for _ in self.timeline(truth):
            pass
        return truth


def generate(
    protocol: str | n.Protocol | Iterable[str | n.Protocol],
    *,
    seed: int = 0,
    messages: int = 1000,
    connections: int = CONNECTIONS,
    start_us: int = START_US,
    corrupt: float = 0.0,
    ipv6: float = 0.0,
    violations: float = 0.0,
    disorder: float = 0.0,
    gaps: float = 0.0,
    pace: float = 1.0,
    seconds: float | None = None,
    run: str = "",
    **options: Any,
) -> Traffic:
    """Return traffic of one protocol, or of several at the same time.

    When ``messages`` have been sent (shared between the protocols), nothing new begins, what is under way is finished
    and the connections close, so there are a few more. ``connections`` is their number per protocol. ``options`` are
    reading options of the protocols (``profile``, ``dialect`` ...): what the peers speak.

    Shares between 0 and 1: ``corrupt`` of frames that are corrupted, ``ipv6`` of connections with such addresses,
    ``violations`` of conversations in which a peer breaks the rules of its protocol, if its script has such peers. What
    happens to packets shows in captures only: ``disorder`` is the share of data packets that come late or once more,
    ``gaps`` of those (in a tap: of messages) that the capture misses.

    ``pace`` is how much more often than usual peers begin something; how long replies take stays as it is. After
    ``seconds`` nothing more is seen, whatever is under way: connections stay open.

    Other arguments give other connections, so that two captures can go into one lake; traffic with the same ``run`` has
    the same ones.
    """
    dials = Dials(corrupt, ipv6, violations, disorder, gaps)
    if messages < 0 or connections < 1:
        raise ValueError("messages and connections are positive numbers")
    if pace <= 0 or (seconds is not None and seconds <= 0):
        raise ValueError("pace and seconds are positive numbers")
    declared = [load(name) for name in ([protocol] if isinstance(protocol, (str, n.Protocol)) else protocol)]
    if not declared:
        raise ValueError("at least one protocol is needed")
    _check_options(declared, options)
    share = -(-messages // len(declared))
    scenes = tuple(
        Scene(_stream_layout(protocol, options), protocol.traffic or generic.begin, share, connections, pace)
        for protocol in declared
    )
    return Traffic(scenes, seed=seed, start_us=start_us, dials=dials, seconds=seconds, run=run)


def _check_options(declared: list[n.Protocol], options: dict[str, Any]) -> None:
    """Refuse an option that suits none of the protocols."""
    if len(declared) == 1:
        settle(declared[0], options)
    for name, value in options.items():
        if not any(protocol.has_setting(name, value) for protocol in declared):
            raise ValueError(f"none of {', '.join(protocol.name for protocol in declared)} has {name}={value!r}")


def _stream_layout(declared: n.Protocol, options: dict[str, Any]) -> Layout:
    """Return the layout for these options; if they leave a choice, one whose frames a stream decoder can find."""
    chosen = {name: value for name, value in options.items() if declared.has_setting(name, value)}
    made = layout(declared, **chosen)
    if is_stream(made):
        return made
    for name, option in declared.options.items():
        for value in option.values if name not in chosen else ():
            other = layout(declared, **(chosen | {name: value}))
            if is_stream(other):
                return other
    return made


def is_stream(made: Layout) -> bool:
    """Return whether frames say how long they are."""
    return any(isinstance(part, n.Limiting) for part in made.frame.parts)
