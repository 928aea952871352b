"""Class syntax that yields descriptions. Field order is wire order, and the class *is* the record that users hold.

    class Reading(Message, code=1, kind="event"):
        '''One measurement.'''
        station: str = field(text(be.u8), "which station")
        value: float = field(be.f64, "what it measured")

``field(Wire[T]) -> T`` lets a type checker see that annotation and wire type agree.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, datetime
from functools import lru_cache, partial
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, cast, dataclass_transform, overload
from zlib import crc32

import msgspec

from ..errors import SpecError
from . import nodes as n
from .check_class import Body, check_body, check_class_line, explain, is_gap, require
from .conduct import When
from .derive import derive
from .states import normal_then
from .timeforms import fault_of

T = TypeVar("T")

UNSET = msgspec.UNSET
"""A free-form value that is not there at all (None is a value that is null)."""


class Order:
    """Wire types of one byte order: ``be.u16``, ``le.i32`` ..."""

    def __init__(self, little: bool) -> None:
        self.u8, self.u16, self.u24, self.u32, self.u64 = (n.Int(size, False, little) for size in (1, 2, 3, 4, 8))
        self.i8, self.i16, self.i32, self.i64 = (n.Int(size, True, little) for size in (1, 2, 4, 8))
        self.f32 = n.Float(4, little)
        self.f64 = n.Float(8, little)


be = Order(little=False)
le = Order(little=True)
u8 = be.u8
bool8 = n.Bool()
flag8 = n.Bool(lenient=True)
uuid = n.Fixed(16)


def bits(wire: n.Int, shift: int, width: int) -> n.Wire[int]:
    """Some bits of an integer; neighbours share it, from the high bits to the low ones, and shift 0 ends it."""
    return n.Bits(wire, shift, width)


def varint(most_bytes: int, *, high_first: bool = False, lenient: bool = False, signed: n.Signed = "") -> n.Varint:
    """An integer in bytes of 7 bits each.

    ``signed``: ``zigzag`` writes 0, -1, 1, -2 ... as 0, 1, 2, 3 ...; ``twos`` writes -1 as the highest of 64 bits.
    """
    return n.Varint(most_bytes, high_first, lenient, signed=signed)


def ber(most_bytes: int = 5) -> n.Varint:
    """A length as ASN.1 writes it: one byte below 128, else one with the number of bytes that follow."""
    return n.Varint(most_bytes, ber=True)


def compact(wider: Mapping[int, n.Int | None], *, lenient: bool = False) -> n.Varint:
    """An integer in one byte, unless that byte is one of these, which announce a wider one behind them.

    A byte with None is the number -1, which ``null=-1`` of a length takes for no value.
    """
    known = tuple(sorted(wider.items()))
    sizes = [getattr(wire, "size", 0) for _, wire in known]
    return n.Varint(1 + max(sizes, default=0), lenient=lenient, wider=known)


def digits(
    end: bytes | int,
    low: int = 0,
    high: int | None = None,
    *,
    base: Literal[8, 10, 16] = 10,
    lenient: bool = False,
    pad: bytes = b"",
    pad_before: bytes = b"",
) -> n.Digits:
    """An integer as text that ends with these bytes; with none, where its range ends.

    A number instead: it has always so many bytes, with zeros before it, or filled up with the byte ``pad``, or
    ``pad_before`` it.
    """
    highest = 2**63 - 1
    if isinstance(end, int):
        most = min(base ** max(0, end) - 1, highest) if high is None else high
        return n.Digits(b"", low, most, base, size=end, pad=pad, pad_before=pad_before)
    return n.Digits(end, low, highest if high is None else high, base, lenient, pad=pad, pad_before=pad_before)


def fixed_point(wire: n.Number, bits: int = 0, *, decimals: int = 0) -> n.Wire[float]:
    """A number with a fraction, written as an integer: the fraction has so many bits, or decimals.

    Written numbers are rounded to the nearest that the fraction can say, as floats are.
    """
    where = "fixed_point takes 1 to 48 bits of fraction, or 1 to 15 decimals"
    is_one = (bits == 0 and 1 <= decimals <= 15) or (decimals == 0 and 1 <= bits <= 48)
    require(is_one, f"{where}; write fixed_point(be.i32, 16) or decimals=2")
    return n.Scaled(wire, 2**bits if bits else 10**decimals)


@overload
def timestamp(wire: n.Number, unit: Literal["s", "ms", "us"], *, epoch: date = ...) -> n.Wire[datetime]: ...
@overload
def timestamp(wire: n.Wire[str], unit: str) -> n.Wire[datetime]: ...
def timestamp(wire: Any, unit: str, *, epoch: date = date(1970, 1, 1)) -> n.Wire[datetime]:
    """A time, written as the number of units since a day began in UTC.

    Or as a text of a form, such as ``%Y%m%d-%H:%M:%S.%3f``, which says the time in UTC.
    """
    if isinstance(wire, n.Run):
        form: Any = unit
        fault = fault_of(form) if isinstance(form, str) else "is no text"
        require(
            not fault, f'the form of a timestamp, {form!r}, {fault}; write timestamp(text(u8), "%Y-%m-%d %H:%M:%S")'
        )
        return n.Scaled(wire, 1_000_000, 0, form)
    per = {"s": 1, "ms": 1000, "us": 1_000_000}.get(unit, 0)
    finer = "; for finer ones keep the integer, and say unit= in its field"
    require(per, f"timestamp counts 's', 'ms' or 'us', not {unit!r}{finer}; write timestamp(be.u32, \"s\")")
    is_day = isinstance(epoch, date)
    require(is_day, f"the epoch of a timestamp is a day, not {epoch!r}; write epoch=date(1900, 1, 1)")
    begin = (date(epoch.year, epoch.month, epoch.day) - date(1970, 1, 1)).days * 86_400
    return n.Scaled(_within_years(wire, per, begin), per, begin)


def _within_years(wire: n.Number, per: int, begin: int) -> n.Number:
    """Return the number with limits that keep its times in the years 1 to 9999, where it needs them."""
    if not isinstance(wire, n.Int | n.Digits):
        return wire
    low, high = n.limits(wire)
    first, last = (_SECONDS[0] - begin) * per, (_SECONDS[1] - begin) * per - 1
    if first <= low and high <= last:
        return wire
    limited = replace(wire, low=max(low, first), high=min(high, last))
    return replace(limited, rule="timestamp_range") if isinstance(limited, n.Int) else limited


_SECONDS = (-62_135_596_800, 253_402_300_800)
"""When the year 1 begins, and the year 10000, in seconds after 1970 began."""


def constant(value: bytes) -> Any:
    """Bytes that are always the same; on the wire only."""
    return n.Field("", n.Constant(value))


def checksum(wire: n.Int | n.Digits, kind: n.Sum, *, since: str = "") -> Any:
    """A sum over what is before it, from the first byte of the frame or from a field on; on the wire only."""
    return n.Field("", n.Checksum(wire, kind, since))


def align(size: int) -> Any:
    """Zero bytes up to a multiple of ``size`` from where the structure or message begins; on the wire only."""
    return n.Field("", n.Align(size))


def sized(length: n.Number | n.By | str, inner: n.Wire[T]) -> n.Wire[T]:
    """A value with its length in bytes before it, or in an earlier field; what takes the rest ends there."""
    return n.Sized(length, inner)


def fixed(size: int) -> n.Wire[bytes]:
    return n.Fixed(size)


def _require_int(function: str, wire: Any) -> None:
    is_int = isinstance(wire, n.Int)
    spelled = f"{type(wire).__name__}(...)" if isinstance(wire, n.Wire) else repr(wire)
    require(is_int, f"{function} takes an integer type, not {spelled}; write {function}(be.u16, ...)")


def labelled(wire: n.Int, labels: n.Labels) -> n.Int:
    """An integer whose values have names."""
    _require_int("labelled", wire)
    return replace(wire, labels=labels)


def within(wire: n.Int, low: int, high: int, rule: str) -> n.Int:
    """An integer that must lie in a range."""
    _require_int("within", wire)
    return replace(wire, low=low, high=high, rule=rule)


def text(
    length: n.Number | n.By | str | bytes | int,
    *,
    strict: bool = False,
    least: int = 0,
    most: int | None = None,
    null: int | None = None,
    end: bytes = b"",
    escapes: Mapping[bytes, bytes] | None = None,
    pad: bytes = b"",
    pad_before: bytes = b"",
    charset: str = "utf-8",
) -> n.Wire[str]:
    """UTF-8 with its length in bytes before it, or in an earlier field, or with bytes behind it that end it.

    Not UTF-8: kept (surrogate escapes), or refused if strict; bytes that are no text of another ``charset`` are always
    refused. ``null`` is a length that stands for None, ``end`` are
    bytes that follow those that the length counts. ``escapes`` says what is written for some bytes. A number of bytes
    is filled up with the byte ``pad`` behind the text, or with ``pad_before`` it.
    """
    content: n.Content = "strict_text" if strict or charset != "utf-8" else "text"
    behind = {"null": null, "end": end, "escapes": _pairs(escapes), "pad": pad, "pad_before": pad_before}
    return n.Run(length, content, least, most, charset=charset, **behind)  # type: ignore[arg-type]


def _pairs(escapes: Mapping[bytes, bytes] | None) -> tuple[tuple[bytes, bytes], ...]:
    is_map = escapes is None or isinstance(escapes, Mapping)
    require(is_map, f"escapes are a mapping of bytes to bytes, not {escapes!r}; write escapes={{rb'\\\\n': b'\\\\n'}}")
    return tuple((escapes or {}).items())


def blob(
    length: n.Number | n.By | str | bytes | int,
    *,
    most: int | None = None,
    null: int | None = None,
    end: bytes = b"",
    escapes: Mapping[bytes, bytes] | None = None,
    pad: bytes = b"",
    pad_before: bytes = b"",
) -> n.Wire[bytes]:
    """Bytes with their number before them, or in an earlier field, or with others behind them that end them.

    A number of bytes is filled up with the byte ``pad`` behind the others, or with ``pad_before`` them.
    """
    known = _pairs(escapes)
    return n.Run(length, "bytes", 0, most, null=null, end=end, escapes=known, pad=pad, pad_before=pad_before)


class Tagged(msgspec.Struct, frozen=True):
    """A value of a ``choice``, and the tag that announces it."""

    tag: Any
    value: Any = None


def choice(tag: n.Int | n.Wire[bytes], cases: Any, *, depth: int = 16) -> n.Wire[Tagged]:
    """A tag and the value that it announces: tag -> wire type, or None for no bytes.

    ``cases`` may be a function, so that a case can hold the choice itself, ``depth`` times.
    """
    return n.Choice(cast("Any", tag), cases, depth)


def sized_by(name: str) -> n.Wire[bytes]:
    """Bytes whose number stands in an earlier ``length`` field."""
    return n.Run(name, "bytes")


rest: n.Wire[bytes] = n.Run(None, "bytes")
rest_text: n.Wire[str] = n.Run(None, "text")


def msgpack(
    length: n.Int | None = None,
    *,
    is_map: bool = False,
    most: int | None = None,
    null_if_empty: bool = False,
    absent_if_empty: bool = False,
) -> n.Wire[Any]:
    """One MessagePack object, with its length before it or to the end of the range."""
    content: Literal["msgpack_map", "msgpack"] = "msgpack_map" if is_map else "msgpack"
    return n.Run(length, content, most=most, null_if_empty=null_if_empty, absent_if_empty=absent_if_empty)


def nested(struct: type[T] | Callable[[], type[T]], *, flat: bool = True, depth: int = 16) -> n.Wire[T]:
    """A structure. ``lambda: Node`` names one that is not declared yet: it may hold itself, ``depth`` times."""
    if isinstance(struct, FunctionType):
        return n.Choice(None, lambda: {None: n.Nested(struct())}, depth)
    return n.Nested(struct, flat)


def many(
    element: n.Wire[T],
    count: n.Number | n.By | str | int | bytes | None,
    *,
    null: int | None = None,
    until: When | None = None,
    or_end: bool = False,
) -> n.Wire[tuple[T, ...]]:
    """Elements: a count before them or in an earlier field, a fixed number, bytes behind the last one, or to the end.

    ``null`` is a count that stands for None. ``until`` (with None as the count) is what the last element fulfils; with
    ``or_end`` there need not be such a one, where no bytes are left.
    """
    return n.Many(element, count, null, until, or_end)


def word(pattern: Any, rule: str, **details: Any) -> n.Wire[str]:
    """One word of a header line."""
    return n.Word(pattern, rule, **details)


def number(pattern: Any, rule: str, low: int, high: int, **details: Any) -> n.Wire[int]:
    """A word of a header line that is a number; group 1 of the pattern holds its digits."""
    return n.Word(pattern, rule, number=True, low=low, high=high, **details)


def choose(option: str, **cases: Any) -> Any:
    """A value that depends on a reading option; ``_`` in a case's name stands for ``-``."""
    return n.Choose(option, {name.replace("_", "-"): value for name, value in cases.items()})


