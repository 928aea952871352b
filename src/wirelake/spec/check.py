"""Refuses an ill-formed description when it is imported, and says what is wrong with which field.

Every setting of every reading option is tried, so that a dialect nobody uses today cannot be broken either.
"""

from __future__ import annotations

import re
from itertools import product
from typing import Any, TypeVar, get_args

from ..errors import SpecError
from . import nodes as n
from .check_conduct import check_conduct
from .columns import columns
from .declare import Message, tag_rows
from .resolve import Layout, MessageNode, layout, resolve_fields

T = TypeVar("T")
RESERVED_NAMES = frozenset(("messages", "quarantine"))
"""Tables that a lake has beside one per protocol."""


def check(protocol: n.Protocol) -> None:
    """Raises SpecError unless every reader can read the description."""
    try:
        _require(
            re.fullmatch("[a-z][a-z0-9_-]*", protocol.name), f"{protocol.name!r} is no name: lower case, letter first"
        )
        _require(
            protocol.name not in RESERVED_NAMES,
            f"every lake has a table silver/{protocol.name}: give the protocol another name",
        )
        _require(isinstance(protocol.frame, n.Frame | n.Choose), "it has no frame")
        _check_messages(protocol)
        _check_options(protocol)
        settings = [
            [(name, v) for v in option.values or (option.default,) if v != "auto"]
            for name, option in protocol.options.items()
        ]
        for chosen in product(*settings):
            _check_layout(layout(protocol, **dict(chosen)))
        _check_life_cycle(protocol)
        columns(protocol)
        check_conduct(protocol)
    except SpecError as error:
        raise SpecError(f"protocol {protocol.name}: {error}") from None


def _require(condition: Any, detail: str) -> None:
    if not condition:
        raise SpecError(detail)


def _check_options(protocol: n.Protocol) -> None:
    for name, option in protocol.options.items():
        if not option.values:
            continue
        _require(
            option.default in option.values, f"option {name}: the default {option.default!r} is not one of its values"
        )
        if option.auto:
            _require("auto" in option.values, f"option {name} has a fallback but no value 'auto'")
            _require(
                option.auto in option.values, f"option {name}: the fallback {option.auto!r} is not one of its values"
            )
    for choice in _nodes((protocol.frame, *(cls.__wire_fields__ for cls in protocol.messages)), n.Choose):
        _require(
            choice.option in protocol.options,
            f"a choice depends on the option {choice.option!r}, which is not declared",
        )
        missing = [v for v in protocol.options[choice.option].values if v != "auto" and v not in choice.cases]
        _require(not missing, f"a choice by {choice.option} has no case for {', '.join(map(str, missing))}")
    for cls in protocol.messages:
        for f in (*cls.__wire_fields__, *cls.__derived_fields__):
            _check_only(protocol, f"{cls.__name__}.{f.name}", f)
        for setting in _nodes(cls.__wire_fields__, n.Setting):
            _require(setting.option in protocol.options, f"{cls.__name__}: there is no option {setting.option!r}")


def _check_only(protocol: n.Protocol, where: str, f: n.Field | n.DerivedField) -> None:
    if f.only is None:
        return
    option, value = f.only
    _require(option in protocol.options, f"{where} is there for one {option!r} only, which is no option")
    _require(value in protocol.options[option].values, f"{where} is there for {option}={value!r} only, which cannot be")
    if isinstance(f, n.Field):
        _require(f.default is not ..., f"{where} is not always there, so it needs a default")


def _nodes(node: Any, kind: type[T]) -> list[T]:
    """All nodes of this kind in a description, those inside choices too."""
    found = [node] if isinstance(node, kind) else []
    if isinstance(node, n.Choose):
        inner: Any = node.cases.values()
    elif isinstance(node, tuple):
        inner = node
    elif hasattr(node, "__dataclass_fields__") and not isinstance(node, type):
        inner = [getattr(node, name) for name in node.__dataclass_fields__]
    else:
        inner = ()
    return found + [each for item in inner for each in _nodes(item, kind)]


