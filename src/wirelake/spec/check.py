"""Refuses an ill-formed description when it is imported, and says what is wrong with which field.

Every setting of every reading option is tried, so that a dialect nobody uses today cannot be broken either.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import fields, is_dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

from ..errors import SpecError
from . import nodes as n
from .check_annotations import check_annotations
from .check_class import check_is_wire, require
from .check_codes import check_codes, check_tried
from .check_conduct import check_conduct
from .check_depth import check_depth
from .check_exchanges import check_exchanges
from .check_protocol import check_arguments
from .check_wires import (
    check_before,
    check_bits,
    check_by,
    check_ends,
    check_header_field,
    check_lines,
    check_number,
    check_numbers,
    check_run,
    check_scaled,
    check_since,
    check_until,
    check_when,
    check_wire_only,
    size_given,
)
from .columns import columns, value_of
from .conditions import conditions_of, exclude
from .conduct import When
from .declare import Message, tag_rows
from .resolve import Layout, MessageNode, is_fixed, layout, resolve_fields, settings
from .states import check_then

T = TypeVar("T")


def check(protocol: n.Protocol) -> None:
    """Raise SpecError unless every reader can read the description."""
    name = protocol.name
    try:
        check_arguments(protocol)
        _check_messages(protocol)
        for fault in check_then(protocol):
            raise SpecError(fault)
        _check_options(protocol)
        for setting in settings(protocol):
            made = layout(protocol, **setting)
            for each in (made, *made.others):
                _check_layout(each)
            check_tried(made.tried)
        check_exchanges(protocol)
        columns(protocol)
        check_conduct(protocol)
    except SpecError as error:
        raise SpecError(f"protocol {name}: {error}") from None


def _check_options(protocol: n.Protocol) -> None:
    options = protocol.options
    for name, option in options.items():
        if option.values:
            _check_option(f"option {name}", option)
    for choice in _nodes((protocol.frame, *(cls.__wire_fields__ for cls in protocol.messages)), n.Choose):
        by = choice.option
        require(by in options, f"a choice depends on the option {by!r}, which is not declared")
        missing = [v for v in options[by].values if v != "auto" and v not in choice.cases]
        require(not missing, f"a choice by {by} has no case for {', '.join(map(str, missing))}")
    for cls in protocol.messages:
        for f in (*cls.__wire_fields__, *cls.__derived_fields__):
            _check_only(protocol, f"{cls.__name__}.{f.name}", f)
        for setting in _nodes(cls.__wire_fields__, n.Setting):
            require(setting.option in options, f"{cls.__name__}: there is no option {setting.option!r}")


def _check_option(where: str, option: n.Option) -> None:
    values = option.values
    require(option.default in values, f"{where}: the default {option.default!r} is not one of its values")
    if option.auto:
        require("auto" in values, f"{where} has a fallback but no value 'auto'")
        require(option.auto in values, f"{where}: the fallback {option.auto!r} is not one of its values")


def _check_only(protocol: n.Protocol, where: str, f: n.Field | n.DerivedField) -> None:
    if f.only is None:
        return
    option, value = f.only
    require(option in protocol.options, f"{where} is there for one {option!r} only, which is no option")
    require(value in protocol.options[option].values, f"{where} is there for {option}={value!r} only, which cannot be")
    has_default = isinstance(f, n.DerivedField) or f.default is not ...
    require(has_default, f"{where} is not always there, so it needs a default; write optional(...) or default=")


def _nodes(node: Any, kind: type[T]) -> list[T]:
    """Return all nodes of this kind in a description, those inside choices too."""
    inner: Any = ()
    if isinstance(node, n.Choose):
        inner = node.cases.values()
    elif isinstance(node, tuple):
        inner = node
    elif is_dataclass(node) and not isinstance(node, type):
        inner = [getattr(node, f.name) for f in fields(node)]
    return ([node] if isinstance(node, kind) else []) + [each for item in inner for each in _nodes(item, kind)]


def _check_messages(protocol: n.Protocol) -> None:
    codes: dict[int, str] = {}
    names: dict[str, str] = {}
    for cls in protocol.messages:
        shown = getattr(cls, "__name__", repr(cls))
        require(
            isinstance(cls, type) and hasattr(cls, "__message__"),
            f"{shown} is not a Message; write class Hello(Message, code=1)",
        )
        code, name = cls.__message__["code"], cls.__message__["name"]
        require(code is not None, f"{cls.__name__} has no code; write class {cls.__name__}(Message, code=1)")
        in_frame = " (any number, if its frame has no Code)" if protocol.frames else ""
        where = f"{cls.__name__} and {codes.get(code)} have the same code {code}"
        require(code not in codes, f"{where}; write another code={in_frame}")
        require(name not in names, f"{cls.__name__} and {names.get(name)} have the same name {name!r}; write as_name=")
        codes[code], names[name] = cls.__name__, cls.__name__
        frame = cls.__message__["frame"]
        known = ", ".join(map(repr, protocol.frames)) or "none"
        is_frame = not frame or frame in protocol.frames
        require(is_frame, f"{cls.__name__} has the frame {frame!r}, which is none of frames=: {known}; add it there")
        check_annotations(cls)


def _check_layout(made: Layout) -> None:
    parts, nodes = made.frame.parts, made.nodes
    where = f"the frame {made.place!r}" if made.place else "the frame"
    require(nodes, f"{where} has no message; write frame={made.place!r} in the class line of one")
    codes = [p for p in parts if isinstance(p, n.Code)]
    lines = [p for p in parts if isinstance(p, n.Line)]
    is_only = not codes and not lines and len(nodes) == 1
    require(
        (codes and not lines) or (len(lines) == 1 and not codes) or is_only,
        'a frame has one Code, or one Line that holds the message\'s word; write Code("type", u8)',
    )
    check_codes(made, codes)
    for kind in (n.Size, n.Head):
        require(sum(isinstance(p, kind) for p in parts) <= 1, f"a frame has at most one {kind.__name__}")
    _check_parts(made)
    check_ends(made.frame)
    for place, code in enumerate(codes):
        low, high = _code_bounds(code.wire)
        for node in nodes:
            given = node.codes[place] if place < len(node.codes) and node.codes[0] != n.OTHER else low
            require(
                isinstance(code.wire, n.Run) or low <= given <= high,
                f"{node.cls.__name__}: the code {given} does not fit in {code.name}; write a wider type",
            )
    if any(isinstance(part, n.Ends) for part in parts):
        for node in nodes:
            last = next((f.name for f in node.fields if _asks_end(f)), None)
            where = f"{node.cls.__name__}.{last} takes what is left, but the frame ends with its last field"
            require(last is None, f"{where}; give it a length or an end")
            final = node.fields[-1] if node.fields else None
            is_told = final is None or final.name in made.loose or not isinstance(final.when, n.Begins)
            where = f"{node.cls.__name__}.{final.name if final else ''} ends the frame"
            require(is_told, f"{where}, so what follows is another one; write when=When(...)")
    if lines:
        behind = parts[parts.index(lines[0]) + 1 :]
        is_last = all(isinstance(part, n.Ends) for part in behind)
        require(is_last, "a header line is the last part of a frame, but for Ends; write it behind the others")
        check_lines(lines[0], nodes)
        words = [node.word for node in nodes if node.codes[0] != n.OTHER]
        require(all(words), "every message needs a word, since the frame has a header line; write word= or code=OTHER")
        require(len(set(words)) == len(words), "two messages have the same word")
    for node in nodes:
        _check_header(made, node)
    for node in nodes:
        _check_message(made, node)


def _check_header(made: Layout, node: MessageNode) -> None:
    """Check the fields of a message that travel in the header of its frame."""
    earlier: dict[str, n.Field] = {}
    for part in made.frame.parts:
        where = f"{node.cls.__name__}.{part.name}" if isinstance(part, n.Kept | n.Size) else ""
        if isinstance(part, n.Size) and (by := n.By.of(part.wire)) is not None:
            check_numbers(f"the length {part.name}", by, earlier)
        if not isinstance(part, n.Kept):
            continue
        kept = next((f for f in node.fields if f.name == part.name), None)
        remedy = f"write {part.name}: int = field(...) in it"
        require(kept, f"{node.cls.__name__} has no field {part.name!r} for the frame; {remedy}")
        assert kept is not None
        if part.name in made.loose or not is_fixed(kept):
            usual = made.nodes[0].field(part.name)
            same = (kept.wire, kept.when) == (usual.wire, usual.when)
            require(same, f"{where} is read before the code, so all messages have the same one; move it to their base")
            check_header_field(where, kept, earlier)
            require(not _open_ended(kept.wire), f"{where} takes the rest, and the header goes on; give it an end")
            _check_condition(kept, earlier, set(earlier), where)
            _check_wire(made, kept.wire, where)
        earlier[part.name] = kept


def _check_parts(made: Layout) -> None:
    sized = False
    for part in made.frame.parts:
        match part:
            case n.Magic(value=value):
                require(value, "magic bytes are at least one")
            case n.Size(name=name, wire=wire, least=least, most=most):
                sized = True
                require(
                    most is None or least <= most,
                    f"{name}: no length lies within {least}..{most}; write least below most",
                )
                if isinstance(wire, n.Varint | n.Digits):
                    check_number(name, wire)
                if isinstance(wire, n.Int):
                    _check_wire(made, wire, name)
                    require((most or least) <= _bounds(wire)[1], f"{name}: {most or least} does not fit in its bytes")
            case n.Head(name=name, least=least, most=most):
                require(sized, f"{name}: the length of the frame comes before that of its head")
                require(least <= most, f"{name}: no length lies within {least}..{most}; write least below most")
            case n.Code(name=name, wire=wire):
                _check_wire(made, wire, name)
            case _:
                pass


def _code_bounds(wire: Any) -> tuple[int, int]:
    if isinstance(wire, n.Varint | n.Digits):
        return n.limits(wire)
    return _bounds(wire) if isinstance(wire, n.Int) else (0, (1 << getattr(wire, "width", 0)) - 1)


def _bounds(wire: n.Int) -> tuple[int, int]:
    bits = wire.size * 8
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if wire.signed else (0, (1 << bits) - 1)


def _check_message(made: Layout, node: MessageNode) -> None:
    has_head = any(isinstance(p, n.Head) for p in made.frame.parts)
    in_frame = {p.name for p in made.frame.parts if isinstance(p, n.Kept)}
    if node.codes[0] == n.OTHER:
        in_frame |= {p.name for p in made.frame.parts if isinstance(p, n.Code)}
    plain = [f for f in node.fields if not f.view_of and f.name not in in_frame]
    _check_names(node)
    require(has_head or not node.head_least, f"{node.cls.__name__} has a least head, but the frame has none")
    require(node.padding is None or node.padding.value, f"{node.cls.__name__}: padding is at least one byte")
    _check_body(node, plain)
    for f in plain:
        where = f"{node.cls.__name__}.{f.name}"
        _check_optional(f, where)
        if isinstance(f.wire, n.Tags):
            require(has_head, f"{where}: a tag table needs a Head in the frame, which ends it")
            _check_tags(made, where, f.wire)
        if isinstance(f.wire, n.Word):
            require(any(isinstance(p, n.Line) for p in made.frame.parts), f"{where}: a word needs a Line")
        if isinstance(f.when, n.HeadReaches):
            require(has_head, f"{where} depends on the head, but the frame has none")
    _check_lookups(node)
    _check_fields(made, plain, node.cls.__name__, tuple(f for f in node.fields if f.name in in_frame), node.derived)
    check_bits(_header_bits(made, node))
    _check_fields(made, [v for v in node.views if not isinstance(v.wire, n.Signature)], node.cls.__name__)
    _check_roles(node)
    known = {f.name for f in node.fields}
    for derived in node.derived:
        _check_derived(made, node, derived)
        for path in (getattr(derived.how, attribute, "") for attribute in ("field", "less")):
            require(
                not path or path.split(".")[0] in known,
                f"{node.cls.__name__}.{derived.name}: there is no field {path!r}",
            )


def _check_derived(made: Layout, node: MessageNode, derived: n.DerivedField) -> None:
    """Refuse what the frame of the message cannot say."""
    where = f"{node.cls.__name__}.{derived.name}"
    match derived.how:
        case n.Masked():
            is_masked = any(f.name == "mask_key" for f in node.cls.__wire_fields__)
            require(is_masked, f"{where}: there is no mask; write mask_key: bytes | None = optional(fixed(4))")
        case n.PayloadLength() | n.Wide():
            sizes = [part.wire for part in made.at(node).frame.parts if isinstance(part, n.Size)]
            is_fixed = bool(sizes) and isinstance(sizes[0], n.Int | n.Escaped)
            require(is_fixed, f"{where}: the frame has no length of a fixed size; write derived(FrameLength())")


def _check_names(node: MessageNode) -> None:
    """Refuse fields that share a key or a column, or have the name of what every message has."""
    taken = {"key": [f.key for f in node.fields], "column": [f.column or f.key for f in node.fields]}
    for kind, names in taken.items():
        names += [derived.name for derived in node.derived]
        twice = next((name for name in names if names.count(name) > 1), None)
        require(twice is None, f"{node.cls.__name__}: two fields have the {kind} {twice!r}; write another {kind}=")
    for f in node.fields:
        require(
            not hasattr(Message, f.name),
            f"{node.cls.__name__}.{f.name}: every message has a {f.name} of its own; write another name and json=",
        )


def _check_body(node: MessageNode, plain: list[n.Field]) -> None:
    """Check the body of a message, if it has one, and the views of it."""
    bodies = [f for f in plain if isinstance(f.wire, n.Body)]
    require(len(bodies) <= 1, f"{node.cls.__name__} has more than one body")
    require(not bodies or plain[-1] is bodies[0], f"{node.cls.__name__}: a body is the last field")
    for body in bodies:
        for path in (body.wire.opaque_if, body.wire.empty_if and body.wire.empty_if.field):
            require(
                not path or _is_field(node, path),
                f"{node.cls.__name__}: the body depends on {path!r}, which is no field",
            )
    for view in node.views:
        where = f"{node.cls.__name__}.{view.name}"
        require(bodies and view.view_of == bodies[0].name, f"{where} is a view of {view.view_of!r}, which is no body")
        if isinstance(view.wire, n.Signature):
            cells = view.wire.cells
            is_known = any(v.name == cells and isinstance(v.wire, n.Cells) for v in node.views)
            require(is_known, f"{where}: {cells!r} are no cells")


def _is_field(node: MessageNode, path: str) -> bool:
    """Return whether a path names a field of a message, or one of a structure in it."""
    first, _, rest = path.partition(".")
    structs = [getattr(f.wire, "struct", Message) for f in node.fields if f.name == first]
    return any(not rest or rest in {f.name for f in struct.__wire_fields__} for struct in structs)


def _check_roles(node: MessageNode) -> None:
    seen: dict[str, str] = {}
    for f in _with_nested(node.fields):
        if f.role is not None and f.role != "payload":
            require(
                f.role not in seen,
                f"{node.cls.__name__}: {f.name} and {seen.get(f.role)} both are its {f.role}; leave one role= out",
            )
            seen[f.role] = f.name


def _with_nested(fields: tuple[n.Field, ...]) -> Iterator[n.Field]:
    for f in fields:
        yield f
        if isinstance(f.wire, n.Nested | n.Tags):
            yield from _with_nested(f.wire.struct.__wire_fields__)


def _check_tags(made: Layout, place: str, tags: n.Tags[Any]) -> None:
    seen: dict[int, str] = {}
    rows = tag_rows(tags.struct)
    for row in rows:
        where = f"{tags.struct.__name__}.{row.name}"
        require(0 <= row.code <= 255, f"{where}: the code {row.code} does not fit in a byte")
        require(row.code not in seen, f"{where} and {seen.get(row.code)} have the same code {row.code:#04x}")
        seen[row.code] = row.name
        unknown = (row.allowed | row.required) - set(made.messages)
        require(not unknown, f"{where} is allowed on {', '.join(f'{c:#04x}' for c in unknown)}, which is no message")
        require(row.required <= row.allowed, f"{where} is required where it is not allowed")
        require(isinstance(row.wire, n.Int | n.Run | None), f"{where}: a tag is a flag, an integer or a run")
        if row.wire is not None:
            require(not _open_ended(row.wire), f"{where}: the value of a tag has a length")
            _check_wire(made, row.wire, where)
    is_known = tags.waived is None or any(row.name == tags.waived for row in rows)
    require(is_known, f"{place}: there is no tag {tags.waived!r}")


def _header_bits(made: Layout, node: MessageNode) -> Iterator[tuple[str, Any]]:
    """Yield what the parts of the header are, as far as they may share an integer."""
    for part in made.frame.parts:
        if isinstance(part, n.Code):
            yield part.name, part.wire
        elif isinstance(part, n.Kept):
            yield f"{node.cls.__name__}.{part.name}", node.field(part.name).wire
        else:
            yield type(part).__name__, part


def _check_lookups(node: MessageNode) -> None:
    for made in node.derived:
        if isinstance(made.how, n.Lookup):
            where = f"{node.cls.__name__}.{made.name} looks up {made.how.key!r} in {made.how.field!r}"
            value = value_of(node.cls, made.how)
            require(value is not None, f"{where}, which is no list of structures; name one with a key and a value")
            is_value = isinstance(value, n.Int | n.Digits | n.Varint | n.Fixed | n.Run)
            require(is_value, f"{where}, whose values are no texts, bytes or numbers; write value= with such a field")


def _looked_up(derived: tuple[n.DerivedField, ...], name: str) -> Iterator[n.Field]:
    """Yield what can be looked up once a list is read, as optional fields."""
    for made in derived:
        if isinstance(made.how, n.Lookup) and made.how.field == name:
            wire = n.Digits(b" ") if made.how.number else n.Run(None, "text")
            yield n.Field(made.name, wire, when=n.With(name), default=None)


def _check_fields(
    made: Layout,
    fields: list[n.Field],
    where: str,
    in_frame: tuple[n.Field, ...] = (),
    derived: tuple[n.DerivedField, ...] = (),
) -> None:
    own = {f.name for f in (*in_frame, *fields)}
    around = {name: f for name, f in _AROUND.get().items() if name not in own and not isinstance(f.wire, n.Length)}
    earlier: dict[str, n.Field] = around | {f.name: f for f in in_frame}
    check_bits((f"{where}.{f.name}", f.wire) for f in fields)
    if_left = ""
    for i, f in enumerate(fields):
        here = f"{where}.{f.name}"
        _check_condition(f, earlier, own, here)
        stays = not if_left or f.when is not None or isinstance(f.wire, n.WireOnly) or _may_be_empty(made, f.wire)
        require(stays, f"{here} is always there, but {if_left} before it only if bytes are left; write when=IfLeft()")
        if_left = f.name if isinstance(f.when, n.IfLeft) else if_left
        match f.wire:
            case n.Length(of=of):
                target = next((x for x in fields[i + 1 :] if x.name == of), None)
                require(target, f"{here} is the length of {of!r}, which does not come after it")
                by = target and n.By.of(size_given(target.wire))
                is_sized = by == n.By(f.name)
                require(is_sized, f"{here} is the length of {of!r}, which is not sized by it; write blob({f.name!r})")
                check_since(here, f.name, f.wire, earlier)
            case n.Run() | n.Sized() | n.Many() if (by := n.By.of(size_given(f.wire))) is not None:
                check_by(here, f, by, earlier)
            case n.Word():
                _check_word(f.wire, here)
        if _open_ended(f.wire):
            require(
                all(
                    isinstance(behind.wire, n.Constant | n.Checksum) or exclude(f.when, behind.when)
                    for behind in fields[i + 1 :]
                ),
                f"{here} takes the rest, so nothing can follow it; write it last or give it a length",
            )
        if isinstance(f.wire, n.WireOnly):
            check_wire_only(here, f.wire, earlier)
        elif not isinstance(f.wire, n.Body | n.Tags | n.Word):
            token = _AROUND.set(earlier)
            try:
                _check_wire(made, f.wire, here)
            finally:
                _AROUND.reset(token)
        earlier[f.name] = f
        earlier |= {found.name: found for found in _looked_up(derived, f.name)}


_AROUND: ContextVar[Mapping[str, n.Field]] = ContextVar("around", default=MappingProxyType({}))
"""The fields around the structure that is being checked, as far as they come before it."""


def _check_condition(f: n.Field, earlier: Mapping[str, n.Field], own: set[str], where: str) -> None:
    always = f.when is None or isinstance(f.wire, n.Length)
    is_shared = f.when is not None and isinstance(f.wire, n.Bits)
    remedy = "leave when= out, or write it for a structure that holds them"
    require(not is_shared, f"{where}: bits are there as long as their integer is; {remedy}")
    for condition in conditions_of(f.when):
        check_when(where, condition, earlier)
    is_apart = isinstance(f.wire, n.Length) and isinstance(f.when, n.Every)
    require(not is_apart, f"{where}: a length has one condition; write one When(...)")
    require(
        always or f.default is not ...,
        f"{where} is not always there, so it needs a default; write optional(...) or default=",
    )
    if isinstance(f.when, n.With):
        name = f.when.field
        require(
            name in earlier and name in own,
            f"{where} depends on {name!r}, which does not come before it; name an earlier field",
        )


def _check_optional(f: n.Field, where: str) -> None:
    """Refuse a field that may be None but is always on the wire."""
    is_always = f.default is None and f.when is None and f.only is None
    has_null = getattr(f.wire, "null", None) is not None
    can_be_none = isinstance(f.wire, n.Body | n.Tags | n.Word) or getattr(f.wire, "null_if_empty", False) or has_null
    remedy = "write when=IfLeft(), or field(...) for one that is always there"
    require(not is_always or can_be_none, f"{where} is optional, but nothing says when it is there; {remedy}")
    is_free = isinstance(f.wire, n.Run) and f.wire.content in ("msgpack", "msgpack_map", "json") and not f.view_of
    hides_null = is_free and f.when is not None and f.default is None
    require(not hides_null, f"{where}: None is a value of it, so it cannot say that it is absent; write default=UNSET")


def _open_ended(wire: Any, choices: tuple[n.Choice[Any], ...] = ()) -> bool:
    """Return whether a value takes what is left. ``choices``: those that it is inside of."""
    match wire:
        case n.Run(length=None) | n.Many(count=None, until=None) | n.Cells() | n.Body() | n.Digits(end=b"", size=0):
            return True
        case n.Nested(struct=cls):
            return any(_open_ended(f.wire, choices) for f in cls.__wire_fields__)
        case n.Many(element=element):
            return _open_ended(element, choices)
        case n.Scaled(wire=number):
            return _open_ended(number)
        case n.Choice() if wire not in choices and isinstance(wire.known, Mapping):
            return any(_open_ended(case, (*choices, wire)) for case in wire.known.values())
        case _:
            return False


def _asks_end(f: n.Field) -> bool:
    """Return whether a field can be read only where the end of its range is known."""
    return _open_ended(f.wire) or isinstance(f.when, n.IfLeft) or getattr(f.wire, "or_end", False)


def _may_be_empty(made: Layout, wire: Any) -> bool:
    """Return whether a value can take no bytes at all: of such there would be no end in a list."""
    match wire:
        case n.Int() | n.Float() | n.Fixed() | n.Bool() | n.Length() | n.Run(length=n.Int()) | n.Many(count=n.Int()):
            return False
        case n.Choice() | n.Varint() | n.Digits() | n.Constant() | n.Checksum() | n.Bits(shift=0) | n.Scaled():
            return False
        case n.Sized(length=length):
            return n.written(length) is None
        case n.Many(element=element, until=When(), or_end=or_end):
            return or_end or _may_be_empty(made, element)
        case n.Run(length=bytes() | int() | n.Varint() | n.Digits()) | n.Many(count=bytes() | n.Varint() | n.Digits()):
            return False
        case n.Run(length=n.By() as length) | n.Many(count=n.By() as length):
            return n.written(length) is None
        case n.Nested(struct=cls):
            fields = resolve_fields(cls, made.options)
            return all(f.when is not None or _may_be_empty(made, f.wire) for f in fields)
        case n.Many(element=element, count=int() as count):
            return count == 0 or _may_be_empty(made, element)
        case _:
            return True


def _has_conditions(made: Layout, wire: Any, seen: tuple[Any, ...] = ()) -> bool:
    """Return whether conditions in a structure decide whether it has bytes. ``seen``: those around it."""
    element = n.structure_of(wire)
    if element is None or element in seen:
        return False
    fields = resolve_fields(element.struct, made.options)
    return any(f.when is not None or _has_conditions(made, f.wire, (*seen, element)) for f in fields)


def _check_word(wire: n.Word[Any], where: str) -> None:
    for pattern in (each for each in (wire.pattern, wire.quick) if each is not None):
        try:
            groups = re.compile(pattern).groups
        except re.error as error:
            raise SpecError(f"{where}: the pattern {pattern!r} is not one: {error}") from None
        is_number = wire.number and pattern is wire.pattern
        require(not is_number or groups >= 1, f"{where}: the pattern of a number has its digits in group 1")


def _check_wire(made: Layout, wire: Any, where: str) -> None:
    match wire:
        case n.Int(size=size, low=low, high=high):
            require(size in (1, 2, 3, 4, 8), f"{where}: integers have 1, 2, 3, 4 or 8 bytes, not {size}")
            bottom, top = _bounds(wire)
            require(
                low is None or bottom <= low <= top,
                f"{where}: {low} does not fit in its {size} bytes; write a wider type",
            )
            require(
                high is None or bottom <= high <= top,
                f"{where}: {high} does not fit in its {size} bytes; write a wider type",
            )
            require(
                low is None or high is None or low <= high,
                f"{where}: no value lies within {low}..{high}; write the lower one first",
            )
        case n.Float(size=size):
            require(size in (4, 8), f"{where}: floating-point numbers have 4 or 8 bytes, not {size}")
        case n.Fixed(size=size):
            require(size > 0, f"{where}: a fixed size is positive, not {size}; write fixed(1) or more")
        case n.Bool():
            pass
        case n.Bits(wire=whole, width=width):
            _check_wire(made, replace(whole, low=None, high=None), where)
            highest = (1 << width) - 1
            fits = (whole.low or 0) >= 0 and (whole.high or 0) <= highest
            require(fits, f"{where}: {whole.low}..{whole.high} does not fit in {width} bits; write a lower limit")
        case n.Varint() | n.Digits():
            check_number(where, wire)
        case n.Scaled(wire=number):
            check_scaled(where, wire)
            _check_wire(made, number, where)
        case n.Sized(length=length, inner=inner_wire):
            is_number = isinstance(length, n.Number | n.By | str)
            require(is_number, f"{where}: the length {length!r} is no number; write sized(be.u16, ...)")
            _check_before(made, length, where)
            _check_wire(made, inner_wire, where)
        case n.Choice():
            _check_choice(made, wire, where)
        case n.Run(length=length, least=least, most=most):
            if wire.null is not None or wire.end:
                is_counted = n.written(length) is not None or (wire.null is None and n.By.of(length) is not None)
                require(is_counted, f"{where}: null= and end= are for values with a length; write blob(be.u16, ...)")
            require(
                most is None or least <= most, f"{where}: no length lies within {least}..{most}; write least below most"
            )
            check_run(where, wire)
            require(length != b"", f'{where}: no bytes cannot end a value; write text(b"\\0") or rest_text')
            _check_before(made, length, where)
            if isinstance(n.written(length), n.Int):
                longest, highest = most or least, n.sizes(length)[1]
                require(
                    longest <= highest,
                    f"{where}: {longest} bytes, but its length ends at {highest}; write a wider length type",
                )
        case n.Length(wire=inner):
            _check_wire(made, inner, where)
        case n.Nested(struct=cls):
            fields = resolve_fields(cls, made.options)
            _check_fields(made, list(fields), cls.__name__)
            inside = next((f.name for f in fields if isinstance(f.wire, n.Checksum)), None)
            require(inside is None, f"{cls.__name__}.{inside}: a sum stands in a message, not in a structure; move it")
            names, counted = {f.name for f in fields}, {f.wire.of for f in fields if isinstance(f.wire, n.Length)}
            for limit in cls.__sum_limits__:
                where = f"{cls.__name__}: a limit on {', '.join(limit.fields)}, not all of which"
                require(names.issuperset(limit.fields), f"{where} exist")
                require(counted.issuperset(limit.fields), f"{where} have a length")
        case n.Many(element=element, count=count):
            is_value = not isinstance(element, n.Body | n.Tags | n.Word | n.Length)
            require(is_value, f"{where}: this cannot be an element")
            require(not isinstance(count, int) or count >= 0, f"{where}: {count} elements cannot be")
            require(not _open_ended(element), f"{where}: an element takes the rest, so none could follow it")
            check_until(where, wire)
            is_counted = n.written(count) is not None or wire.null is None
            require(is_counted, f"{where}: null= is for lists with a count; write many(..., be.i16, null=-1)")
            _check_before(made, count, where)
            require(count != b"", f'{where}: no bytes cannot end a list; write many(..., b"\\0")')
            _check_wire(made, element, where)
            is_empty = _may_be_empty(made, element) and not _has_conditions(made, element)
            require(not is_empty, f"{where}: an element can be empty, so there is no end to them")
        case n.Cells(types=types, type_mask=mask, id_shift=shift, type_shift=type_shift):
            require(len(types) == mask + 1, f"{where}: {mask + 1} type codes need as many types, not {len(types)}")
            require(shift > type_shift, f"{where}: the number lies above the type")
            require(len({kind.name for kind in types}) == len(types), f"{where}: two types have the same name")
        case _:
            raise SpecError(f"{where}: {type(wire).__name__} cannot be a field here")


def _check_before(made: Layout, given: Any, where: str) -> None:
    """Check the number that is written before a value, if its length or count is one."""
    if isinstance(given, n.By) and n.By.of(given) is None:
        check_before(where, given)
    if n.written(given) is not None:
        _check_wire(made, n.written(given), where)


_CHECKED: ContextVar[frozenset[n.Choice[Any]]] = ContextVar("checked", default=frozenset())
"""The choices that are being checked: a case may hold the choice itself."""


def _check_choice(made: Layout, wire: n.Choice[Any], where: str) -> None:
    if wire in _CHECKED.get():
        return
    tag = wire.tag
    if tag is None:
        _check_holding_itself(made, wire, where)
        return
    is_tag = isinstance(tag, n.Int | n.Fixed)
    require(is_tag, f"{where}: the tag of a choice is an integer or fixed bytes, not {tag!r}; write choice(u8, ...)")
    known: Any = wire.known
    is_map = isinstance(known, Mapping) and known
    require(is_map, f"{where}: a choice has a mapping of tags to wire types, not {known!r}; write {{1: u8}}")
    _check_wire(made, tag, where)
    low, high = _bounds(tag) if isinstance(tag, n.Int) else (0, 0)
    token = _CHECKED.set(_CHECKED.get() | {wire})
    try:
        for value, case in known.items():
            is_int = isinstance(tag, n.Int) and isinstance(value, int) and low <= value <= high
            is_bytes = isinstance(tag, n.Fixed) and isinstance(value, bytes) and len(value) == tag.size
            spelled = "OTHER" if value == n.OTHER else repr(value)
            require(is_int or is_bytes, f"{where}: the tag {spelled} is no value of its type; write another tag")
            here = f"{where}, tag {value!r}"
            if case is not None:
                is_field = isinstance(case, n.Field)
                require(not is_field, f"{here} is a field, not a wire type; write nested() of a structure that has it")
                require(isinstance(case, n.Wire), f"{here}: {case!r} is no wire type; write a wire type or None")
                _check_wire(made, case, here)
    finally:
        _CHECKED.reset(token)
    check_depth(made, wire, where)
    ends = any(not holds_choice(case) for case in known.values())
    require(ends, f"{where}: every case holds a choice again, so no value has an end; add a case that does not")


def _check_holding_itself(made: Layout, wire: n.Choice[Any], where: str) -> None:
    """Check a structure that a function names, as it may hold itself."""
    inside = wire.known[None]
    check_is_wire(where, inside)
    is_endless = _always_holds(inside, wire)
    struct = inside.struct.__name__
    remedy = "hold it in a list, or under a condition"
    require(not is_endless, f"{where}: every {struct} holds another one, so no value has an end; {remedy}")
    token = _CHECKED.set(_CHECKED.get() | {wire})
    try:
        _check_wire(made, inside, where)
    finally:
        _CHECKED.reset(token)
    check_depth(made, wire, where)


def _always_holds(wire: Any, choice: n.Choice[Any], seen: tuple[Any, ...] = ()) -> bool:
    """Return whether every value of a type holds one of a choice. ``seen``: the choices around it."""
    match wire:
        case n.Choice() if wire is choice or wire in seen:
            return True
        case n.Choice(known=known):
            return all(_always_holds(case, choice, (*seen, wire)) for case in known.values())
        case n.Sized(inner=inner) | n.Many(element=inner, until=When()):
            return _always_holds(inner, choice, seen)
        case n.Many(element=inner, count=int() as count):
            return count > 0 and _always_holds(inner, choice, seen)
        case n.Nested(struct=cls):
            return any(_always_holds(f.wire, choice, seen) for f in cls.__wire_fields__ if f.when is None)
        case _:
            return False


def holds_choice(wire: Any) -> bool:
    """Return whether a value has choices in it."""
    match wire:
        case n.Choice():
            return True
        case n.Sized(inner=inner) | n.Many(element=inner):
            return holds_choice(inner)
        case n.Nested(struct=cls):
            return any(holds_choice(f.wire) for f in cls.__wire_fields__)
        case _:
            return False
