"""Sessions that wirelake starts itself, and contexts: what is left of a session without SQL, and enough for ``ingest``.

    spark = session("local[4]")
    spark.read.format("casual").load("capture.pcap").show()

Your own session needs none of this, except `spark.python.unix.domain.socket.enabled`: it halves the cost of a Python
task, and cannot be set once a session runs.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.structuredLogging.enabled": "false",
}
JAVA_OPTIONS = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""Arrow checks every access to every value: a sixth of the time of turning columns into rows."""
SCHEDULER_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A JVM that only schedules is ready a quarter sooner with the quick compiler and the small collector."""
SCHEDULER_SETTINGS = {
    "spark.driver.extraJavaOptions": SCHEDULER_OPTIONS,
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "1000",
}
"""Spark remembers 100 000 tasks for a page that nobody sees: half a gigabyte after some hours of a stream."""
DAEMON = "wirelake.spark.daemon"
SOCKET_PATH_BYTES = 100
"""The system's limit for the path of a socket, less a little."""
_SOCKET_NAME_BYTES = 45


NO_CONTEXT = (
    "Spark Connect cannot run an ingest: give the master of the cluster itself, such as --master spark://host:7077, "
    "or a session that is not of Spark Connect"
)


class SparkStartError(RuntimeError):
    """Spark did not start: why, in one line."""


def session(master: str | None = None, app: str = "wirelake", **conf: Any) -> SparkSession:
    """Return the running session, or start one with what wirelake needs. ``conf`` has further settings by full name.

    Spark logs to a file that is removed at the end: users see results and errors, not logs. Under spark-submit, the
    session has the settings given there.
    """
    from pyspark.sql import SparkSession

    if master is not None and master.startswith("sc://"):
        return SparkSession.builder.remote(master).getOrCreate()
    wanted = _wanted(master, app, conf)
    if is_ours_to_start():
        _start(wanted)
    builder = SparkSession.builder
    for name, value in wanted.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def context(master: str | None = None, app: str = "wirelake", **conf: Any) -> SparkContext:
    """Return the running context, or start one as ``session`` does. Without SQL it is there seconds sooner."""
    from pyspark import SparkConf, SparkContext

    wanted = _wanted(master, app, conf)
    if (master or "").startswith("sc://") or (
        SparkContext._active_spark_context is None and "SPARK_REMOTE" in os.environ
    ):
        raise SparkStartError(NO_CONTEXT)
    if is_ours_to_start():
        return _start(SCHEDULER_SETTINGS | wanted)
    return SparkContext.getOrCreate(SparkConf().setAll(list(wanted.items())))


def context_of(spark: SparkSession | SparkContext) -> SparkContext:
    """Return the context of a session; a session of Spark Connect has none."""
    from pyspark import SparkContext
    from pyspark.errors import PySparkException

    try:
        return spark if isinstance(spark, SparkContext) else spark.sparkContext
    except (PySparkException, AttributeError):
        raise SparkStartError(NO_CONTEXT) from None


def _wanted(master: str | None, app: str, conf: dict[str, Any]) -> dict[str, str]:
    _choose_python(conf)
    wanted = SETTINGS | {"spark.app.name": app} | {name: _text(value) for name, value in conf.items()}
    if master is not None:
        wanted["spark.master"] = master
    return wanted


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _choose_python(conf: dict[str, Any]) -> None:
    """Let workers run this interpreter unless the user says otherwise: another one would lack our packages.

    Only spark-submit reads ``spark.pyspark.python``, not a session that Python starts: that one reads the environment.
    """
    if chosen := conf.get("spark.pyspark.python"):
        os.environ["PYSPARK_PYTHON"] = str(chosen)
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def _runs_this_python(wanted: dict[str, str]) -> bool:
    """Whether workers are of this interpreter and this machine, and so can import what this process has imported."""
    is_here = re.match(r"local(\[|$)", wanted.get("spark.master", "local")) is not None
    return is_here and "spark.pyspark.python" not in wanted and os.environ.get("PYSPARK_PYTHON") == sys.executable


def is_ours_to_start() -> bool:
    """Return whether no Spark runs in this process, and none started it."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is None and not {"PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"} & set(os.environ)


def _start(wanted: dict[str, str]) -> SparkContext:
    """Start a Spark whose standard error is a file."""
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway

    home = _temporary_home()
    _use_home(home, wanted)
    log = home / "spark.log"
    conf = SparkConf(loadDefaults=False)
    for name, value in wanted.items():
        conf.set(name, value)
    try:
        with log.open("wb") as out:
            gateway = launch_gateway(conf, {"stderr": out})  # type: ignore[no-untyped-call]
        return SparkContext(conf=conf, gateway=gateway)
    except (PySparkException, OSError) as error:
        raise SparkStartError(f"Spark did not start: {_reason(log) or error}") from None
    except Exception as error:
        if type(error).__name__ != "Py4JJavaError":
            raise
        reason = error.java_exception.getMessage()  # type: ignore[attr-defined]
        raise SparkStartError(f"Spark did not start: {reason}") from None


def _reason(log: Path) -> str:
    """Return the first line of a log that says what went wrong."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    errors = [line.strip() for line in lines if re.search("error|exception|java", line, re.IGNORECASE)]
    return re.sub(r'^Exception in thread "[^"]*" [\w.$]+: ', "", (errors or lines or [""])[0])


def _temporary_home() -> Path:
    """Make a directory for what Spark keeps while it runs, where the user wants temporary files."""
    home = Path(tempfile.mkdtemp(prefix="wirelake-spark-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return home


def _use_home(home: Path, wanted: dict[str, str]) -> None:
    wanted.setdefault("spark.sql.warehouse.dir", str(home / "warehouse"))
    for name in ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"):
        wanted[name] = f"{JAVA_OPTIONS} {wanted.get(name, '')}".strip()
    if not wanted.get("spark.master", "local").startswith("local"):
        return  # other machines have their own directories
    if _runs_this_python(wanted):
        wanted.setdefault("spark.python.daemon.module", DAEMON)
    if "SPARK_LOCAL_DIRS" not in os.environ:
        wanted.setdefault("spark.local.dir", str(home))
    options = wanted.get("spark.driver.extraJavaOptions", "")
    if len(str(home)) + _SOCKET_NAME_BYTES < SOCKET_PATH_BYTES and "java.io.tmpdir" not in options:
        wanted["spark.driver.extraJavaOptions"] = f"{options} -Djava.io.tmpdir={home}".strip()
