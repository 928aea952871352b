"""Views over all sensors. Tables are per sensor, and a sensor may have seen what another saw too, or only a part of it.

``sql/transactions.sql`` unites what the sensors saw of each transaction, ``sql/addresses.sql`` adds up what they saw at
each address. The files are SQL for DuckDB over views of the tables (``gold_transactions`` and so on).
"""

from __future__ import annotations

from importlib.resources import files

ACROSS_SENSORS = ("transactions", "addresses")
_SPARK = {"unnest(": "explode(", "struct_pack(": "struct(", "epoch_us(": "unix_micros("}
"""What Spark calls differently."""


def view_sql(name: str) -> str:
    """Return the query of a view, for DuckDB."""
    return files(__package__).joinpath("sql", f"{name}.sql").read_text("utf-8")


def spark_sql(name: str) -> str:
    """Return the query of a view, for Spark."""
    sql = view_sql(name)
    for ours, theirs in _SPARK.items():
        sql = sql.replace(ours, theirs)
    return sql
