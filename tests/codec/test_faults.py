"""The memory of faults."""

from __future__ import annotations

import pytest

from wirelake import encode
from wirelake.codec.faults import _MOST_BYTES, Faults
from wirelake.codec.walk import walk
from wirelake.errors import DecodeError
from wirelake.protocols import casual, load
from wirelake.spec.resolve import layout

CASUAL = layout(load("casual"))
GOOD = encode(casual.QueueEnqueueReply(correlation=bytes(16), execution=bytes(16), id=bytes(16)))


def broken(size: int, last: int = 0) -> bytes:
    """A frame of which ``size`` bytes are too many."""
    frame = GOOD + bytes(size - 1) + bytes([last])
    return frame[:24] + (len(frame) - 32).to_bytes(8, "big") + frame[32:]


@pytest.mark.parametrize("size", [1, 5000])
def test_a_fault_is_that_of_the_exact_reader_and_made_once(size: int) -> None:
    faults, frame = Faults(CASUAL), broken(size)
    with pytest.raises(DecodeError) as raised:
        walk(CASUAL, frame)
    fault = faults.judge(frame)
    assert str(fault) == str(raised.value)
    assert faults.judge(bytes(bytearray(frame))) is fault
    assert fault.__traceback__ is None


def test_a_message_is_no_fault() -> None:
    faults = Faults(CASUAL)
    assert not isinstance(faults.judge(GOOD), DecodeError)
    assert not faults.known


def test_long_frames_that_differ_only_inside_have_faults_of_their_own() -> None:
    faults, frame = Faults(CASUAL), broken(5000)
    other = frame[:2000] + b"\1" + frame[2001:]
    assert faults.judge(frame) is not faults.judge(other)


def test_memory_does_not_grow_with_faults() -> None:
    faults = Faults(CASUAL)
    for i in range(2000):
        faults.judge(broken(100, last=i % 256) if i % 2 else broken(1000 + i))
    assert sum(len(frame) for frame, _ in faults.known.values()) <= _MOST_BYTES
