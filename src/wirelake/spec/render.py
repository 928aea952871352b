"""Description -> tables in the shape of a published protocol document: for ``wirelake describe`` and for
docs/protocols/.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_never

from . import nodes as n
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
    """All tables of a protocol, or those of one message."""
    made = layout(protocol)
    if message is not None:
        node = made.named(message) or made.messages.get(_number(message))
        if node is None:
            known = ", ".join(m.name for m in made.messages.values())
            raise ValueError(f"{protocol.name} has no message {message!r}; it has: {known}")
        return [_message(made, node)]
    found = [Table(protocol.title, protocol.doc, level=1), *_options(protocol), *_frames(protocol)]
    found.append(_overview(made))
    found += _tag_tables(made)
    shared = _shared(made)
    found += [_message(made, node, without=shared) for node in made.messages.values()]
    found += _records(made)
    found += [_computed(shared)] if shared else []
    found += [_labels(labels) for labels in protocol.labels]
    if protocol.life_cycle is not None:
        found.append(_life_cycle(protocol.life_cycle))
    return found


def _number(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        return -1


# --- parts of the document


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
    """The frame header; once per reading where readings differ."""
    shown: dict[tuple[Row, ...], list[dict[str, Any]]] = {}
    for setting in settings(protocol):
        shown.setdefault(_frame_rows(layout(protocol, **setting)), []).append(setting)
    return [Table(_frame_title(protocol, alike), "", FRAME_HEADER, rows) for rows, alike in shown.items()]


def _frame_title(protocol: n.Protocol, alike: list[dict[str, Any]]) -> str:
    """Says with which options a frame looks like this; those that change nothing are not named."""
    told = []
    for name, option in protocol.options.items():
        seen = list(dict.fromkeys(setting[name] for setting in alike))
        if len(seen) < len(option_values(option)):
            told.append(f"{name} {' or '.join(map(_word, seen))}")
    return f"Frame ({', '.join(told)})" if told else "Frame"


def _frame_rows(made: Layout) -> tuple[Row, ...]:
    rows: list[Row] = []
    for part in made.frame.parts:
        match part:
            case n.Magic(value=value, name=name):
                rows.append((name, "fixed array", str(len(value)), f"always {value.hex(' ')}"))
            case n.Size(name=name, wire=n.Escaped() as escaped):
                wide = int_name(escaped.wide)
                rows.append((name, "uint8", "1", f"bytes that follow; {escaped.escape} announces a wide length"))
                rows.append((f"{name}.wide", wide, str(escaped.wide.size), f"from {escaped.escape} on"))
                if escaped.mask_bit:
                    rows.append(
                        (escaped.mask_key, "fixed array", "4", f"if bit {escaped.mask_bit:#x} of the length is set")
                    )
            case n.Size(name=name, wire=wire, counts=counts, least=least, most=most):
                what = "bytes of the whole frame" if counts == "whole" else "bytes that follow"
                limit = f", {least}..{most}" if most is not None else ""
                rows.append((name, int_name(wire), str(wire.size), what + limit))
            case n.Head(name=name, wire=wire, least=least, most=most):
                rows.append((name, int_name(wire), str(wire.size), f"bytes before the body, {least}..{most}"))
            case n.Code(name=name, wire=wire):
                rows.append((name, int_name(wire), str(wire.size), "which message"))
            case n.Kept(name=name):
                field = next(iter(made.messages.values())).field(name)
                rows.append((name, "fixed array", str(field.wire.size), field.doc))
            case n.Line(separator=separator, end=end, window=window, code=code):
                words = ", ".join(node.word for node in made.messages.values())
                rows.append((code, "word", "dynamic", f"one of {words}"))
                rows.append(
                    (
                        "line",
                        "text",
                        f"< {window}",
                        f"words joined by {separator.decode()!r}, ended by {end.decode()!r}",
                    )
                )
            case _:
                assert_never(part)
    return tuple(rows)


def _overview(made: Layout) -> Table:
    rows = []
    for node in made.messages.values():
        answer = made.messages[node.answer].name if node.answer is not None else ""
        rows.append((_code(made, node), node.name, node.kind, node.sent_by, answer, _first_line(node.doc)))
    return Table("Messages", "", ("code", "message", "kind", "sent by", "answer", "meaning"), tuple(rows))


def _first_line(text: str) -> str:
    return text.split("\n", maxsplit=1)[0]


def _code(made: Layout, node: MessageNode) -> str:
    part = next((p for p in made.frame.parts if isinstance(p, n.Code)), None)
    return f"0x{node.code:02X}" if part is not None and part.wire.size == 1 else str(node.code)


def _shared(made: Layout) -> tuple[n.DerivedField, ...]:
    """The computed values that every message has."""
    first, *others = [node.cls.__derived_fields__ for node in made.messages.values()]
    return tuple(derived for derived in first if all(derived in other for other in others))


def _computed(shared: tuple[n.DerivedField, ...]) -> Table:
    rows = tuple((derived.name, derived.doc) for derived in shared)
    return Table("Computed in every message", "Not on the wire, but shown.", ("field", "description"), rows)


def _message(made: Layout, node: MessageNode, without: tuple[n.DerivedField, ...] = ()) -> Table:
    title = f"{node.name} ({_code(made, node)})"
    published = f" Published as `{node.published}`." if node.published else ""
    rows: list[Row] = []
    for field in _all_fields(made.protocol, node):
        if isinstance(field.wire, n.Tags):
            rows += _tag_entries(node, field)
        elif _belongs(made, node, field):
            rows += _rows(made, field, "", "", "")
    if node.padding is not None:
        size = len(node.padding.value)
        rows.append(("", "fixed array", str(size), "", f"tolerated, not written; noted as {node.padding.note}"))
    computed = [derived for derived in node.cls.__derived_fields__ if derived not in without]
    rows += [("", "computed", "", derived.name, derived.doc) for derived in computed]
    return Table(title, f"{node.doc}{published}", ROLE_HEADER, tuple(rows), level=3)


def _belongs(made: Layout, node: MessageNode, field: n.Field) -> bool:
    """Whether the field stands in this message, and not in the frame around it."""
    if isinstance(field.wire, n.Word) and field.wire.only is not None and node.code not in field.wire.only:
        return False
    return field.name not in _framed(made)


def _framed(made: Layout) -> set[str]:
    names = {p.name for p in made.frame.parts if isinstance(p, n.Kept)}
    return names | {
        p.wire.mask_key for p in made.frame.parts if isinstance(p, n.Size) and isinstance(p.wire, n.Escaped)
    }


def _all_fields(protocol: n.Protocol, node: MessageNode) -> tuple[n.Field, ...]:
    """The message's fields in every reading."""
    chosen = layout(protocol).options
    found = []
    for declared in node.cls.__wire_fields__:
        settled = dict(chosen)
        if declared.only is not None:
            settled[declared.only[0]] = declared.only[1]
        found.append(next(f for f in resolve_fields(node.cls, settled) if f.name == declared.name))
    return tuple(found)