def field(
    wire: n.Wire[T],
    doc: str = "",
    *,
    json: str = "",
    column: str = "",
    role: n.Role | None = None,
    published: str = "",
    unit: str = "",
    when: n.Condition | tuple[When, ...] | None = None,
    only: tuple[str, Any] | None = None,
    default: Any = ...,
) -> T:
    """A field of a structure or message. Of several conditions all must hold."""
    condition: Any = n.Every(when) if isinstance(when, tuple) and len(when) > 1 else when
    return cast("T", n.Field("", wire, doc, json, column, role, published, unit, condition, only, "", default))


def optional(wire: n.Wire[T], doc: str = "", *, default: T | None = None, **details: Any) -> T | None:
    """A field that may be absent."""
    return field(wire, doc, default=default, **details)


def view(wire: n.Wire[T], doc: str = "", *, of: str, default: Any = ..., **details: Any) -> T:
    """The decoded form of a ``Body`` field, kept beside its raw bytes."""
    made: Any = field(wire, doc, default=default, **details)
    return cast("T", replace(made, view_of=of))


def length(wire: n.Int, of: str, *, since: str = "", when: n.Condition | None = None, published: str = "") -> Any:
    """The length or count of a later field that names this one; on the wire only.

    ``since``: it counts from that field on.
    """
    return n.Field("", n.Length(wire, of, since), when=when, published=published)


