"""A declaration without a mistake. ``mistakes.toml`` lists edits of it that are typical mistakes."""

from __future__ import annotations

from wirelake.spec import (  # noqa: F401 (some names are for mistakes)
    Code,
    Escaped,
    Frame,
    IfLeft,
    Labels,
    LifeCycle,
    Magic,
    Message,
    Opaque,
    Protocol,
    Run,
    Size,
    Struct,
    be,
    begins,
    blob,
    declare,
    field,
    fixed,
    labelled,
    many,
    nested,
    optional,
    text,
    u8,
    within,
)
from wirelake.spec.conduct import Conduct, Limit, Result, Selection, When

HEALTH = Labels("health", {0: "well", 1: "ill"})


class Place(Struct):
    latitude: float = field(be.f64, "degrees")
    longitude: float = field(be.f64, "degrees")


class Hello(Message, code=1, kind="control", sent_by="client"):
    """A station introduces itself."""

    station: str = field(text(u8, least=1, most=32), "name of the station", role="address")
    place: Place = field(nested(Place), "where it stands")
    key: bytes = field(fixed(8), "its key")


class Report(Message, code=2, kind="request", answer=3, sent_by="client"):
    """What was measured."""

    number: int = field(be.u32, "counts reports", role="correlation")
    health: int = field(labelled(u8, HEALTH), "how the station is", role="status")
    samples: tuple[int, ...] = field(many(be.u16, u8), "the measurements")
    more: bytes = field(blob(be.u16), "what else there is")
    note: str | None = optional(text(u8), "a remark", when=IfLeft(), default=None)


class Receipt(Message, code=3, kind="response", sent_by="server"):
    """The report is stored."""

    number: int = field(be.u32, "number of the report", role="correlation")
    wait: int = field(within(be.u16, 1, 3600, "wait_range"), "until the next report")


class Alive(Message, code=4, kind="control"):
    """Nothing but a sign of life."""


CONDUCT = Conduct(
    limits=(Limit(2_000_000, messages=("report",)),),
    results=(Result("error", when=When("health", one_of=(1,))),),
    heartbeats=(Selection(messages=("alive",)),),
)
PROTOCOL = declare(
    Protocol(
        name="station",
        title="Stations",
        frame=Frame((Magic(b"WS"), Size("length", be.u16, counts="after", most=4096), Code("type", u8))),
        messages=(Hello, Report, Receipt, Alive),
        labels=(HEALTH,),
        life_cycle=LifeCycle(
            "new",
            client={"new": {"hello": "ready"}, "ready": {"report": "ready", "alive": "ready"}},
            server={"new": {}, "ready": {"receipt": "ready", "alive": "ready"}},
        ),
        ports={"tcp": 4711},
        conduct=CONDUCT,
    )
)
