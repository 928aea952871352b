"""Description -> tables in the shape of a published document: for ``wirelake describe`` and docs/protocols/."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any, assert_never

from . import nodes as n
from .conduct import When
from .declare import tag_rows
from .resolve import Layout, MessageNode, layout, option_values, resolve_fields, settings

FRAME_HEADER = ("role name", "network type", "network size", "description")
ROLE_HEADER = ("role name", "network type", "network size", "field", "description")
Row = tuple[str, ...]


@dataclass
class Table:
    """A heading, some words, and rows."""

    title: str
    text: str
    header: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    level: int = 2


def tables(protocol: n.Protocol, message: str | None = None) -> list[Table]:
    """Return all tables of a protocol, or those of one message."""
    made = layout(protocol)
    if message is not None:
        node = made.named(message) or made.messages.get(_number(message))
        if node is None:
            known = ", ".join(m.name for m in made.messages.values())
            raise ValueError(f"{protocol.name} has no message {message!r}; it has: {known}")
        return [_message(made, node)]
    shared = _shared(made)
    return [
        Table(protocol.title, protocol.doc, level=1),
        *_options(protocol),
        *_frames(protocol),
        _overview(made),
        *(_tag_table(made, field) for field in _each(made, n.Tags)),
        *(_message(made, node, without=shared) for node in made.messages.values()),
        *(table for field in _each(made, n.Cells | n.Signature) for table in _records(made, field)),
        *_computed(shared),
        *map(_labels, protocol.labels),
        *_life_cycle(protocol.life_cycle),
    ]


def _number(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        return -1


def _each(made: Layout, kinds: Any) -> list[n.Field]:
    """Return the fields of these kinds; what several messages have in common once."""
    first: dict[Any, n.Field] = {}
    for field in (f for node in made.messages.values() for f in node.fields if isinstance(f.wire, kinds)):
        first.setdefault(getattr(field.wire, "struct", field.wire), field)
    return list(first.values())


def _options(protocol: n.Protocol) -> list[Table]:
    if not protocol.options:
        return []
    rows = tuple(
        (name, ", ".join(_word(v) for v in option.values) or "any", _word(option.default), option.doc)
        for name, option in protocol.options.items()
    )
    return [Table("Reading options", "", ("option", "values", "default", "meaning"), rows)]


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _frames(protocol: n.Protocol) -> list[Table]:
    """Return the frame header; once per reading where readings differ."""
    shown: dict[tuple[Row, ...], list[dict[str, Any]]] = {}
    for setting in settings(protocol):
        shown.setdefault(tuple(_frame_rows(layout(protocol, **setting))), []).append(setting)
    usual = [Table(_frame_title(protocol, alike), "", FRAME_HEADER, rows) for rows, alike in shown.items()]
    others = layout(protocol).others
    return usual + [
        Table(f"Frame {o.place}", _when_tried(protocol, o.place), FRAME_HEADER, tuple(_frame_rows(o))) for o in others
    ]


def _when_tried(protocol: n.Protocol, place: str) -> str:
    """Say which messages lead to a frame."""
    before = [
        f"{cls.__message__['name']}{f' if {_condition(when)}' if when else ''}"
        for cls in protocol.messages
        for places, when in cls.__message__["then"]
        if place in places
    ]
    return f"Comes behind {', '.join(before)}." if before else "Tried before the usual frame."


def _frame_title(protocol: n.Protocol, alike: list[dict[str, Any]]) -> str:
    """Say with which options a frame looks like this; those that change nothing are not named."""
    named = []
    for name, option in protocol.options.items():
        seen = list(dict.fromkeys(setting[name] for setting in alike))
        if len(seen) < len(option_values(option)):
            named.append(f"{name} {' or '.join(map(_word, seen))}")
    return f"Frame ({', '.join(named)})" if named else "Frame"


def _frame_rows(made: Layout) -> Iterator[Row]:
    for part in made.frame.parts:
        match part:
            case n.Magic(value=value, name=name):
                yield name, "fixed array", str(len(value)), f"always {value.hex(' ')}"
            case n.Size(name=name, wire=n.Escaped(escape=escape, wide=wide, mask_bit=bit, mask_key=key)):
                yield name, "uint8", "1", f"bytes that follow; {escape} announces a wide length"
                yield f"{name}.wide", *_int(wide), f"from {escape} on"
                if bit:
                    yield key, "fixed array", "4", f"if bit {bit:#x} of the length is set"
            case n.Size(name=name, wire=str() | n.By() as given, plus=plus):
                added = f", and {plus} more" if plus else ""
                yield name, "computed", "", f"bytes that follow: {_by_text(given)}{added}"
            case n.Size(name=name, wire=wire, counts=counts, least=least, most=most, plus=plus):
                what = "bytes of the whole frame" if counts == "whole" else "bytes that follow"
                what += f", less {plus}" if plus > 0 else f", and {-plus} more" if plus else ""
                yield name, *type_and_size(wire), what + (f", {least}..{most}" if most is not None else "")
            case n.Head(name=name, wire=wire, least=least, most=most):
                yield name, *_int(wire), f"bytes before the body, {least}..{most}"
            case n.Code(name=name, wire=wire):
                yield name, *type_and_size(wire), "which message"
            case n.Kept(name=name):
                field = made.nodes[0].field(name)
                yield name, *type_and_size(field.wire), _with_notes(field.doc, list(_notes(field)))
            case n.Trailer(value=value, name=name):
                yield name, "fixed array", str(len(value)), f"always {value.hex(' ')}, at the end"
            case n.Until(end=end, most=most, name=name):
                yield (
                    name,
                    "fixed array",
                    str(len(end)),
                    f"{end.hex(' ')} ends the frame; at most {most} bytes before it",
                )
            case n.Opaque(most=most):
                yield "", "", "", f"any bytes: {most} of them, in the last frame those that are left"
            case n.Ends(most=most):
                yield "", "", "", f"the frame ends with its last field; at most {most} bytes"
            case n.Line(separator=separator, end=end, window=window, code=code):
                known = f"one of {', '.join(node.word for node in made.nodes if node.word)}"
                yield code, "word", "dynamic", f"{known}, or any other" if made.takes_any else known
                joined = f"words joined by {separator.decode()!r}, ended by {end.decode()!r}"
                yield "line", "text", f"< {window}", joined
            case _:
                assert_never(part)


def _overview(made: Layout) -> Table:
    rows = []
    for node in made.messages.values():
        reply = ", ".join(made.messages[code].name for code in node.answers)
        meaning = node.doc.split("\n", maxsplit=1)[0]
        rows.append((_code(made, node), node.name, node.kind, node.sent_by, reply, meaning))
    return Table("Messages", "", ("code", "message", "kind", "sent by", "answer", "meaning"), tuple(rows))


def code_text(node: MessageNode) -> str:
    """Return the code of a message as it is on the wire, its parts with dots between them."""
    if node.codes[0] == n.OTHER:
        return "any other"
    return ".".join(each.decode() if isinstance(each, bytes) else str(each) for each in node.codes)


def _code(made: Layout, node: MessageNode) -> str:
    part = next((p for p in made.at(node).frame.parts if isinstance(p, n.Code)), None)
    code: Any = node.codes[0]
    is_byte = part is not None and getattr(part.wire, "size", 0) == 1 and isinstance(code, int)
    return f"0x{code:02X}" if is_byte and len(node.codes) == 1 and code != n.OTHER else code_text(node)


def _shared(made: Layout) -> tuple[n.DerivedField, ...]:
    """Return the computed values that every message has."""
    first, *others = [node.cls.__derived_fields__ for node in made.messages.values()]
    return tuple(derived for derived in first if all(derived in other for other in others))


def _computed(shared: tuple[n.DerivedField, ...]) -> list[Table]:
    rows = tuple((derived.name, derived.doc) for derived in shared)
    table = Table("Computed in every message", "Not on the wire, but shown.", ("field", "description"), rows)
    return [table] if shared else []


def _message(made: Layout, node: MessageNode, without: tuple[n.DerivedField, ...] = ()) -> Table:
    published = f" Published as `{node.published}`." if node.published else ""
    in_frame = set(_in_frame(made))
    rows: list[Row] = []
    for field in _all_fields(made, node):
        if isinstance(field.wire, n.Tags):
            rows += _tag_entries(node, field)
        elif field.name not in in_frame and _is_allowed(field.wire, node):
            rows += _rows(made, field, "", "", [])
    if node.padding is not None:
        size = len(node.padding.value)
        rows.append(("", "fixed array", str(size), "", f"tolerated, not written; noted as {node.padding.note}"))
    rows += _computed_rows((derived for derived in node.cls.__derived_fields__ if derived not in without), "")
    title = f"{node.name} ({_code(made, node)})"
    return Table(title, f"{node.doc}{published}", ROLE_HEADER, tuple(rows), level=3)


def _computed_rows(fields: Iterable[n.DerivedField], path: str) -> list[Row]:
    return [("", "computed", "", path + derived.name, derived.doc) for derived in fields]


def _in_frame(made: Layout) -> Iterator[str]:
    """Yield the fields that stand in the frame around a message."""
    for part in made.frame.parts:
        match part:
            case n.Kept(name=name) | n.Size(wire=n.Escaped(mask_key=name)):
                yield name


def _is_allowed(wire: Any, node: MessageNode) -> bool:
    return not isinstance(wire, n.Word) or wire.only is None or node.code in wire.only


def _all_fields(made: Layout, node: MessageNode) -> Iterator[n.Field]:
    """Yield the message's fields in every reading."""
    for declared in node.cls.__wire_fields__:
        settled = made.options if declared.only is None else {**made.options, declared.only[0]: declared.only[1]}
        yield next(f for f in resolve_fields(node.cls, settled) if f.name == declared.name)


