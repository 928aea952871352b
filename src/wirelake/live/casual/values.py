"""Buffers as Python values: the type of a buffer says which.

``X_OCTET/`` and ``.binary/`` are bytes, ``.json/`` is what its JSON says, other text types are str, ``CFIELD/`` is a
tuple of fields, ``NULL`` is None. A type that nobody here knows is bytes too.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...codec.content import FieldValue, read_cfield, read_json, write_cfield
from ...errors import DecodeError, EncodeError
from .wire import EMPTY_BUFFER, NO_BUFFER, Buffer

USUAL_JSON = ".json/"
JSON = frozenset((USUAL_JSON, ".json/jscd", "COCTET/JSON"))
TEXT = frozenset((".yaml/", ".xml/", ".ini/", "COCTET/XML", "COCTET/YAML"))
CSTRING, CFIELD, OCTETS = "CSTRING/", "CFIELD/", "X_OCTET/"
NONE = frozenset((NO_BUFFER.type, EMPTY_BUFFER.type))


def to_value(buffer: Buffer) -> Any:
    """Return what a buffer holds; DecodeError if its payload breaks its type."""
    kind, payload = buffer.type, buffer.payload
    if kind in NONE:
        return None
    if kind in JSON:
        return read_json(payload)
    if kind in TEXT:
        return payload.decode("utf-8", "surrogateescape")
    if kind == CSTRING:
        return _read_cstring(payload)
    return read_cfield(payload) if kind == CFIELD else payload


def _read_cstring(payload: bytes) -> str:
    text, nul, _ = payload.partition(b"\0")
    if not nul:
        raise DecodeError("the text has no NUL at its end", rule="cstring_nul", path="buffer.payload", offset=0)
    return text.decode("utf-8", "surrogateescape")


def to_buffer(value: Any, kind: str = "") -> Buffer:
    """Return the buffer of a value: of that type, or of the one that suits it. EncodeError if the type cannot hold it.

    None has no buffer, whatever the type.
    """
    if isinstance(value, Buffer):
        return value
    if value is None:
        return NO_BUFFER
    if kind in NONE:
        kind = usual_type(value)
    try:
        return Buffer(kind, _payload(value, kind))
    except (TypeError, ValueError, AttributeError, RecursionError, OverflowError) as error:
        detail = f"a {type(value).__name__} does not fit into a buffer of type {kind}: {error}"
        raise EncodeError(detail, rule="buffer_value", path="buffer.payload") from None


def usual_type(value: Any) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return OCTETS
    if isinstance(value, tuple) and value and all(isinstance(item, FieldValue) for item in value):
        return CFIELD
    return USUAL_JSON


def _payload(value: Any, kind: str) -> bytes:
    if kind in JSON:
        return msgspec.json.encode(value)
    if kind in TEXT and isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if kind == CSTRING and isinstance(value, str):
        if "\0" in value:
            raise ValueError("it has a NUL inside")
        return value.encode("utf-8", "surrogateescape") + b"\0"
    if kind == CFIELD and not isinstance(value, bytes):
        return write_cfield(tuple(value))
    return value if type(value) is bytes else bytes(memoryview(value))
