"""Captures on S3: executors read them there, by range, and write them there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from pyarrow import fs

from tests.lake.test_s3 import bucket, environment
from wirelake.generate import generate, write_pcap

__all__ = ["bucket", "environment"]

JOB = """
import json
import sys

from wirelake.spark.pipeline import ingest
from wirelake.lake import Lake
from wirelake.spark import register
from wirelake.spark.session import session

bucket, here = sys.argv[1:]
there = bucket.replace("s3:", "s3a:")
spark = session("local[2]")
register(spark)


def rows(place):
    found = spark.read.format("casual").option("maxPartitionBytes", "20k").load(place)
    return found.rdd.getNumPartitions(), sorted(map(str, found.drop("capture", "connection").collect()))


parts, read = rows(f"{there}/in")
assert parts > 2 and (parts, read) == rows(here), (parts, len(read))
captured = spark.read.format("casual").load(f"{there}/in")
for mode in ("append", "overwrite"):
    captured.coalesce(1).write.format("casual").mode(mode).option("compression", "gzip").save(f"{there}/out")
    assert rows(f"{bucket}/out")[1] == read
report = ingest(spark, [f"{there}/in"], f"{there}/lake", final=True, partition_bytes=20_000)
print(json.dumps([len(read), report.messages, Lake.open(f"{bucket}/lake", create=False).number()]))
"""


def test_executors_read_and_write_captures_there(bucket: str, tmp_path: Path) -> None:
    write_pcap(generate("casual", seed=4, messages=300, connections=3), tmp_path / "a.pcap")
    fs.copy_files(str(tmp_path), f"{bucket}/in")
    command = [sys.executable, "-c", JOB, bucket, str(tmp_path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=400, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    messages, ingested, commit = json.loads(done.stdout)
    assert messages >= 300 and ingested == {"casual": messages} and commit == 1
    names = [info.base_name for info in _bucket(bucket).get_file_info(fs.FileSelector(f"{bucket[5:]}/out"))]
    assert [name.endswith(".tap.gz") for name in names] == [True]


def _bucket(bucket: str) -> fs.FileSystem:
    return fs.FileSystem.from_uri(bucket)[0]
