"""Declarations that are not ours: what a user might write, with node kinds that the built-in ones leave out."""

from __future__ import annotations

from typing import Any

from wirelake.spec import (
    Body,
    Code,
    Frame,
    IfLeft,
    Kept,
    Labels,
    LifeCycle,
    Line,
    Magic,
    Message,
    Protocol,
    Size,
    Struct,
    SumLimit,
    When,
    be,
    blob,
    bool8,
    declare,
    field,
    fixed,
    labelled,
    le,
    length,
    many,
    nested,
    number,
    optional,
    rest_text,
    sized_by,
    text,
    within,
    word,
)

UNITS = Labels("unit", {0: "celsius", 1: "kelvin", 2: "percent"})


class Place(Struct, limits=(SumLimit(("east", "north"), 12, "place_length"),)):
    kind: int = field(le.u8, "0: nowhere")
    east_length = length(le.u8, of="east", when=When("kind", none_of=(0,)))
    north_length = length(le.u8, of="north", when=When("kind", none_of=(0,)))
    east: bytes = field(sized_by("east_length"), when=When("kind", none_of=(0,)), default=b"")
    north: bytes = field(sized_by("north_length"), when=When("kind", none_of=(0,)), default=b"")


class Sample(Struct):
    value: float = field(le.f32)
    exact: float = field(be.f64)
    unit: int = field(labelled(le.i16, UNITS))


class SensorMessage(Message):
    ticket: bytes = field(fixed(4), "pairs answers with questions", role="correlation")


class Hello(SensorMessage, code=1, kind="control", answer=2, sent_by="client"):
    """A sensor introduces itself."""

    name: str = field(text(be.u8, strict=True, least=3, most=20))
    zone: int = field(within(le.i32, -12, 14, "zone"))


class Welcome(SensorMessage, code=2, kind="control", sent_by="server"):
    """It is taken in."""

    accepted: bool = field(bool8)


class Ask(SensorMessage, code=3, kind="request", answer=4, sent_by="server"):
    """Asks for samples."""

    station: str = field(text(be.u8), role="address")
    from_place: Place = field(nested(Place))


class Answer(SensorMessage, code=4, kind="response", sent_by="client"):
    """Samples."""

    samples: tuple[Sample, ...] = field(many(nested(Sample), le.u8))
    raw: tuple[int, ...] = field(many(be.u24, 2))
    more: int | None = optional(le.u16, when=IfLeft(), default=None)
    note: str | None = optional(rest_text, when=IfLeft(), default=None)


class Alarm(SensorMessage, code=200, kind="event", sent_by="client"):
    """Something is wrong."""

    picture: bytes = field(blob(le.u16, most=600))
    log: tuple[int, ...] = field(many(le.i64, None))


SENSOR = declare(
    Protocol(
        name="sensor",
        title="sensors",
        frame=Frame(
            (Magic(b"SN"), Code("type", le.u8), Kept("ticket"), Size("length", be.u16, counts="after", most=900))
        ),
        messages=(Hello, Welcome, Ask, Answer, Alarm),
        labels=(UNITS,),
        life_cycle=LifeCycle(
            initial="new",
            client={
                "new": {"hello": "waiting"},
                "waiting": {},
                "known": {"answer": "known", "alarm": "known"},
            },
            server={"new": {}, "waiting": {"welcome": "known"}, "known": {"ask": "known"}},
        ),
    )
)


class Stomp(Message):
    """A header line of words, then octets."""

    place: str = field(word(r"/(?:queue|topic)/[a-z]{1,10}(?:-[^ x]?)?", "place"), role="address")
    ticket: str | None = optional(word(r"[0-9A-F]{8}", "ticket", optional=True), role="correlation", default=None)
    size: int | None = optional(
        number(r"([0-9]{1,4})", "size", 1, 9999, optional=True, only=frozenset({2}), only_rule="size"), default=None
    )
    body: bytes = field(Body(text=True, most=100), default=b"")


class Get(Stomp, code=1, word="get", kind="request", answer=2):
    pass


class Put(Stomp, code=2, word="put", kind="response"):
    pass


STOMP: Any = declare(
    Protocol(
        name="stomplike",
        title="lines",
        frame=Frame((Size("length", be.u8, counts="after"), Line(b" ", b"\n", 64, 2, 4, "verb", "verb"))),
        messages=(Get, Put),
    )
)
