"""Free-form values: MessagePack, JSON, and CFIELD buffers.

The MessagePack library decodes; ``check_msgpack`` is asked only when it refuses, to name the rule and the byte. Depth
is limited so that no frame can exhaust a stack."""

from __future__ import annotations

import json
import re
import struct
from typing import Any

import msgspec
from msgpack import packb, unpackb

from ..errors import BadValue, DecodeError, EncodeError, LimitExceeded, Truncated

MAX_DEPTH = 256


def _too_deep(rule: str, at: int, depth: int) -> LimitExceeded:
    return LimitExceeded(f"nested deeper than {MAX_DEPTH}", rule=rule, offset=at, limit=MAX_DEPTH, actual=depth)


# --- MessagePack

_TIMESTAMP = re.compile(rb"(?s)(?:[\xd4-\xd8]|\xc7.|\xc8..|\xc9.{4})\xff")
"""What extensions begin with that the library reads as time stamps by itself."""


def _no_extension(code: int, data: bytes) -> None:
    """Extension types are read as null."""


def read_ordinary_msgpack(data: bytes) -> Any:
    """Like ``read_msgpack``, but quicker, and with any ValueError for what needs a closer look."""
    if len(data) > MAX_DEPTH:
        return read_msgpack(data)
    if 0xFF in data and _TIMESTAMP.search(data) is not None:
        raise ValueError
    return unpackb(data, strict_map_key=False, ext_hook=_no_extension)


def read_ordinary_map(data: bytes) -> Any:
    value = read_ordinary_msgpack(data)
    if type(value) is not dict:
        raise ValueError
    return value


def read_msgpack(data: bytes, *, is_map: bool = False) -> Any:
    """Return the one object that fills ``data`` exactly. Errors have offsets relative to ``data``."""
    try:
        # Time stamps are hashed as pairs of numbers: a map of them could be made of keys that all collide.
        may_collide = 0xFF in data and _TIMESTAMP.search(data) is not None
        value = _unpack_closely(data) if may_collide else _unpack(data)
    except (ValueError, TypeError, OverflowError):
        value = _unpack_closely(data)
    if is_map and not isinstance(value, dict):
        raise BadValue("the metadata is not a map", rule="msgpack_map", offset=0)
    if len(data) > MAX_DEPTH:
        check_msgpack(data)
    return value


def _unpack(data: bytes) -> Any:
    return unpackb(data, strict_map_key=False, unicode_errors="surrogateescape", ext_hook=_no_extension)


def _unpack_closely(data: bytes) -> Any:
    """Name what the library refuses; time stamps become extensions like any other."""
    plain = bytearray(data)
    for at in check_msgpack(data):
        plain[at] = 0
    try:
        return _unpack(bytes(plain))
    except (ValueError, TypeError, OverflowError) as error:
        raise BadValue(f"not MessagePack: {error}", rule="msgpack", offset=0) from None


_FIXED_SIZES = {
    0xC0: 0, 0xC2: 0, 0xC3: 0, 0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8,
    0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17,
}  # fmt: skip
_SIZED = {
    0xC4: (1, 0), 0xC5: (2, 0), 0xC6: (4, 0), 0xC7: (1, 1), 0xC8: (2, 1), 0xC9: (4, 1),
    0xD9: (1, 0), 0xDA: (2, 0), 0xDB: (4, 0),
}  # fmt: skip
_COUNTED = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}
_EXTENSIONS = frozenset((0xC7, 0xC8, 0xC9, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8))


def _cut_off(at: int, needed: int, end: int) -> Truncated:
    detail = "the MessagePack object is cut off"
    return Truncated(detail, rule="msgpack", offset=at, needed=needed, available=end - at)


