"""Refuses annotations that disagree with the wire types of their fields, or name what does not exist."""

from __future__ import annotations

import inspect
import sys
from contextvars import ContextVar
from datetime import datetime
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import msgspec

from ..errors import SpecError
from . import nodes as n
from .check_class import check_is_wire, python_type

_PLAIN = {"bool": bool, "int": int, "float": float, "bytes": bytes, "str": str, "datetime": datetime}


def check_annotations(cls: Any) -> None:
    """Raise SpecError unless the annotations of a message, and of the structures in it, fit the wire types."""
    hints = _hints(cls)
    for field in cls.__wire_fields__:
        wire = getattr(field.wire, "element", field.wire)
        if isinstance(wire, n.Nested):
            check_annotations(wire.struct)
        elif (inside := n.structure_of(wire)) is not None and inside.struct not in _CHECKED.get():
            check_is_wire(f"{cls.__name__}.{field.name}", inside)
            token = _CHECKED.set(_CHECKED.get() | {inside.struct})
            check_annotations(inside.struct)
            _CHECKED.reset(token)
        hint = hints.get(field.name, Any)
        wanted = python_type(field.wire)
        if not _fits(hint, field.wire):
            spelled = getattr(hint, "__name__", hint) if isinstance(hint, type) else hint
            where = f"{cls.__name__}.{field.name} is annotated {spelled}, but its wire type is a {wanted}"
            raise SpecError(f"{where}; write {field.name}: {wanted}{_or_none(hint)}")


_CHECKED: ContextVar[frozenset[Any]] = ContextVar("annotated", default=frozenset())
"""The structures that are being looked at: they may hold themselves."""


def _or_none(hint: Any) -> str:
    return " | None" if NoneType in get_args(hint) else ""


def _hints(cls: Any) -> dict[str, Any]:
    """Return the annotations of a class and its bases, evaluated where they were written."""
    hints: dict[str, Any] = {}
    plain = {"datetime": datetime}  # code that runs in a namespace of its own has no module to look in
    for base in reversed(cls.__mro__):
        names = dict(vars(sys.modules.get(base.__module__, sys)))
        structs = {struct.__name__: struct for struct in _structs(getattr(base, "__wire_fields__", ()))}
        for name, written in inspect.get_annotations(base).items():
            is_text = isinstance(written, str)
            hints[name] = _evaluate(base, name, written, plain | structs | names) if is_text else written
    return hints


def _structs(fields: tuple[n.Field, ...]) -> list[Any]:
    wires = [getattr(f.wire, "element", f.wire) for f in fields]
    return [struct for wire in wires if isinstance(struct := getattr(wire, "struct", None), type)]


def _evaluate(cls: Any, name: str, written: str, names: dict[str, Any]) -> Any:
    try:
        return eval(written, names)
    except NameError as error:
        if "<locals>" in cls.__qualname__:  # names of the function around it are gone
            return Any
        raise SpecError(
            f"{cls.__name__}.{name} is annotated {written}, but there is no {error.name}; import it or correct the name"
        ) from None
    except Exception:
        raise SpecError(
            f"{cls.__name__}.{name} is annotated {written}, which is no type; write a type such as int or str | None"
        ) from None


def _fits(hint: Any, wire: Any) -> bool:
    """Return whether values of a wire type are what the annotation says."""
    if get_origin(hint) in (Union, UnionType):
        return any(_fits(each, wire) for each in get_args(hint) if each not in (NoneType, msgspec.UnsetType))
    if hint in (Any, object) or isinstance(hint, msgspec.UnsetType):
        return True
    match wire:
        case n.Sized(inner=inner_wire):
            return _fits(hint, inner_wire)
        case n.Choose(cases=cases):
            return any(_fits(hint, case) for case in cases.values())
        case n.Many(element=element):
            inner = get_args(hint)
            return hint is tuple or (get_origin(hint) is tuple and (not inner or _fits(inner[0], element)))
        case n.Choice(tag=None, known=known):
            return _fits(hint, known[None])
        case n.Nested(struct=struct) | n.Tags(struct=struct):
            return isinstance(hint, type) and issubclass(struct, hint)
        case _:
            return hint is _PLAIN.get(python_type(wire), hint)
