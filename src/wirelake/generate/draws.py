"""A wire node -> a function that draws random values of its kind: all that the description allows, and nothing else."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import or_
from random import Random
from typing import Any, NamedTuple, assert_never

import msgspec

from ..codec.frame import struct_fields
from ..codec.numerals import highest
from ..codec.scales import meaning, microseconds
from ..codec.walk import read_word
from ..errors import EncodeError
from ..spec import nodes as n
from ..spec.check import holds_choice
from ..spec.check_wires import size_given
from ..spec.conditions import asked_around, conditions_of, holds
from ..spec.conduct import When
from ..spec.declare import Cell, Tagged
from ..spec.derive import reach
from ..spec.resolve import Layout
from .patterns import texts

UNSET = msgspec.UNSET
TRIES = 24
_DEEP = 3
_NULLS = 0.1
"""How often a value that may be null is."""

Values = dict[str, Any]
"""The values drawn so far, by field name; keys that no field can have hold what later fields must know."""
WITH_IDS, NOTHING_LEFT = ":with ids", ":nothing left"
NAMES, AROUND = ":names", ":around"


class Draw(NamedTuple):
    """Where random values come from, and how large they are."""

    rng: Random
    size: float = 1.0
    depth: int = 0
    around: Mapping[str, Any] | None = None
    """The values around what is drawn."""


Maker = Callable[[Draw], Any]
Step = Callable[[Draw, Values], None]


def _pick(rng: Random, items: Any) -> Any:
    return items[int(rng.random() * len(items))]


def int_bounds(wire: n.Int) -> tuple[int, int]:
    bits = wire.size * 8
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if wire.signed else (0, (1 << bits) - 1)
    return (low if wire.low is None else wire.low), (high if wire.high is None else wire.high)


def _as_int(wire: n.Bits | n.Varint | n.Digits) -> n.Int:
    """Return an integer with the same values."""
    match wire:
        case n.Bits(wire=whole, width=width):
            high = whole.high if whole.high is not None else (1 << width) - 1
            return replace(whole, low=whole.low or 0, high=high)
        case n.Varint():
            low = n.limits(wire)[0]
            return n.Int(8, low < 0, False, low=low, high=highest(wire))
        case n.Digits(low=low, high=high):
            return n.Int(8, True, False, low=low, high=high)


def _int(wire: n.Int) -> Maker:
    """Named values, extremes, small numbers, and anything."""
    low, high = int_bounds(wire)
    span = high - low + 1
    bits = span.bit_length()
    near = min(max(0, low), high)
    edges = sorted({value for value in (low, low + 1, high - 1, high, -1, 0, 1, 127, 128, 255) if low <= value <= high})
    labels = wire.labels
    named = tuple(value for value in labels.names if low <= value <= high) if labels is not None else ()
    is_set = labels is not None and labels.bits

    def make(draw: Draw) -> int:
        rng = draw.rng
        kind = rng.random()
        if named and kind < 0.5:
            value: int = _pick(rng, named)
            return value | _pick(rng, named) if is_set and kind < 0.25 else value
        if kind < 0.65:
            return edges[int(rng.random() * len(edges))]
        if kind < 0.85:
            return near + int(rng.random() * min(span, high - near + 1, 1000))
        return low + rng.getrandbits(bits) % span

    return make


_ODD_FLOATS = (0.0, -0.0, 1.0, 5e-324, 1e38, float("inf"), float("-inf"))


def _float(wire: n.Float) -> Maker:
    narrow = struct.Struct("<f")

    def make(draw: Draw) -> float:
        rng = draw.rng
        value = rng.gauss(0, 1000) if rng.random() < 0.8 else _pick(rng, _ODD_FLOATS)
        return float(narrow.unpack(narrow.pack(value))[0]) if wire.size == 4 else value

    return make


def _fixed(size: int) -> Maker:
    nil = bytes(size)
    return lambda draw: draw.rng.randbytes(size) if draw.rng.random() > 0.05 else nil


_ALPHABETS = (
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/ ",
    "äöüßéèñçåøÆÐþ¿§±µ",
    "日本語中文字符한국어กขค",
    "😀🚆🧪𝔘𝄞",
    "\x00\x01\t\n\r\x1b\x7f\x80\ufeff\u2028{}[]\"'\\:,",
)
_SAMPLES = tuple("".join(Random(f"{i}").choices(alphabet, k=4096)) for i, alphabet in enumerate(_ALPHABETS))


def random_length(draw: Draw, most: int | None) -> int:
    """Mostly short, sometimes nothing, sometimes long, sometimes all that fits."""
    kind = draw.rng.random()
    if kind < 0.08:
        return 0
    if kind > 0.99 and most is not None and most <= 256 * draw.size:
        return most
    mean = 8 if kind < 0.9 else 80
    length = int(draw.rng.expovariate(1 / mean) * draw.size)
    return length if most is None or length <= most else most


def random_text(draw: Draw, least: int = 0, most: int | None = None) -> str:
    """Text that takes ``least`` .. ``most`` bytes as UTF-8."""
    length = max(least, random_length(draw, most))
    kind = draw.rng.random()
    sample = _SAMPLES[0] if kind < 0.7 else _pick(draw.rng, _SAMPLES)
    start = int(draw.rng.random() * 2048)
    text = sample[start : start + length]
    while len(text) < length:
        text += sample[: length - len(text)]
    if sample is _SAMPLES[0] or most is None:
        return text
    raw = text.encode()
    return text if len(raw) <= most else raw[:most].decode("utf-8", "ignore").ljust(least, "x")


def _in_charset(text: str, charset: str) -> str:
    """Return the part of a text that a character set has; ASCII alone if it does not come back as it went."""

    def through(part: str) -> str:
        return part.encode(charset, "ignore").decode(charset, "ignore")

    kept = through(text)
    return kept if through(kept) == kept else text.encode("ascii", "ignore").decode()


def _loose_text(draw: Draw, least: int, most: int | None) -> str:
    """Text that need not be UTF-8."""
    if draw.rng.random() > 0.05:
        return random_text(draw, least, most)
    return draw.rng.randbytes(max(least, random_length(draw, most))).decode("utf-8", "surrogateescape")


def random_free(draw: Draw, *, binary: bool, depth: int = 0) -> Any:
    """A free-form value as MessagePack (``binary``) or JSON can hold it."""
    rng = draw.rng
    match int(rng.random() * (9 if depth < 3 else 6)):
        case 0:
            return None
        case 1:
            return rng.random() < 0.5
        case 2:
            return _pick(rng, (0, 1, -1, 127, 128, -32, -33, 255, 256, 65535, 65536, 2**32, 2**53, 2**63 - 1, -(2**63)))
        case 3:
            return rng.gauss(0, 1000)
        case 4:
            return random_text(draw)
        case 5:
            return rng.randbytes(random_length(draw, None)) if binary else int(rng.random() * 1000)
        case 6:
            count = int(rng.random() * 5 * min(draw.size, 4))
            return [random_free(draw, binary=binary, depth=depth + 1) for _ in range(count)]
        case _:
            return random_map(draw, binary=binary, depth=depth)


def random_map(draw: Draw, *, binary: bool, depth: int = 0) -> dict[Any, Any]:
    count = int(draw.rng.random() * 5 * min(draw.size, 4))
    entries: dict[Any, Any] = {}
    for _ in range(count):
        key: Any = random_text(draw)
        if binary and draw.rng.random() < 0.05:
            key = int(draw.rng.random() * 300)
        entries[key] = random_free(draw, binary=binary, depth=depth + 1)
    return entries


def _or_null(make: Maker) -> Maker:
    return lambda draw: None if draw.rng.random() < _NULLS else make(draw)


def _run(wire: n.Run[Any], most: int | None = None) -> Maker:
    if wire.null is not None:
        return _or_null(_run(replace(wire, null=None), most))
    if wire.escapes:
        return _with_escapes(wire, most)
    least = wire.least
    limits = [limit for limit in (wire.most, most) if limit is not None]
    if n.written(wire.length) is not None:
        fewest, longest = n.sizes(wire.length)
        least, limits = max(least, fewest), [*limits, longest]
    if isinstance(wire.length, n.By) and wire.length.times > 1:
        return _in_units(wire, most)
    if isinstance(wire.length, int):
        return _without_pad(wire)
    if isinstance(wire.length, bytes):
        return _without(wire.length, _run(replace(wire, length=None), most), least)
    limit = min(limits, default=None)
    may_be_absent = wire.absent_if_empty
    match wire.content:
        case "bytes":
            return lambda draw: draw.rng.randbytes(max(least, random_length(draw, limit)))
        case "text":
            return lambda draw: _loose_text(draw, least, limit)
        case "strict_text" if wire.charset == "utf-8":
            return lambda draw: random_text(draw, least, limit)
        case "strict_text":
            return lambda draw: _in_charset(random_text(draw, least, limit), wire.charset)
        case "msgpack":
            return lambda draw: UNSET if may_be_absent and draw.rng.random() < 0.2 else random_free(draw, binary=True)
        case "msgpack_map":
            return lambda draw: UNSET if may_be_absent and draw.rng.random() < 0.2 else random_map(draw, binary=True)
        case "json":
            return lambda draw: random_free(draw, binary=False)
        case _:
            assert_never(wire.content)


def _in_units(wire: n.Run[Any], most: int | None) -> Maker:
    """Return what makes values whose length is a whole number of units."""
    fewest, longest = n.sizes(wire.length)
    limit = min(each for each in (longest, wire.most, most) if each is not None)
    make = _run(replace(wire, length=None, most=limit))
    charset = wire.charset if wire.content == "strict_text" else "utf-8"

    def drawn(draw: Draw) -> Any:
        value = make(draw)
        raw = value if isinstance(value, bytes) else value.encode(charset, "surrogateescape")
        raw = raw.ljust(fewest, b"x")[: max(len(raw), fewest)]
        raw = raw[: len(raw) - (len(raw) - fewest) % wire.length.times]
        if isinstance(value, bytes):
            return raw
        return raw.decode(charset, "surrogateescape" if wire.content == "text" else "ignore")

    return drawn


def _without_pad(wire: n.Run[Any]) -> Maker:
    """Return what makes values that fit into the fixed size and do not end, or begin, with the filling."""
    make = _run(replace(wire, length=None, pad=b"", pad_before=b"", most=wire.length))

    def drawn(draw: Draw) -> Any:
        value = make(draw)
        is_bytes = isinstance(value, bytes)
        pad, before = (each if is_bytes else each.decode("ascii") for each in (wire.pad, wire.pad_before))
        return value.rstrip(pad) if pad else value.lstrip(before)

    return drawn


def _with_escapes(wire: n.Run[Any], most: int | None) -> Maker:
    """Return what makes values of which each byte may be written as an escape, and some are."""
    size = max(len(written) for written, _ in wire.escapes)
    longest = n.sizes(wire.length)[1] if n.written(wire.length) is not None else None
    limits = [limit for limit in (wire.most, most, longest) if limit is not None]
    make = _run(replace(wire, escapes=(), most=None), min(limits) // size if limits else None)
    meant = [each for _, each in wire.escapes]

    def drawn(draw: Draw) -> Any:
        value = make(draw)
        if draw.rng.random() < 0.5 or not value:
            return value
        raw = bytearray(value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value)
        at, put = draw.rng.randrange(len(raw)), _pick(draw.rng, meant)
        raw[at : at + len(put)] = put
        return raw.decode("utf-8", "surrogateescape") if isinstance(value, str) else bytes(raw)

    return drawn


def _without(end: bytes, make: Maker, least: int) -> Maker:
    """Return what makes the same values without the bytes that end them."""

    def drawn(draw: Draw) -> Any:
        value = make(draw)
        raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
        for byte in set(end):
            raw = raw.replace(bytes([byte]), b"")
        raw = raw.ljust(least, b"x" if b"x" not in end else b"y")
        return raw.decode("utf-8", "surrogateescape") if isinstance(value, str) else raw

    return drawn


_COUNTED = 40
"""Sizes in fields of their own are mostly not above this."""


def _sized_maker(wire: Any, layout: Layout) -> Callable[[Draw, Values], Any]:
    """Return what draws a value of the size that an earlier field holds; where that holds none, of any size."""
    size = n.By.of(size_given(wire))
    assert size is not None
    free = _run(replace(wire, length=wire.end or None)) if isinstance(wire, n.Run) else value_maker(wire, layout)
    element = value_maker(wire.element, layout) if isinstance(wire, n.Many) else None

    def make(draw: Draw, values: Values) -> Any:
        said = size.number(lambda name: _reach(values, name))
        draw = draw._replace(around=values)
        if said is None:
            return free(draw)
        number = max(0, said)
        if element is not None:
            return tuple([element(draw) for _ in range(number)])
        if isinstance(wire, n.Run):
            raw = bytes(draw.rng.choices(b"abcdefgh0123456789", k=number))
            return raw.decode() if wire.content in ("text", "strict_text") else raw
        return free(draw)

    return make


def sizes(fields: tuple[n.Field, ...]) -> frozenset[str]:
    """Return the fields that hold sizes of later ones."""
    given = (n.By.of(size_given(f.wire)) for f in fields)
    inner: frozenset[str] = frozenset().union(*(sizes_around(f.wire) for f in fields))
    return inner | frozenset(name for by in given if by is not None for name in by.names)


def sizes_around(wire: Any, seen: tuple[Any, ...] = ()) -> frozenset[str]:
    """Return the fields around a value that hold sizes in it. ``seen``: the structures around it."""
    match wire:
        case n.Sized(inner=inner) | n.Many(element=inner):
            return sizes_around(inner, seen)
        case n.Choice(known=known) if wire not in seen:
            return frozenset().union(*(sizes_around(case, (*seen, wire)) for case in known.values()))
        case n.Nested(struct=cls) if cls not in seen:
            fields = cls.__wire_fields__
            found = frozenset().union(*(sizes_around(f.wire, (*seen, cls)) for f in fields))
            given = (n.By.of(size_given(f.wire)) for f in fields)
            found |= {name for by in given if by is not None for name in by.names}
            return found - {f.name for f in fields}
        case _:
            return frozenset()


def _small(wire: Any, make: Maker) -> Maker:
    """Return what draws numbers that a size can be: none of them is large, unless it must be."""
    low = (wire.low or 0) if isinstance(wire, n.Word) else max(0, int_bounds(_counting(wire))[0])
    high = wire.high if isinstance(wire, n.Word) else int_bounds(_counting(wire))[1]
    most = low + _COUNTED if high is None else min(high, low + _COUNTED)

    def drawn(draw: Draw) -> Any:
        value = make(draw)
        return value if value is None or low <= value <= most else draw.rng.randint(low, most)

    return drawn


def value_maker(wire: Any, layout: Layout) -> Maker:
    match wire:
        case n.Int():
            return _int(wire)
        case n.Bits() | n.Varint() | n.Digits():
            return _int(_as_int(wire))
        case n.Sized(inner=inner):
            return value_maker(inner, layout)
        case n.Choice():
            return _choice(wire, layout)
        case n.Bool():
            return lambda draw: draw.rng.random() < 0.5
        case n.Scaled(wire=inner):
            return _scaled(wire, layout)
        case n.Float():
            return _float(wire)
        case n.Fixed(size=size):
            return _fixed(size)
        case n.Run():
            return _run(wire)
        case n.Nested(struct=cls):
            return _struct(cls, layout)
        case n.Many():
            return _many(wire, layout)
        case n.Cells():
            return cells_maker(wire, layout)
        case _:
            raise AssertionError(f"{wire!r} is not a wire node")


def _scaled(wire: n.Scaled[Any], layout: Layout) -> Maker:
    """Any value; of times, mostly those of these years."""
    if wire.form:
        return _written_time(wire)
    value, make, (low, high) = meaning(wire), value_maker(wire.wire, layout), n.limits(wire.wire)
    years = [(second - wire.epoch) * wire.per for second in _THESE_YEARS] if wire.epoch is not None else [low, low]
    is_near = low <= years[0] < years[1] <= high

    def drawn(draw: Draw) -> Any:
        return value(draw.rng.randrange(*years) if is_near and draw.rng.random() < 0.8 else make(draw))

    return drawn


def _written_time(wire: n.Scaled[Any]) -> Maker:
    """A time of which a text says all."""
    start, unit = datetime(1970, 1, 1, tzinfo=UTC), microseconds(wire)

    def drawn(draw: Draw) -> datetime:
        second = draw.rng.randrange(*(_THESE_YEARS if draw.rng.random() < 0.8 else (-(10**10), 10**11)))
        since = second * 1_000_000 + draw.rng.randrange(1_000_000)
        return start + timedelta(microseconds=since // unit * unit)

    return drawn


_THESE_YEARS = (1_577_836_800, 1_893_456_000)
"""2020 to 2029, in seconds after 1970 began."""


class _TooDeep(Exception):
    """Values lie deeper inside each other than they may."""


def _choice(wire: n.Choice[Any], layout: Layout) -> Maker:
    """Return what draws a case; what is deep inside holds no further choices."""
    known = wire.known
    if wire.tag is None:
        return _holding_itself(wire, layout)
    flat = [tag for tag, case in known.items() if not holds_choice(case)]
    tags = list(known)
    makers: dict[Any, Maker] = {}

    def make(draw: Draw) -> Any:
        is_deep = draw.depth >= min(wire.depth - 1, _DEEP)
        tag = _pick(draw.rng, flat if is_deep else tags)
        if known[tag] is None:
            return Tagged(tag)
        if tag not in makers:
            makers[tag] = value_maker(known[tag], layout)
        return Tagged(tag, makers[tag](draw._replace(depth=draw.depth + 1)))

    return _anew_if_too_deep(wire, make)


def _holding_itself(wire: n.Choice[Any], layout: Layout) -> Maker:
    """Return what draws a structure that may hold itself."""
    made: list[Maker] = []

    def make(draw: Draw) -> Any:
        if draw.depth >= wire.depth:
            raise _TooDeep
        if not made:
            made.append(value_maker(wire.known[None], layout))
        return made[0](draw._replace(depth=draw.depth + 1))

    return _anew_if_too_deep(wire, make)


def _anew_if_too_deep(wire: n.Choice[Any], make: Maker) -> Maker:
    """Return what draws again where values lie too deep; the outermost one does, whatever it holds."""

    def again(draw: Draw) -> Any:
        if draw.depth:
            return make(draw)
        for _ in range(50 * TRIES):
            with suppress(_TooDeep):
                return make(draw)
        raise EncodeError(f"nothing of {wire.depth} levels was drawn", rule="depth_limit")

    return again


def _counting(count: n.Number | n.Bits) -> n.Int:
    return count if isinstance(count, n.Int) else _as_int(count)


def _many(wire: n.Many[Any], layout: Layout) -> Maker:
    if wire.null is not None:
        return _or_null(_many(replace(wire, null=None), layout))
    element = value_maker(wire.element, layout)
    count = wire.count
    if wire.until is not None:
        return _until(wire, wire.until, element, layout)
    if isinstance(count, int):
        return lambda draw: tuple([element(draw) for _ in range(count)])
    fewest, most = (0, None) if n.written(count) is None else n.sizes(count)
    times = count.times if isinstance(count, n.By) else 1
    holds_itself = holds_choice(wire.element)

    def make(draw: Draw) -> tuple[Any, ...]:
        if holds_itself and draw.depth >= _DEEP and fewest <= 0:
            return ()
        kind = draw.rng.random()
        length = 0 if kind < 0.2 else int(draw.rng.expovariate(0.5 if kind < 0.95 else 0.05) * draw.size)
        length = max(length, fewest)
        length -= (length - fewest) % times
        return tuple([element(draw) for _ in range(length if most is None else min(length, most))])

    return make


def _until(wire: n.Many[Any], until: When, element: Maker, layout: Layout) -> Maker:
    """Return what draws elements of which the last one, and no other, ends the list."""
    endings: list[Maker] = []  # made when it is needed: an element may hold such a list
    holds_itself = holds_choice(wire.element)

    def make(draw: Draw) -> tuple[Any, ...]:
        is_deep = holds_itself and draw.depth >= _DEEP
        most = 0 if is_deep else int(draw.rng.expovariate(0.5) * draw.size)
        if not endings:
            endings.append(_ending(wire.element, until, layout))
        drawn = [element(draw) for _ in range(most)]
        before = [item for item in drawn if not holds(until, reach(item, until.field))]
        if wire.or_end and draw.rng.random() < 0.4:
            return tuple(before)
        for _ in range(50 * TRIES):
            last = endings[0](draw)
            if holds(until, reach(last, until.field)):
                return (*before, last)
        raise EncodeError("no element that ends the list was drawn", rule="terminator")

    return make


def _ending(wire: Any, until: When, layout: Layout) -> Maker:
    """Return what draws an element that ends a list, at once where the condition names the values of a field."""
    element = n.structure_of(wire)
    names = {f.name for f in element.struct.__wire_fields__} if element is not None else ()
    if element is not None and until.one_of and until.field in names:
        return _struct(element.struct, layout, {until.field: until.one_of})
    return value_maker(wire, layout)


def _one_of(values: tuple[Any, ...]) -> Maker:
    return lambda draw: _pick(draw.rng, values)


def _struct(cls: Any, layout: Layout, given: Mapping[str, tuple[Any, ...]] | None = None) -> Maker:
    """Return what draws a structure; ``given`` has the only values that a field may take."""
    fields = struct_fields(cls, layout)
    steps = tuple(_steps(fields, layout, given or {}))
    limits = cls.__sum_limits__
    names = frozenset(field.name for field in fields)

    def make(draw: Draw) -> Any:
        values: Values = {NAMES: names, AROUND: draw.around}
        for step in steps:
            step(draw, values)
        for limit in limits:
            _shorten(values, limit)
        for key in (NOTHING_LEFT, NAMES, AROUND):
            values.pop(key, None)
        return cls(**values)

    return make


def _shorten(values: Values, limit: n.SumLimit) -> None:
    """Keep runs that share a limit within it; the first ones may take all of it."""
    left = limit.most
    for name in limit.fields:
        if name in values:
            values[name] = values[name][:left]
            left -= len(values[name])


def _steps(fields: tuple[n.Field, ...], layout: Layout, given: Mapping[str, tuple[Any, ...]]) -> list[Step]:
    """Return one function per field that puts its value, if it has one, among those drawn before it."""
    lengths = {f.name: f.wire.wire for f in fields if isinstance(f.wire, n.Length)}
    steps: list[Step] = []
    for field in fields:
        wire = field.wire
        if field.name in given:
            steps.append(field_step(field, _one_of(given[field.name]), fields))
        elif isinstance(wire, n.Run) and isinstance(wire.length, str) and wire.length in lengths:
            steps.append(field_step(field, _run(wire, int_bounds(lengths[wire.length])[1]), fields))
        elif not isinstance(wire, n.Length | n.WireOnly):
            steps.append(value_step(field, layout, fields))
    return steps


def value_step(field: n.Field, layout: Layout, fields: tuple[n.Field, ...]) -> Step:
    """Return the step of a field, which may have the size that an earlier one says."""
    by = n.By.of(size_given(field.wire))
    apart = {f.name for f in fields if isinstance(f.wire, n.Length)}
    if by is not None and apart.isdisjoint(by.names):
        return _sized_step(field, layout)
    return field_step(field, value_maker(field.wire, layout), fields)


def _sized_step(field: n.Field, layout: Layout) -> Step:
    """Return a step for a field whose size an earlier field holds."""
    make = _sized_maker(field.wire, layout)

    def put(draw: Draw, values: Values) -> None:
        values[field.name] = make(draw, values)

    return conditional(field, put)


def field_step(field: n.Field, make: Maker, fields: tuple[n.Field, ...]) -> Step:
    name = field.name
    if name in sizes(fields):
        asked = tuple({v for f in fields for one in conditions_of(f.when) if one.field == name for v in one.one_of})
        make = _asked_for(_small(field.wire, make), asked) if asked else _small(field.wire, make)
    off = next((f.when.off for f in fields if isinstance(f.when, When) and f.when.field == name and f.when.off), None)
    masks = {one.bits for later in fields for one in conditions_of(later.when) if one.field == name and one.bits}
    if len(masks) > _FEW_BITS:
        make = _bitmap(make, tuple(sorted(masks)))
    draw_value = make if off is None else _switch(make, off)
    looks_around = bool(asked_around(field.wire))

    def draw_inside(draw: Draw, values: Values) -> Any:
        return draw_value(draw._replace(around=values) if looks_around else draw)

    def put(draw: Draw, values: Values) -> None:
        if NOTHING_LEFT not in values or field.default is ...:
            values[name] = draw_inside(draw, values)
            if is_open(field.wire, values[name]):
                values[NOTHING_LEFT] = True

    def put_if_left(draw: Draw, values: Values) -> None:
        if draw.rng.random() < 0.5 and NOTHING_LEFT not in values:
            value = draw_inside(draw, values)
            if value not in (b"", "", ()):
                values[name] = value
                return
        values[NOTHING_LEFT] = True

    return put_if_left if isinstance(field.when, n.IfLeft) else conditional(field, put)


def is_open(wire: Any, value: Any) -> bool:
    """Return whether a list ends where its range does, so that nothing may follow it."""
    if not isinstance(wire, n.Many) or not wire.or_end or wire.until is None:
        return False
    return not value or not holds(wire.until, reach(value[-1], wire.until.field))


def _asked_for(make: Maker, asked: tuple[Any, ...]) -> Maker:
    """Return what draws the numbers that later fields ask for, too: another field says the size then."""
    return lambda draw: _pick(draw.rng, asked) if draw.rng.random() < 0.3 else make(draw)


_FEW_BITS = 4
"""More bits that announce fields are a bitmap."""


def _bitmap(make: Maker, masks: tuple[int, ...]) -> Maker:
    """Bits each of which announces a field: most are set, for a number of any size has few of them."""

    def draw_bits(draw: Draw) -> Any:
        if draw.rng.random() < 0.1:
            return make(draw)
        return reduce(or_, (mask for mask in masks if draw.rng.random() < 0.7), 0)

    return draw_bits


def _switch(make: Maker, off: tuple[int, ...]) -> Maker:
    """A field that decides whether others are there: often it says no."""
    return lambda draw: _pick(draw.rng, off) if draw.rng.random() < 0.3 else make(draw)


def conditional(field: n.Field, step: Step) -> Step:
    """Return a step that is taken only if the values before it fulfil the field's condition."""
    match field.when:
        case None:
            return step
        case n.With(field=other):
            return lambda draw, values: step(draw, values) if values.get(other) is not None else None
        case n.Begins():
            return lambda draw, values: step(draw, values) if draw.rng.random() < 0.5 else None
        case When() | n.Every():
            asked = conditions_of(field.when)
            return lambda draw, values: step(draw, values) if _all_hold(asked, values) else None
        case n.HeadReaches():
            return lambda draw, values: step(draw, values) if values[WITH_IDS] else None
        case n.IfLeft():
            raise AssertionError(f"{field.name} has no value that could be left")
        case _:
            assert_never(field.when)


