"""Conduct that names what does not exist is refused when its protocol is declared."""

from __future__ import annotations

from typing import Any

import pytest

from wirelake.errors import SpecError
from wirelake.protocols import BUILT_IN, load
from wirelake.spec import Code, Frame, LifeCycle, Message, Protocol, Size, be, declare, field, message, text, u8
from wirelake.spec.check_conduct import check_conduct
from wirelake.spec.conduct import (
    REQUEST,
    STATUS,
    Branches,
    Conduct,
    Introduction,
    Limit,
    Matching,
    Part,
    Pieces,
    Result,
    Selection,
    Streams,
    When,
)


def declared(conduct: Conduct) -> Protocol:
    class Order(Message, code=1, kind="request", answer=2):
        """An order."""

        number: int = field(be.u32, "its number", role="correlation")
        item: str = field(text(u8), "what is wanted")

    class Ordered(Message, code=2, kind="response"):
        """What became of it."""

        number: int = field(be.u32, "its number", role="correlation")
        status: int = field(u8, "0 = done", role="status")

    cycle = LifeCycle("open", {"open": {"order": "open"}}, {"open": {"ordered": "open"}})
    frame = Frame((Size("length", be.u16, counts="after"), Code("kind", u8)))
    return declare(Protocol("shop", "Shop", frame, (Order, Ordered), life_cycle=cycle, conduct=conduct))


def test_the_conduct_of_built_in_protocols_is_well_formed() -> None:
    for name in BUILT_IN:
        check_conduct(load(name))


def test_a_protocol_with_plain_conduct_is_declared() -> None:
    made = declared(
        Conduct(
            limits=(Limit(5, messages=("order",)),),
            results=(Result("error", when=When(STATUS, none_of=(0,))),),
            heartbeats=(Selection(when=(When("item", one_of=("",)), When("direction", one_of=("to_server",)))),),
        )
    )
    assert made.conduct.limits[0].limit_us == 5


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"limits": (Limit(5, messages=("odrer",)),)}, "conduct.limits: 'odrer' is no message"),
    ({"limits": (Limit(5, messages=("ordered",)),)}, "conduct.limits: 'ordered' is no request"),
    ({"limits": (Limit(-5),)}, "conduct.limits: a limit is not negative"),
    ({"limits": (Limit(5, only=("profile", "late")),)}, "conduct.limits: there is no option 'profile'"),
    ({"no_reply": (Selection(when=When("itme")),)}, "conduct.no_reply: there is no field 'itme'"),
    ({"no_reply": (Selection(when=When("item.name")),)}, "conduct.no_reply: there is no field 'item.name'"),
    ({"results": (Result("error", when=When(STATUS, one_of=("99",))),)}, "@status is never '99', which is no int"),
    ({"results": (Result("error", when=When("item", one_of=(9,))),)}, "item is never 9, which is no str"),
    ({"results": (Result("error", when=When("item", least=9)),)}, "item is no number, so it has no bits"),
    ({"results": (Result("error", when=When("status", prefix="x")),)}, "status is no text, so it has no prefix"),
    ({"parts": (Part(REQUEST, messages=("ordered",)),)}, "conduct.parts: the reply '' is no message"),
    ({"streams": Streams(lanes=(frozenset({"x"}),))}, "conduct.streams.lanes: 'x' is no message"),
    ({"introductions": (Introduction({"who": "name"}),)}, "conduct.introductions.who: there is no field 'name'"),
    ({"matching": Matching(repeatable=frozenset({7}))}, "conduct.matching: 7 is the code of no message"),
    ({"after_refusal": "new"}, "conduct.after_refusal: 'new' is no state of the life cycle"),
    ({"pieces": Pieces("page_order", "page", key="number")}, "conduct.pieces: no field numbers the pieces"),
    ({"pieces": Pieces("page_order", "page", index="number", key="number")}, "says how many pieces there are"),
    ({"pieces": Pieces("page_order", "page", index="item", signed=True, key="item")}, "item is no number"),
    ({"branches": Branches(work=frozenset({"order"}))}, "nothing ends a transaction"),
    ({"branches": Branches(commit="order")}, "commit needs a request and its reply"),
    ({"branches": Branches(commit="order", committed="ordered")}, "order has no field with the role xid"),
    ({"facts_read": ("body",)}, "conduct.facts_read: there is no column 'body'"),
]


@pytest.mark.parametrize(("given", "sentence"), WRONG, ids=[sentence for _, sentence in WRONG])
def test_conduct_that_nobody_could_follow_is_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecError, match=f"^protocol shop: .*{sentence}"):
        declared(Conduct(**given))


def test_where_replies_come_in_order_every_response_replies_to_something() -> None:
    ask = message("Ask", code=1, kind="request", answer="done")
    done, error = (message(name, code=code, kind="response") for name, code in (("Done", 2), ("Error", 3)))
    conduct = Conduct(matching=Matching(in_order=True))
    with pytest.raises(SpecError, match="Error is a response, but no request has it as a reply, and replies come in"):
        declare(Protocol("lone", "", Frame((Code("kind", u8),)), (ask, done, error), conduct=conduct))
