"""Columns of frames become columns of structs and back, as in a worker; no Spark runs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tests.spark.frames import PROTOCOLS, frames_of, options_of
from wirelake import decode
from wirelake.columnar import decode_frames
from wirelake.errors import DecodeError
from wirelake.ingest.declared import Declared
from wirelake.spark import functions as f
from wirelake.spark.options import Decoding, Encoding
from wirelake.spark.schema import in_arrow
from wirelake.spark.structs import decode_column, encode_column, spread

SCHEMA_OF = {name: getattr(f, f"schema_of_{name}") for name in PROTOCOLS}


@pytest.mark.parametrize("name", PROTOCOLS)
def test_structs_are_the_rows_of_the_columnar_decoder(name: str) -> None:
    frames = frames_of(name)
    how = Decoding.of(Declared(name), options_of(name), name)
    structs = decode_column(how, pa.array([None, *frames, None], pa.binary()))
    rows = decode_frames(name, frames, **options_of(name)).records.drop_columns(["offset", "length"]).to_pylist()
    assert repr(structs.to_pylist()) == repr([None, *rows, None])


@pytest.mark.parametrize("name", PROTOCOLS)
def test_what_comes_out_has_the_type_that_was_announced(name: str) -> None:
    for options in ({}, {"columns": "*"}, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "bad"}):
        how = Decoding.of(Declared(name), {**options, **options_of(name)}, name)
        announced = pa.struct(list(in_arrow(SCHEMA_OF[name]({**options, **options_of(name)}))))
        for frames in ([], [None], [frames_of(name)[0]], [b"", *frames_of(name)]):
            if frames[:1] != [b""] or options.get("mode"):
                found = decode_column(how, pa.array(frames, pa.binary()))
                assert found.type.equals(announced)
                found.validate(full=True)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_structs_become_the_frames_that_they_were(name: str) -> None:
    frames = [None, *frames_of(name)]
    structs = decode_column(Decoding.of(Declared(name), options_of(name), name), pa.array(frames, pa.binary()))
    assert encode_column(Encoding.of(Declared(name), None, name), structs).to_pylist() == frames


def test_a_reason_has_rule_path_offset_detail_and_bytes() -> None:
    good, bad = frames_of("casual")[0], frames_of("casual")[0][:-1]
    how = Decoding.of(Declared("casual"), {"mode": "permissive", "columnNameOfCorruptRecord": "why"}, "from_casual")
    found = decode_column(how, pa.array([bad, None, good], pa.binary())).to_pylist()
    with pytest.raises(DecodeError) as caught:
        decode("casual", bad)
    error = caught.value
    assert found[0]["why"] == {
        "rule": error.rule, "path": error.path, "offset": error.offset, "detail": error.detail, "bytes": bad,
    }  # fmt: skip
    assert found[0]["message"] is None
    assert found[1] is None
    assert found[2]["why"] is None and found[2]["message"] is not None


def test_without_that_column_it_is_null() -> None:
    how = Decoding.of(Declared("casual"), {"mode": "PERMISSIVE"}, "from_casual")
    assert decode_column(how, pa.array([b"no", frames_of("casual")[0]])).is_valid().to_pylist() == [False, True]


def test_rows_are_spread_to_their_places() -> None:
    assert spread(np.array([2, 0]), 4).to_pylist() == [1, None, 0, None]
    assert spread(np.array([], np.int64), 2).to_pylist() == [None, None]