def _check_messages(protocol: n.Protocol) -> None:
    _require(protocol.messages, "it has no messages")
    codes: dict[int, str] = {}
    names: dict[str, str] = {}
    for cls in protocol.messages:
        about = getattr(cls, "__message__", None)
        if about is None:
            raise SpecError(f"{cls!r} is not a Message")
        code, name = about["code"], about["name"]
        _require(code is not None, f"{cls.__name__} has no code")
        _require(code not in codes, f"{cls.__name__} and {codes.get(code)} have the same code {code}")
        _require(name not in names, f"{cls.__name__} and {names.get(name)} have the same name {name!r}")
        codes[code], names[name] = cls.__name__, cls.__name__
    for cls in protocol.messages:
        answer = cls.__message__["answer"]
        _require(answer is None or answer in codes, f"{cls.__name__} has the reply {answer}, which is no message")


def _check_life_cycle(protocol: n.Protocol) -> None:
    cycle = protocol.life_cycle
    if cycle is None:
        return
    known = {cls.__message__["name"] for cls in protocol.messages}
    states = set(cycle.client) | set(cycle.server)
    _require(cycle.initial in states, f"the life cycle begins in {cycle.initial!r}, which is no state")
    for side in (cycle.client, cycle.server):
        for state, moves in side.items():
            for message, after in moves.items():
                _require(message in known, f"life cycle, state {state}: {message!r} is no message")
                _require(after in states, f"life cycle, state {state}: {message} leads to {after!r}, which is no state")


# --- one layout


def _check_layout(made: Layout) -> None:
    parts = made.frame.parts
    codes = [p for p in parts if isinstance(p, n.Code)]
    lines = [p for p in parts if isinstance(p, n.Line)]
    _require(len(codes) + len(lines) == 1, "a frame has one Code, or one Line that holds the message's word")
    for kind in (n.Size, n.Head):
        _require(sum(isinstance(p, kind) for p in parts) <= 1, f"a frame has at most one {kind.__name__}")
    _check_parts(made)
    if codes:
        low, high = _bounds(codes[0].wire)
        for node in made.messages.values():
            _require(low <= node.code <= high, f"{node.name}: the code {node.code} does not fit in {codes[0].name}")
    if lines:
        _require(parts[-1] is lines[0], "a header line is the last part of a frame")
        words = [node.word for node in made.messages.values()]
        _require(all(words), "every message needs a word, since the frame has a header line")
        _require(len(set(words)) == len(words), "two messages have the same word")
    for part in parts:
        if isinstance(part, n.Kept):
            for node in made.messages.values():
                _require(
                    any(f.name == part.name for f in node.fields),
                    f"{node.name} has no field {part.name!r} for the frame",
                )
                _require(
                    isinstance(node.field(part.name).wire, n.Fixed),
                    f"{part.name}: a field in the frame has a fixed size",
                )
    for node in made.messages.values():
        _check_message(made, node)


def _check_parts(made: Layout) -> None:
    sized = False
    for part in made.frame.parts:
        match part:
            case n.Magic(value=value):
                _require(value, "magic bytes are at least one")
            case n.Size(name=name, wire=wire, least=least, most=most):
                sized = True
                _require(most is None or least <= most, f"{name}: no length lies within {least}..{most}")
                if isinstance(wire, n.Int):
                    _check_wire(made, wire, name)
                    _require((most or least) <= _bounds(wire)[1], f"{name}: {most or least} does not fit in its bytes")
            case n.Head(name=name, least=least, most=most):
                _require(sized, f"{name}: the length of the frame comes before that of its head")
                _require(least <= most, f"{name}: no length lies within {least}..{most}")
            case n.Code(name=name, wire=wire):
                _check_wire(made, wire, name)
            case _:
                pass


def _bounds(wire: n.Int) -> tuple[int, int]:
    bits = wire.size * 8
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if wire.signed else (0, (1 << bits) - 1)


