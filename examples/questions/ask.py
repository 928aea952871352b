"""Ask a lake the questions in this directory; each is one .sql file over views of its tables.

python examples/questions/ask.py LAKE [QUESTION ...]

Without a question it asks all of them. The SQL works in any Spark session after ``views(spark, lake)``, and in DuckDB
over ``open_tables(lake)`` as ``for_duckdb`` returns it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from wirelake.spark.session import session
from wirelake.spark.views import views

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HERE = Path(__file__).resolve().parent
QUESTIONS = sorted(path.stem for path in HERE.glob("*.sql"))


def question(name: str) -> str:
    """Return the question of a file in words: its first line."""
    return (HERE / f"{name}.sql").read_text(encoding="utf-8").splitlines()[0].removeprefix("-- ")


def answer(spark: SparkSession, name: str) -> DataFrame:
    return spark.sql((HERE / f"{name}.sql").read_text(encoding="utf-8"))


DUCKDB = {
    "array_join(": "array_to_string(",
    "explode(": "unnest(",
    "percentile(": "quantile_cont(",
    "unix_micros(": "epoch_us(",
}
"""What DuckDB calls differently."""


def for_duckdb(name: str) -> str:
    """Return the SQL of a question for DuckDB, over the views of ``wirelake.report.open_tables``."""
    sql = (HERE / f"{name}.sql").read_text(encoding="utf-8")
    for ours, theirs in DUCKDB.items():
        sql = sql.replace(ours, theirs)
    return sql


def main(arguments: list[str]) -> int:
    lake, *names = arguments or [""]
    unknown = sorted(set(names) - set(QUESTIONS))
    if not lake or unknown:
        print(f"there is no question {unknown[0]!r}; there are: {', '.join(QUESTIONS)}" if unknown else __doc__)
        return 2
    spark = session("local[*]", "wirelake-questions")
    views(spark, lake)
    for name in names or QUESTIONS:
        print(f"{question(name)} [{name}]")
        answer(spark, name).show(40, truncate=48)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
