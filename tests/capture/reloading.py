"""State as it comes back from bytes: decoded strictly by its types, by another process or another day."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from wirelake.capture.state import decode_array, encode_array

T = TypeVar("T")


def reloaded(value: T) -> T:
    packed = msgspec.msgpack.encode(value, enc_hook=encode_array)
    return msgspec.msgpack.decode(packed, type=type(value), dec_hook=decode_array)
