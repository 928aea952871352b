"""Published Delta tables, read by Spark's own Delta connector. Its jar comes from Maven, so `make matrix` runs this."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from wirelake.generate import generate, write_pcap
from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.run import ingest
from wirelake.lake import Lake
from wirelake.lake.delta import publish

pytestmark = pytest.mark.every_spark

PACKAGES = {
    "4.0": "io.delta:delta-spark_2.13:4.0.1",
    "4.1": "io.delta:delta-spark_4.1_2.13:4.2.0",
    "4.2": "io.delta:delta-spark_4.2_2.13:4.4.0",
}
"""There is none for PySpark 4.3 yet."""
DAY_US = 86_400_000_000
TABLES = ("silver/casual", "silver/messages", "gold/exchanges", "gold/open", "accounting")
READER = """
import json, sys
from pyspark.sql import SparkSession

lake, package, tables = sys.argv[1], sys.argv[2], sys.argv[3:]
settings = {
    "spark.ui.enabled": "false",
    "spark.jars.packages": package,
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
}
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()

def rows(table, **options):
    return spark.read.format("delta").options(**options).load(f"{lake}/_tables/{table}")

found = {}
for table in tables:
    fields = rows(table).schema.fields
    plain = [field.name for field in fields if field.dataType.typeName() in ("string", "long", "integer")]
    values = sorted(json.dumps(list(row)) for row in rows(table).select(sorted(plain)).collect())
    found[table] = {"columns": sorted(plain), "rows": values, "first": rows(table, versionAsOf=0).count()}
print(json.dumps(found))
"""


@pytest.mark.skipif("WIRELAKE_MAVEN" not in os.environ, reason="WIRELAKE_MAVEN is not set: it downloads Delta's jar")
def test_spark_reads_the_rows_of_the_lake_and_of_an_earlier_version(tmp_path: Path) -> None:
    version = ".".join(pyspark.__version__.split(".")[:2])
    if version not in PACKAGES:
        pytest.skip(f"no Delta for PySpark {version}")
    place = tmp_path / "lake"
    first = {}
    for number in range(2):
        capture = tmp_path / f"{number}.pcap"
        write_pcap(generate("casual", seed=number, messages=300, start_us=DAY_US * (19_700 + number)), capture)
        ingest(InlineRunner(), [str(capture)], str(place))
        lake = Lake.open(place)
        publish(lake)
        first = first or {table: lake.dataset(table).count_rows() for table in TABLES}
    found = _read_by_spark(lake, PACKAGES[version])
    for table, seen in found.items():
        rows = lake.dataset(table).to_table(columns=seen["columns"]).to_pylist()
        assert seen["rows"] == sorted(json.dumps(list(row.values())) for row in rows), table
        assert seen["first"] == first[table]
    assert len(found["gold/exchanges"]["rows"]) > first["gold/exchanges"] > 50


def _read_by_spark(lake: Lake, package: str) -> dict[str, dict[str, object]]:
    command = [sys.executable, "-c", READER, lake.store.root, package, *TABLES]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, dict[str, object]] = json.loads(done.stdout.splitlines()[-1])
    return found
