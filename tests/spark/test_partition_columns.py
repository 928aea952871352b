"""Directories named ``key=value`` are columns, as Spark's own formats read them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.spark.captured import call, rows_of, table_of
from tests.spark.versions import since
from wirelake.errors import OptionError
from wirelake.spark.reading import partitions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def lay_out(folder: Path, names: Iterable[str]) -> Path:
    """Write a capture, and lines of JSON for Spark's reader, into each of some directories."""
    for number, name in enumerate(names):
        for kind in ("captures", "lines"):
            (folder / kind / name).mkdir(parents=True)
        (folder / "captures" / name / "a.bin").write_bytes(call(number, b"x"))
        (folder / "lines" / name / "a.json").write_text(f'{{"flags": {number}}}\n')
    return folder / "captures"


LAYOUTS = [
    ["day=2024-01-01/n=1", "day=2024-01-02/n=20", "day=__HIVE_DEFAULT_PARTITION__/n=3"],
    ["n=1", "n=3000000000"],
    ["n=1", "n=2.5"],
    ["n=1", "n=2024-01-01"],
    ["n=3000000000", "n=2.5"],
    ["site=a%20b%2Fc", "site=Ä"],
    ["site=007", "site=+5"],
    ["_n=1/x=2024-13-01"],
]


@pytest.mark.every_spark
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout[0])
def test_columns_types_and_values_are_those_of_sparks_json_reader(
    spark: SparkSession, tmp_path: Path, layout: list[str]
) -> None:
    folder = lay_out(tmp_path, layout)
    theirs = spark.read.json(str(tmp_path / "lines"))
    ours = spark.read.format("casual").load(str(folder)).select(theirs.columns)
    names = theirs.columns[1:]
    assert [(ours.schema[name].dataType, name) for name in names] == [
        (theirs.schema[name].dataType, name) for name in names
    ]
    assert sorted(map(repr, ours.collect())) == sorted(map(repr, theirs.collect()))
    assert spark.read.format("casual").load(str(folder)).columns[-len(names) :] == names


@pytest.mark.parametrize(
    ("path", "options", "names"),
    [
        ("captures", {}, ["day", "n"]),
        ("captures/day=1", {}, ["n"]),
        ("captures/day=1", {"basePath": "captures"}, ["day", "n"]),
        ("captures/day=1/*", {}, []),
        ("captures/*/*", {"basePath": "captures"}, ["day", "n"]),
        ("captures/day=1/n=2/a.bin", {}, []),
        ("captures", {"recursiveFileLookup": "true"}, []),
    ],
)
def test_columns_begin_where_those_of_spark_do(
    spark: SparkSession, tmp_path: Path, path: str, options: dict[str, str], names: list[str]
) -> None:
    lay_out(tmp_path, ["day=1/n=2", "day=2/n=3"])
    options = {name: str(tmp_path / value) if name == "basePath" else value for name, value in options.items()}
    ours = [field.name for field in table_of("casual", tmp_path / path, **options).directories]
    lines = {name: value.replace("captures", "lines") for name, value in options.items()}
    theirs = spark.read.options(**lines).json(
        str(tmp_path / path.replace("captures", "lines").replace(".bin", ".json"))
    )
    assert ours == theirs.columns[1:] == names


@pytest.mark.parametrize("name", ["casual", "wire"])
def test_rows_of_all_kinds_have_them(tmp_path: Path, name: str) -> None:
    folder = lay_out(tmp_path, ["day=2024-01-01", "day=2024-01-02"])
    (folder / "day=2024-01-02" / "a.bin").write_bytes(call(1, b"x") + b"\xff" * 40)
    found = rows_of(table_of(name, folder))
    assert [(row["day"].day, row["message"] is None) for row in found] == [(1, False), (2, False), (2, True)]
    chosen = rows_by(table_of("casual", folder, columns="day"))
    assert [row["day"].day for row in chosen] == [1, 2, 2]


