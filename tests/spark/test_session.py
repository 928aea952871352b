"""The sessions that our verbs start: quiet, in their own temporary directory, with what workers need."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.needs import require
from wirelake.spark.session import SETTINGS, _runs_this_python, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_it_is_set_up_for_python_tasks(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    assert {name: conf.get(name) for name in SETTINGS} == SETTINGS
    assert spark.sparkContext.pythonExec == sys.executable


def test_a_second_one_is_the_first(spark: SparkSession) -> None:
    assert session().sparkContext is spark.sparkContext


def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    import os

    return subprocess.run(
        [sys.executable, "-c", script], env=os.environ | environment, capture_output=True, text=True, check=False
    )


def test_nothing_is_said_and_nothing_is_left(tmp_path: Path) -> None:
    require("java")
    script = (
        "import os, tempfile\n"
        "from wirelake.spark.session import session\n"
        "spark = session('local[1]')\n"
        "assert os.listdir(tempfile.gettempdir())\n"
        "try:\n"
        "    spark.sql(\"select raise_error('expected')\").collect()\n"
        "except Exception as error:\n"
        "    print('expected' in str(error))\n"
        "spark.stop()\n"
    )
    done = run(script, TMPDIR=str(tmp_path))
    assert (done.stdout, done.stderr, done.returncode) == ("True\n", "", 0)
    assert list(tmp_path.iterdir()) == []


def test_a_context_has_no_sql_and_its_workers_begin_warm() -> None:
    require("java")
    script = (
        "import json\n"
        "from wirelake.spark.session import context\n"
        "def look(_):\n"
        "    import gc, sys, pyspark\n"
        "    return 'wirelake.ingest.tasks.gold' in sys.modules, gc.get_freeze_count() > 0, pyspark.__file__\n"
        "sc = context('local[1]')\n"
        "assert context() is sc\n"
        "seen = sc.parallelize([0], 1).map(look).collect()[0]\n"
        "has_sql = sc._jvm.org.apache.spark.sql.classic.SparkSession.getDefaultSession().isDefined()\n"
        "print(json.dumps([*seen, has_sql]))\n"
        "sc.stop()\n"
    )
    done = run(script)
    assert done.returncode == 0, done.stderr
    is_loaded, is_frozen, pyspark, has_sql = json.loads(done.stdout)
    assert is_loaded and is_frozen and not has_sql
    assert ".zip" not in pyspark  # the copy that Spark brings has no byte code


def test_a_context_forgets_earlier_jobs() -> None:
    """A stream runs some millions of them."""
    require("java")
    script = (
        "from wirelake.spark.session import context\n"
        "sc = context('local[2]')\n"
        "sc.setJobGroup('many', '')\n"
        "for _ in range(300): sc.parallelize([0], 1).count()\n"
        "print(len(sc.statusTracker().getJobIdsForGroup('many')))\n"
        "sc.stop()\n"
    )
    done = run(script)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= 150


def test_another_python_has_sparks_own_daemon() -> None:
    wanted = {"spark.master": "local[2]", "spark.pyspark.python": "/usr/bin/python3"}
    assert not _runs_this_python(wanted)
    assert not _runs_this_python({"spark.master": "local-cluster[2,1,1024]"})
    assert not _runs_this_python({"spark.master": "spark://host:7077"})


def test_the_setting_names_the_python_of_the_workers() -> None:
    """Spark reads it in spark-submit alone."""
    require("java")
    script = (
        "import sys\n"
        "from wirelake.spark.session import context\n"
        "sc = context('local[1]', **{'spark.pyspark.python': sys.argv[1]})\n"
        "print(sc.parallelize([0], 1).map(lambda _: sys.executable).collect()[0])\n"
        "sc.stop()\n"
    )
    for before in ({}, {"PYSPARK_PYTHON": "/nowhere/python"}):
        done = run(script.replace("sys.argv[1]", repr(sys.executable)), PATH="/usr/bin:/bin", **before)
        assert (done.stdout, done.stderr) == (f"{sys.executable}\n", "")


@pytest.mark.parametrize("how", ["'sc://localhost'", ""])
def test_spark_connect_has_no_context(how: str) -> None:
    require("java")
    script = (
        "from wirelake.spark.session import SparkStartError, context\n"
        f"try:\n    context({how})\nexcept SparkStartError as error:\n    print(error)\n"
    )
    done = run(script, **({} if how else {"SPARK_REMOTE": "sc://localhost"}))
    assert done.stdout.startswith("Spark Connect cannot run an ingest: ")
    assert (len(done.stdout.splitlines()), done.stderr) == (1, "")


@pytest.mark.parametrize(
    ("arguments", "environment", "said"),
    [
        ("'local[2]'", {"JAVA_HOME": "/nowhere"}, "/nowhere/bin/java"),
        ("'nonsense'", {}, "did not start: Master must either be yarn or start with spark"),
    ],
)
def test_a_spark_that_does_not_start_says_why_in_one_line(
    arguments: str, environment: dict[str, str], said: str
) -> None:
    require("java")
    script = (
        "from wirelake.spark.session import SparkStartError, session\n"
        f"try:\n    session({arguments})\nexcept SparkStartError as error:\n    print(error)\n"
    )
    done = run(script, **environment)
    assert done.stdout.startswith("Spark did not start: ")
    assert said in done.stdout
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""