def _notes(field: n.Field) -> Iterator[str]:
    """Yield when the field is there, and within which limits."""
    if field.only is not None:
        yield f"only with {field.only[0]} {_word(field.only[1])}"
    match field.when:
        case None:
            pass
        case n.HeadReaches(size=size):
            yield f"if the header has {size} bytes or more"
        case n.IfLeft():
            yield "if there are bytes left"
        case n.Begins(starts=starts):
            yield f"if the next bytes are {' or '.join(start.hex(' ') for start in starts)}"
        case n.With(field=name):
            yield f"if {name} is there"
        case When():
            yield f"if {_condition(field.when)}"
        case n.Every(conditions=conditions):
            yield f"if {' and '.join(map(_condition, conditions))}"
        case _:
            assert_never(field.when)
    if field.view_of:
        yield f"read from {field.view_of}"
    if field.json and field.json != field.name:
        yield f"{field.name} in Python"
    yield from _limits(field.wire)


def _condition(when: When) -> str:
    """Return a condition in words."""
    asked = [
        f"is {' or '.join(map(str, when.one_of))}" if when.one_of else "",
        f"is {'not' if len(when.none_of) == 1 else 'none of'} {', '.join(map(str, when.none_of))}"
        if when.none_of
        else "",
        f"is at least {when.least}" if when.least is not None else "",
        f"is at most {when.most}" if when.most is not None else "",
        f"has a bit of {when.bits:#x}" if when.bits else "",
        f"begins with {when.prefix!r}" if when.prefix else "",
        "is not set" if when.empty else "is set" if when.is_bare else "",
    ]
    return f"{when.field} {' and '.join(filter(None, asked))}"


