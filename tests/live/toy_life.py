"""Lives of two nodes of the durable toy protocol, which crash at any write, and whose disks are full now and then."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from tests.live.lives import Life, Player
from tests.live.simulator import Disk, Language, Node, Spoken
from tests.live.toy_durable import CYCLE, LINES, NODE, Shelf, ShelfClient, ShelfServer

PASSWORD = "s3cret"
ALL = "everything"
"""The one subscription that there is."""


def reader(has_messages: bool) -> Callable[[list[bytes]], Iterable[Spoken]]:
    offset = 0

    def read(chunks: list[bytes]) -> Iterable[Spoken]:
        nonlocal offset
        for chunk in chunks:
            offset += len(chunk)
            word = chunk.split(b" ")[0].decode()
            yield offset, word, False

    return read


LANGUAGE = Language(CYCLE, reader)


def authenticate(attempt: tuple[str, str]) -> bool:
    user, password = attempt
    return user == NODE or password == PASSWORD


def work(text: str) -> str:
    if text == "bad":
        raise ValueError(text)
    return text[::-1]


class ToyPlayer(Player):
    """Remembers what each of its requests was, and what came of it."""

    life: ToyLife

    def __init__(self, life: ToyLife, number: int) -> None:
        super().__init__(life, number)
        self.node = Node(self.world, self.name, self._make, LINES, on_event=self._hear)
        self._asked: dict[str, tuple[str, ...]] = {}
        self._is_leaving = False

    def _make(self, chance: random.Random) -> ShelfClient:
        return ShelfClient(self.name, PASSWORD, chance)

    @property
    def client(self) -> ShelfClient:
        assert isinstance(self.node.session, ShelfClient)
        return self.node.session

    @property
    def is_ready(self) -> bool:
        return self.client.is_ready and not self._is_leaving

    def act(self) -> None:
        chance, what = self.life.chance, self.life.chance.random()
        if what < 0.45:
            for _ in range(chance.choice((1, 1, 5, 40))):
                self.publish("")
        elif what < 0.6:
            self._ask("take")
        elif what < 0.7:
            self._ask("subscribe")
        elif what < 0.8:
            number = self._ask("work", chance.choice(("abc", "bad")))
            if chance.random() < 0.5:
                self.client.ask(self.now, "cancel", number)
        elif what < 0.95:
            self._ask("send", chance.choice(("hub", "other", "nowhere")), f"{self.name}-{len(self.life.sent)}")
        else:
            self._is_leaving = True
            self.client.leave(self.now)

    def publish(self, topic: str) -> None:
        self._ask("put", self.next_ident(topic))

    def _ask(self, *words: str) -> str:
        number = self.client.ask(self.now, *words)
        self.open.add(number)
        self._asked[number] = words
        if words[0] == "send":
            self.life.sent.append(words[2])
        return number

    def _hear(self, event: tuple[Any, ...]) -> None:
        match event:
            case ("ready",):
                self.in_force = set(self.wanted)
            case ("news", item):
                if "." in item:
                    self.deliver(item)
            case ("reply", number, words):
                self.settled(number)
                self._ended(self._asked.pop(number), words)
            case ("lost",):
                self._is_leaving = False
                self.lost()
            case _:
                raise AssertionError(f"{event} must not be")

    def _ended(self, asked: tuple[str, ...], reply: tuple[str, ...]) -> None:
        life, outcome = self.life, reply[0]
        life.outcomes[asked[0], outcome] += 1
        match asked:
            case ("put", item):
                (life.confirmed if outcome == "ok" else life.failed if outcome == "failed" else life.unsure).add(item)
            case ("take",) if outcome == "item":
                life.taken += [reply[1]] if reply[1] else []
            case ("take",) if outcome == "lost":
                life.lost_takes += 1
            case ("subscribe",) if outcome == "ok":
                self.wanted.add(ALL)
                self.in_force.add(ALL)
            case ("work", text) if outcome == "ok":
                assert reply[1] == work(text)
            case ("send", node, item) if outcome == "ok":
                life.brought[node].append(item)


class ToyLife(Life):
    topics = ("",)
    confirms_all = True

    def __init__(self, seed: int) -> None:
        self.failed: set[str] = set()
        self.unsure: set[str] = set()
        self.taken: list[str] = []
        self.lost_takes = 0
        self.sent: list[str] = []
        self.brought: dict[str, list[str]] = {"hub": [], "other": []}
        self.outcomes: Counter[tuple[str, str]] = Counter()
        super().__init__(seed, LANGUAGE)
        self.other = self._make_node("other")
        for node in (self.hub, self.other):
            if self.chance.random() < 0.5:
                node.crash_at = self.chance.randint(1, 60)

    def make_hub(self) -> Node:
        return self._make_node("hub")

    def _make_node(self, name: str) -> Node:
        disk = Disk(Shelf, failures=self.chance.choice((0.0, 0.0, 0.05)))
        make = lambda chance: ShelfServer(work, chance)  # noqa: E731
        return Node(self.world, name, make, LINES, disk=disk, authenticate=authenticate)

    def make_player(self, number: int) -> Player:
        return ToyPlayer(self, number)

    def matches(self, pattern: str, topic: str) -> bool:
        return True

    def strike(self) -> None:
        wires = [wire for wire in self.world.wires if wire.is_up]
        if wires and self.chance.random() < 0.2:
            self.chance.choice(wires).cut()  # also those between the nodes
        else:
            super().strike()

    def check(self) -> None:
        assert self.hub.disk is not None and self.other.disk is not None
        shelf, other = self.hub.disk.load(), self.other.disk.load()
        left, taken = set(shelf.items), set(self.taken)
        assert len(self.taken) == len(taken) and not left & taken, "an item was given away twice"
        lost = self.confirmed - left - taken
        lost |= set(self.brought["hub"]) - left - taken
        assert len(lost) <= self.lost_takes, f"acknowledged and lost: {sorted(lost)}"
        assert not self.failed & (left | taken), "an item is there whose put failed"
        assert set(self.brought["other"]) <= set(other.items), "an item was not brought"
        for player in self.players:
            if player.wanted:
                assert player.name in shelf.subscribers, "an acknowledged subscription was lost"