def _notes(field: n.Field) -> list[str]:
    """When the field is there, and within which limits."""
    notes = []
    if field.only is not None:
        notes.append(f"only with {field.only[0]} {_word(field.only[1])}")
    match field.when:
        case None:
            pass
        case n.Unless(field=name, values=values):
            notes.append(f"unless {name} is {' or '.join(map(str, values))}")
        case n.HeadReaches(size=size):
            notes.append(f"if the header has {size} bytes or more")
        case n.IfLeft():
            notes.append("if there are bytes left")
        case n.With(field=name):
            notes.append(f"if {name} is there")
        case _:
            assert_never(field.when)
    if field.view_of:
        notes.append(f"read from {field.view_of}")
    if field.json and field.json != field.name:
        notes.append(f"{field.name} in Python")
    return notes + _limits(field.wire)


def _limits(wire: Any) -> list[str]:
    match wire:
        case n.Int(low=int() as low, high=int() as high) | n.Word(number=True, low=int() as low, high=int() as high):
            optional = isinstance(wire, n.Word) and wire.optional
            return [f"{low}..{high}", *(["optional"] if optional else [])]
        case n.Run(least=0, most=int() as most):
            return [f"at most {most} bytes"]
        case n.Run(least=least, most=most) if least:
            return [f"at least {least} bytes" if most is None else f"{least}..{most} bytes"]
        case n.Body(most=int() as most):
            return [f"at most {most} bytes"]
        case n.Word(optional=True):
            return ["optional"]
        case _:
            return []


