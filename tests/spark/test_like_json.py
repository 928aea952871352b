"""Each row of the table in docs/spark.md that compares the formats with Spark's JSON reader."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.captured import call

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark.md"
NOON = datetime(2024, 6, 1, 12, tzinfo=UTC).timestamp()


@dataclass
class Both:
    """Captures and lines of JSON in directories of the same shape."""

    spark: SparkSession
    root: Path

    def put(self, name: str, number: int = 1, at: float = NOON) -> None:
        for kind, content in (("casual", call(number, b"x")), ("json", b'{"flags": %d}\n' % number)):
            path = self.root / kind / f"{name}.{'bin' if kind == 'casual' else 'json'}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            os.utime(path, (at, at))

    def read(self, kind: str, *paths: str, schema: str | None = None, **options: str) -> list[Any]:
        """Return the rows of one reader; ``{kind}`` in options and paths is its directory."""
        place = str(self.root / kind)
        reader = self.spark.read.format(kind).options(
            **{name: value.replace("{}", place) for name, value in options.items()}
        )
        if kind == "casual" and schema is None and "columns" not in options:
            reader = reader.option("columns", "flags")
        reader = reader.schema(schema or "flags bigint") if kind == "json" or schema else reader
        return reader.load([f"{place}/{path}".rstrip("/") for path in paths or ("",)]).collect()

    def flags(self, kind: str, *paths: str, **options: str) -> list[int]:
        return sorted(row.flags for row in self.read(kind, *paths, **options))

    def same(self, *expected: int, paths: tuple[str, ...] = (), **options: str) -> None:
        ours, theirs = (self.flags(kind, *paths, **options) for kind in ("casual", "json"))
        assert ours == theirs == list(expected)

    def fails(self, kind: str, said: str, *paths: str, **options: Any) -> None:
        with pytest.raises(Exception, match=said):
            self.read(kind, *paths, **options)


@pytest.fixture
def both(spark: SparkSession, tmp_path: Path) -> Both:
    made = Both(spark, tmp_path)
    made.put("a", 1)
    return made


def paths(both: Both) -> None:
    both.put("b", 2)
    both.put("c", 3)
    both.same(1, 2, 3, paths=("a.*", "[bc].*"))


def missing(both: Both) -> None:
    both.fails("casual", "path does not exist", "nowhere")
    both.fails("json", "PATH_NOT_FOUND", "nowhere")


def empty_file(both: Both) -> None:
    for name in ("casual/e.bin", "json/e.json"):
        (both.root / name).touch()
    both.same(1)


def empty_directory(both: Both) -> None:
    for kind in ("casual", "json"):
        (both.root / kind / "e").mkdir()
    assert both.read("casual", "e") == []
    with pytest.raises(Exception, match="UNABLE_TO_INFER_SCHEMA"):
        both.spark.read.json(str(both.root / "json" / "e"))


def hidden(both: Both) -> None:
    both.put("_b", 2)
    both.put(".c", 3)
    both.same(1)


def subdirectories(both: Both) -> None:
    both.put("in/b", 2)
    both.same(1)


def recursive(both: Both) -> None:
    both.put("in/deeper/b", 2)
    both.put("n=1/b", 3)
    both.same(1, 2, 3, recursiveFileLookup="true")


def glob(both: Both) -> None:
    both.put("b", 2)
    both.same(2, pathGlobFilter="b*")


def before(both: Both) -> None:
    both.put("b", 2, NOON + 60)
    both.same(1, modifiedBefore="2024-06-01T12:00:30", timeZone="UTC")


def after(both: Both) -> None:
    both.put("b", 2, NOON + 60)
    both.same(2, modifiedAfter="2024-06-01T12:00:30", timeZone="UTC")


def zone(both: Both) -> None:
    both.put("b", 2, NOON + 60)
    options = {"modifiedAfter": "2024-06-01T21:00:30", "timeZone": "Asia/Tokyo"}
    assert both.flags("casual", **options) == [2]
    assert both.flags("json", **options) == [1, 2]
    both.same(2, modifiedAfter="2024-06-01T12:00:30", timeZone="UTC")


def base(both: Both) -> None:
    both.put("t/n=5/b", 2)
    for kind in ("casual", "json"):
        options = {"columns": "n"} if kind == "casual" else {}
        rows = both.read(kind, "t/n=5", schema="n int" if kind == "json" else None, basePath="{}/t", **options)
        assert [row.n for row in rows] == [5]


def collision(both: Both) -> None:
    both.put("t/flags=7/b", 2)
    both.fails("casual", "named like a column of its messages", "t", schema=None)
    assert both.flags("json", "t") == [7]


def corrupt_files(both: Both) -> None:
    (both.root / "casual" / "b.pcap").write_bytes(b"no capture at all")
    (both.root / "json" / "b.json.gz").write_bytes(b"\x1f\x8b no gzip at all")
    both.fails("casual", "ignoreCorruptFiles skips such files")
    both.fails("json", "(?s)gz")
    both.same(1, ignoreCorruptFiles="true")


def missing_files(both: Both) -> None:
    assert both.read("casual", "nowhere", ignoreMissingFiles="true") == []
    both.fails("json", "PATH_NOT_FOUND", "nowhere", ignoreMissingFiles="true")


def modes(both: Both) -> None:
    (both.root / "casual" / "a.bin").write_bytes(call(1, b"x") + b"\xff" * 20)
    (both.root / "json" / "a.json").write_text('{"flags": 1}\n{"fl\n')
    for kind in ("casual", "json"):
        counts = [
            len(both.read(kind, **options)) for options in ({}, {"mode": "permissive"}, {"mode": "DROPMALFORMED"})
        ]
        assert counts == [2, 2, 1]
        with pytest.raises(Exception, match=r"(?i)frame_|malformed"):
            both.read(kind, mode="FAILFAST")


def corrupt_column(both: Both) -> None:
    (both.root / "casual" / "a.bin").write_bytes(b"\xff" * 20)
    (both.root / "json" / "a.json").write_text('{"fl\n')
    assert bytes(both.read("casual", columnNameOfCorruptRecord="bad")[0].bad.bytes) == b"\xff" * 20
    text = both.read("json", columnNameOfCorruptRecord="bad", schema="flags bigint, bad string")
    assert text[0].bad == '{"fl'
    assert "bad" not in both.read("json", columnNameOfCorruptRecord="bad")[0]


def unknown_column(both: Both) -> None:
    both.fails("casual", "has no column 'other'", schema="flags bigint, other string")
    assert both.read("json", schema="flags bigint, other string")[0].other is None


def case(both: Both) -> None:
    both.put("b", 2)
    both.same(2, PATHGLOBFILTER="b*")


def unknown_option(both: Both) -> None:
    for options in ({"nonsense": "1"}, {"multiLine": "true"}):
        both.fails("casual", "has no option .*; it has: basePath, ", **options)
        assert both.flags("json", **options) == [1]


ROWS: dict[str, Callable[[Both], None]] = {
    "several paths, and patterns": paths,
    "a path that does not exist": missing,
    "an empty file": empty_file,
    "an empty directory": empty_directory,
    "names that begin with `_` or `.`": hidden,
    "subdirectories": subdirectories,
    "`recursiveFileLookup`": recursive,
    "`pathGlobFilter`": glob,
    "`modifiedBefore`": before,
    "`modifiedAfter`": after,
    "`timeZone`": zone,
    "`basePath`": base,
    "directories named like a column": collision,
    "`ignoreCorruptFiles`": corrupt_files,
    "`ignoreMissingFiles`": missing_files,
    "`mode`": modes,
    "`columnNameOfCorruptRecord`": corrupt_column,
    "a schema with a column that is not there": unknown_column,
    "the case of option names": case,
    "an option that does not exist, or only for JSON": unknown_option,
}


@pytest.mark.parametrize("row", ROWS)
def test_the_row_of_the_page_is_true(both: Both, row: str) -> None:
    ROWS[row](both)


def test_the_page_has_these_rows() -> None:
    table = (
        PAGE.read_text(encoding="utf-8")
        .partition("| like `spark.read.json` | here |\n|---|---|\n")[2]
        .partition("\n\n")[0]
    )
    assert re.findall(r"^\| ([^|]*) \|", table, re.MULTILINE) == list(ROWS)