def _check_message(made: Layout, node: MessageNode) -> None:
    has_head = any(isinstance(p, n.Head) for p in made.frame.parts)
    in_frame = {p.name for p in made.frame.parts if isinstance(p, n.Kept)}
    plain = [f for f in node.fields if not f.view_of and f.name not in in_frame]
    _check_names(node)
    _require(has_head or not node.head_least, f"{node.name} has a least head, but the frame has none")
    _require(node.padding is None or node.padding.value, f"{node.name}: padding is at least one byte")
    apart = next((f.name for f in plain if isinstance(f.wire, n.Length)), None)
    _require(apart is None, f"{node.name}.{apart}: a length apart from its run stands in a Struct, not in a message")
    bodies = [f for f in plain if isinstance(f.wire, n.Body)]
    _require(len(bodies) <= 1, f"{node.name} has more than one body")
    _require(not bodies or plain[-1] is bodies[0], f"{node.name}: a body is the last field")
    if bodies:
        _check_body(node, bodies[0].wire)
    views = [f for f in node.fields if f.view_of]
    for view in views:
        where = f"{node.name}.{view.name}"
        _require(bodies and view.view_of == bodies[0].name, f"{where} is a view of {view.view_of!r}, which is no body")
        if isinstance(view.wire, n.Signature):
            target = next((v for v in views if v.name == view.wire.cells), None)
            _require(
                target is not None and isinstance(target.wire, n.Cells), f"{where}: {view.wire.cells!r} are no cells"
            )
    for f in plain:
        if isinstance(f.wire, n.Tags):
            _require(has_head, f"{node.name}.{f.name}: a tag table needs a Head in the frame, which ends it")
            _check_tags(made, node, f)
        if isinstance(f.wire, n.Word):
            _require(any(isinstance(p, n.Line) for p in made.frame.parts), f"{node.name}.{f.name}: a word needs a Line")
        if isinstance(f.when, n.HeadReaches):
            _require(has_head, f"{node.name}.{f.name} depends on the head, but the frame has none")
    _check_fields(made, plain, node.name)
    _check_fields(made, [v for v in views if not isinstance(v.wire, n.Signature)], node.name)
    _check_roles(node)
    known = {f.name for f in node.fields}
    for derived in node.derived:
        for attribute in ("field", "less"):
            path = getattr(derived.how, attribute, "")
            _require(not path or path.split(".")[0] in known, f"{node.name}.{derived.name}: there is no field {path!r}")


def _check_names(node: MessageNode) -> None:
    """Every field has a name, a key and a column of its own."""
    taken = {"keys": [f.key for f in node.fields], "columns": [f.column or f.key for f in node.fields]}
    for kind, names in taken.items():
        names += [derived.name for derived in node.derived]
        twice = next((name for name in names if names.count(name) > 1), None)
        _require(twice is None, f"{node.name}: two fields have the {kind[:-1]} {twice!r}")
    for f in node.fields:
        _require(not hasattr(Message, f.name), f"{node.name}.{f.name}: every message has a {f.name} of its own")


def _check_body(node: MessageNode, body: n.Body) -> None:
    for path in (body.opaque_if, body.empty_if.field if body.empty_if else None):
        first, _, rest = (path or "").partition(".")
        found = next((f for f in node.fields if f.name == first), None)
        _require(not path or found is not None, f"{node.name}: the body depends on {path!r}, which is no field")
        if rest and found is not None:
            names = {f.name for f in getattr(found.wire, "struct", Message).__wire_fields__}
            _require(rest in names, f"{node.name}: the body depends on {path!r}, which is no field")


def _check_roles(node: MessageNode) -> None:
    seen: dict[str, str] = {}
    for f in _with_nested(node.fields):
        _require(f.role is None or f.role in get_args(n.Role), f"{node.name}.{f.name}: {f.role!r} is no role")
        if f.role is not None and f.role != "payload":
            _require(f.role not in seen, f"{node.name}: {f.name} and {seen.get(f.role)} both are its {f.role}")
            seen[f.role] = f.name