def _limits(wire: Any) -> Iterator[str]:
    match wire:
        case n.Int(low=int() as low, high=int() as high) | n.Word(number=True, low=int() as low, high=int() as high):
            yield f"{low}..{high}"
        case n.Run(least=0, most=int() as most) | n.Body(most=int() as most):
            yield f"at most {most} bytes"
        case n.Run(least=least, most=most) if least:
            yield f"at least {least} bytes" if most is None else f"{least}..{most} bytes"
    if isinstance(wire, n.Word) and wire.optional:
        yield "optional"


def _with_notes(text: str, notes: list[str]) -> str:
    return f"{text} ({'; '.join(notes)})".strip() if notes else text


def _tag_entries(node: MessageNode, field: n.Field) -> Iterator[Row]:
    """Yield the tags that this message may carry."""
    for row in tag_rows(field.wire.struct):
        if node.code in row.allowed:
            kind, size = type_and_size(row.wire)
            must = "required; " if node.code in row.required else ""
            name = f"{field.key}.{row.name}"
            yield name, f"{kind}, tag {row.code:#04x}", size, name, must + row.doc


def _rows(made: Layout, field: n.Field, prefix: str, path: str, notes: list[str]) -> list[Row]:
    """Return the rows of a field, sizes and data apart; ``prefix`` leads to it in published names, ``path`` in ours."""
    name, ours, wire = field.published or prefix + field.key, path + field.key, field.wire
    notes = [*notes, *_notes(field)]
    text = field.doc + (f" [{field.unit}]" if field.unit else "")
    doc = _with_notes(text, notes)
    match wire:
        case n.Nested(struct=cls):
            return _struct_rows(made, cls, f"{name}.", f"{ours}.", notes)
        case n.Sized(length=length, inner=inner_value):
            inside = n.Field(field.name, inner_value, field.doc, field.json, unit=field.unit)
            if n.written(length) is None:
                return _rows(made, inside, prefix, path, [*notes, _referred(length)])
            before = (f"{name}.length", *type_and_size(n.written(length)), "", f"bytes of {name}{_more(length)}")
            return [before, *_rows(made, inside, prefix, path, notes)]
        case n.Constant(value=value):
            return [(name, "fixed array", str(len(value)), "", _with_notes(f"always {value.hex(' ')}", notes))]
        case n.Checksum(wire=number, kind=sum_kind, since=since):
            covered = f"{sum_kind} of all before it, from {since or 'the first byte'} on"
            return [(name, *type_and_size(number), "", _with_notes(covered, notes))]
        case n.Align(size=multiple):
            return [(name, "fixed array", "dynamic", "", f"zeros up to a multiple of {multiple}")]
        case n.Length(wire=inner_wire, of=of, since=since):
            counted = any(f.name == of and isinstance(f.wire, n.Many) for node in made.nodes for f in node.fields)
            what = f"{'elements' if counted else 'bytes'} of {of}"
            covered = f"bytes from {since} to the end of {of}" if since else what
            return [(name, *_int(inner_wire), "", _with_notes(covered, notes))]
        case n.Run(length=n.Int() | n.Varint() | n.Digits() | n.By() as length) if n.written(length) is not None:
            kind, size = type_and_size(wire)
            return [
                (f"{name}.size", *type_and_size(n.written(length)), "", f"bytes of {name}{_more(length)}"),
                (f"{name}.data", kind, size, ours, doc),
            ]
        case n.Choice(tag=None, known=known):
            struct = known[None].struct
            if struct in _SHOWN.get():
                return [(name, *type_and_size(wire), ours, doc)]
            return _struct_rows(made, struct, f"{name}.", f"{ours}.", notes)
        case n.Choice(tag=tag, known=known):
            before = (f"{name}.tag", *type_and_size(tag), ours, doc)
            return [before, *(_case_row(name, value, case) for value, case in known.items())]
        case n.Many(element=n.Nested(struct=cls), count=count):
            return _count_rows(name, count) + _struct_rows(made, cls, f"{name}.element.", f"{ours}[].", notes)
        case n.Many(element=element, count=count):
            if n.written(count) is None:
                doc = _with_notes(text, [*notes, _how_many(wire)])
            single = n.Field(f"{name}.element", element, doc)
            inner = [(*row[:3], f"{ours}[]" if row[3] else "", row[4]) for row in _rows(made, single, "", "", [])]
            return _count_rows(name, count) + inner
        case _:
            return [(name, *type_and_size(wire), ours, doc)]


