"""Two thousand lives of hubs and their clients, with faults: no promise is broken, and the same seed gives the same
bytes. ``python -m benchmarks.lives`` plays many more of them, and replays one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.live.all_lives import KINDS
from tests.live.simulator import Disk, End
from tests.live.toy_durable import ShelfServer
from tests.live.toy_life import ToyLife
from wirelake.live.core.link import Link

LIVES = 2_000 // len(KINDS)
"""Of each kind."""
TWICE = 8

FINGERPRINTS = """
from tests.live.all_lives import KINDS
print(*(make(seed).play() for make in KINDS.values() for seed in range(5)))
"""


@pytest.mark.parametrize("kind", KINDS)
def test_no_promise_is_broken_in_any_life(kind: str) -> None:
    for seed in range(LIVES):
        life = KINDS[kind](seed)
        try:
            life.play()
        except Exception as error:
            error.add_note(f"replay it with: python -m benchmarks.lives --kind {kind} --life {seed}")
            raise


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_bytes_and_another_one_others(kind: str) -> None:
    first, second = ([KINDS[kind](seed).play() for seed in range(TWICE)] for _ in range(2))
    assert first == second
    assert len(set(first)) == TWICE


def test_the_same_seed_gives_the_same_bytes_in_another_process() -> None:
    runs = [
        subprocess.run(
            [sys.executable, "-c", FINGERPRINTS],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1] and runs[0]


def test_the_lives_of_the_toy_protocol_meet_every_outcome() -> None:
    outcomes: Counter[tuple[str, str]] = Counter()
    counts: Counter[str] = Counter()
    for seed in range(60):
        life = ToyLife(seed)
        life.play()
        outcomes += life.outcomes
        for node in (life.hub, life.other):
            assert node.session is not None and node.session.outstanding == 0
            counts += node.session.counts
    assert set(outcomes) >= {
        (word, outcome) for word in ("put", "take", "work", "send") for outcome in ("ok", "failed", "lost")
    } - {("take", "ok")} | {("take", "item"), ("subscribe", "ok")}
    assert counts["sends_dropped"]


# --- what is broken is found


def first_broken(kind: str, lives: int = 40) -> str:
    """What is wrong with the first life in which something is."""
    for seed in range(lives):
        try:
            KINDS[kind](seed).play()
        except Exception as error:
            return str(error)
    return ""


def test_a_disk_that_only_syncs_now_and_then_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    sync, calls = Disk.sync, Counter[str]()

    def lazy(disk: Disk) -> None:
        calls["sync"] += 1
        if calls["sync"] % 3 == 0:
            sync(disk)

    monkeypatch.setattr(Disk, "sync", lazy)
    assert "acknowledged" in first_broken("toy")


@pytest.mark.parametrize("kind", KINDS)
def test_a_hub_that_forgets_a_message_now_and_then_is_found_out(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    send, calls = Link.send, Counter[str]()

    def careless(link: Link, wire: bytes) -> None:
        calls[link.side] += 1
        if link.side != "server" or calls["server"] % 50:
            send(link, wire)

    monkeypatch.setattr(Link, "send", careless)
    assert first_broken(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_hub_that_says_everything_twice_is_found_out(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    send = Link.send

    def stammer(link: Link, wire: bytes) -> None:
        send(link, wire)
        if link.side == "server":
            send(link, wire)

    monkeypatch.setattr(Link, "send", stammer)
    assert first_broken(kind)


def test_nothing_arrives_on_a_link_that_is_paused_or_has_too_many_effects(monkeypatch: pytest.MonkeyPatch) -> None:
    receive, arrive = ShelfServer.receive, End._arrive
    waited: Counter[str] = Counter()

    def watched_receive(server: ShelfServer, link: Link, data: bytes, now: float) -> None:
        assert link.is_readable
        receive(server, link, data, now)

    def watched_arrive(end: End) -> None:
        waited["paused"] += end.other.link.is_paused
        waited["full"] += end.other.link.is_full
        arrive(end)

    monkeypatch.setattr(ShelfServer, "receive", watched_receive)
    monkeypatch.setattr(End, "_arrive", watched_arrive)
    for seed in range(10):
        ToyLife(seed).play()
    assert waited["paused"] and waited["full"]