def _with_nested(fields: tuple[n.Field, ...]) -> list[n.Field]:
    found = []
    for f in fields:
        found.append(f)
        if isinstance(f.wire, n.Nested | n.Tags):
            found += _with_nested(f.wire.struct.__wire_fields__)
    return found


def _check_tags(made: Layout, node: MessageNode, declared: n.Field) -> None:
    seen: dict[int, str] = {}
    names = {row.name for row in tag_rows(declared.wire.struct)}
    for row in tag_rows(declared.wire.struct):
        where = f"{declared.wire.struct.__name__}.{row.name}"
        _require(0 <= row.code <= 255, f"{where}: the code {row.code} does not fit in a byte")
        _require(row.code not in seen, f"{where} and {seen.get(row.code)} have the same code {row.code:#04x}")
        seen[row.code] = row.name
        unknown = (row.allowed | row.required) - set(made.messages)
        _require(not unknown, f"{where} is allowed on {', '.join(f'{c:#04x}' for c in unknown)}, which is no message")
        _require(row.required <= row.allowed, f"{where} is required where it is not allowed")
        _require(
            row.wire is None or isinstance(row.wire, n.Int | n.Run), f"{where}: a tag is a flag, an integer or a run"
        )
        if row.wire is not None:
            _require(not _open_ended(row.wire), f"{where}: the value of a tag has a length")
            _check_wire(made, row.wire, where)
    waived = declared.wire.waived
    _require(waived is None or waived in names, f"{node.name}.{declared.name}: there is no tag {waived!r}")


def _check_fields(made: Layout, fields: list[n.Field], where: str) -> None:
    earlier: dict[str, n.Field] = {}
    for i, f in enumerate(fields):
        here = f"{where}.{f.name}"
        if f.when is not None and not isinstance(f.wire, n.Length):
            _require(f.default is not ..., f"{here} is not always there, so it needs a default")
        match f.when:
            case n.Unless(field=name, values=values):
                _require(name in earlier, f"{here} depends on {name!r}, which does not come before it")
                _require(isinstance(earlier[name].wire, n.Int), f"{here} depends on {name!r}, which is no integer")
                _require(1 <= len(values) <= 2, f"{here}: a condition names one or two values")
            case n.With(field=name):
                _require(name in earlier, f"{here} depends on {name!r}, which does not come before it")
            case _:
                pass
        if isinstance(f.wire, n.Length):
            target = next((x for x in fields[i + 1 :] if x.name == f.wire.of), None)
            _require(target is not None, f"{here} is the length of {f.wire.of!r}, which does not come after it")
            _require(
                target is not None and isinstance(target.wire, n.Run) and target.wire.length == f.name,
                f"{here} is the length of {f.wire.of!r}, which is not sized by it",
            )
        if isinstance(f.wire, n.Run) and isinstance(f.wire.length, str):
            sized_by = earlier.get(f.wire.length)
            _require(sized_by, f"{here} is sized by {f.wire.length!r}, which does not come before it")
            _require(
                sized_by and isinstance(sized_by.wire, n.Length) and sized_by.wire.of == f.name,
                f"{here} is sized by {f.wire.length!r}, which is not its length",
            )
        if _open_ended(f.wire):
            _require(i == len(fields) - 1, f"{here} takes the rest, so nothing can follow it")
        if not isinstance(f.wire, n.Body | n.Tags | n.Word):
            _check_wire(made, f.wire, here)
        elif isinstance(f.wire, n.Word):
            _check_word(f.wire, here)
        earlier[f.name] = f


def _open_ended(wire: Any) -> bool:
    match wire:
        case n.Run(length=None) | n.Many(count=None) | n.Cells() | n.Body():
            return True
        case n.Nested(struct=cls):
            return any(_open_ended(f.wire) for f in cls.__wire_fields__)
        case n.Many(element=element):
            return _open_ended(element)
        case _:
            return False


