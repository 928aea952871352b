"""Refuses a wrong class body or class line when the class is made: in one sentence, with the class and the field.

What is seen here is what a class says by itself; ``check`` looks at what the messages of a protocol say together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, get_args

from ..errors import SpecError
from . import nodes as n
from .conduct import When

ONE_OF: Mapping[str, tuple[str, ...]] = {"kind": get_args(n.Kind), "sent_by": get_args(n.SentBy)}
"""Keywords of a class line that take one of a few words."""
_EXAMPLES = {"text": "text(u8)", "blob": "blob(u8)", "fixed": "fixed(8)", "nested": "nested(Place)"}
_FOR_TYPES = {int: "be.u32", float: "be.f64", str: "text(u8)", bytes: "blob(u8)", bool: "bool8"}


def require(condition: Any, detail: str) -> None:
    """Raise SpecError with this sentence unless the condition holds."""
    if not condition:
        raise SpecError(detail)


def check_word(where: str, value: Any, allowed: Iterable[Any]) -> None:
    """Refuse a word that is not one of a few, and name the one that was meant."""
    words = tuple(allowed)
    if value not in words:
        close = get_close_matches(str(value), map(str, words), 1) or get_close_matches(
            str(value), map(str, words), 1, 0.4
        )
        meant = f"; write {close[0]!r}" if close else ""
        raise SpecError(f"{where} is one of {', '.join(map(repr, words))}, not {value!r}{meant}")


class Body(dict[str, Any]):
    """The body of a class in the making, which sees a field that is declared a second time."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def __setitem__(self, key: str, value: Any) -> None:
        is_twice = isinstance(self.get(key), n.Field | n.DerivedField)
        require(not is_twice, f"{self._name}.{key} is declared twice; give one of the two another name")
        super().__setitem__(key, value)


def check_class_line(name: str, given: Mapping[str, Any], known: Iterable[str]) -> None:
    """Refuse what the class line of a message or structure cannot say."""
    words = sorted(known)
    for key in given:
        check_word(f"{name}: a keyword of its class line", key, words)
    for key in ONE_OF.keys() & given.keys():
        check_word(f"{name}: {key}", given[key], ONE_OF[key])
    for key in ("code", "answer"):
        value = given.get(key)
        several = value if isinstance(value, tuple) else (value,)
        is_text = isinstance(value, str) and value != ""
        is_code = value is None or is_text or (several and all(_is_number(v) for v in several))
        is_answer = key == "answer" and several and _are_codes(several)
        is_of_parts = key == "answer" and any(isinstance(one, tuple) for one in several)
        remedy = "name those replies, as in answer=('receipt', 'refusal')" if is_of_parts else f"write {key}=1"
        require(is_code or is_answer, f"{name}: {key} is the number of a message, not {value!r}; {remedy}")
    frame = given.get("frame", "")
    require(isinstance(frame, str), f'{name}: frame is the name of one of frames=, not {frame!r}; write frame="hello"')
    _check_then(name, given.get("then", ()))
    good = given.get("good", ())
    is_good = isinstance(good, tuple) and all(isinstance(value, int | str) for value in good)
    require(is_good, f"{name}: good are values of its status, not {good!r}; write good=(0,)")
    padding = given.get("padding")
    require(
        padding is None or isinstance(padding, n.Padding), f"{name}: padding is written padding=Padding(b'...', ...)"
    )


def _check_then(name: str, given: Any) -> None:
    """Refuse what does not name the frames that come next."""
    conditions = given.values() if isinstance(given, Mapping) else ()
    places = [
        place
        for key in (given if isinstance(given, Mapping) else (given,) if given else ())
        for place in (key if isinstance(key, tuple) else (key,))
    ]
    is_named = all(isinstance(place, str) and place for place in places)
    where = f"{name}: then= names the frames that its sender sends next, not {given!r}"
    require(is_named, f'{where}; write then="command", or then="usual" for those that have no name')
    for when in conditions:
        is_when = isinstance(when, When)
        require(is_when, f"{name}: then= leads to a frame under a condition, not {when!r}; write When(...)")


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_codes(values: tuple[Any, ...]) -> bool:
    return all(_is_number(value) or (isinstance(value, str) and value) for value in values)


def is_gap(refusal: str) -> bool:
    """Return whether no record was made because a field without a default follows one that has one."""
    return re.match(r"Required field '(\w+)' cannot follow", refusal) is not None


