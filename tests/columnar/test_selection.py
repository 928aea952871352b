"""A choice of columns: its schema, its rows from both decoders, and quarantined ranges."""

from __future__ import annotations

import random
import sys

import numpy as np
import pyarrow as pa
import pytest

from tests.differential import valid_frames
from wirelake.codec import decode
from wirelake.columnar.schema import default_columns
from wirelake.columnar.selection import Selection, concat, load_kernel, quarantine_row
from wirelake.errors import BadValue, Incomplete
from wirelake.protocols import load
from wirelake.spec.resolve import layout

CASUAL = load("casual")
CHOSEN = ("message", "offset", "execution")


def test_the_columns_are_those_that_were_chosen_in_their_order() -> None:
    assert Selection(CASUAL, CHOSEN).schema.names == list(CHOSEN)
    assert Selection(CASUAL, None).names == default_columns(CASUAL)


def test_only_columns_of_messages_are_asked_of_the_kernel() -> None:
    assert Selection(CASUAL, CHOSEN).fields == ("execution",)


def test_rows_of_messages_have_their_offsets_and_nothing_that_was_not_chosen() -> None:
    frames = valid_frames("casual", 20, random.Random(3))
    batch = Selection(CASUAL, CHOSEN).of_messages([(i * 100, decode("casual", f)) for i, f in enumerate(frames)])
    assert batch.schema.names == list(CHOSEN)
    assert batch["offset"].to_pylist() == [i * 100 for i in range(len(frames))]
    assert batch["message"].to_pylist() == [decode("casual", frame).to_json()["message"] for frame in frames]


def test_the_kernel_fills_the_same_rows() -> None:
    frames = valid_frames("casual", 50, random.Random(4))
    lengths = np.array([len(frame) for frame in frames], np.int64)
    offsets = np.cumsum(lengths) - lengths
    chosen = Selection(CASUAL, None)
    fast = chosen.fast(layout(CASUAL), ())
    filled, _, stop = fast.decode(np.frombuffer(b"".join(frames), np.uint8), offsets, lengths, 0)
    assert stop == len(frames) and filled.rows > 40
    batch = chosen.of_filled(filled, offsets[filled.frames])
    taken = np.arange(len(frames))[filled.frames]
    rows = chosen.of_messages([(int(offsets[i]), decode("casual", frames[i])) for i in taken])
    assert repr(batch.to_pylist()) == repr(rows.to_pylist())  # a NaN equals only its name


def test_batches_become_one_and_the_list_is_emptied() -> None:
    kind = pa.schema([("a", pa.int64()), ("b", pa.string())])
    batches = [pa.RecordBatch.from_pylist(rows, kind) for rows in ([{"a": 1}], [], [{"a": 2}, {"a": 3}])]
    assert concat(batches, kind).to_pylist() == [{"a": n, "b": None} for n in (1, 2, 3)]
    assert batches == []


def test_a_quarantined_range_says_whether_more_bytes_might_have_helped() -> None:
    wrong = BadValue("is wrong", rule="magic", path="head", offset=2)
    assert quarantine_row(7, 4, wrong, b"abcd") == {
        "offset": 7,
        "length": 4,
        "verdict": "error",
        "rule": "magic",
        "path": "head",
        "error_offset": 2,
        "detail": "is wrong",
        "bytes": b"abcd",
    }
    cut = Incomplete("is cut", rule="frame_incomplete", needed=9, available=4)
    assert quarantine_row(7, 4, cut, b"abcd")["verdict"] == "incomplete"


def test_without_numba_a_warning_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    load_kernel.cache_clear()
    monkeypatch.setitem(sys.modules, "wirelake.columnar.run_kernel", None)
    monkeypatch.delattr("wirelake.columnar.run_kernel", raising=False)
    try:
        with pytest.warns(RuntimeWarning, match=r"pip install 'wirelake\[columnar\]'"):
            assert Selection(CASUAL, None).fast(layout(CASUAL), ()) is None
    finally:
        load_kernel.cache_clear()