def _case_row(name: str, tag: Any, wire: Any) -> Row:
    shown = tag.decode("latin-1") if isinstance(tag, bytes) else str(tag)
    kind, size = type_and_size(wire) if wire is not None else ("nothing", "0")
    return f"{name}.value", kind, size, "", f"if the tag is {shown}"


def _struct_rows(made: Layout, cls: Any, prefix: str, path: str, notes: list[str]) -> list[Row]:
    token = _SHOWN.set(_SHOWN.get() | {cls})
    try:
        rows = [row for inner in resolve_fields(cls, made.options) for row in _rows(made, inner, prefix, path, notes)]
    finally:
        _SHOWN.reset(token)
    return rows + _computed_rows(cls.__derived_fields__, path)


_SHOWN: ContextVar[frozenset[Any]] = ContextVar("shown", default=frozenset())
"""The structures whose rows are being made: one that holds itself is named, not shown again."""


def _how_many(wire: n.Many[Any]) -> str:
    """Return where a list without a count before it ends."""
    if wire.until is not None:
        return f"the last one is the first for which {_condition(wire.until)}" + (", or none" if wire.or_end else "")
    match wire.count:
        case bytes() as end:
            return f"up to {end.hex(' ')}"
        case None:
            return "until the end"
        case str() | n.By():
            return _referred(wire.count)
        case count:
            return f"{count} of them"


