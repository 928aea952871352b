"""One message at a time: decode, encode, and the objects that tell about both."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ..errors import DecodeError
from ..protocols import load
from ..spec.nodes import Protocol, Size
from ..spec.resolve import Layout, candidates, layout
from .compile import DOUBTS, compile_layout, compile_measure
from .detect import detect
from .encode import encode_frame
from .walk import walk


class Codec:
    """Decodes whole frames of one layout: the generated decoder first, the exact one where that has doubts."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.quick = compile_layout(layout)
        self.measure = compile_measure(layout)
        self.bare = not any(isinstance(part, Size) for part in layout.frame.parts)

    def decode(self, data: bytes) -> Any:
        """The message in ``data``, exactly one frame."""
        length = len(data)
        if self.bare or self.measure(data, 0, length) == length:
            return self.decode_frame(data)
        return walk(self.layout, data)

    def decode_frame(self, frame: bytes) -> Any:
        """Like ``decode``, for a frame whose header has been judged already."""
        if self.quick is not None:
            try:
                message = self.quick(frame, len(frame))
                if message is not None:
                    return message
            except DOUBTS:
                pass
        return walk(self.layout, frame)


@lru_cache(maxsize=64)
def codec_for(layout: Layout) -> Codec:
    return Codec(layout)


def decode(protocol: str | Protocol, data: bytes | bytearray | memoryview, **options: Any) -> Any:
    """The one message in ``data``. Raises DecodeError with rule, path, offset and excerpt."""
    declared = load(protocol)
    frame = bytes(data)
    choices = candidates(declared, **options)
    if len(choices) == 1:
        return codec_for(choices[0]).decode(frame)
    verdict = detect(choices, frame, 0, len(frame), final=True)
    found = verdict.layout or layout(declared, **options)
    return codec_for(found).decode(frame)


def encode(message: Any, **options: Any) -> bytes:
    """The bytes of a message: in the reading it was decoded with, or with these options."""
    if message.layout is not None and not options:
        return encode_frame(message.layout, message)
    return encode_frame(layout(message.__protocol__, **options), message)


__all__ = ["Codec", "DecodeError", "codec_for", "decode", "encode"]