def check_msgpack(data: bytes) -> list[int]:
    """Raise unless ``data`` is exactly one well-formed object: iterative, no allocation beyond its depth.

    Return the positions where extensions say that they are time stamps.
    """
    at, end = 0, len(data)
    timestamps = []
    open_counts, open_maps = [1], [False]
    while open_counts:
        if open_counts[-1] == 0:
            open_counts.pop()
            open_maps.pop()
            continue
        is_key = open_maps[-1] and open_counts[-1] % 2 == 0
        open_counts[-1] -= 1
        if at >= end:
            raise _cut_off(at, 1, end)
        lead, start = data[at], at
        at += 1
        children, per_child = -1, 1
        if lead <= 0x7F or lead >= 0xE0:
            size = 0
        elif lead <= 0x8F:
            size, children, per_child = 0, lead & 0x0F, 2
        elif lead <= 0x9F:
            size, children = 0, lead & 0x0F
        elif lead <= 0xBF:
            size = lead & 0x1F
        elif lead in _FIXED_SIZES:
            size = _FIXED_SIZES[lead]
        elif lead in _SIZED or lead in _COUNTED:
            width, extra = _SIZED.get(lead) or _COUNTED[lead]
            if at + width > end:
                raise _cut_off(at, width, end)
            number = int.from_bytes(data[at : at + width], "big")
            at += width
            if lead in _SIZED:
                size = number + extra
            else:
                size, children, per_child = 0, number, extra
        else:
            raise BadValue(f"byte {lead:#04x} is not MessagePack", rule="msgpack", offset=start)
        if children >= 0:
            if is_key:
                raise BadValue("an array or map is used as a map key", rule="msgpack", offset=start)
            if children * per_child > end - at:
                raise _cut_off(at, children, end)
            if len(open_counts) > MAX_DEPTH:
                raise _too_deep("msgpack_depth", start, len(open_counts))
            open_counts.append(children * per_child)
            open_maps.append(per_child == 2)
        elif at + size > end:
            raise _cut_off(at, size, end)
        else:
            if lead in _EXTENSIONS and data[at] == 0xFF:
                timestamps.append(at)
            at += size
    if at != end:
        raise BadValue(f"{end - at} bytes behind the MessagePack object", rule="msgpack_trailing", offset=at)
    return timestamps