def _may_be_empty(made: Layout, wire: Any) -> bool:
    """Whether a value can take no bytes at all: of such there would be no end in a list."""
    match wire:
        case n.Int() | n.Float() | n.Fixed() | n.Bool() | n.Length() | n.Run(length=n.Int()) | n.Many(count=n.Int()):
            return False
        case n.Nested(struct=cls):
            fields = resolve_fields(cls, made.options)
            return all(f.when is not None or _may_be_empty(made, f.wire) for f in fields)
        case n.Many(element=element, count=int() as count):
            return count == 0 or _may_be_empty(made, element)
        case _:
            return True


def _check_word(wire: n.Word[Any], where: str) -> None:
    for pattern in (wire.pattern, wire.quick):
        if pattern is None:
            continue
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            raise SpecError(f"{where}: the pattern {pattern!r} is not one: {error}") from None
        if wire.number and pattern is wire.pattern:
            _require(compiled.groups >= 1, f"{where}: the pattern of a number has its digits in group 1")


def _check_wire(made: Layout, wire: Any, where: str) -> None:
    match wire:
        case n.Int(size=size, low=low, high=high):
            _require(size in (1, 2, 3, 4, 8), f"{where}: integers have 1, 2, 3, 4 or 8 bytes, not {size}")
            bottom, top = _bounds(wire)
            _require(low is None or bottom <= low <= top, f"{where}: {low} does not fit in its {size} bytes")
            _require(high is None or bottom <= high <= top, f"{where}: {high} does not fit in its {size} bytes")
            _require(low is None or high is None or low <= high, f"{where}: no value lies within {low}..{high}")
        case n.Float(size=size):
            _require(size in (4, 8), f"{where}: floating-point numbers have 4 or 8 bytes, not {size}")
        case n.Fixed(size=size):
            _require(size > 0, f"{where}: a fixed size is positive, not {size}")
        case n.Bool():
            pass
        case n.Run(length=length, least=least, most=most):
            _require(most is None or least <= most, f"{where}: no length lies within {least}..{most}")
            if isinstance(length, n.Int):
                _check_wire(made, length, where)
                longest, highest = most or least, _bounds(length)[1]
                _require(longest <= highest, f"{where}: {longest} bytes, but its length ends at {highest}")
        case n.Length(wire=inner):
            _check_wire(made, inner, where)
        case n.Nested(struct=cls):
            fields = resolve_fields(cls, made.options)
            _check_fields(made, list(fields), cls.__name__)
            names = {f.name for f in fields}
            for limit in cls.__sum_limits__:
                _require(
                    set(limit.fields) <= names,
                    f"{cls.__name__}: a limit on {', '.join(limit.fields)}, not all of which exist",
                )
                counted = {f.wire.of for f in fields if isinstance(f.wire, n.Length)}
                _require(
                    set(limit.fields) <= counted,
                    f"{cls.__name__}: a limit on {', '.join(limit.fields)}, not all of which have a length",
                )
        case n.Many(element=element, count=count):
            _require(
                not isinstance(element, n.Body | n.Tags | n.Word | n.Length), f"{where}: this cannot be an element"
            )
            _require(not isinstance(count, int) or count >= 0, f"{where}: {count} elements cannot be")
            _require(not _open_ended(element), f"{where}: an element takes the rest, so none could follow it")
            if isinstance(count, n.Int):
                _check_wire(made, count, where)
            _check_wire(made, element, where)
            _require(not _may_be_empty(made, element), f"{where}: an element can be empty, so there is no end to them")
        case n.Cells(types=types, type_mask=mask, id_shift=shift, type_shift=type_shift):
            _require(len(types) == mask + 1, f"{where}: {mask + 1} type codes need as many types, not {len(types)}")
            _require(shift > type_shift, f"{where}: the number lies above the type")
            _require(len({kind.name for kind in types}) == len(types), f"{where}: two types have the same name")
        case _:
            raise SpecError(f"{where}: {type(wire).__name__} cannot be a field here")