def _doc(field: n.Field, notes: list[str]) -> str:
    doc = field.doc + (f" [{field.unit}]" if field.unit else "")
    return f"{doc} ({'; '.join(notes)})".strip() if notes else doc


def _tag_entries(node: MessageNode, field: n.Field) -> list[Row]:
    """The tags that this message may carry."""
    found: list[Row] = []
    for row in tag_rows(field.wire.struct):
        if node.code in row.allowed:
            kind, size = ("flag", "0") if row.wire is None else type_and_size(row.wire)
            must = "required; " if node.code in row.required else ""
            name = f"{field.key}.{row.name}"
            found.append((name, f"{kind}, tag {row.code:#04x}", size, name, must + row.doc))
    return found


def _rows(made: Layout, field: n.Field, prefix: str, path: str, note: str) -> list[Row]:
    """The rows of a field, sizes and data apart; ``prefix`` leads to it in the published names, ``path`` in ours."""
    name = field.published or prefix + field.key
    ours = path + field.key
    notes = ([note] if note else []) + _notes(field)
    wire = field.wire
    match wire:
        case n.Nested(struct=cls):
            return _struct_rows(made, cls, f"{name}.", f"{ours}.", "; ".join(notes))
        case n.Length(wire=inner_wire, of=of):
            return [
                (name, int_name(inner_wire), str(inner_wire.size), "", _doc(n.Field("", None, f"bytes of {of}"), notes))
            ]
        case n.Run(length=n.Int() as length):
            kind, _ = type_and_size(wire)
            return [
                (f"{name}.size", int_name(length), str(length.size), "", f"bytes of {name}"),
                (f"{name}.data", kind, "dynamic", ours, _doc(field, notes)),
            ]
        case n.Many(element=n.Nested(struct=cls), count=count):
            inner = _struct_rows(made, cls, f"{name}.element.", f"{ours}[].", "; ".join(notes))
            return _count_rows(name, count) + inner
        case n.Many(element=element, count=count):
            if not isinstance(count, n.Int):
                notes.append("until the end" if count is None else f"{count} of them")
            single = n.Field(f"{name}.element", element, _doc(field, notes))
            inner = [(*row[:3], f"{ours}[]" if row[3] else "", row[4]) for row in _rows(made, single, "", "", "")]
            return _count_rows(name, count) + inner
        case _:
            kind, size = type_and_size(wire)
            return [(name, kind, size, ours, _doc(field, notes))]


def _struct_rows(made: Layout, cls: Any, prefix: str, path: str, note: str) -> list[Row]:
    found: list[Row] = []
    for inner in resolve_fields(cls, made.options):
        found += _rows(made, inner, prefix, path, note)
    return found + [("", "computed", "", path + derived.name, derived.doc) for derived in cls.__derived_fields__]


def _count_rows(name: str, count: n.Int | int | None) -> list[Row]:
    if not isinstance(count, n.Int):
        return []
    return [(f"{name}.size", int_name(count), str(count.size), "", f"number of elements of {name}")]


def int_name(wire: n.Int) -> str:
    order = "" if wire.size == 1 or not wire.little else " le"
    return f"{'int' if wire.signed else 'uint'}{wire.size * 8}{order}"


def type_and_size(wire: Any) -> tuple[str, str]:
    """The network type and size of a value."""
    match wire:
        case n.Int(size=size, labels=labels):
            return int_name(wire) + (f" ({labels.name})" if labels is not None else ""), str(size)
        case n.Bool():
            return "bool8", "1"
        case n.Float(size=size, little=little):
            return f"float{size * 8}{' le' if little else ''}", str(size)
        case n.Fixed(size=size):
            return "fixed array", str(size)
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
        case n.Nested():
            return "structure", "dynamic"
        case n.Many():
            return "array", "dynamic"
        case _:
            raise AssertionError(f"{wire!r} is not a wire node")


def _tag_tables(made: Layout) -> list[Table]:
    """Tag tables with a column per message, as header documents print them."""
    seen: list[Any] = []
    found = []
    for node in made.messages.values():
        for field in node.fields:
            if isinstance(field.wire, n.Tags) and field.wire.struct not in seen:
                seen.append(field.wire.struct)
                found.append(_tag_table(made, field))
    return found


