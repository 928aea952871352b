"""A report from Python: the page as a file, the numbers on it, and your own query on the same tables.

python examples/report.py [LAKE [PAGE.html]]

Without a lake it is the report of an empty one.
"""

from __future__ import annotations

import sys
import tempfile

from wirelake.lake import Lake
from wirelake.report import collect, open_tables, write_report

QUESTION = """
select protocol, outcome, count(*) as requests, round(max(latency_us) / 1000, 1) as slowest_ms
from gold_exchanges group by all order by all
"""


def main(place: str, page: str) -> None:
    lake = Lake.open(place)
    written = write_report(lake, page)
    print(f"{page} has {written.bytes / 1e6:.0f} MB and {written.conversations} conversations")

    overview = collect(lake)["data"]["overview"]
    shown = dict(zip(overview["columns"], overview["rows"][0], strict=True))
    print(f"{shown['messages']} messages, {shown['requests']} requests, {shown['violations']} violations")

    with open_tables(lake) as tables:
        for row in tables.sql(QUESTION).fetchall():
            print(*row)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        places = [f"{directory}/lake", f"{directory}/report.html"]
        main(*(sys.argv[1:] + places[len(sys.argv) - 1 :]))
