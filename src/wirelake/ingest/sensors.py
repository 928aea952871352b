"""Sensors: a sensor is one place where traffic was captured, in time order. Sensors know nothing of each other.

The captures of a sensor have an order: by the time of the first packet, then by name. A capture is *late* if its place
in that order lies before one that was begun already, or if it grows after a later one was begun.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

from ..lake import Input

_TAP = re.compile(r"(?:-\d{6})?\.tap(?:\.\w+)?$")
"""What the name of a tap's file has behind the name of the tap."""


COMPRESSED = (".gz", ".zst", ".xz")


class Place(NamedTuple):
    """The place of a capture in the order of its sensor."""

    first_us: int
    name: str


def place_of(capture: Input) -> Place | None:
    """Return the place of a capture; None if it has no packet yet, or no times."""
    return None if capture.first_us is None else Place(capture.first_us, capture.name)


def base_name(path: str) -> str:
    """Return the name of a file, without what compression adds to it."""
    name = path.rpartition("/")[2]
    return next((name.removesuffix(suffix) for suffix in COMPRESSED if name.endswith(suffix)), name)


def default_sensor(path: str, kind: str) -> str:
    """Return the sensor of a capture for which none is named: its directory; of a tap, its name."""
    directory = path.rpartition("/")[0] or "/"
    return _TAP.sub("", path) if kind == "tap" else directory


def separate_sensor(sensor: str, capture: str) -> str:
    """Return the name of a sensor for a late capture alone."""
    return f"{sensor}#{base_name(capture)}"


def sensor_key(sensor: str) -> str:
    """Return what stands for a sensor in the names of files."""
    return hashlib.blake2b(sensor.encode(), digest_size=8).hexdigest()
