"""The buffers of Arrow arrays against Arrow's own."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from wirelake.kernels import gather as g
from wirelake.kernels.memory import BLOCK


@pytest.mark.parametrize("share", [1.0, 0.5, 0.0])
@pytest.mark.parametrize("longest", [3, 40, 300])
def test_spans_become_the_binary_array_that_they_say(share: float, longest: int) -> None:
    rng = random.Random(longest)
    buf = rng.randbytes(2000)
    rows = 300
    wanted: list[bytes | None] = []
    entries: list[int] = []
    for row in range(rows):
        if rng.random() >= share:
            wanted.append(None)
            continue
        length = rng.randrange(longest)
        # The last bytes of the buffer too, where no whole block can be read.
        start = rng.choice((len(buf) - length, rng.randrange(len(buf) - length)))
        wanted.append(buf[start : start + length])
        entries += [start, length, row]
    made = np.array(entries, np.int64)
    size = g.total_length(made)
    assert size == sum(len(item) for item in wanted if item is not None)
    data, offsets = np.empty(size + BLOCK, np.uint8), np.empty(rows + 1, np.int32)
    there = np.zeros(rows if None in wanted else 0, np.uint8)
    g.gather(np.frombuffer(buf, np.uint8), made, offsets, there, data)
    bitmap = pa.py_buffer(np.packbits(there, bitorder="little")) if None in wanted else None
    array = pa.Array.from_buffers(pa.binary(), rows, [bitmap, pa.py_buffer(offsets), pa.py_buffer(data)])
    array.validate(full=True)
    assert array.to_pylist() == wanted


@pytest.mark.parametrize("step", [1, 3])
def test_numbers_become_the_names_that_belong_to_them(step: int) -> None:
    names = ["", "one", "x" * 70, "two and more"]
    starts = np.cumsum([0, *map(len, names)])
    spellings = np.frombuffer("".join(names).encode() + bytes(BLOCK), np.uint8)
    numbers = np.array([0, 1, 2, 3, 3, 2, 1, 0, 1], np.int64)
    chosen = [names[number] for number in numbers[::step]]
    data, offsets = np.empty(9 * 70 + BLOCK, np.uint8), np.empty(len(chosen) + 1, np.int32)
    size = g.spell(numbers, step, starts, spellings, offsets, data)
    made = pa.Array.from_buffers(pa.string(), len(chosen), [None, pa.py_buffer(offsets), pa.py_buffer(data[:size])])
    assert made.to_pylist() == chosen


def test_values_go_to_their_rows() -> None:
    values, there = np.zeros(5, np.int64), np.zeros(5, np.uint8)
    g.spread(np.array([7, 0, 1, -3, 0, 4], np.int64), values, there)
    assert values.tolist() == [0, 7, 0, 0, -3]
    assert there.tolist() == [0, 1, 0, 0, 1]