def _referred(given: str | n.By) -> str:
    """Return what an earlier field says about a size, in words."""
    return f"as many as {_by_text(given)}"


def _by_text(given: str | n.By | None) -> str:
    by = n.By.of(given)
    assert by is not None
    per = f", {by.per} to one" if by.per != 1 else f", each of {by.times}" if by.times != 1 else ""
    added = (f", and {by.plus}" if by.plus else "") + (f", less {by.less}" if by.less else "")
    other = f", or else {_by_text(by.otherwise)}" if by.otherwise else ""
    return f"{by.field} says{per}{added}{other}"


def _more(given: n.Number | n.By) -> str:
    """Return how far a number before a value is from what it counts, in words."""
    plus, times = (given.plus, given.times) if isinstance(given, n.By) else (0, 1)
    each = f" in units of {times}" if times != 1 else ""
    return each + (f", and {-plus} more" if plus < 0 else f", less {plus}" if plus else "")


def _count_rows(name: str, count: Any) -> list[Row]:
    number = n.written(count)
    about = f"number of elements of {name}{_more(count)}"
    return [(f"{name}.size", *type_and_size(number), "", about)] if number is not None else []


def _int(wire: n.Int) -> tuple[str, str]:
    order = "" if wire.size == 1 or not wire.little else " le"
    return f"{'int' if wire.signed else 'uint'}{wire.size * 8}{order}", str(wire.size)


def _unit(wire: n.Scaled[Any]) -> str:
    """Return what a unit of an integer, or a text, is, in words."""
    if wire.form:
        return f"a time as {wire.form}"
    if wire.epoch is None:
        return f"in units of 1/{wire.per}"
    unit = {1: "seconds", 1000: "milliseconds", 1_000_000: "microseconds"}[wire.per]
    return f"{unit} since {date(1970, 1, 1) + timedelta(seconds=wire.epoch)}"


