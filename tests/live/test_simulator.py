"""The simulator itself: what it does to bytes, disks and nodes, and what its watch notices."""

from __future__ import annotations

import random

import pytest

from tests.live.simulator import Disk, Node, Watch, World
from tests.live.toy_durable import LINES, Shelf, ShelfClient, ShelfServer
from tests.live.toy_life import LANGUAGE, authenticate, work
from wirelake.live.core.session import CLIENT, SERVER


class Stage:
    """A hub with a disk, and a client that is connected to it."""

    def __init__(self, seed: int = 1) -> None:
        self.world = World(seed, LANGUAGE)
        self.disk = Disk(Shelf)
        make = lambda chance: ShelfServer(work, chance)  # noqa: E731
        self.hub = Node(self.world, "hub", make, LINES, disk=self.disk, authenticate=authenticate)
        self.events: list[tuple[object, ...]] = []
        self.client = ShelfClient("ann", "s3cret")
        self.node = Node(self.world, "ann", lambda chance: self.client, LINES, on_event=self.events.append)
        self.wire = self.world.connect(self.node, self.hub)
        self.world.run(20.0)
        assert self.events == [("ready",)]

    def ask(self, *words: str) -> None:
        self.client.ask(self.world.now, *words)
        self.node.settle()


def test_everything_arrives_in_order_however_it_is_split() -> None:
    for seed in range(20):
        stage = Stage(seed)
        for n in range(30):
            stage.ask("work", f"<{n}>")
            stage.world.run(stage.world.chance.uniform(0, 0.01))
        stage.world.run(300.0)
        assert sorted(int(str(event[1])) for event in stage.events[1:]) == list(range(1, 31))


def test_both_ends_hear_of_a_cut_and_requests_end() -> None:
    stage = Stage()
    stage.ask("put", "apple")
    stage.wire.cut()
    stage.world.run(5.0)
    assert stage.events[-2:] == [("reply", "1", ("lost",)), ("lost",)]
    assert isinstance(stage.hub.session, ShelfServer) and not stage.hub.session.guests


def test_nobody_hears_of_a_connection_that_swallows_everything_until_the_system_gives_up() -> None:
    stage = Stage()
    stage.wire.silence()
    stage.ask("put", "apple")
    stage.world.run(100.0)
    assert stage.events == [("ready",)]
    stage.world.run(100.0)
    assert stage.events[-1] == ("lost",) and not stage.disk.synced[1:]


def test_a_crash_loses_what_was_not_synced_and_keeps_what_was() -> None:
    stage = Stage()
    stage.ask("put", "apple")
    stage.world.run(20.0)
    assert stage.events[-1] == ("reply", "1", ("ok",))
    stage.hub.crash_at = stage.hub.writes + 1
    stage.ask("put", "pear")
    stage.world.run(20.0)
    assert stage.events[-1] == ("lost",) and stage.hub.session is not None
    assert "apple" in stage.disk.load().items


def test_of_what_was_not_synced_a_beginning_may_survive() -> None:
    kept = set()
    for seed in range(50):
        disk = Disk(Shelf)
        disk.written = [("put", "a"), ("put", "b")]
        disk.crash(random.Random(seed))
        kept.add(tuple(disk.load().items))
    assert kept == {(), ("a",), ("a", "b")}


def test_of_a_transaction_that_fails_a_beginning_is_done() -> None:
    stage = Stage()
    stage.disk.failures = 1.0
    stage.hub.disk = stage.disk
    for item in "abcdef":
        stage.ask("put", item)
    stage.world.run(1.0)
    replies = [str(event[2][0]) for event in stage.events if event[0] == "reply" and isinstance(event[2], tuple)]
    assert "failed" in replies or stage.events[-1] == ("lost",)


def test_the_watch_notices_what_must_not_be_said() -> None:
    watch = Watch(LANGUAGE, CLIENT)
    with pytest.raises(AssertionError, match="the client says put when open"):
        watch.says((1, "put", False), 0.0)


def test_what_came_just_now_may_be_heard_between_two_replies_but_not_for_ever() -> None:
    watch = Watch(LANGUAGE, SERVER)
    for word in ("login", "put", "bye"):
        watch.hears((0, word, False), 0.0)
    watch.says((0, "welcome", False), 0.0)
    watch.says((0, "ok", False), 0.5)
    with pytest.raises(AssertionError, match="the server says ok when closed"):
        watch.says((0, "ok", False), 2.0)
