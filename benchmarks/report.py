"""``python -m benchmarks.report``: the page of a large lake, against reading all its messages once with DuckDB.

The lake is made of answered casual calls, or it is one that you name: ``--lake``. The page needs gold, and of the
messages only those that it shows; so it should cost less than reading them all, and hardly any memory.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from wirelake.gold.tables import view_name
from wirelake.lake import Lake
from wirelake.report import open_tables, write_report

from .memory import peak, reset_peak

MESSAGES = 2_000_000
READ_RATIO = 10.0
DISTINCT = 10_000
NO_MESSAGES = ("silver/messages", "silver/quarantine")


def make_lake(folder: Path, messages: int, master: str) -> Path:
    """A lake of so many messages; Spark has ended when it is there."""
    from wirelake.spark.pipeline import ingest
    from wirelake.spark.session import session

    from .ingest import Calls, write_pcap

    pcap, lake = folder / "calls.pcap", folder / "lake"
    calls = Calls(DISTINCT, answered=True)
    write_pcap(pcap, calls, max(1, round(messages / len(calls))))
    spark = session(master, "wirelake-bench")
    try:
        ingest(spark, [str(pcap)], str(lake), final=True)
    finally:
        spark.stop()
    pcap.unlink()
    return lake


def read_all(lake: Lake) -> None:
    """Every column of every message, once."""
    tables = [table for table in lake.tables() if table.startswith("silver/") and table not in NO_MESSAGES]
    with open_tables(lake) as connection:
        for table in tables:
            connection.execute(f'select bit_xor(hash(t)) from "{view_name(table)}" t').fetchall()


def timed(name: str, run: Callable[[], object], rounds: int) -> float:
    """The best seconds of some rounds; tells the most memory that was needed beyond what was there before."""
    seconds = []
    before = reset_peak()
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    print(f"{name:28}{min(seconds):8.2f} s{(peak() - before) / 1e6:8.0f} MB more memory", flush=True)
    return min(seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=(__doc__ or "").split(": ", 1)[1])
    parser.add_argument("--lake", help="this lake instead of one that is made")
    parser.add_argument("--messages", type=int, default=MESSAGES, help="of the lake that is made (%(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="the best of so many counts (%(default)s)")
    parser.add_argument("--master", default="local[2]", help="where the lake is made (%(default)s)")
    parser.add_argument("--folder", type=Path, help="where files are made; some GB (that for temporary files)")
    parser.add_argument("--check", action="store_true", help="fail if the ratio is not reached")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        place = given.lake or make_lake(Path(folder), given.messages, given.master)
        lake = Lake.open(place, create=False)
        page = Path(folder) / "report.html"
        written = timed("the report", lambda: write_report(lake, page), given.rounds)
        read = timed("all messages, read once", lambda: read_all(lake), given.rounds)
        rows = lake.summary().tables["silver/messages"].rows
        print(f"{rows:,} messages; the page has {page.stat().st_size / 1e6:.1f} MB")
    is_reached = written <= READ_RATIO * read
    print(f"report / reading: {written / read:.2f} x, at most {READ_RATIO} x: {'ok' if is_reached else 'MISSED'}")
    return 1 if given.check and not is_reached else 0


if __name__ == "__main__":
    sys.exit(main())
