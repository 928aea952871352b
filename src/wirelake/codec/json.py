"""Messages as the JSON objects that the command line prints, and back.

One shape for every protocol: integers are numbers, text is a string (or ``{"hex"}`` where it is not UTF-8), bytes are
lower-case hex, absent fields are omitted."""

from __future__ import annotations

import struct
from collections.abc import Callable
from operator import methodcaller
from typing import Any, assert_never

import msgspec

from ..errors import EncodeError, WireError
from ..spec import nodes as n
from ..spec.declare import Cell, Tagged, tag_rows
from ..spec.derive import derive, looked_into
from ..spec.resolve import Layout, MessageNode
from .content import read_shown_float, read_shown_free, read_shown_text, show_float, show_free, show_json, show_text
from .frame import struct_fields
from .scales import read_time, show_time

UNSET = msgspec.UNSET
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, OverflowError)
_RUN: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "bytes": (methodcaller("hex"), bytes.fromhex),
    "text": (show_text, read_shown_text),
    "strict_text": (show_text, read_shown_text),
    "msgpack": (show_free, read_shown_free),
    "msgpack_map": (show_free, read_shown_free),
    "json": (show_json, lambda shown: shown),
}
"""What shows a run, and what reads it back, by its content."""


def to_json(message: Any) -> dict[str, Any]:
    """Return the object for a decoded message. One that was made is encoded first, so that its lengths are known."""
    if message.layout is None:
        from . import decode, encode

        message = decode(message.__protocol__, encode(message))
    layout: Layout = message.layout
    node = layout.of(message)
    shown: dict[str, Any] = {
        "ok": True,
        "protocol": layout.protocol.name,
        "message": node.name,
        "code": node.code,
        "length": message.wire_length,
        "fields": show_fields(message, node, layout),
    }
    if message.notes:
        shown["notes"] = list(message.notes)
    return shown


def error_json(error: WireError, protocol: str) -> dict[str, Any]:
    """Return the object for bytes that could not be decoded."""
    return {
        "ok": False,
        "protocol": protocol,
        "verdict": "incomplete" if getattr(error, "incomplete", False) else "error",
        "rule": error.rule,
        "path": error.path,
        "offset": error.offset,
        "detail": error.detail,
    }


def show_fields(message: Any, node: MessageNode, layout: Layout) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for option, value in layout.shown.items():
        if layout.protocol.options[option].auto:
            fields[option] = value
    line = next((p for p in layout.at(node).frame.parts if isinstance(p, n.Line)), None)
    if line is not None and node.word:
        fields[line.code] = node.word
    looked = looked_into(message)
    body_absent = node.body is not None and getattr(message, node.body.name) is None
    for field in node.fields:
        if isinstance(field.wire, n.Length | n.WireOnly) or (field.view_of and (not looked or body_absent)):
            continue
        value = getattr(message, field.name)
        if value is UNSET:
            if getattr(field.wire, "null_if_empty", False):
                fields[field.key] = None
            continue
        if value is not None or _may_be_null(field):
            _show_field(fields, field.key, field, value, layout)
    for made in node.derived:
        value = derive(made.how, message)
        if isinstance(made.how, n.Lookup):
            value = show_text(value) if isinstance(value, str) else value.hex() if isinstance(value, bytes) else value
        if value is not None:
            fields[made.name] = value
    return fields


def _show_field(fields: dict[str, Any], key: str, field: n.Field, value: Any, layout: Layout) -> None:
    """Show a field; a structure that may be absent, and has nothing to show, is shown empty."""
    shown_before = len(fields)
    _show_into(fields, key, field.wire, value, layout)
    if len(fields) == shown_before and field.when is not None:
        fields[key] = {}


def _show_into(fields: dict[str, Any], key: str, wire: Any, value: Any, layout: Layout) -> None:
    if isinstance(wire, n.Nested) and wire.flat:
        for inner in struct_fields(wire.struct, layout):
            if not isinstance(inner.wire, n.Length | n.WireOnly) and not _absent(inner, getattr(value, inner.name)):
                _show_field(fields, f"{key}.{inner.key}", inner, getattr(value, inner.name), layout)
    else:
        fields[key] = _show(wire, value, layout)


def _may_be_null(field: n.Field) -> bool:
    """Whether null is a value of a field, and does not only say that it is absent."""
    wire = field.wire
    while isinstance(wire, n.Sized):
        wire = wire.inner
    is_free = isinstance(wire, n.Run) and wire.content in ("msgpack", "msgpack_map", "json")
    says_absent = field.when is not None and field.default is not UNSET
    return isinstance(wire, n.Run) and bool(field.view_of or (is_free and not says_absent))


def _absent(field: n.Field, value: Any) -> bool:
    """Whether a field of a structure is not there (None is a value where nothing is optional)."""
    return value is UNSET or (value is None and field.when is not None and not _may_be_null(field))


