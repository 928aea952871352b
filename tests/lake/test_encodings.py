"""How columns are laid out in Parquet: by what a sample of their rows shows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from wirelake.lake import Staging
from wirelake.lake.encodings import REUSES, encodings, known_encodings
from wirelake.lake.store import Store
from wirelake.lake.table_writer import TableWriter


def sample(count: int = 5000) -> pa.Table:
    source = np.random.default_rng(1)
    noise = [source.bytes(16) for _ in range(count)]
    nested = [{"id": value, "kind": "abc"[k % 3]} for k, value in enumerate(noise)]
    listed = [[{"text": f"word {k % 5}"}] for k in range(count)]
    mapped = [[("key", value)] for value in noise]
    return pa.table(
        {
            "nested": nested,
            "listed": listed,
            "mapped": pa.array(mapped, pa.map_(pa.string(), pa.binary())),
            "counted": np.arange(count),
            "nothing": pa.nulls(count, pa.string()),
            "flag": [k % 2 == 0 for k in range(count)],
        }
    )


def test_what_repeats_gets_a_dictionary_and_what_does_not_shrink_is_left_alone(tmp_path: Path) -> None:
    chosen = encodings(sample())
    assert {"nested.kind", "listed.list.element.text", "mapped.key_value.key", "nothing"} == set(
        chosen["use_dictionary"]
    )
    assert {path for path, codec in chosen["compression"].items() if codec == "none"} == {
        "nested.id",
        "mapped.key_value.value",
        "counted",
    }
    assert set(chosen["column_encoding"]) == {"counted"}
    assert "nested.id" not in chosen["write_statistics"]
    assert "counted" in chosen["write_statistics"]


def test_paths_are_those_of_parquet(tmp_path: Path) -> None:
    table = sample()
    pq.write_table(table, tmp_path / "x.parquet")
    group = pq.ParquetFile(tmp_path / "x.parquet").metadata.row_group(0)
    paths = {group.column(i).path_in_schema for i in range(group.num_columns)}
    assert set(encodings(table)["compression"]) == paths


def test_the_file_is_laid_out_as_chosen(tmp_path: Path) -> None:
    table = sample()
    attempt = Staging(Store.at(tmp_path), "run", 1, durable=False).attempt(0)
    writer = TableWriter(attempt, "silver/x", table.schema, dated_by=None)
    writer.write(table)
    (file,) = writer.close()
    read = pq.ParquetFile(tmp_path / file.staged)
    group = read.metadata.row_group(0)
    about = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert about["nested.id"].compression == "UNCOMPRESSED"
    assert not about["nested.id"].has_dictionary_page
    assert about["nested.kind"].compression == "SNAPPY"
    assert about["nested.kind"].has_dictionary_page
    assert about["counted"].encodings == ("RLE", "DELTA_BINARY_PACKED")
    assert read.read().equals(table)


def test_later_files_of_a_table_take_the_encodings_of_an_earlier_one_until_they_are_chosen_again() -> None:
    table = sample()
    first = known_encodings("silver/reused", table)
    assert first == encodings(table)
    assert all(known_encodings("silver/reused", table) is first for _ in range(REUSES))
    assert known_encodings("silver/reused", table) is not first
    assert known_encodings("silver/other", table) is not known_encodings("silver/reused", table)


def test_ids_in_hex_are_compressed_only_in_files_that_last() -> None:
    source = np.random.default_rng(1)
    table = pa.table({"id": [source.bytes(16).hex() for _ in range(5000)]})
    assert known_encodings("silver/hex", table)["compression"] == {"id": "none"}
    assert known_encodings("silver/hex", table, lasting=True)["compression"] == {"id": "zstd"}


def test_a_file_of_few_rows_says_nothing_about_later_ones() -> None:
    few, many = pa.table({"x": ["a"] * 10}), pa.table({"x": [str(number) for number in range(5000)]})
    assert known_encodings("silver/few", few) == encodings(few)
    assert known_encodings("silver/few", many) == encodings(many)
    assert encodings(many) != encodings(few)
