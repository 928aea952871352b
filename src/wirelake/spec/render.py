"""Description -> tables in the shape of a published protocol document: for ``wirelake describe`` and for
docs/protocols/.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_never

from . import nodes as n
from .declare import tag_rows
from .resolve import Layout, MessageNode, candidates, layout, resolve_fields

ROLE_HEADER = ("role name", "network type", "network size", "description")


@dataclass
class Table:
    """A heading, some words, and rows."""

    title: str
    text: str
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
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
    found += [_message(made, node) for node in made.messages.values()]
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
        (name, ", ".join(_word(v) for v in option.values), _word(option.default), option.doc)
        for name, option in protocol.options.items()
    )
    return [Table("Reading options", "", ("option", "values", "default", "meaning"), rows)]


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _frames(protocol: n.Protocol) -> list[Table]:
    """The frame header; once per reading where readings differ."""
    shown: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    options = [name for name, option in protocol.options.items() if any(v != "auto" for v in option.values)]
    for name in options or [""]:
        values = [v for v in protocol.options[name].values if v != "auto"] if name else [None]
        for value in values:
            made = candidates(protocol, **({name: value} if name else {}))[0]
            shown.setdefault(_frame_rows(made), []).append(f"{name} {_word(value)}" if name else "")
    several = len(shown) > 1
    return [
        Table(f"Frame ({', '.join(which)})" if several else "Frame", "", ROLE_HEADER, rows)
        for rows, which in shown.items()
    ]


def _frame_rows(made: Layout) -> tuple[tuple[str, ...], ...]:
    rows: list[tuple[str, ...]] = []
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


def _message(made: Layout, node: MessageNode) -> Table:
    title = f"{node.name} ({_code(made, node)})"
    published = f" ({node.published})" if node.published else ""
    rows: list[tuple[str, ...]] = []
    for field in _all_fields(made.protocol, node):
        if not (isinstance(field.wire, n.Tags) or field.name in _framed(made)):
            rows += _rows(made, field, field.key, "", _note(field))
    if any(isinstance(f.wire, n.Tags) for f in node.fields):
        rows = _with_tags(made, node, rows)
    if node.padding is not None:
        size = len(node.padding.value)
        rows.append(("", "fixed array", str(size), f"tolerated and not written: {node.padding.note}"))
    return Table(title, f"{node.doc}{published}", ROLE_HEADER, tuple(rows), level=3)


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


def _note(field: n.Field) -> str:
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
    return f" ({'; '.join(notes)})" if notes else ""


def _with_tags(made: Layout, node: MessageNode, rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    field = next(f for f in node.fields if isinstance(f.wire, n.Tags))
    own: list[tuple[str, ...]] = []
    for row in tag_rows(field.wire.struct):
        if node.code in row.allowed:
            kind, size = ("flag", "0") if row.wire is None else type_and_size(row.wire)
            must = "required; " if node.code in row.required else ""
            own.append((f"{field.key}.{row.name}", f"{kind}, tag {row.code:#04x}", size, must + row.doc))
    at = next((i for i, row in enumerate(rows) if row[0] == "body"), len(rows))
    return rows[:at] + own + rows[at:]


def _rows(made: Layout, field: n.Field, name: str, prefix: str, note: str) -> list[tuple[str, ...]]:
    """The rows of a field: sizes and data of runs apart, elements of arrays indented by their name."""
    full = prefix + (field.published or name) if not prefix else prefix + name
    doc = field.doc + (f" [{field.unit}]" if field.unit else "") + note
    wire = field.wire
    match wire:
        case n.Nested(struct=cls):
            found = []
            for inner in resolve_fields(cls, made.options):
                found += _rows(made, inner, inner.key, f"{full}.", note or _note(inner))
            return found
        case n.Length(wire=inner_wire, of=of):
            return [(full, int_name(inner_wire), str(inner_wire.size), f"bytes of {of}{note}")]
        case n.Run(length=n.Int() as length):
            kind, _ = type_and_size(wire)
            return [
                (f"{full}.size", int_name(length), str(length.size), f"bytes of {full}"),
                (f"{full}.data", kind, "dynamic", doc),
            ]
        case n.Many(element=element, count=count):
            found = []
            if isinstance(count, n.Int):
                found.append((f"{full}.size", int_name(count), str(count.size), f"number of elements of {full}"))
            how = "until the end" if count is None else doc
            return found + _element_rows(made, element, f"{full}.element", doc or how, note)
        case _:
            kind, size = type_and_size(wire)
            return [(full, kind, size, doc)]


def _element_rows(made: Layout, element: Any, name: str, doc: str, note: str) -> list[tuple[str, ...]]:
    if isinstance(element, n.Nested):
        found = []
        for inner in resolve_fields(element.struct, made.options):
            found += _rows(made, inner, inner.key, f"{name}.", note)
        return found
    return _rows(made, n.Field(name, element, doc), name, "", note)


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
        case n.Float(size=size):
            return f"float{size * 8}", str(size)
        case n.Fixed(size=size):
            return "fixed array", str(size)
        case n.Run(content=content):
            names = {"bytes": "dynamic array", "text": "text", "strict_text": "text", "json": "JSON"}
            return names.get(content, "MessagePack"), "dynamic"
        case n.Cells(types=types):
            return f"record of {', '.join(t.name for t in types)}", "dynamic"
        case n.Signature():
            return "structure", "in field 0"
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
    return Table(f"Dynamic headers: {field.key}", field.doc, header, tuple(rows))


def _labels(labels: n.Labels) -> Table:
    form = "{:#x}" if labels.bits else "{}"
    rows = tuple((form.format(value), name) for value, name in labels.names.items())
    return Table(f"Values of {labels.name}", "bit set" if labels.bits else "", ("value", "name"), rows, level=3)


def _life_cycle(cycle: n.LifeCycle) -> Table:
    rows = [
        (state, side, message, after)
        for side, moves in (("client", cycle.client), ("server", cycle.server))
        for state, allowed in moves.items()
        for message, after in allowed.items()
    ]
    text = f"{cycle.doc} It begins in state `{cycle.initial}`; what is not listed is forbidden."
    return Table("Life cycle", text, ("state", "side", "may send", "next state"), tuple(rows))


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
