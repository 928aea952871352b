"""Random protocols: whatever can be declared, for tests that put it through every reader."""

from __future__ import annotations

from random import Random
from typing import Any

from wirelake.spec import (
    UNSET,
    Body,
    Code,
    Frame,
    Head,
    IfLeft,
    Magic,
    Message,
    Protocol,
    Size,
    Struct,
    Tags,
    TagTable,
    When,
    be,
    blob,
    bool8,
    declare,
    field,
    fixed,
    fixed_point,
    flag,
    flag8,
    le,
    length,
    many,
    msgpack,
    nested,
    rest,
    rest_text,
    sized_by,
    tag,
    text,
    timestamp,
    view,
    within,
)
from wirelake.spec import nodes as n

MAX_FRAME = 30_000


def made(base: Any, name: str, fields: dict[str, Any], **keywords: Any) -> Any:
    """A class as if it had been written out."""
    hints = {key: Any for key, value in fields.items() if not isinstance(value, n.DerivedField)}
    members = {**fields, "__annotations__": hints, "__module__": __name__, "__doc__": "A random one."}
    return type(base)(name, (base,), members, **keywords)


class Maker:
    """Draws declarations; names are numbered, so that no two fields share a column by chance."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.seed = seed
        self.count = 0

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def integer(self) -> n.Int:
        names = ("u8", "u16", "u24", "u32", "u64", "i8", "i16", "i32", "i64")
        wire: n.Int = getattr(self.rng.choice((be, le)), self.rng.choice(names))
        return wire

    def size(self) -> n.Int:
        names = ("u8", "u16", "u24", "u32", "i8", "i16", "i32", "i64")
        wire: n.Int = getattr(self.rng.choice((be, le)), self.rng.choice(names))
        return wire

    def wire(self, depth: int) -> Any:
        draw = self.rng.choice
        kinds = ("int", "int", "float", "fixed", "bool", "text", "blob", "list", "few", "struct", "range", "scaled")
        kind = draw(kinds)
        match kind if depth < 2 or kind not in ("list", "struct") else "int":
            case "int":
                return self.integer()
            case "float":
                return draw((be.f32, be.f64, le.f32, le.f64))
            case "fixed":
                return fixed(self.rng.randrange(1, 20))
            case "bool":
                return draw((bool8, flag8))
            case "text":
                return text(self.size(), strict=draw((True, False)), least=draw((0, 0, 1)), most=draw((None, 100)))
            case "blob":
                return blob(self.size(), most=draw((None, 100)))
            case "scaled":
                return draw((fixed_point(be.i32, 16), fixed_point(le.u16, decimals=2), timestamp(be.u64, "ms")))
            case "list":
                return many(self.wire(depth + 1), self.size())
            case "few":
                return many(self.integer(), self.rng.randrange(1, 4))
            case "struct":
                return nested(self.structure(depth + 1), flat=draw((True, False)))
            case _:
                return within(be.u16, 5, 500, "some_range")

    def structure(self, depth: int) -> Any:
        fields = {self.name("part"): field(self.wire(depth)) for _ in range(self.rng.randrange(1, 4))}
        if self.rng.random() < 0.3:
            switch = self.name("switch")
            fields[switch] = field(be.i16)
            condition = When(switch, none_of=self.rng.choice(((0,), (0, -1))))
            fields[self.name("maybe")] = field(self.wire(3), when=condition, default=None)
        if self.rng.random() < 0.2:
            size, run = self.name("size"), self.name("run")
            fields[size] = length(self.size(), of=run)
            fields[run] = field(sized_by(size), default=b"")
        return made(Struct, self.name("Structure"), fields)

    def tail(self) -> dict[str, Any]:
        """What a message may end with."""
        match self.rng.randrange(8):
            case 0:
                return {self.name("rest"): field(self.rng.choice((rest, rest_text)))}
            case 1:
                return {self.name("until_end"): field(many(self.wire(1), None))}
            case 2:
                return {self.name("if_left"): field(self.integer(), when=IfLeft(), default=None)}
            case 3:
                return self.body(msgpack(absent_if_empty=True))
            case 4:
                return self.body(many(nested(self.structure(1)), None))
            case _:
                return {}

    def body(self, wire: Any) -> dict[str, Any]:
        name = self.name("body")
        return {name: field(Body(), default=None), self.name("view"): view(wire, of=name, default=UNSET)}

    def message(self, code: int) -> Any:
        fields = {self.name("field"): field(self.wire(0)) for _ in range(self.rng.randrange(5))}
        return made(Message, self.name("Message"), fields | self.tail(), code=code)

    def table(self, codes: frozenset[int]) -> Any:
        rows: dict[str, Any] = {}
        for code in range(1, self.rng.randrange(2, 7)):
            rows[self.name("tag")] = self.rng.choice(
                (
                    flag(code, codes),
                    tag(code, self.integer(), codes),
                    tag(code, text(self.size(), most=self.rng.choice((None, 50))), codes),
                    tag(code, blob(self.size()), codes),
                )
            )
        return made(TagTable, self.name("Table"), rows)

    def tagged(self, code: int, table: Any) -> Any:
        headers = {self.name("pre"): field(self.integer()), "headers": field(Tags(table), default=table())}
        return made(Message, self.name("Message"), headers | self.body(msgpack(absent_if_empty=True)), code=code)

    def parts(self) -> list[Any]:
        """A frame's header with a length and a code, in any order and width."""
        orders = (be, le)
        size = Size(
            "length",
            getattr(self.rng.choice(orders), self.rng.choice(("u16", "u24", "u32", "u64", "i32"))),
            counts=self.rng.choice(("after", "whole")),
            most=MAX_FRAME,
        )
        kinds = (be.u8, be.u16, le.u32, be.u64, le.i16)
        code = Code("kind", self.rng.choice(kinds), early=self.rng.random() < 0.5)
        magic = [Magic(self.rng.randbytes(self.rng.randrange(1, 4)))] if self.rng.random() < 0.5 else []
        return magic + ([size, code] if self.rng.random() < 0.6 else [code, size])

    def with_head(self, parts: list[Any]) -> list[Any]:
        wire = getattr(self.rng.choice((be, le)), self.rng.choice(("u16", "u24", "u32")))
        before = sum(len(part.value) if isinstance(part, Magic) else part.wire.size for part in parts)
        head = Head("head", wire, least=before + wire.size, most=20_000, body_most=self.rng.choice((None, 200)))
        at = next(i for i, part in enumerate(parts) if isinstance(part, Size)) + 1
        return [*parts[:at], head, *parts[at:]]

    def protocol(self) -> Protocol:
        codes = range(1, self.rng.randrange(2, 5))
        parts = self.parts()
        if self.rng.random() < 0.3:
            parts = self.with_head(parts)
            table = self.table(frozenset(codes))
            messages = tuple(self.tagged(code, table) for code in codes)
        else:
            messages = tuple(self.message(code) for code in codes)
        title = f"random protocol {self.seed}"
        return declare(Protocol(f"random{self.seed}", title, Frame(tuple(parts)), messages))


def random_protocol(seed: int) -> Protocol:
    return Maker(seed).protocol()