def begins(*starts: bytes) -> n.Begins:
    """A condition: the next bytes are any of these, with which the field begins."""
    given: tuple[Any, ...] = starts
    is_bytes = bool(given) and all(isinstance(start, bytes) and start for start in given)
    require(is_bytes, f'a field begins with bytes, not {", ".join(map(repr, starts))}; write begins(b":")')
    return n.Begins(starts)


def derived(how: n.Derived, doc: str = "", *, only: tuple[str, Any] | None = None, role: n.Role | None = None) -> Any:
    """A value that is computed, not written."""
    return n.DerivedField("", how, doc, only, role)


def _made(make: Callable[..., Any], name: str, kwargs: dict[str, Any]) -> Any:
    """Return a record class: its fields are for keywords only, where one without a default follows one that has one."""
    try:
        return make(**kwargs)
    except TypeError as error:
        if "kw_only" in kwargs or not is_gap(str(error)):
            raise SpecError(explain(name)) from None
        return make(**kwargs, kw_only=True)


class _StructMeta(msgspec.StructMeta):
    """Takes the field declarations out of a class body and leaves a frozen msgspec struct."""

    @classmethod
    def __prepare__(mcls, name: str, bases: tuple[type, ...], /, **kwargs: Any) -> Body:
        return Body(name)

    def __new__(mcls, name: str, bases: tuple[type, ...], body: dict[str, Any], **kwargs: Any) -> Any:
        ns = dict(body)
        if ns.get("__module__") != __name__:
            check_class_line(name, kwargs, _STRUCT_KEYWORDS)
            check_body(name, ns)
        own = {key: replace(value, name=key) for key, value in ns.items() if isinstance(value, n.Field)}
        computed = {key: replace(value, name=key) for key, value in ns.items() if isinstance(value, n.DerivedField)}
        for key, declared in own.items():
            if declared.default is ...:
                del ns[key]
            else:
                ns[key] = declared.default
        ns |= {key: property(partial(derive, made.how), doc=made.doc) for key, made in computed.items()}
        unwritten = [key for key, declared in own.items() if isinstance(declared.wire, n.Length | n.WireOnly)]
        for key in (*unwritten, *computed):
            ns.get("__annotations__", {}).pop(key, None)  # no part of the record, even if someone gave it a type
        limits = kwargs.pop("limits", ())
        cls: Any = _made(partial(super().__new__, mcls, name, bases, ns, frozen=True), name, kwargs)
        cls.__wire_fields__ = _with_inherited(bases, "__wire_fields__", own)
        cls.__derived_fields__ = _with_inherited(bases, "__derived_fields__", computed)
        cls.__sum_limits__ = tuple(limits)
        return cls


