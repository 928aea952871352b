"""The report of a lake: a page that shows what was going on, and why.

    lake = Lake.open("lake", create=False)
    write_report(lake, "report.html")
    collect(lake)["data"]["overview"]                       # what the page shows, as plain values
    find_conversation(lake, "c:21a0dea8b5578f62600b")       # any connection, exchange or transaction
    open_tables(lake).sql("select count(*) from gold_exchanges")

It reads the Parquet files of the lake with DuckDB; nothing here knows Spark.
"""

from __future__ import annotations

from .collect import collect, find_conversation
from .database import open_tables
from .page_file import Written, write_report
from .render import render

__all__ = ["Written", "collect", "find_conversation", "open_tables", "render", "write_report"]