def explain(name: str) -> str:
    """Return in our words why no record can be made of a class."""
    return f"{name}: no record can be made of this class; leave only fields, derived values and methods in it"


def check_body(name: str, body: Mapping[str, Any]) -> None:
    """Refuse what stands in a class body but is no field, and fields that no reader could take."""
    annotations = body.get("__annotations__", {})
    for key, value in body.items():
        where = f"{name}.{key}"
        if isinstance(value, n.Field):
            is_typed = key in annotations or isinstance(value.wire, n.Length | n.WireOnly)
            require(is_typed, f"{where} has no annotation; write {key}: {python_type(value.wire)} = field(...)")
            _check_field(where, value)
        elif isinstance(value, n.Wire) and not key.startswith("_"):
            of = python_type(value)
            raise SpecError(f'{where} is a bare wire type; write {key}: {of} = field({spell(value)}, "what it is")')
    for key, hint in annotations.items():
        if isinstance(body.get(key), n.Field | n.DerivedField) or "ClassVar" in str(hint):
            continue
        spelled = hint if isinstance(hint, str) else getattr(hint, "__name__", hint)
        instead = f"; {body[key]!r} is none" if key in body else ""
        raise SpecError(f'{name}.{key} has no wire type{instead}; write {key}: {spelled} = field(..., "what it is")')


def _check_field(where: str, declared: n.Field) -> None:
    check_is_wire(where, declared.wire)
    doc = declared.doc
    require(isinstance(doc, str), f"{where}: the second argument says what the field means, not {doc!r}; write a text")
    if declared.role is not None:
        check_word(f"{where}: role", declared.role, get_args(n.Role))
    if declared.when is not None:
        is_condition = isinstance(declared.when, n.Condition)
        several = declared.when.conditions if isinstance(declared.when, n.Every) else ()
        for one in several:
            require(
                isinstance(one, When), f"{where}: of several conditions each is a When(...), not {one!r}; leave it out"
            )
        require(is_condition, f"{where}: when= is a condition, not {declared.when!r}; write when=IfLeft()")
    default = declared.default
    can_change = isinstance(default, list | dict | set | bytearray)
    require(not can_change, f"{where}: the default {default!r} can change; write {_unchanging(default)}")
    _check_default(where, declared.wire, default)


def _unchanging(default: Any) -> str:
    instead = {"list": "()", "dict": "None", "bytearray": "b''"}
    return f"default={instead.get(type(default).__name__, 'frozenset()')}"


def _check_default(where: str, wire: Any, default: Any) -> None:
    kinds = {"int": int, "float": float, "str": str, "bytes": bytes, "bool": bool, "tuple": tuple}
    wanted = kinds.get(python_type(wire).partition("[")[0])
    if wanted is None or default is ... or default is None or isinstance(wire, n.Choose | n.Tag):
        return
    fits = isinstance(default, wanted) or (wanted is float and isinstance(default, int)) or not default
    require(
        fits, f"{where}: the default {default!r} is no {wanted.__name__}; write default={wanted()!r} or leave it out"
    )


def check_is_wire(where: str, wire: Any) -> None:
    """Refuse what is no wire type, and say how the type that was meant is written."""
    match wire:
        case n.Setting():
            pass
        case n.Choose(cases=cases):
            for case in cases.values():
                check_is_wire(where, case)
        case n.Int(labels=labels) if labels is not None and not isinstance(labels, n.Labels):
            raise SpecError(f'{where}: labelled takes Labels; write labelled(u8, Labels("name", {labels!r}))')
        case n.Int(labels=n.Labels(name=name, names=names)) if (wrong := _not_a_number(names)) is not None:
            raise SpecError(f"{where}: {wrong!r} is no number; write Labels({name!r}, {{0: {wrong!r}}})")
        case n.Run(length=int() as size, pad=pad, pad_before=pad_before):
            instead = f"write text({size}, pad=b' '), or fixed({size}) for bytes"
            is_filled = bool(pad or pad_before) and not isinstance(size, bool)
            require(is_filled, f"{where}: nothing says what fills it up to {size} bytes; {instead}")
        case n.Run(length=size, least=least):
            is_size = isinstance(size, n.Wire | n.Choose | n.By | str | bytes | None)
            require(
                is_size, f"{where}: the length {size!r} is no wire type; write text(u8), or fixed({size!r}) for bytes"
            )
            require(least >= 0, f"{where}: the least length {least} is negative; write least=0 or more")
        case n.Fixed(size=size):
            require(isinstance(size, int | n.Choose), f"{where}: the size {size!r} is no number; write fixed(8)")
        case n.Many():
            _check_many(where, wire)
        case n.Nested(struct=struct):
            is_struct = hasattr(struct, "__wire_fields__") and not hasattr(struct, "__message__")
            is_struct = is_struct and isinstance(struct, type)
            spelled = getattr(struct, "__name__", f"{type(struct).__name__}(...)")
            require(is_struct, f"{where}: nested takes a class with the base Struct, which {spelled} is not")
        case n.Wire() | n.Tag():
            pass
        case _:
            raise SpecError(f"{where}: {_what_it_is(wire)}")