def _all_hold(conditions: tuple[When, ...], values: Values) -> bool:
    return all(holds(when, _reach(values, when.field)) for when in conditions)


def _reach(values: Values, path: str) -> Any:
    """Return the value of an earlier field, of the structure or of what is around it."""
    first, _, inner = path.partition(".")
    while first not in values.get(NAMES, (first,)) and values.get(AROUND) is not None:
        values = values[AROUND]
    value = values.get(first)
    return reach(value, inner) if inner and value is not None else value


def cells_maker(wire: n.Cells[Any], layout: Layout, signature: n.Signature[Any] | None = None) -> Maker:
    kinds = [(kind.name, None if kind.wire is None else _cell_value(kind.wire)) for kind in wire.types]
    usual = [kind for kind in kinds if kind[1] is not None]
    signed = None if signature is None else _signature_cell(signature, layout)

    def make(draw: Draw) -> tuple[Cell, ...]:
        rng = draw.rng
        cells = []
        fid = int(rng.random() * 4)
        for _ in range(int(rng.expovariate(0.25) * draw.size)):
            name, value = _pick(rng, usual if rng.random() < 0.97 else kinds)
            drawn, bits = (None, None) if value is None else value(draw)
            if signature is None or fid != signature.fid or name != "BYTES":
                cells.append(Cell(min(fid, wire.id_max), name, drawn, bits, rng.random() < 0.01))
            fid = fid + 1 + int(rng.expovariate(0.5)) if rng.random() < 0.97 else int(rng.random() * (wire.id_max + 1))
        if signature is not None and signed is not None and rng.random() < 0.2:
            cells = [cell for cell in cells if cell.fid != signature.fid]
            cells.insert(int(rng.random() * (len(cells) + 1)), signed(draw))
        return tuple(cells)

    return make


