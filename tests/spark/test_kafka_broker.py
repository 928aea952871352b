"""The example for Kafka with a real broker and Spark's own connector. Their jars come from Maven, so `make matrix` runs
this."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from tests.spark.versions import VERSION
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.every_spark,
    pytest.mark.skipif("WIRELAKE_MAVEN" not in os.environ, reason="WIRELAKE_MAVEN is not set: it downloads a broker"),
    pytest.mark.skipif(VERSION != (4, 0), reason="the connector of PySpark 4.0 is the one that every registry has"),
]

KAFKA = "org.apache.kafka:kafka_2.13:3.9.1"
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"
SPARK = Path(pyspark.__file__).parent
ROOT = Path(__file__).parents[2]
CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"
PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
offsets.topic.replication.factor=1
log.dirs={logs}
"""
JOB = """
import runpy, sys
from types import SimpleNamespace
from wirelake import encode
from wirelake.protocols import ceda
from wirelake.spark.session import session

broker, connector, place = sys.argv[1:]
kafka = SimpleNamespace(**runpy.run_path("examples/spark/kafka.py"))
spark = session("local[2]", **{"spark.jars.packages": connector})
frames = [encode(ceda.Publish(topic=f"px.{number}")) for number in range(5)] + [b"\\x00\\x01"]
for first in (0, 3):
    sent = spark.createDataFrame([(bytearray(frame),) for frame in frames[first : first + 3]], "value binary")
    sent.coalesce(1).write.format("kafka").option("kafka.bootstrap.servers", broker).option("topic", "plant").save()
    records = kafka.records(spark, broker, "plant")
    kafka.write(kafka.decoded(records, "ceda"), f"{place}/out", f"{place}/checkpoint").awaitTermination()
rows = spark.read.parquet(f"{place}/out").orderBy("place.offset").collect()
assert [row.place.offset for row in rows] == list(range(6)), rows
assert {row.place.topic for row in rows} == {"plant"}
assert [row.topic for row in rows[:5]] == [f"px.{number}" for number in range(5)]
assert rows[5].message is None and rows[5]._corrupt_record.rule
"""


def run(program: str, *arguments: str, log: Path) -> subprocess.Popen[bytes]:
    """Start a program of Kafka in a JVM with its jars, which Spark's resolver fetches and keeps."""
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(SPARK)}
    options = ["--master", "local[1]", "--driver-memory", "256m", "--packages", KAFKA, "--class", program]
    command = [str(SPARK / "bin" / "spark-submit"), *options, "spark-internal", *arguments]
    with log.open("ab") as out:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[str]:
    """A broker that is its own controller, on ports that were free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        ports = {"broker": one.getsockname()[1], "controller": other.getsockname()[1]}
    properties, log = tmp_path / "server.properties", tmp_path / "broker.log"
    properties.write_text(PROPERTIES.format(**ports, logs=tmp_path / "logs"))
    formatting = run("kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(properties), log=log)
    assert formatting.wait(timeout=600) == 0, log.read_text()[-3000:]
    process = run("kafka.Kafka", str(properties), log=log)
    try:
        wait_until(lambda: "Kafka Server started" in log.read_text() or process.poll() is not None, seconds=120)
        assert process.poll() is None, log.read_text()[-3000:]
        yield f"127.0.0.1:{ports['broker']}"
    finally:
        process.kill()
        process.wait()


def test_records_of_a_topic_become_rows_once_and_bad_ones_say_why(broker: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", JOB, broker, CONNECTOR, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
