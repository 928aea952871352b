"""Everything that is remembered between windows, partitions, files and runs: plain typed values.

A packed state is MessagePack, compressed. Nothing but these types can come out of it.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, get_args

import msgspec
import numpy as np

from .stream_state import StreamsState
from .tcp_state import TrackerState


@dataclass(frozen=True, slots=True)
class State:
    """The state of TCP connections and that of the streams that they carry; None where nothing was read yet."""

    tracker: TrackerState | None = None
    streams: StreamsState | None = None

    def __post_init__(self) -> None:
        if self.tracker is not None:
            self.tracker.check()

    def only(self, ids: Collection[str]) -> State:
        """Return the state restricted to these connections."""
        return State(
            self.tracker.only(ids) if self.tracker is not None else None,
            self.streams.only(ids) if self.streams is not None else None,
        )

    def pack(self) -> bytes:
        return zlib.compress(_ENCODER.encode(self), 1)

    @classmethod
    def unpack(cls, packed: bytes) -> State:
        """Return what was packed; raise ValueError if these bytes are no state."""
        if not packed:
            return cls()
        try:
            return _DECODER.decode(zlib.decompress(packed))
        except (zlib.error, msgspec.MsgspecError) as error:
            raise ValueError(f"not a packed state: {error}") from error


def encode_array(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.shape, value.astype(value.dtype.newbyteorder("<"), copy=False).tobytes()
    raise NotImplementedError(f"a state has no {type(value).__name__}")


def decode_array(kind: Any, value: Any) -> Any:
    """Return the array of a type such as ``NDArray[np.int64]``, whose element type the annotation names."""
    shape, data = msgspec.convert(value, tuple[tuple[int, ...], bytes])
    dtype = np.dtype(get_args(get_args(kind)[1])[0])
    return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype).reshape(shape)


_ENCODER = msgspec.msgpack.Encoder(enc_hook=encode_array)
_DECODER = msgspec.msgpack.Decoder(State, dec_hook=decode_array)
