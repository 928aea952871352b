"""Protocols declared from public documents in a lake, in the report and as rows of Spark, which all say the same."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.ingest.lakes import table
from wirelake.capture.settings import ReadSettings
from wirelake.generate import generate, write_pcap
from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.run import ingest
from wirelake.lake import Lake
from wirelake.protocols import load
from wirelake.report import collect
from wirelake.spec.columns import columns

PUBLIC = Path(__file__).parents[1] / "codec" / "public"
NAMES = ("thrift", "mongo", "soupbin", "zookeeper", "kafka", "radsec")
"""Those with structures that hold themselves, signs, padding, nulls, times, and conditions on what is around."""


@pytest.mark.parametrize("name", NAMES)
def test_a_lake_a_report_and_spark_have_what_was_sent(spark: SparkSession, name: str, tmp_path: Path) -> None:
    declared = f"{PUBLIC / name}.py:PROTOCOL"
    traffic = generate(declared, messages=150, seed=3)
    sent = list(traffic)
    write_pcap(traffic, tmp_path / "sent.pcap")
    lake = tmp_path / "lake"
    reading = ReadSettings(protocols=(declared,))
    done = ingest(InlineRunner(), [str(tmp_path / "sent.pcap")], str(lake), reading=reading, final=True)
    assert done.messages == {name: len(sent)} and done.bytes_quarantined == 0

    report = collect(Lake.open(lake, create=False))
    shown = report["data"]["overview"]
    (overview,) = (dict(zip(shown["columns"], row, strict=True)) for row in shown["rows"])
    assert overview["messages"] == len(sent)
    json.dumps(report, allow_nan=False)

    rows = spark.read.format("wire").options(protocol=declared, mode="FAILFAST").load(str(tmp_path / "sent.pcap"))
    own = [column for column in columns(load(declared)) if column in rows.columns]
    assert own == list(columns(load(declared)))
    found = [row.asDict(recursive=True) for row in rows.collect()]
    assert Counter(row["message"] for row in found) == Counter(event.message.__message__["name"] for event in sent)
    assert in_order(found, own) == in_order(table(lake, f"silver/{name}"), own)


def in_order(rows: list[dict[str, Any]], names: list[str]) -> list[str]:
    """The values of these columns, in the order of the capture."""
    placed = sorted(rows, key=lambda row: (row["connection"], row["direction"], row["offset"]))
    return [repr(plain([row[name] for name in names])) for row in placed]


def plain(value: Any) -> Any:
    """A value with times as Spark gives them: without their zone, which is UTC."""
    match value:
        case datetime():
            return value.replace(tzinfo=None)
        case dict():
            return {key: plain(each) for key, each in value.items()}
        case list():
            return [plain(each) for each in value]
        case _:
            return value
