"""Random protocols of what only the exact readers know yet, mixed with what all know."""

from __future__ import annotations

from typing import Any

from tests.codec.declarations import MAX_FRAME, Maker, made
from wirelake.spec import (
    Code,
    Frame,
    Kept,
    Magic,
    Message,
    Protocol,
    Size,
    Struct,
    Trailer,
    Until,
    When,
    be,
    bits,
    blob,
    checksum,
    constant,
    declare,
    digits,
    field,
    fixed_point,
    le,
    many,
    nested,
    rest,
    sized,
    text,
    timestamp,
    u8,
    varint,
)

SUMS = (("crc32", be.u32), ("crc16_modbus", le.u16), ("crc16_ccitt", be.u16), ("adler32", le.u32), ("sum8", u8))


class ExactMaker(Maker):
    """Draws declarations in which numbers have any size, bits are fields and values end where they like."""

    def number(self) -> Any:
        draw = self.rng.choice
        return draw((varint(draw((1, 2, 4))), varint(3, high_first=True), digits(b" ", 0, 500), digits(b";", 0, 99)))

    def wire(self, depth: int) -> Any:
        if self.rng.random() < 0.5:
            return super().wire(depth)
        draw = self.rng.choice
        match draw(("number", "signed", "text", "blob", "list", "ended", "sized", "sized list", "counted", "scaled")):
            case "number":
                return self.number()
            case "scaled":
                return draw(
                    (timestamp(digits(b" "), "us"), fixed_point(varint(4), 7), fixed_point(self.number(), decimals=3))
                )
            case "signed":
                return digits(b"\r\n", -(2**31), 2**31 - 1, base=draw((10, 16)))
            case "text":
                return text(draw((b"\0", b"\r\n", self.number())), strict=draw((True, False)), most=80)
            case "blob":
                return blob(draw((b"\xce", b"--", self.number())))
            case "list" if depth < 2:
                return many(self.wire(depth + 1), self.number())
            case "ended" if depth < 2:
                return many(nested(made(Struct, self.name("Ended"), {self.name("e"): field(be.u16)})), b"\xff\xff\xff")
            case "sized":
                return sized(draw((be.u16, varint(3))), draw((rest, many(be.u16, None))))
            case "sized list" if depth < 2:
                return sized(be.u32, many(nested(self.structure(depth + 1)), None))
            case "counted" if depth < 2:
                return many(text(b"\n"), u8)
            case _:
                return varint(9)

    def bit_fields(self) -> dict[str, Any]:
        """The bits of an integer as fields, high ones first."""
        whole = self.rng.choice((u8, be.u16, le.u32))
        left, found = 8 * whole.size, {}
        while left:
            width = self.rng.randrange(1, min(left, 9) + 1)
            left -= width
            found[self.name("bits")] = field(bits(whole, left, width))
        return found

    def conditional(self, known: dict[str, Any]) -> dict[str, Any]:
        """A field that is there depending on one before it."""
        numbers = [name for name in known if name.startswith("bits")]
        if not numbers:
            return {}
        when: Any = self.asked(numbers)
        if self.rng.random() < 0.3:
            when = (when, self.asked(numbers))
        return {self.name("maybe"): field(self.wire(2), when=when, default=None)}

    def asked(self, numbers: list[str]) -> When:
        name = self.rng.choice(numbers)
        return self.rng.choice((When(name), When(name, empty=True), When(name, one_of=(0, 1)), When(name, bits=1)))

    def structure(self, depth: int) -> Any:
        fields = self.bit_fields() if self.rng.random() < 0.3 else {}
        fields |= {self.name("part"): field(self.wire(depth)) for _ in range(self.rng.randrange(1, 3))}
        if self.rng.random() < 0.3:
            fields[self.name("fixed")] = constant(self.rng.randbytes(2))
        return made(Struct, self.name("Structure"), fields | self.conditional(fields))

    def message(self, code: int, header: dict[str, Any] | None = None) -> Any:
        fields = dict(header or {})
        fields |= {self.name("field"): field(self.wire(0)) for _ in range(self.rng.randrange(1, 3))}
        if self.rng.random() < 0.5:
            fields |= self.bit_fields()
        fields |= self.conditional(fields)
        if self.rng.random() < 0.4:
            fields[self.name("rest")] = field(rest, default=b"")
        if self.rng.random() < 0.4:
            kind, wire = self.rng.choice(SUMS)
            fields[self.name("sum")] = checksum(wire, kind)  # type: ignore[arg-type]
        return made(Message, self.name("Message"), fields, code=code)

    def exact_parts(self) -> tuple[list[Any], dict[str, Any]]:
        """A header, and the fields that stand in it."""
        draw = self.rng.choice
        header: dict[str, Any] = {}
        parts: list[Any] = [Magic(self.rng.randbytes(2))] if self.rng.random() < 0.4 else []
        if self.rng.random() < 0.5:
            header = {"high": field(bits(u8, 2, 2)), "low": field(bits(u8, 0, 2))}
            parts += [Code("kind", bits(u8, 4, 4), early=draw((True, False))), Kept("high"), Kept("low")]
        else:
            parts += [Code("kind", draw((u8, be.u16)), early=draw((True, False)))]
        counts = draw(("after", "whole"))
        wire = draw((varint(4), digits(b" ", 0, MAX_FRAME), be.u16, le.u32))
        size = Size("length", wire, counts=counts, most=MAX_FRAME, plus=draw((0, 1, -2)))
        parts.insert(draw((0, len(parts))), size)
        if self.rng.random() < 0.4:
            parts.append(Trailer(b"\xce"))
        return parts, header

    def protocol(self) -> Protocol:
        codes = range(1, self.rng.randrange(2, 5))
        parts, header = self.exact_parts()
        messages = tuple(self.message(code, header) for code in codes)
        return declare(Protocol(f"exact{self.seed}", f"exact protocol {self.seed}", Frame(tuple(parts)), messages))


def exact_protocol(seed: int) -> Protocol:
    return ExactMaker(seed).protocol()


def lines_protocol() -> Protocol:
    """Frames that are lines, without a code."""
    line = made(
        Message,
        "Line",
        {"number": field(digits(b" ", 0, 999)), "words": field(text(b"|")), "more": field(rest)},
        code=0,
    )
    return declare(Protocol("exact_lines", "lines", Frame((Until(b"\r\n", 300),)), (line,)))