def _cell_value(wire: n.Int | n.Float | n.Run[Any]) -> Callable[[Draw], tuple[Any, int | None]]:
    if not isinstance(wire, n.Float):
        make = _int(wire) if isinstance(wire, n.Int) else _run(wire)
        return lambda draw: (make(draw), None)
    real = _float(wire)
    quiet, other = (0x7FC00000, 0xFFC12345) if wire.size == 4 else (0x7FF8000000000000, 0xFFF8000000ABCDEF)

    def with_nan(draw: Draw) -> tuple[float, int | None]:
        kind = draw.rng.random()
        return (float("nan"), quiet if kind < 0.01 else other) if kind < 0.02 else (real(draw), None)

    return with_nan


def _signature_cell(signature: n.Signature[Any], layout: Layout) -> Callable[[Draw], Cell]:
    forms = [(form, [_int(f.wire) for f in struct_fields(form.struct, layout)]) for form in signature.forms]

    def make(draw: Draw) -> Cell:
        form, numbers = _pick(draw.rng, forms)
        raw = b""
        for field, number in zip(struct_fields(form.struct, layout), numbers, strict=True):
            value = number(draw)
            if field.name == "kind":
                value = signature.kind
            elif field.name == "index":
                value = 0 if form.first else 1 + int(draw.rng.random() * 1000)
            raw += value.to_bytes(field.wire.size, "little" if field.wire.little else "big", signed=field.wire.signed)
        return Cell(signature.fid, "BYTES", raw)

    return make