_STRUCT_KEYWORDS = ("limits", "kw_only")


def _with_inherited(bases: tuple[type, ...], attribute: str, own: dict[str, T]) -> tuple[T, ...]:
    inherited = {made.name: made for base in reversed(bases) for made in getattr(base, attribute, ())}
    return tuple((inherited | own).values())


@dataclass_transform(field_specifiers=(field, optional, view, length))
class Struct(msgspec.Struct, metaclass=_StructMeta):
    """Base of structures that are part of messages."""

    __wire_fields__: ClassVar[tuple[n.Field, ...]]
    __derived_fields__: ClassVar[tuple[n.DerivedField, ...]]
    __sum_limits__: ClassVar[tuple[n.SumLimit, ...]]


def snake_case(name: str) -> str:
    return "".join("_" + c.lower() if c.isupper() and i else c.lower() for i, c in enumerate(name))


_KEYWORDS: Mapping[str, Any] = {
    "code": None,
    "codes": (),
    "frame": "",
    "kind": "event",
    "answer": None,
    "failure": False,
    "good": (),
    "sent_by": "both",
    "then": (),
    "word": "",
    "head_least": 0,
    "head_or": None,
    "head_rule": "head_length",
    "padding": None,
    "published": "",
    "secret_cells": (),
}
"""What the class line of a message may say, besides ``as_name=``, with the defaults. A base of messages that has no
code hands what it says on to them."""


