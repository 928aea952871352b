"""What users get wrong, on Spark: one clear line, without the traces of workers or of Java."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.needs import require
from tests.spark.processes import COMMAND
from wirelake.generate import generate, write_pcap
from wirelake.ingest.runner import IngestError
from wirelake.lake import Lake
from wirelake.spark.pipeline import ingest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PNG = b"\x89PNG\r\n\x1a\n" + bytes(200)


def assert_plain(text: str) -> None:
    for word in ("Traceback", "Py4J", "py4j", "Exception in thread", "\tat org.apache"):
        assert word not in text, text


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("good") / "good.pcap"
    write_pcap(generate("casual", seed=4, messages=300), path)
    return path


# --- ingest


def test_a_master_that_cannot_be_is_one_line(capture: Path, tmp_path: Path) -> None:
    require("java")
    command = [*COMMAND, "ingest", str(capture), str(tmp_path / "lake"), "--master", "nonsense"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert_plain(done.stderr)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: Spark did not start: ") and "Master" in line
    assert Lake.open(tmp_path / "lake", create=False).number() == 0


def test_a_capture_that_vanishes_before_a_worker_reads_it_is_named(
    spark: SparkSession, capture: Path, tmp_path: Path
) -> None:
    gone = tmp_path / "gone.pcap"

    def vanish() -> SparkSession:
        gone.unlink()
        return spark

    gone.write_bytes(capture.read_bytes())
    with pytest.raises(IngestError) as caught:
        ingest(vanish, [str(gone)], str(tmp_path / "lake"))
    assert str(caught.value).startswith(f"{gone}: No such file or directory")
    assert Lake.open(tmp_path / "lake", create=False).number() == 0


# --- formats


def message(error: pytest.ExceptionInfo[Any]) -> str:
    """What Spark shows of an error: neither the traceback of a worker nor a stack of Java is in it."""
    text = str(error.value)
    assert_plain(text)
    assert "\tat " not in text
    return text


def test_formats_pass_over_rubbish_only_if_they_are_told_to(spark: SparkSession, capture: Path, tmp_path: Path) -> None:
    (tmp_path / "good.pcap").write_bytes(capture.read_bytes())
    (tmp_path / "a.png").write_bytes(PNG)
    (tmp_path / "empty.pcap").touch()
    os.mkfifo(tmp_path / "pipe")
    wanted = spark.read.format("casual").load(str(capture)).count()
    with pytest.raises(Exception) as caught:
        spark.read.format("casual").load(str(tmp_path)).count()
    assert f"{tmp_path}/a.png: not a pcap, pcapng or tap file" in message(caught)
    for option in ("ignoreCorruptFiles", "ignorecorruptfiles"):
        assert spark.read.format("casual").option(option, "true").load(str(tmp_path)).count() == wanted > 100


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("nonsense string", "nonsense"),
        ("message int", "message"),
        ("service struct<nonsense:string>", "nonsense"),
        ("service string", "service"),
    ],
)
def test_a_schema_that_does_not_fit_is_named_by_its_column(
    schema: str, said: str, spark: SparkSession, capture: Path
) -> None:
    with pytest.raises(Exception) as caught:
        spark.read.format("casual").schema(schema).load(str(capture)).count()
    assert said in message(caught).splitlines()[0]


def test_failfast_stops_at_the_first_damage_with_its_place(spark: SparkSession, tmp_path: Path) -> None:
    write_pcap(generate("mb", seed=3, messages=200, corrupt=0.2), tmp_path / "damaged.pcap")
    reader = spark.read.format("mb").option("mode", "FAILFAST")
    with pytest.raises(Exception) as caught:
        reader.load(str(tmp_path)).collect()
    said = message(caught)
    assert f"{tmp_path}/damaged.pcap" in said and "at byte " in said
    assert spark.read.format("mb").option("mode", "DROPMALFORMED").load(str(tmp_path)).count() > 50