def _show(wire: Any, value: Any, layout: Layout) -> Any:
    if value is None and getattr(wire, "null", None) is not None:
        return None
    match wire:
        case n.Choice():
            return show_choice(wire, value, layout)
        case n.Int() | n.Bool() | n.Word() | n.Bits() | n.Varint() | n.Digits():
            return value
        case n.Sized(inner=inner):
            return _show(inner, value, layout)
        case n.Scaled(epoch=epoch):
            return show_float(value) if epoch is None else show_time(value)
        case n.Float():
            return show_float(value)
        case n.Fixed():
            return value.hex()
        case n.Run(content=content):
            return _RUN[content][0](value)
        case n.Nested(struct=cls):
            return _show_struct(cls, value, layout)
        case n.Many(element=element):
            return [_show(element, item, layout) for item in value]
        case n.Cells():
            return [show_cell(wire, cell) for cell in value]
        case n.Signature():
            return _show_struct(type(value), value, layout)
        case n.Tags(struct=table):
            rows = {row.name: row for row in tag_rows(table)}
            return {
                name: True if rows[name].wire is None else _show(rows[name].wire, getattr(value, name), layout)
                for name in value.order
            }
        case n.Body(text=text):
            return show_text(value.decode("utf-8", "surrogateescape")) if text else value.hex()
        case _:
            raise AssertionError(f"{wire!r} is not a wire node")


def show_choice(wire: n.Choice[Any], value: Any, layout: Layout) -> Any:
    """Return a value and its tag as JSON; a tag of bytes is shown as text."""
    if wire.tag is None:
        return _show(wire.known[None], value, layout)
    tag = value.tag.decode("latin-1") if isinstance(value.tag, bytes) else value.tag
    case = wire.known[value.tag]
    return {"tag": tag} if case is None else {"tag": tag, "value": _show(case, value.value, layout)}


def read_choice(wire: n.Choice[Any], shown: Any, layout: Layout) -> Any:
    """Return the value that such an object describes."""
    if wire.tag is None:
        return _read(wire.known[None], shown, layout)
    if not isinstance(shown, dict) or "tag" not in shown:
        raise ValueError('an object with "tag" and "value" is needed')
    tag = shown["tag"]
    if isinstance(tag, str):
        tag = tag.encode("latin-1")
    if isinstance(tag, list | dict) or tag not in wire.known:
        raise EncodeError(f"{tag!r} is not a known tag", rule="unknown_tag", path="tag")
    case = wire.known[tag]
    return Tagged(tag, None if case is None else _read(case, shown.get("value"), layout))


def _show_struct(cls: Any, value: Any, layout: Layout) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for field in struct_fields(cls, layout):
        if isinstance(field.wire, n.Length | n.WireOnly):
            continue
        inner = getattr(value, field.name)
        if not _absent(field, inner):
            _show_field(shown, field.key, field, inner, layout)
    for made in cls.__derived_fields__:
        shown[made.name] = derive(made.how, value)
    return shown


def show_cell(wire: n.Cells[Any], cell: Cell) -> dict[str, Any]:
    shown: dict[str, Any] = {"fid": cell.fid, "type": cell.type, "value": cell.value}
    kind = next(k.wire for k in wire.types if k.name == cell.type)
    match kind:
        case n.Float(size=size):
            shown["value"] = show_float(cell.value)
            bits = cell.bits if cell.bits is not None else float_bits(cell.value, size)
            shown["bits"] = f"{bits:0{size * 2}x}"
        case n.Run(content=content):
            shown["value"] = _RUN[content][0](cell.value)
        case n.Int() | None:
            pass
        case _:
            assert_never(kind)
    if cell.group_bit:
        shown["group_bit"] = 1
    return shown


def float_bits(value: float, size: int) -> int:
    return int.from_bytes(struct.pack(">f" if size == 4 else ">d", value), "big")


def from_json(layout: Layout, shown: Any) -> Any:
    """Return the message that such an object describes. Lengths in it are computed anew when it is encoded."""
    if not isinstance(shown, dict) or not isinstance(shown.get("fields"), dict):
        raise EncodeError('an object with "message" and "fields" is needed', rule="json_shape")
    node = layout.named(shown.get("message", ""))
    if node is None and isinstance(shown.get("code"), int):
        node = layout.messages.get(shown["code"])
    if node is None:
        detail = f"{shown.get('message')!r} is not a message of {layout.protocol.name}"
        raise EncodeError(detail, rule="unknown_message", path="message")
    fields = shown["fields"]
    values: dict[str, Any] = {}
    for field in node.fields:
        if isinstance(field.wire, n.Length | n.WireOnly):
            continue
        value = _read_from(fields, field.key, field, layout)
        if value is not UNSET:
            values[field.name] = value
        elif isinstance(field.wire, n.Body):
            values[field.name] = None  # not empty but missing: it is made from its views
    try:
        return node.cls(**values, layout=layout)
    except TypeError as error:
        raise EncodeError(f"{node.name}: {error}", rule="field_missing") from None


