"""A protocol that is not built in: a weather station that reports to a collector, declared in under 40 lines.

Try it: wirelake describe examples/sensor.py:PROTOCOL
"""

from __future__ import annotations

from datetime import datetime

from wirelake.spec import (
    Code,
    Frame,
    Labels,
    Magic,
    Message,
    Protocol,
    Size,
    Struct,
    be,
    declare,
    field,
    labelled,
    many,
    nested,
    text,
    timestamp,
    u8,
    within,
)

# --- the declaration
QUANTITY = Labels("quantity", {1: "temperature", 2: "humidity", 3: "pressure"})
HEALTH = Labels("health", {0x01: "low_battery", 0x02: "sensor_lost", 0x04: "clock_unset"}, bits=True)


class Place(Struct):
    latitude: float = field(be.f64, "degrees, north is positive")
    longitude: float = field(be.f64, "degrees, east is positive")


class Sample(Struct):
    quantity: int = field(labelled(u8, QUANTITY), "what was measured")
    value: float = field(be.f32, "how much")


class Hello(Message, code=1, kind="control", sent_by="client"):
    """A station introduces itself."""

    station: str = field(text(u8, least=1, most=32), "name of the station", role="address")
    place: Place = field(nested(Place), "where it stands")


class Report(Message, code=2, kind="request", answer=3, sent_by="client"):
    """What was measured since the last report."""

    number: int = field(be.u32, "goes up by one with every report", role="correlation")
    taken: datetime = field(timestamp(be.i64, "ms"), "when")
    health: int = field(labelled(u8, HEALTH), "what is wrong with the station")
    samples: tuple[Sample, ...] = field(many(nested(Sample), be.u16), "the measurements")


class Receipt(Message, code=3, kind="response", sent_by="server"):
    """The collector has stored a report."""

    number: int = field(be.u32, "number of the report", role="correlation")
    wait: int = field(within(be.u16, 1, 3600, "wait_range"), "until the next report", unit="s")


PROTOCOL = declare(
    Protocol(
        name="sensor",
        title="Sensor protocol",
        doc="Weather stations report what they measure; a collector acknowledges.",
        frame=Frame((Magic(b"WS"), Size("length", be.u16, counts="after", most=4096), Code("type", u8))),
        messages=(Hello, Report, Receipt),
        labels=(QUANTITY, HEALTH),
        ports={"tcp": 4711},
    )
)
# --- the end of the declaration