def type_and_size(wire: Any) -> tuple[str, str]:
    """Return the network type and size of a value."""
    match wire:
        case None:
            return "flag", "0"
        case n.Int(labels=labels):
            kind, size = _int(wire)
            return kind + (f" ({labels.name})" if labels is not None else ""), size
        case n.Bits(wire=whole, shift=shift, width=width):
            labels = whole.labels
            which = f"bit {shift}" if width == 1 else f"bits {shift}..{shift + width - 1}"
            return f"{which} of {_int(whole)[0]}" + (f" ({labels.name})" if labels is not None else ""), f"{width} bits"
        case n.Varint(most_bytes=most_bytes, ber=True):
            return "length as in ASN.1", f"1..{most_bytes}"
        case n.Varint(wider=wider) if wider:
            known = ", ".join(f"{_int(inner)[0] if inner else 'nothing'} behind {byte:#04x}" for byte, inner in wider)
            return f"uint8, or {known}", f"1..{wire.most_bytes}"
        case n.Varint(most_bytes=most_bytes, high_first=high_first, signed=signed):
            order = ", high bits first" if high_first else ""
            sign = {"zigzag": ", zigzag", "twos": ", two's complement"}.get(signed, "")
            return f"varint{order}{sign}", f"1..{most_bytes}"
        case n.Digits(base=base, size=size) if size:
            return f"digits of base {base}{_filled(wire)}", str(size)
        case n.Run(length=int() as size, content=content):
            return f"{'bytes' if content == 'bytes' else 'text'}{_filled(wire)}", str(size)
        case n.Digits(end=end, base=base):
            return f"digits of base {base}" + (f", then {end.hex(' ')}" if end else ""), "dynamic"
        case n.Run(length=bytes() as end, content=content):
            return f"{'bytes' if content == 'bytes' else 'text'}, then {end.hex(' ')}", "dynamic"
        case n.Bool():
            return "bool8", "1"
        case n.Float(size=size, little=little):
            return f"float{size * 8}{' le' if little else ''}", str(size)
        case n.Scaled(wire=number):
            kind, size = type_and_size(number)
            return f"{kind}, {_unit(wire)}", size
        case n.Fixed(size=size):
            return "fixed array", str(size)
        case n.Run(escapes=escapes) if escapes:
            kind, size = type_and_size(replace(wire, escapes=()))
            return f"{kind}, with {', '.join(written.decode('latin-1') for written, _ in escapes)}", size
        case n.Run(content=content):
            names = {"bytes": "dynamic array", "text": "text", "strict_text": "text", "json": "JSON"}
            return names.get(content, "MessagePack"), "dynamic"
        case n.Cells():
            return "record", "dynamic"
        case n.Signature(forms=forms, fid=fid):
            return f"signature in field {fid}", " or ".join(str(form.size) for form in forms)
        case n.Word(number=number):
            return "number word" if number else "word", "dynamic" if wire.most is None else f"<= {wire.most}"
        case n.Body(exactly=exactly):
            return "dynamic array", "dynamic" if exactly is None else str(exactly)
        case n.Choice(tag=None, known=known):
            return f"structure {known[None].struct.__name__}", "dynamic"
        case n.Choice(tag=tag):
            return f"choice by {type_and_size(tag)[0]}", "dynamic"
        case n.Sized(inner=inner):
            return type_and_size(inner)
        case n.Nested():
            return "structure", "dynamic"
        case n.Many():
            return "array", "dynamic"
        case _:
            raise AssertionError(f"{wire!r} is not a wire node")


def _filled(wire: n.Digits | n.Run[Any]) -> str:
    """Return with what a value of a fixed size is filled up, in words."""
    pad = wire.pad or wire.pad_before
    return f", {pad.hex(' ')} {'behind' if wire.pad else 'before'} it" if pad else ""


def _tag_table(made: Layout, field: n.Field) -> Table:
    """Return a tag table with a column per message, as header documents print it."""
    tags = tag_rows(field.wire.struct)
    used = {code for tag in tags for code in tag.allowed}
    nodes = [node for node in made.messages.values() if node.code in used]
    rows = []
    for tag in tags:
        kind, size = type_and_size(tag.wire)
        marks = ("always" if node.code in tag.required else "x" if node.code in tag.allowed else "-" for node in nodes)
        shown = "Str" if size == "dynamic" else size
        rows.append((f"{tag.code:02X}", tag.title or tag.name, tag.name, shown, kind, *marks))
    header = ("code", "name", "key", "len", "type", *(f"{node.code:02X}" for node in nodes))
    about = "x: allowed, always: required, -: refused. A column per message, by its code."
    return Table(f"Dynamic headers: {field.key}", about, header, tuple(rows))