def word_maker(wire: n.Word[Any], code: int, line: n.Line) -> Maker:
    if wire.only is not None and code not in wire.only:
        return lambda draw: None
    make = _number(wire) if wire.number else _text_word(wire, line)
    if not wire.optional:
        return make
    return lambda draw: make(draw) if draw.rng.random() < 0.6 else None


def _number(wire: n.Word[Any]) -> Maker:
    low, high = wire.low or 0, 999_999 if wire.high is None else wire.high

    def make(draw: Draw) -> int:
        kind = draw.rng.random()
        if kind < 0.1:
            return low if kind < 0.05 else high
        return low + int(draw.rng.random() * min(high - low + 1, 10_000 if kind < 0.6 else high))

    return make


def _text_word(wire: n.Word[Any], line: n.Line) -> Maker:
    write = texts(wire.pattern)
    forbidden = (line.end.decode(),) if wire.all else (line.separator.decode(), line.end.decode())

    def fresh(draw: Draw) -> str:
        size = min(draw.size, 8.0)
        for _ in range(TRIES):
            text = write(draw.rng, size)
            is_there = text or not line.skip
            if is_there and read_word(wire, text) is not None and not any(mark in text for mark in forbidden):
                return text
            size = size * 0.8 if text else size + 1
        raise ValueError(f"no text found for the pattern {wire.pattern!r}")

    # To write a text by its pattern is slow, so most are taken from a stock.
    stock = [fresh(Draw(Random(i))) for i in range(200)]
    return lambda draw: _pick(draw.rng, stock) if draw.size >= 1 and draw.rng.random() < 0.8 else fresh(draw)


_PLACES = ("orders", "prices", "stock", "billing", "alarms", "meters", "users", "reports")
_PARTS = ("north", "south", "east", "west", "daily", "live", "1", "2", "3", "main")


def address(rng: Random, least: int = 0, most: int | None = None) -> str:
    """A text that reads like a topic, a service or a name, and fits."""
    text = _PLACES[int(rng.random() * len(_PLACES))]
    longer = f"{text}.{_PARTS[int(rng.random() * len(_PARTS))]}"
    text = longer if most is None or len(longer) <= most else text
    return text.ljust(least, "x")[:most]