def _not_a_number(codes: Iterable[Any]) -> Any:
    return next((code for code in codes if not isinstance(code, int)), None)


def _check_many(where: str, wire: Any) -> None:
    element, count = wire.element, wire.count
    is_swapped = isinstance(element, int | None) and isinstance(count, n.Wire)
    require(not is_swapped, f"{where}: the element comes first; write many({spell(count)}, {element!r})")
    check_is_wire(where, element)
    is_count = isinstance(count, int | n.Wire | n.Choose | n.By | str | bytes | None) and not isinstance(count, bool)
    require(is_count, f"{where}: the count {count!r} is neither a wire type nor a number; write many(..., u8)")


def _what_it_is(given: Any) -> str:
    if isinstance(given, type) and hasattr(given, "__wire_fields__"):
        return f"{given.__name__} is a structure; write field(nested({given.__name__}))"
    if isinstance(given, type) and given in _FOR_TYPES:
        return f"{given.__name__} is a Python type, not a wire type; write field({_FOR_TYPES[given]})"
    if isinstance(given, str):
        return f'the wire type comes first, not {given!r}; write field(u8, "what it is")'
    if isinstance(given, n.Field):
        return "a field stands inside a field; write one field(...) around the wire type"
    if callable(given) and (name := getattr(given, "__name__", "")):
        return f"{name} is a function; write field({_EXAMPLES.get(name, name + '(...)')})"
    return f"{given!r} is no wire type; write field(u8), field(text(u8)) ..."


def python_type(wire: Any) -> str:
    """Return the Python type of a wire type, as an annotation spells it."""
    match wire:
        case n.Bool():
            return "bool"
        case n.Int() | n.Word(number=True) | n.Bits() | n.Varint() | n.Digits():
            return "int"
        case n.Sized(inner=inner):
            return python_type(inner)
        case n.Scaled(epoch=epoch):
            return "float" if epoch is None else "datetime"
        case n.Float():
            return "float"
        case n.Fixed() | n.Body() | n.Run(content="bytes"):
            return "bytes"
        case n.Word() | n.Run(content="text" | "strict_text"):
            return "str"
        case n.Choice(tag=None):
            return _named_later(wire)
        case n.Choice():
            return "Tagged"
        case n.Nested(struct=struct) | n.Tags(struct=struct):
            return str(getattr(struct, "__name__", "Any"))
        case n.Many(element=element):
            return f"tuple[{python_type(element)}, ...]"
        case _:
            return "Any"


def _named_later(wire: n.Choice[Any]) -> str:
    """Return the name of a structure that a function names; it may not be declared yet."""
    try:
        return python_type(wire.known[None])
    except NameError:
        return "Any"


def spell(wire: Any) -> str:
    """Return how a declaration spells a wire type."""
    match wire:
        case n.Int(size=1, signed=False):
            return "u8"
        case n.Int(size=size, signed=signed, little=little):
            return f"{'le' if little else 'be'}.{'i' if signed else 'u'}{size * 8}"
        case n.Float(size=size, little=little):
            return f"{'le' if little else 'be'}.f{size * 8}"
        case n.Bool(lenient=lenient):
            return "flag8" if lenient else "bool8"
        case n.Scaled(wire=number, epoch=None):
            return f"fixed_point({spell(number)}, ...)"
        case n.Scaled(wire=number):
            return f"timestamp({spell(number)}, ...)"
        case n.Fixed(size=size):
            return f"fixed({size})"
        case n.Run(length=n.Int() as length, content=content):
            return f"{'blob' if content == 'bytes' else 'text'}({spell(length)})"
        case n.Run(length=None, content=content):
            return "rest" if content == "bytes" else "rest_text"
        case n.Nested(struct=struct):
            return f"nested({getattr(struct, '__name__', '...')})"
        case n.Many(element=element):
            return f"many({spell(element)}, ...)"
        case _:
            return "..."
