"""The vector files of this directory as Python objects. README.md says what is in them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PROTOCOLS = ("casual", "ceda", "dsa", "mb")
OTHER_KINDS = ("cfield", "encode", "topics")
"""Files whose cases are not frames."""


@dataclass(frozen=True)
class Vector:
    """One frame, read with one setting of the options."""

    protocol: str
    file: str
    case: str
    options: dict[str, Any]
    data: bytes
    message: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    encoded: bytes = b""
    obeys: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        settings = "".join(f" {value}" for value in self.options.values())
        return f"{self.protocol}/{self.file}/{self.case}{settings}"


@dataclass(frozen=True)
class Other:
    """A case that is not a frame: an object to encode, a CFIELD buffer."""

    protocol: str
    case: str
    given: Any
    options: dict[str, Any] = field(default_factory=dict)
    expected: Any = None
    error: dict[str, Any] | None = None
    obeys: tuple[str, ...] = ()


def unhex(text: str) -> bytes:
    """Hex digits; ``2a*300`` is the byte 2a three hundred times."""
    out = bytearray()
    for word in text.split():
        digits, _, times = word.partition("*")
        out += bytes.fromhex(digits) * int(times or 1)
    return bytes(out)


def unfold(value: Any) -> Any:
    """The value with its long, dull texts written out."""
    match value:
        case {"repeat": str(piece), "times": int(times)}:
            return value.get("start", "") + piece * times
        case dict():
            return {key: unfold(item) for key, item in value.items()}
        case list():
            return [unfold(item) for item in value]
        case _:
            return value


def settings(options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every combination of the settings, where an option has several."""
    listed = [value if isinstance(value, list) else [value] for value in options.values()]
    for chosen in product(*listed):
        yield dict(zip(options, chosen, strict=True))


def cases(protocol: str, file: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((HERE / protocol / f"{file}.json").read_text(encoding="utf-8"))
    return found


@lru_cache(maxsize=8)
def vectors(protocol: str) -> tuple[Vector, ...]:
    """All frames of a protocol."""
    found = []
    for path in sorted((HERE / protocol).glob("*.json")):
        if path.stem in OTHER_KINDS:
            continue
        for case in cases(protocol, path.stem):
            data = unhex(case["hex"])
            encoded = unhex(case["encoded"]) if "encoded" in case else data
            for options in settings(case["options"]):
                found.append(
                    Vector(
                        protocol,
                        path.stem,
                        case["case"],
                        options,
                        data,
                        unfold(case.get("message")),
                        case.get("error"),
                        encoded,
                        tuple(case.get("obeys", ())),
                    )
                )
    return tuple(found)


def valid(protocol: str) -> list[Vector]:
    return [vector for vector in vectors(protocol) if vector.message is not None]


def invalid(protocol: str) -> list[Vector]:
    return [vector for vector in vectors(protocol) if vector.error is not None]


def encode_cases(protocol: str) -> list[Other]:
    """Objects to encode: bytes are expected, or an error."""
    return [
        Other(
            protocol,
            case["case"],
            unfold(case["object"]),
            case["options"],
            unhex(case["hex"]) if "hex" in case else None,
            case.get("error"),
        )
        for case in cases(protocol, "encode")
    ]


def cfield_cases() -> list[Other]:
    """CFIELD payloads: values are expected, or an error."""
    return [
        Other(
            "casual",
            case["case"],
            unhex(case["hex"]),
            {},
            case.get("values"),
            case.get("error"),
            tuple(case.get("obeys", ())),
        )
        for case in cases("casual", "cfield")
    ]


def topic_cases(protocol: str) -> list[dict[str, Any]]:
    """Pairs of pattern and topic: whether they match, or which of the two is invalid."""
    return cases(protocol, "topics")
