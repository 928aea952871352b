"""Columns of frames become columns of structs and back, as in a worker; no Spark runs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.spark.frames import PROTOCOLS, frames_of, options_of
from wirelake import decode, encode
from wirelake.codec.encoder import encode_frame
from wirelake.columnar import decode_frames
from wirelake.columnar.row_to_message import message_of
from wirelake.errors import DecodeError, EncodeError
from wirelake.generate.values import random_message
from wirelake.ingest.declared import Declared
from wirelake.spark import functions as f
from wirelake.spark.options import Decoding, Encoding
from wirelake.spark.schema import in_arrow
from wirelake.spark.structs import decode_column, encode_column, spread
from wirelake.spec.nodes import Protocol
from wirelake.spec.resolve import candidates, layout

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
OWN = [f"{EXAMPLES / name}:PROTOCOL" for name in ("bulletin.py", "orders.py", "packed.py", "sensor.py")]
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


# --- rows of one message together, against one row at a time


@pytest.mark.parametrize("name", [*PROTOCOLS, *OWN])
def test_rows_are_encoded_as_they_are_one_by_one(name: str) -> None:
    declared = Declared.named(name)
    protocol = declared.load()
    structs = generated(declared)
    expected = list(one_by_one(protocol, structs))
    frames = encode_column(Encoding.of(declared, None, name), structs).to_pylist()
    assert frames == expected
    assert sum(frame is not None for frame in frames) > 90


@pytest.mark.parametrize("name", [*PROTOCOLS, *OWN])
@pytest.mark.parametrize("seed", range(4))
def test_wrong_values_are_refused_as_one_by_one(name: str, seed: int) -> None:
    declared, rng = Declared.named(name), random.Random(seed)
    protocol = declared.load()
    structs = spoiled(generated(declared), rng)
    expected = list(one_by_one(protocol, structs))
    permissive = Encoding.of(declared, {"mode": "PERMISSIVE"}, name)
    assert encode_column(permissive, structs).to_pylist() == [f if isinstance(f, bytes) else None for f in expected]
    wrong = [frame for frame in expected if isinstance(frame, EncodeError)]
    if wrong:
        with pytest.raises(EncodeError) as caught:
            encode_column(Encoding.of(declared, None, name), structs)
        assert (caught.value.rule, caught.value.path) == (wrong[0].rule, wrong[0].path)
        assert str(caught.value) == str(wrong[0])


def test_spoiled_rows_are_both_good_and_wrong() -> None:
    made = [
        frame
        for name in PROTOCOLS
        for seed in range(4)
        for frame in one_by_one(Declared(name).load(), spoiled(generated(Declared(name)), random.Random(seed)))
    ]
    wrong = [frame for frame in made if isinstance(frame, EncodeError)]
    assert len(wrong) > 150 and sum(isinstance(frame, bytes) for frame in made) > 150
    assert len({(error.rule, error.path) for error in wrong}) > 20


def test_the_first_wrong_row_is_named() -> None:
    rows = [{"message": "service_call_request"}, {"message": "nonsense"}, {"message": "service_call_request"}]
    for given in (rows, rows[1:]):
        with pytest.raises(EncodeError) as caught:
            encode_column(Encoding.of(Declared("casual"), None, "casual"), pa.array(given))
        assert caught.value.rule == ("field_missing" if given is rows else "unknown_message")


@cache
def generated(declared: Declared) -> pa.StructArray:
    """Random messages of every kind as structs, with nulls between them."""
    protocol, rng = declared.load(), random.Random(5)
    frames = [None] * 7
    while len(frames) < 100:
        for chosen in candidates(protocol, **options_of(protocol.name)):
            frames += [encode_frame(chosen, random_message(chosen, node, rng)) for node in chosen.messages.values()]
    rng.shuffle(frames)
    how = Decoding.of(declared, {"columns": "*", "mode": "PERMISSIVE", **options_of(protocol.name)}, protocol.name)
    return decode_column(how, pa.array(frames, pa.binary()))


def one_by_one(protocol: Protocol, structs: pa.Array) -> Iterator[bytes | EncodeError | None]:
    for row in structs.to_pylist():
        try:
            yield None if row is None else encode(message_of(layout(protocol, **reading_of(protocol, row)), row))
        except EncodeError as error:
            yield error


def reading_of(protocol: Protocol, row: dict[str, Any]) -> dict[str, Any]:
    """What a row says it was read with."""
    auto = {name for name, option in protocol.options.items() if option.auto and option.default == "auto"}
    return {name: row[name] for name in auto if row.get(name) in protocol.options[name].values}


def spoiled(structs: pa.StructArray, rng: random.Random) -> pa.StructArray:
    """Structs with columns left out, of other types, or null here and there."""
    fields, columns = [], []
    for field, column in zip(structs.type, structs.flatten(), strict=True):
        how = rng.random()
        if how < 0.05:
            continue
        if how < 0.15 and field.name != "raw_text":
            column = other_type(column, rng)
        elif how < 0.5 and field.name != "raw_text":
            column = holes(column, rng)
        columns.append(column)
        fields.append(pa.field(field.name, column.type))
    return pa.StructArray.from_arrays(columns, fields=fields, mask=structs.is_null())


def other_type(column: pa.Array, rng: random.Random) -> pa.Array:
    values = column.to_pylist()
    if rng.random() < 0.3:
        return pa.array([None if value is None else [str(value)] for value in values], pa.list_(pa.string()))
    if rng.random() < 0.5 and pa.types.is_integer(column.type):
        return column.cast(rng.choice([pa.int64(), pa.float64(), pa.decimal128(25, 1)]), safe=False)
    return pa.array([None if value is None else str(value) for value in values], pa.string())


def holes(column: pa.Array, rng: random.Random) -> pa.Array:
    """The column with nulls at its rows, or inside them."""
    share = rng.choice([0.02, 0.3])

    def hole(value: Any) -> Any:
        if rng.random() < share:
            return None
        if isinstance(value, dict):
            return {key: hole(inner) for key, inner in value.items()}
        if isinstance(value, list) and not (value and isinstance(value[0], tuple)):
            return [hole(inner) for inner in value]
        return value

    return pa.array([hole(value) for value in column.to_pylist()], column.type)