def _read_from(fields: dict[str, Any], key: str, field: n.Field, layout: Layout) -> Any:
    wire = field.wire
    if isinstance(wire, n.Nested) and wire.flat:
        is_shown = key in fields or any(name.startswith(f"{key}.") for name in fields)
        is_absent = field.default is not ... and not is_shown
        return UNSET if is_absent else _read_struct(wire.struct, fields, f"{key}.", layout)
    if key not in fields or (fields[key] is None and not _may_be_null(field)):
        if field.default is ... and getattr(wire, "null", None) is not None:
            return None  # a null is not shown
        if field.default is ... and not isinstance(wire, n.Body | n.Length):
            raise EncodeError("is missing", rule="field_missing", path=key)
        return UNSET
    try:
        if isinstance(wire, n.Tags):
            return _read_tags(wire, fields[key], fields.get("header_order"), layout)
        return _read(wire, fields[key], layout)
    except EncodeError as error:
        raise _inside(key, error) from None
    except RecursionError:
        raise EncodeError("values lie too deep inside each other", rule="depth_limit", path=key) from None
    except _UNREADABLE as error:
        raise EncodeError(f"{fields[key]!r}: {error}"[:300], rule="json_shape", path=key) from None


def _inside(key: str, error: EncodeError) -> EncodeError:
    """Put the key of the whole before the path of the part."""
    error.path = f"{key}.{error.path}" if error.path and not error.path.startswith("[") else key + error.path
    return error


def _read_struct(cls: Any, fields: dict[str, Any], prefix: str, layout: Layout) -> Any:
    values = {}
    for field in struct_fields(cls, layout):
        if isinstance(field.wire, n.Length | n.WireOnly):
            continue
        value = _read_from(fields, prefix + field.key, field, layout)
        if value is not UNSET:
            values[field.name] = value
    return cls(**values)


def _read(wire: Any, shown: Any, layout: Layout) -> Any:
    if shown is None and getattr(wire, "null", None) is not None:
        return None
    match wire:
        case n.Choice():
            return read_choice(wire, shown, layout)
        case n.Int() | n.Bits() | n.Varint() | n.Digits():
            return _whole(shown, "an integer is needed")
        case n.Sized(inner=inner):
            return _read(inner, shown, layout)
        case n.Scaled(epoch=epoch):
            return read_shown_float(shown) if epoch is None else read_time(shown)
        case n.Bool():
            if not isinstance(shown, bool):
                raise ValueError("true or false is needed")
            return shown
        case n.Float():
            return read_shown_float(shown)
        case n.Fixed():
            return bytes.fromhex(shown)
        case n.Run(content=content):
            return _RUN[content][1](shown)
        case n.Nested(struct=cls):
            return _read_struct(cls, shown, "", layout)
        case n.Many(element=element):
            return _read_each(shown, lambda item: _read(element, item, layout))
        case n.Cells():
            return _read_each(shown, lambda item: _read_cell(wire, item, layout))
        case n.Signature():
            return UNSET
        case n.Word(number=True):
            return _whole(shown, "a number is needed")
        case n.Word():
            if not isinstance(shown, str):
                raise ValueError("text is needed")
            return shown
        case n.Body(text=text):
            if text:
                return read_shown_text(shown).encode("utf-8", "surrogateescape")
            return bytes.fromhex(shown)
        case _:
            raise AssertionError(f"{wire!r} is not a wire node")


def _whole(shown: Any, needed: str) -> int:
    if isinstance(shown, bool) or not isinstance(shown, int):
        raise ValueError(needed)
    return shown


def _read_each(shown: Any, read: Callable[[Any], Any]) -> tuple[Any, ...]:
    if not isinstance(shown, list):
        raise ValueError("a list is needed")
    values = []
    for i, item in enumerate(shown):
        try:
            values.append(read(item))
        except EncodeError as error:
            raise _inside(f"[{i}]", error) from None
        except _UNREADABLE as error:
            raise EncodeError(f"{item!r}: {error}"[:300], rule="json_shape", path=f"[{i}]") from None
    return tuple(values)


def _read_tags(wire: n.Tags[Any], shown: Any, order: Any, layout: Layout) -> Any:
    rows = {row.name: row for row in tag_rows(wire.struct)}
    values: dict[str, Any] = {}
    for name, value in shown.items():
        if name not in rows:
            raise EncodeError("is not a known header", rule="unknown_header", path=name)
        row = rows[name]
        if row.wire is None:
            if value is not True:
                raise EncodeError("a flag is true or absent", rule="json_shape", path=name)
            values[name] = True
        else:
            values[name] = _read(row.wire, value, layout)
    listed = tuple(dict.fromkeys(name for name in order or () if name in values))
    return wire.struct(**values, order=listed + tuple(name for name in values if name not in listed))


def _read_cell(wire: n.Cells[Any], shown: dict[str, Any], layout: Layout) -> Cell:
    kind = next((k for k in wire.types if k.name == shown["type"]), None)
    if kind is None:
        raise ValueError(f"{shown['type']!r} is not a field type")
    value = shown.get("value")
    bits = None
    match kind.wire:
        case None:
            value = None
        case n.Float():
            if "bits" in shown:
                bits = int(shown["bits"], 16)
            value = read_shown_float(value) if value is not None else 0.0
        case other:
            value = _read(other, value, layout)
    fid = _whole(shown["fid"], "fid is an integer")
    return Cell(fid, kind.name, value, bits, bool(shown.get("group_bit")))
