"""A protocol with conduct: tills that order from a warehouse, with time limits, errors, baskets that are committed or
rolled back, pictures in pieces, and heartbeats. Its own traffic shows all of it.

Try it: wirelake generate -p examples/orders.py:PROTOCOL -o orders.pcap
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from wirelake.spec import (
    Code,
    Frame,
    Labels,
    LifeCycle,
    Message,
    Protocol,
    Size,
    be,
    blob,
    bool8,
    declare,
    field,
    labelled,
    many,
    text,
    u8,
)
from wirelake.spec.conduct import (
    COMPLETE,
    REFUSED,
    SECOND_US,
    STATUS,
    Branches,
    Conduct,
    Introduction,
    Limit,
    Pieces,
    Result,
    Selection,
    When,
)

# --- the messages
OUTCOME = Labels("outcome", {0: "done", 1: "sold_out", 2: "too_late", 99: "failed"})


class Hello(Message, code=1, kind="control", sent_by="client"):
    """A till introduces itself."""

    till: str = field(text(u8, least=1, most=32), "name of the till")
    versions: tuple[int, ...] = field(many(u8, u8), "versions that it speaks")


class Welcome(Message, code=2, kind="control", sent_by="server"):
    """The warehouse accepts a till, or does not."""

    warehouse: str = field(text(u8), "name of the warehouse")
    accepted: bool = field(bool8, "whether the till may order")


class Alive(Message, code=3, kind="control"):
    """A sign of life."""


class Order(Message, code=4, kind="request", answer=5, sent_by="client"):
    """Puts something into a basket."""

    number: int = field(be.u32, "number of the request", role="correlation")
    basket: int = field(be.u32, "the basket", role="xid")
    item: str = field(text(u8), "what is ordered", role="address")


class Ordered(Message, code=5, kind="response", sent_by="server"):
    """What became of an order."""

    number: int = field(be.u32, "number of the request", role="correlation")
    outcome: int = field(labelled(u8, OUTCOME), "0 = done", role="status")


class Buy(Message, code=6, kind="request", answer=7, sent_by="client"):
    """Buys what is in a basket."""

    number: int = field(be.u32, "number of the request", role="correlation")
    basket: int = field(be.u32, "the basket", role="xid")


class Bought(Ordered, code=7, kind="response", sent_by="server"):
    """The basket is bought, or given up."""


class GiveUp(Message, code=8, kind="request", answer=9, sent_by="client"):
    """Puts everything back."""

    number: int = field(be.u32, "number of the request", role="correlation")
    basket: int = field(be.u32, "the basket", role="xid")


class GivenUp(Ordered, code=9, kind="response", sent_by="server"):
    """Everything is back."""


class Picture(Message, code=10, kind="event", sent_by="server"):
    """A piece of a picture of something new."""

    item: str = field(text(u8), "what it shows", role="address")
    page: int = field(be.u16, "number of the piece, from 0")
    pages: int = field(be.u16, "how many there are")
    data: bytes = field(blob(be.u16), "bytes of the picture", role="payload")


# --- the conduct
CONDUCT = Conduct(
    limits=(Limit(2 * SECOND_US, messages=("order",)), Limit(5 * SECOND_US, messages=("buy", "give_up"))),
    results=(
        Result("error", when=When(STATUS, none_of=(0,))),
        Result("timeout", when=When(STATUS, one_of=(OUTCOME.code("too_late"),))),
    ),
    heartbeats=(Selection(messages=("alive",)),),
    introductions=(
        Introduction({"till": "till", "versions": "versions"}, messages=("hello",)),
        Introduction({"warehouse": "warehouse"}, COMPLETE, messages=("welcome",), when=When("accepted")),
        Introduction({}, REFUSED, messages=("welcome",), when=When("accepted", empty=True)),
    ),
    pieces=Pieces("page_order", "page", index="page", count="pages", key="item"),
    branches=Branches(
        work=frozenset({"order"}),
        commit="buy",
        committed="bought",
        rollback="give_up",
        rolled_back="given_up",
        commits={0: "committed", 1: "rolled_back"},
        rollbacks={0: "rolled_back"},
    ),
)
# --- the end of the conduct
_TILL = dict.fromkeys(("alive", "order", "buy", "give_up"), "ready")
_WAREHOUSE = dict.fromkeys(("alive", "ordered", "bought", "given_up", "picture"), "ready")


def begin(stage: Any) -> None:
    """Start one process per till."""
    for number in range(stage.connections):
        stage.start(_till(stage, number), stage.pause(20_000))


def _till(stage: Any, number: int) -> Generator[int, None, None]:
    """Every fourth till is refused; the others order in rounds, in each of which the same things happen."""
    link = stage.connect(number)
    yield stage.delay(500)
    link.send("to_server", Hello(till=f"till-{number + 1}", versions=(1, 2)))
    yield stage.delay(500)
    link.send("to_client", Welcome(warehouse="north", accepted=number % 4 != 3))
    calls = _Calls(stage, link, 1000 * number)
    while stage.more and number % 4 != 3:
        yield from calls.round()
    yield stage.delay(1_000)
    link.close()


class _Calls:
    """The requests of one till."""

    def __init__(self, stage: Any, link: Any, first: int) -> None:
        self.stage, self.link, self.number, self.basket = stage, link, first, first

    def round(self) -> Generator[int, None, None]:
        self.basket += 1
        yield from self.ask(Order, Ordered, "done", item="apples")
        yield from self.ask(Order, Ordered, "sold_out", item="pears")
        yield from self.ask(Buy, Bought, "done")
        self.basket += 1
        yield from self.ask(Order, Ordered, "done", item="apples")
        yield from self.ask(Order, Ordered, None, item="plums")
        yield from self.ask(GiveUp, GivenUp, "done")
        self.show_picture()
        yield 10 * SECOND_US
        self.link.send("to_server", Alive())
        self.link.send("to_client", Alive())

    def show_picture(self) -> None:
        """Send a picture in three pieces; a warehouse that breaks the rules leaves out the second."""
        first, second, third = (
            Picture(item=f"new {self.number}", page=page, pages=3, data=bytes(100)) for page in range(3)
        )
        self.link.send("to_client", first)
        if self.stage.breaks():
            self.link.violate("page_order", "to_client", third)
        else:
            self.link.send("to_client", second)
            self.link.send("to_client", third)

    def ask(self, request: Any, reply: Any, outcome: str | None, **fields: str) -> Generator[int, None, None]:
        """Send a request and its reply; without an outcome, let the limit pass."""
        self.number += 1
        name = request.__message__["name"]
        limit = next(limit.limit_us for limit in CONDUCT.limits if name in limit.messages)
        message = request(number=self.number, basket=self.basket, **fields)
        exchange = self.link.ask("to_server", message, fields.get("item", ""), str(self.number), limit_us=limit)
        yield self.stage.delay(2_000) if outcome else limit + 1
        if outcome:
            code = OUTCOME.code(outcome)
            self.link.reply(exchange, reply(number=self.number, outcome=code), "error" if code else "ok", code)


PROTOCOL = declare(
    Protocol(
        name="orders",
        title="Orders of tills",
        doc="Tills order from a warehouse.",
        frame=Frame((Size("length", be.u16, counts="after", most=4096), Code("type", u8))),
        messages=(Hello, Welcome, Alive, Order, Ordered, Buy, Bought, GiveUp, GivenUp, Picture),
        labels=(OUTCOME,),
        ports={"tcp": 4712},
        life_cycle=LifeCycle(
            initial="new",
            client={"new": {"hello": "greeted"}, "greeted": {}, "ready": _TILL},
            server={"new": {}, "greeted": {"welcome": "ready"}, "ready": _WAREHOUSE},
        ),
        conduct=CONDUCT,
        traffic=begin,
    )
)