def show_free(value: Any) -> Any:
    """A MessagePack value as JSON can hold it."""
    if isinstance(value, str):
        return show_text(value)
    if isinstance(value, (bytes, bytearray)):
        return {"$bin": value.hex()}
    if isinstance(value, dict):
        return {_show_key(key): show_free(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [show_free(item) for item in value]
    if isinstance(value, float):
        return show_float(value)
    return value


def _show_key(key: Any) -> str:
    shown = show_free(key)
    return shown if isinstance(shown, str) else dump_json(shown)


def show_json(value: Any) -> Any:
    """A value that was JSON, as JSON: numbers beyond a double's range have no other form than a word."""
    if isinstance(value, dict):
        return {key: show_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [show_json(item) for item in value]
    return show_float(value) if isinstance(value, float) else value


def dump_json(value: Any) -> str:
    """One line of JSON; characters are escaped only where UTF-8 cannot hold them (lone surrogates)."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text


def read_shown_free(value: Any) -> Any:
    """The inverse of ``show_free`` as far as JSON allows."""
    if isinstance(value, dict):
        if len(value) == 1:
            if isinstance(value.get("$bin"), str):
                return bytes.fromhex(value["$bin"])
            if isinstance(value.get("hex"), str):
                return bytes.fromhex(value["hex"]).decode("utf-8", "surrogateescape")
        return {key: read_shown_free(item) for key, item in value.items()}
    if isinstance(value, list):
        return [read_shown_free(item) for item in value]
    return value


def write_msgpack(value: Any) -> bytes:
    try:
        return packb(value, unicode_errors="surrogateescape")  # type: ignore[no-any-return]
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise EncodeError(f"cannot be written as MessagePack: {error}", rule="msgpack") from None


# --- text and numbers in JSON


def show_text(value: str) -> Any:
    """The text, or its bytes where it is not UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return {"hex": value.encode("utf-8", "surrogateescape").hex()}
    return value


def read_shown_text(shown: Any) -> str:
    if isinstance(shown, str):
        return shown
    if isinstance(shown, dict) and isinstance(shown.get("hex"), str):
        return bytes.fromhex(shown["hex"]).decode("utf-8", "surrogateescape")
    raise ValueError('text is a string or {"hex": ...}')


def show_float(value: float) -> float | str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def read_shown_float(shown: Any) -> float:
    if isinstance(shown, bool) or not isinstance(shown, (int, float, str)):
        raise ValueError("a number, NaN, Infinity or -Infinity")
    return float(shown)


# --- JSON payloads


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _int(digits: str) -> int | float:
    return int(digits) if len(digits) < 4000 else float(digits)


def read_json(data: bytes) -> Any:
    """Strict RFC 8259; bad octets are replaced first. No text at all is UNSET."""
    text = data.decode("utf-8", "replace")
    if not text:
        return msgspec.UNSET
    if text.count("[") + text.count("{") > MAX_DEPTH:
        _check_json_depth(text)
    try:
        return json.loads(text, parse_constant=_no_constant, parse_int=_int)
    except json.JSONDecodeError as error:
        offset = len(text[: error.pos].encode()) if "\ufffd" not in text else 0
        raise BadValue(f"not JSON: {error.msg}", rule="payload_json", offset=offset) from None
    except ValueError as error:
        raise BadValue(f"not JSON: {error}", rule="payload_json", offset=0) from None


def _check_json_depth(text: str) -> None:
    depth = 0
    in_text = escaped = False
    for at, c in enumerate(text):
        if in_text:
            if escaped:
                escaped = False
            elif c == "\\":
                escaped = True
            elif c == '"':
                in_text = False
        elif c == '"':
            in_text = True
        elif c in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise _too_deep("payload_json", at, depth)
        elif c in "]}":
            depth -= 1


_skim_json = msgspec.json.Decoder(msgspec.Raw).decode


def json_line(data: bytes) -> bytes:
    """The bytes as they are if they are JSON, so that no number changes, else as a text of JSON; in one line."""
    try:
        text = data.decode()
        if text and (len(data) <= 2 * MAX_DEPTH or text.count("[") + text.count("{") <= MAX_DEPTH):
            _skim_json(data)
            return _in_one_line(data)
    except msgspec.DecodeError:
        if "\\u" not in text:
            return msgspec.json.encode(text)
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
    # What may be too deep, was not UTF-8 or has half a character is decided by who reads it.
    try:
        read_json(data)
    except DecodeError:
        return dump_json(text).encode()
    return _in_one_line(text.encode()) if text else b'""'


def _in_one_line(data: bytes) -> bytes:
    return data.replace(b"\n", b" ").replace(b"\r", b" ").strip()


# --- CFIELD, the fielded buffer of casual

FIELD_BASE = 0x2000000
_CFIELD = {1: ("short", ">h"), 2: ("long", ">q"), 3: ("char", "c"), 4: ("float", ">f"), 5: ("double", ">d")}


class FieldValue(msgspec.Struct, frozen=True):
    """One field of a CFIELD buffer; ``id`` holds type and number, the type decides what ``value`` is."""

    id: int
    type: str
    value: Any


def read_cfield(data: bytes, charset: str = "utf-8") -> tuple[FieldValue, ...]:
    """Return the fields of a CFIELD payload in buffer order."""
    fields: list[FieldValue] = []
    at = 0
    while at < len(data):
        path, left = f"[{len(fields)}]", len(data) - at - 16
        if left < 0:
            detail = "no room for id and size"
            raise Truncated(detail, rule="cfield_fits", path=path, offset=at, needed=16, available=left + 16)
        fid, size = struct.unpack_from(">qq", data, at)
        if not 0 <= size <= left:
            detail = f"field of {size} bytes, {left} left"
            raise Truncated(detail, rule="cfield_fits", path=path, offset=at + 8, needed=size, available=left)
        raw = data[at + 16 : at + 16 + size]
        fields.append(_read_field(fid, raw, path, at, charset))
        at += 16 + size
    return tuple(fields)


def _read_field(fid: int, raw: bytes, path: str, at: int, charset: str) -> FieldValue:
    kind = fid // FIELD_BASE
    if kind in _CFIELD:
        name, form = _CFIELD[kind]
        if len(raw) != struct.calcsize(form):
            raise BadValue(f"{name} of {len(raw)} bytes", rule="cfield_size", path=path, offset=at + 8)
        value = struct.unpack(form, raw)[0]
        return FieldValue(fid, name, value.decode("latin-1") if kind == 3 else value)
    if kind == 6:
        if not raw.endswith(b"\0"):
            raise BadValue("string without NUL at its end", rule="cfield_nul", path=path, offset=at + 16 + len(raw))
        return FieldValue(fid, "string", raw[:-1].decode(charset, "surrogateescape"))
    if kind == 7:
        return FieldValue(fid, "binary", raw)
    raise BadValue(f"field id {fid:#x} has no known type", rule="cfield_type", path=path, offset=at)


def write_cfield(values: tuple[FieldValue, ...], charset: str = "utf-8") -> bytes:
    out = bytearray()
    for i, item in enumerate(values):
        kind = item.id // FIELD_BASE
        try:
            if kind == 3:
                raw = item.value.encode("latin-1")
                if len(raw) != 1:
                    raise ValueError("a char is one character")
            elif kind in _CFIELD:
                raw = struct.pack(_CFIELD[kind][1], item.value)
            elif kind == 6:
                raw = item.value.encode(charset, "surrogateescape") + b"\0"
            elif kind == 7:
                raw = bytes(memoryview(item.value))  # bytes() alone would also take a number
            else:
                raise ValueError(f"field id {item.id:#x} has no known type")
        except (struct.error, ValueError, AttributeError, TypeError) as error:
            raise EncodeError(f"{item.value!r} does not fit: {error}", rule="cfield_type", path=f"[{i}]") from None
        out += struct.pack(">qq", item.id, len(raw)) + raw
    return bytes(out)


def show_cfield(values: tuple[FieldValue, ...]) -> list[dict[str, Any]]:
    """Return a CFIELD buffer as JSON."""
    return [{"id": item.id, "type": item.type, "value": _show_field(item.value)} for item in values]


def _show_field(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else show_free(value)