def test_a_schema_gives_them_other_types(tmp_path: Path) -> None:
    from pyspark.sql.types import StructType

    folder = lay_out(tmp_path, ["n=1", "n=2"])
    schema = StructType().add("flags", "long").add("n", "string")
    batches = rows_by(table_of("casual", folder, schema))
    assert sorted(batches, key=repr) == [{"flags": 0, "n": "1"}, {"flags": 1, "n": "2"}]
    with pytest.raises(OptionError, match="n=1 is not of the type date"):
        rows_by(table_of("casual", folder, StructType().add("n", "date")))
    with pytest.raises(OptionError, match=r"has no column 'm'; it has: .* n$"):
        table_of("casual", folder, StructType().add("m", "integer"))


def rows_by(table: Any) -> list[dict[str, Any]]:
    from wirelake.spark.reading import rows

    batches = [batch for share in partitions(table) for batch in rows(table, share)]
    found: list[dict[str, Any]] = pa.Table.from_batches(batches, table.target).to_pylist()
    return found


@since("4.1", "filters in the reader")
@pytest.mark.every_spark
def test_a_filter_on_such_a_column_skips_files(spark: SparkSession, tmp_path: Path) -> None:
    folder = lay_out(tmp_path, ["day=2024-01-01/n=1", "day=2024-01-02/n=2", "day=2024-01-03/n=3"])
    (folder / "day=2024-01-01" / "n=1" / "a.bin").with_suffix(".pcap").write_bytes(b"no capture at all")
    df = spark.read.format("casual").load(str(folder))
    with pytest.raises(Exception, match="not a pcap"):
        df.count()
    assert df.where("day > date'2024-01-01'").count() == 2
    assert [row.n for row in df.where("n in (2, 7)").collect()] == [2]


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        (["n=1", "m=2"], "do not make the same columns"),
        (["n=1", "."], "do not make the same columns"),
        (["n=1/N=2"], "two directories are named n="),
        (
            ["Service=1"],
            "the directories Service=... are named like a column of its messages; recursiveFileLookup=true",
        ),
    ],
)
def test_directories_that_make_no_columns_are_refused(tmp_path: Path, layout: list[str], said: str) -> None:
    for name in layout:
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name / "a.bin").write_bytes(call(1, b"x"))
    with pytest.raises(OptionError, match=said):
        table_of("casual", tmp_path)
    assert len(rows_of(table_of("casual", tmp_path, recursiveFileLookup="true"))) == len(layout)


def test_two_tables_are_refused_as_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    folder = lay_out(tmp_path, ["day=1/n=2", "day=2/n=3"])
    with pytest.raises(OptionError, match="are those of two tables: name the directory of both with basePath"):
        table_of("casual", f"{folder}/day=*")
    with pytest.raises(Exception, match="CONFLICTING_DIRECTORY_STRUCTURES"):
        spark.read.json(f"{tmp_path}/lines/day=*").columns  # noqa: B018


def test_a_base_path_elsewhere_is_refused(tmp_path: Path) -> None:
    folder = lay_out(tmp_path, ["n=1"])
    with pytest.raises(OptionError, match="that the option basePath names"):
        table_of("casual", folder, basePath=str(tmp_path / "lines"))


@pytest.mark.every_spark
def test_a_stream_has_them_too(spark: SparkSession, tmp_path: Path) -> None:
    folder = lay_out(tmp_path, ["day=2024-01-01", "day=2024-01-02"])
    found: list[Any] = []
    stream = spark.readStream.format("casual").option("stateLocation", str(tmp_path / "state")).load(str(folder))
    writer = stream.select("day", "flags").writeStream.foreachBatch(lambda df, _: found.extend(df.collect()))
    writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()
    assert sorted(map(tuple, found)) == [(date(2024, 1, 1), 0), (date(2024, 1, 2), 1)]
