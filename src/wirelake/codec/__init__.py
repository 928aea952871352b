"""One message at a time: decode, encode, and the objects that tell about both."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ..errors import DecodeError
from ..protocols import load
from ..spec.nodes import Protocol
from ..spec.resolve import Layout, candidates, layout
from .compile import DOUBTS, compile_layout
from .detect import detect_alone
from .encoder import encode_frame
from .faults import faults_for
from .headers import compile_measure
from .walk import walk


class Codec:
    """Decodes whole frames of one layout: the generated decoder first, the exact one where that has doubts.

    ``measure`` gives the length of a frame that may be decoded without further thought, else 0; while it is
    ``undecided`` between layouts, that is one which they all read alike.
    """

    def __init__(self, layout: Layout, undecided: tuple[Layout, ...] = ()) -> None:
        self.layout = layout
        self.quick = compile_layout(layout)
        self.measure = compile_measure(layout, undecided)
        self._faults = faults_for(layout)

    def decode(self, frame: bytes) -> Any:
        """Return the message in ``frame``, exactly one frame."""
        try:
            message = self.quick(frame, len(frame))
            if message is not None:
                return message
        except DOUBTS:
            pass
        return walk(self.layout, frame)

    def judge(self, frame: bytes) -> Any:
        """Return the message in ``frame``, or the DecodeError that says why there is none."""
        return self._faults.judge(frame)


@lru_cache(maxsize=64)
def codec_for(layout: Layout, undecided: tuple[Layout, ...] = ()) -> Codec:
    return Codec(layout, undecided)


def decode(protocol: str | Protocol, data: bytes | bytearray | memoryview, **options: Any) -> Any:
    """The one message in ``data``. Raises DecodeError with rule, path, offset and excerpt."""
    return _reader(protocol, **options)(data if type(data) is bytes else bytes(memoryview(data)))


@lru_cache(maxsize=256)
def _reader(protocol: str | Protocol, **options: Any) -> Callable[[bytes], Any]:
    """What decodes frames with these options."""
    declared = load(protocol)
    choices = candidates(declared, **options)
    if len(choices) == 1:
        return codec_for(choices[0]).decode
    fallback = codec_for(layout(declared, **options), choices)

    def decode_any(frame: bytes) -> Any:
        if fallback.measure(frame, 0, len(frame)) == len(frame):
            return fallback.decode(frame)
        proved = detect_alone(choices, frame)
        return (codec_for(proved) if proved is not None else fallback).decode(frame)

    return decode_any


def encode(message: Any, **options: Any) -> bytes:
    """The bytes of a message: in the reading it was decoded with, or with these options."""
    if message.layout is not None and not options:
        return encode_frame(message.layout, message)
    return encode_frame(layout(message.__protocol__, **options), message)


__all__ = ["Codec", "DecodeError", "codec_for", "decode", "encode"]