class _MessageMeta(_StructMeta):
    def __new__(
        mcls, name: str, bases: tuple[type, ...], ns: dict[str, Any], *, as_name: str = "", **kwargs: Any
    ) -> Any:
        check_class_line(name, kwargs, (*(key for key in _KEYWORDS if key != "codes"), *_STRUCT_KEYWORDS, "as_name"))
        if "then" in kwargs:
            kwargs["then"] = normal_then(kwargs["then"])
        base = getattr(bases[0], "__message__", _KEYWORDS)
        inherited = {**base, "answer": base.get("answers") or None} if base["code"] is None else _KEYWORDS
        about = {key: kwargs.pop(key, inherited[key]) for key in _KEYWORDS}
        cls = super().__new__(mcls, name, bases, ns, **kwargs)
        answers = about["answer"] if isinstance(about["answer"], tuple) else (about["answer"],)
        about |= {"answer": answers[0], "answers": () if answers == (None,) else answers}
        about |= _numbered(about)
        cls.__message__ = {**about, "name": as_name or snake_case(name)}
        cls.__protocol__ = None
        return cls


def _numbered(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the code of a message is on the wire, and the number of 32 bits that stands for it in tables."""
    code = about["code"]
    match code:
        case str():
            return {"codes": (code.encode(),), "code": crc32(code.encode()) >> 1, "word": about["word"] or code}
        case tuple() if any(part >> 16 for part in code):
            return {"codes": code, "code": crc32(repr(code).encode()) >> 1}
        case tuple():
            number = 0
            for part in code:
                number = number << 16 | part
            return {"codes": code, "code": in_32_bits(number)}
        case None:
            return {"codes": ()}
        case n.OTHER:
            return {"codes": (code,), "code": n.OTHER_NUMBER}
        case _:
            return {"codes": (code,), "code": in_32_bits(code)}


def in_32_bits(number: int) -> int:
    """Return a number as tables hold it."""
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)


if TYPE_CHECKING:

    class _Record:
        """What type checkers see of a message: they check no keywords of a class that shows its metaclass."""

        def __init_subclass__(
            cls,
            *,
            code: int | str | tuple[int, ...] | None = None,
            frame: str = "",
            kind: n.Kind = "event",
            answer: int | str | tuple[int | str, ...] | None = None,
            failure: bool = False,
            good: tuple[int | str, ...] = (),
            sent_by: n.SentBy = "both",
            then: str | tuple[str, ...] | Mapping[str | tuple[str, ...], When] = (),
            as_name: str = "",
            word: str = "",
            head_least: int = 0,
            head_or: int | None = None,
            head_rule: str = "head_length",
            padding: n.Padding | n.Choose | None = None,
            published: str = "",
            secret_cells: tuple[int, ...] = (),
            kw_only: bool = False,
        ) -> None: ...
else:

    class _Record(msgspec.Struct, metaclass=_MessageMeta):
        """The base that makes messages out of class bodies."""


@dataclass_transform(field_specifiers=(field, optional, view, length))
class Message(_Record, kw_only=True):
    """Base of messages: an immutable record with the fields of the specification.

    ``wire_length`` is the number of bytes of the frame it was decoded from (0 for one that was made), ``notes`` names
    the tolerated oddities that were seen, ``layout`` is the reading (dialect, profile) that it was decoded with.
    """

    __wire_fields__: ClassVar[tuple[n.Field, ...]]
    __derived_fields__: ClassVar[tuple[n.DerivedField, ...]]
    __sum_limits__: ClassVar[tuple[n.SumLimit, ...]]
    __message__: ClassVar[Mapping[str, Any]]
    __protocol__: ClassVar[n.Protocol | None]

    wire_length: int = 0
    notes: tuple[str, ...] = ()
    layout: Any = None

    def __eq__(self, other: object) -> bool:
        """Two messages are equal if their fields are; how they were framed does not count."""
        if type(self) is not type(other):
            return NotImplemented
        fields = [
            f.name for f in self.__wire_fields__ if f.view_of == "" and not isinstance(f.wire, n.Length | n.WireOnly)
        ]
        return all(getattr(self, name) == getattr(other, name) for name in fields)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in self.__wire_fields__ if hasattr(self, f.name))
        return f"{type(self).__name__}({shown})"

    def to_json(self) -> dict[str, Any]:
        """The object that ``wirelake decode`` prints."""
        from ..codec.json import to_json

        return to_json(self)


def message(name: str, base: type[Message] | None = None, /, *, doc: str = "", **said: Any) -> Any:
    """A message in one line: fields by name, and what a class line says.

    Classes have types that a type checker knows; this is for messages of which there are many.
    """
    return _in_one_line(name, base or Message, doc, said)


def struct(name: str, /, *, doc: str = "", **fields: Any) -> Any:
    """A structure in one line: its fields by name."""
    return _in_one_line(name, Struct, doc, fields)


def _in_one_line(name: str, base: type, doc: str, said: Mapping[str, Any]) -> Any:
    body = {key: value for key, value in said.items() if isinstance(value, n.Field | n.DerivedField)}
    line = {key: value for key, value in said.items() if key not in body}
    written = [key for key, made in body.items() if isinstance(made, n.Field)]
    declared = {key: value for key, value in body.items() if not isinstance(value, n.Field)}
    kept = [key for key in written if not isinstance(body[key].wire, n.Length | n.WireOnly)]
    module = sys._getframe(2).f_globals.get("__name__", __name__)
    names = {"__module__": module, "__doc__": doc, "__annotations__": dict.fromkeys(kept, Any)}
    return type(base)(name, (base,), {**names, **declared, **{key: body[key] for key in written}}, **line)


def messages_in(namespace: Mapping[str, Any]) -> tuple[type[Message], ...]:
    """Return the messages of a module, by its ``globals()``, in its order; their bases, without code, are left out."""
    classes = (value for value in namespace.values() if isinstance(value, type) and issubclass(value, Message))
    return tuple(cls for cls in classes if cls.__message__["code"] is not None)


def tag(
    code: int,
    wire: n.Wire[T] | None,
    allowed: frozenset[int],
    doc: str = "",
    *,
    title: str = "",
    required: frozenset[int] = frozenset(),
    role: n.Role | None = None,
    default: Any = None,
) -> T | None:
    """A row of a tag table; absent is None."""
    return cast("T", n.Field("", n.Tag(code, "", wire, allowed, required, doc, title), doc, role=role, default=default))


def flag(code: int, allowed: frozenset[int], doc: str = "", *, title: str = "", default: bool = False) -> bool:
    """A row of a tag table without a value."""
    return cast("bool", n.Field("", n.Tag(code, "", None, allowed, frozenset(), doc, title), doc, default=default))


@dataclass_transform(kw_only_default=True, field_specifiers=(tag, flag))
class TagTable(Struct, kw_only=True):
    """A table of tagged values; ``order`` holds their names in wire order, repeated ones as often as they occurred."""

    order: tuple[str, ...] = ()


@lru_cache(maxsize=256)
def tag_rows(table: type[TagTable]) -> tuple[n.Tag, ...]:
    """The rows of a tag table, with their names."""
    return tuple(replace(f.wire, name=f.name) for f in table.__wire_fields__ if isinstance(f.wire, n.Tag))


class Cell(msgspec.Struct, frozen=True):
    """One value of a ``Cells`` record. ``bits`` holds the IEEE bits where the value does not (a NaN)."""

    fid: int
    type: str
    value: Any = None
    bits: int | None = None
    group_bit: bool = False


def deferred(module: str, name: str) -> Callable[[Any], None]:
    """Return a function of a module that is imported only when it is called."""
    return partial(_call, module, name)


def _call(module: str, name: str, argument: Any) -> None:
    getattr(import_module(module), name)(argument)


def declare(protocol: n.Protocol) -> n.Protocol:
    """Check a protocol's declaration and tie its messages to it. Use what it returns, which knows their conduct."""
    from .check import check
    from .implied import completed, with_sides

    protocol = with_sides(protocol)
    check(protocol)
    protocol = completed(protocol)
    for message in protocol.messages:
        if message.__protocol__ is not None:
            raise SpecError(f"{message.__name__} already belongs to {message.__protocol__.name}")
        message.__protocol__ = protocol
    return protocol
