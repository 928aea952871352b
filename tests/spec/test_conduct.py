"""Conduct: which fields and columns a declaration mentions."""

from __future__ import annotations

import pytest

from wirelake.protocols import load
from wirelake.spec.conduct import (
    STATUS,
    Branches,
    Conduct,
    Introduction,
    Limit,
    Matching,
    Pieces,
    Selection,
    Streams,
    When,
    columns_read,
    paths,
    selections,
)

PAID = When("order.paid", one_of=(1,))
CONDUCT = Conduct(
    limits=(Limit(5, messages=("ask",), when=PAID),),
    streams=Streams(once=(Selection(when=(When("direction", one_of=("to_server",)), When("last"))),)),
    introductions=(Introduction({"user": "login.name", "outcome": STATUS}, messages=("hello",)),),
    matching=Matching(invented=(Selection(when=When(STATUS)),)),
    pieces=Pieces("page_order", "page", index="page.id", signed=True, keys={"ask": "group"}),
    branches=Branches(flags="flags"),
    facts_read=("payload", "last"),
)


def test_a_condition_is_bare_if_it_asks_only_whether_a_field_is_set() -> None:
    assert When("paid").is_bare and When("paid", empty=True).is_bare
    assert not PAID.is_bare and not When("paid", least=0).is_bare


def test_one_condition_stands_for_a_tuple_of_one() -> None:
    assert Selection(when=PAID).conditions == Selection(when=(PAID,)).conditions == (PAID,)
    assert Selection().conditions == ()


def test_every_selection_comes_with_its_purpose() -> None:
    assert [purpose for purpose, _ in selections(CONDUCT)] == [
        "limits",
        "introductions",
        "matching.invented",
        "streams.once",
    ]
    assert list(selections(Conduct())) == []


def test_every_field_that_is_named_comes_with_its_purpose() -> None:
    assert list(paths(CONDUCT)) == [
        ("introductions.user", "login.name"),
        ("introductions.outcome", STATUS),
        ("pieces.index", "page.id"),
        ("pieces.keys", "group"),
        ("branches.flags", "flags"),
    ]


def test_the_columns_read_are_those_of_conditions_fields_and_the_function_once_each() -> None:
    assert columns_read(CONDUCT) == ("order", "last", "login", "page", "group", "flags", "payload")


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("mb", {"topic", "version", "request_id", "payload"}),
        ("dsa", {"headers", "handshake"}),
        ("ceda", {"control_code", "record", "masked", "reply_topic", "topic", "group"}),
    ],
)
def test_the_columns_of_built_in_conduct(name: str, read: set[str]) -> None:
    assert set(columns_read(load(name).conduct)) == read


def test_introductions_that_select_the_same_but_say_something_else_differ() -> None:
    one, other = (Introduction({"user": path}, messages=("hello",)) for path in ("name", "id"))
    assert one != other and len({one, other}) == 2