def _tag_table(made: Layout, field: n.Field) -> Table:
    rows = []
    used = {code for row in tag_rows(field.wire.struct) for code in row.allowed}
    nodes = [node for node in made.messages.values() if node.code in used]
    for row in tag_rows(field.wire.struct):
        kind, size = ("flag", "0") if row.wire is None else type_and_size(row.wire)
        marks = ["always" if node.code in row.required else "x" if node.code in row.allowed else "-" for node in nodes]
        rows.append(
            (f"{row.code:02X}", row.title or row.name, row.name, size if size != "dynamic" else "Str", kind, *marks)
        )
    header = ("code", "name", "key", "len", "type", *(f"{node.code:02X}" for node in nodes))
    about = "x: allowed, always: required, -: refused. A column per message, by its code."
    return Table(f"Dynamic headers: {field.key}", about, header, tuple(rows))


def _records(made: Layout) -> list[Table]:
    """What records of typed, numbered values are made of, and the signatures in them."""
    found: dict[Any, list[Table]] = {}
    for node in made.messages.values():
        for field in node.fields:
            if isinstance(field.wire, n.Cells):
                found.setdefault(field.wire, [_cell_table(field)])
            elif isinstance(field.wire, n.Signature):
                found.setdefault(field.wire, [_form_table(made, field, form) for form in field.wire.forms])
    return [table for several in found.values() for table in several]


def _cell_table(field: n.Field) -> Table:
    wire: n.Cells[Any] = field.wire
    text = (
        f"Values one after the other, each behind a head, {int_name(wire.head)}: field id (0..{wire.id_max}) from bit "
        f"{wire.id_shift} on, type code in the {wire.type_mask.bit_length()} bits from bit {wire.type_shift} on."
    )
    rows: list[Row] = []
    for code, kind in enumerate(wire.types):
        match kind.wire:
            case None:
                rows.append((str(code), kind.name, "none", "0"))
            case n.Run(length=n.Int() as length, most=most):
                content, _ = type_and_size(kind.wire)
                rows.append((str(code), kind.name, content, f"{int_name(length)} length, at most {most} bytes"))
            case other:
                rows.append((str(code), kind.name, *type_and_size(other)))
    return Table(f"Records: {field.key}", text, ("code", "type", "network type", "network size"), tuple(rows))


def _form_table(made: Layout, field: n.Field, form: n.Form) -> Table:
    rows = _struct_rows(made, form.struct, "", f"{field.key}.", "")
    about = (form.struct.__doc__ or "").strip()
    text = f"{about} {form.size} bytes, the first is {field.wire.kind}, index {'0' if form.first else 'above 0'}."
    return Table(f"Signature of {form.size} bytes: {field.key}", text, ROLE_HEADER, tuple(rows), level=3)


def _labels(labels: n.Labels) -> Table:
    if labels.bits:
        bits = tuple((f"{value:#x}", name) for value, name in labels.names.items())
        return Table(f"Bits of {labels.name}", "", ("bit", "name"), bits, level=3)
    rows = tuple((str(value), f"{value:#04x}" if value >= 0 else "", name) for value, name in labels.names.items())
    return Table(f"Values of {labels.name}", "", ("value", "hex", "name"), rows, level=3)


def _life_cycle(cycle: n.LifeCycle) -> Table:
    moves: dict[tuple[str, str, str], list[str]] = {}
    for side, states in (("client", cycle.client), ("server", cycle.server)):
        for state, allowed in states.items():
            for message, after in allowed.items():
                moves.setdefault((state, side, after), []).append(message)
    rows = tuple((state, side, ", ".join(messages), after) for (state, side, after), messages in moves.items())
    text = f"{cycle.doc} It begins in state `{cycle.initial}`; what is not listed is forbidden."
    return Table("Life cycle", text, ("state", "side", "may send", "next state"), rows)


# --- output


def as_text(found: list[Table]) -> str:
    """Plain text with aligned columns."""
    return "\n".join(_as_text(table) for table in found)


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


def as_markdown(found: list[Table]) -> str:
    lines: list[str] = []
    for table in found:
        lines += [f"{'#' * table.level} {table.title}", ""]
        if table.text:
            lines += [table.text, ""]
        if table.header:
            lines += ["| " + " | ".join(table.header) + " |", "|" + "---|" * len(table.header)]
            lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table.rows]
            lines += [""]
    return "\n".join(lines)