def _records(made: Layout, field: n.Field) -> list[Table]:
    """Return what records of typed, numbered values are made of, and the signatures in them."""
    if isinstance(field.wire, n.Cells):
        return [_cell_table(field.key, field.wire)]
    return [_form_table(made, field, form) for form in field.wire.forms]


def _cell_table(key: str, wire: n.Cells[Any]) -> Table:
    text = (
        f"Values one after the other, each behind a head, {_int(wire.head)[0]}: field id (0..{wire.id_max}) from bit "
        f"{wire.id_shift} on, type code in the {wire.type_mask.bit_length()} bits from bit {wire.type_shift} on."
    )
    rows = tuple((str(code), kind.name, *_cell_type(kind.wire)) for code, kind in enumerate(wire.types))
    return Table(f"Records: {key}", text, ("code", "type", "network type", "network size"), rows)


def _cell_type(wire: Any) -> tuple[str, str]:
    match wire:
        case None:
            return "none", "0"
        case n.Run(length=n.Int() as length, most=most):
            return type_and_size(wire)[0], f"{_int(length)[0]} length, at most {most} bytes"
        case _:
            return type_and_size(wire)


def _form_table(made: Layout, field: n.Field, form: n.Form) -> Table:
    rows = _struct_rows(made, form.struct, "", f"{field.key}.", [])
    about = (form.struct.__doc__ or "").strip()
    text = f"{about} {form.size} bytes, the first is {field.wire.kind}, index {'0' if form.first else 'above 0'}."
    return Table(f"Signature of {form.size} bytes: {field.key}", text, ROLE_HEADER, tuple(rows), level=3)


def _labels(labels: n.Labels) -> Table:
    if labels.bits:
        bits = tuple((f"{value:#x}", name) for value, name in labels.names.items())
        return Table(f"Bits of {labels.name}", "", ("bit", "name"), bits, level=3)
    rows = tuple((str(value), f"{value:#04x}" if value >= 0 else "", name) for value, name in labels.names.items())
    return Table(f"Values of {labels.name}", "", ("value", "hex", "name"), rows, level=3)


def _life_cycle(cycle: n.LifeCycle | None) -> list[Table]:
    if cycle is None:
        return []
    moves: dict[tuple[str, str, str], list[str]] = {}
    for side, states in (("client", cycle.client), ("server", cycle.server)):
        for state, allowed in states.items():
            for message, after in allowed.items():
                moves.setdefault((state, side, after), []).append(message)
    rows = tuple((state, side, ", ".join(messages), after) for (state, side, after), messages in moves.items())
    text = f"{cycle.doc} It begins in state `{cycle.initial}`; what is not listed is forbidden."
    return [Table("Life cycle", text, ("state", "side", "may send", "next state"), rows)]


def as_text(shown: list[Table]) -> str:
    """Return plain text with aligned columns."""
    return "\n".join(_as_text(table) for table in shown)


def _as_text(table: Table) -> str:
    lines = [table.title, "=" * len(table.title)] if table.level == 1 else [table.title, "-" * len(table.title)]
    if table.text:
        lines += [table.text]
    if table.header:
        widths = [max(len(row[i]) for row in (table.header, *table.rows)) for i in range(len(table.header))]
        lines += ["", _line(table.header, widths), _line(tuple("-" * w for w in widths), widths)]
        lines += [_line(row, widths) for row in table.rows]
        if not table.rows:
            lines += ["(nothing but the frame header)"]
    return "\n".join(lines) + "\n"


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    return " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def as_markdown(shown: list[Table]) -> str:
    lines: list[str] = []
    for table in shown:
        lines += [f"{'#' * table.level} {table.title}", ""]
        if table.text:
            lines += [table.text, ""]
        if table.header:
            lines += ["| " + " | ".join(table.header) + " |", "|" + "---|" * len(table.header)]
            lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table.rows]
            lines += [""]
    return "\n".join(lines)
