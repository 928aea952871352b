"""The sessions that our own verbs start.

    spark = session("local[4]")
    spark.read.format("casual").load("capture.pcap").show()

A session of yours needs none of this; `spark.python.unix.domain.socket.enabled` is the one setting that it cannot make
up for later, and that halves the cost of a Python task.
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
"""Arrow checks every access to every value, a sixth of the time that it takes to turn columns into rows."""
SOCKET_PATH_BYTES = 100
"""What a system lets the path of a socket have, less a little."""
_SOCKET_NAME_BYTES = 45


class SparkStartError(RuntimeError):
    """Spark did not start; says why in one line."""


def session(master: str | None = None, app: str = "wirelake", **conf: Any) -> SparkSession:
    """The running session, or a new one with what wirelake needs. ``conf`` are further settings, by their full names.

    What Spark has to say goes to a file that is removed at the end: users see results and errors, not logs. Started by
    spark-submit, it takes what that was told.
    """
    from pyspark.sql import SparkSession

    _choose_python(conf)
    if master is not None and master.startswith("sc://"):
        return SparkSession.builder.remote(master).getOrCreate()
    wanted = SETTINGS | {"spark.app.name": app} | {name: _text(value) for name, value in conf.items()}
    if master is not None:
        wanted["spark.master"] = master
    if _is_ours_to_start():
        _start(wanted)
    builder = SparkSession.builder
    for name, value in wanted.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _choose_python(conf: dict[str, Any]) -> None:
    """Workers run the interpreter that we run, unless told otherwise: another one would not have our packages."""
    if "spark.pyspark.python" not in conf:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def _is_ours_to_start() -> bool:
    """Whether there is no Spark in this process yet, and none that started it."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is None and not {"PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"} & set(os.environ)


def _start(wanted: dict[str, str]) -> None:
    """A Spark whose standard error is a file."""
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway

    home = _temporary_home()
    _use(home, wanted)
    log = home / "spark.log"
    conf = SparkConf(loadDefaults=False)
    for name, value in wanted.items():
        conf.set(name, value)
    try:
        with log.open("wb") as out:
            gateway = launch_gateway(conf, {"stderr": out})  # type: ignore[no-untyped-call]
        SparkContext(conf=conf, gateway=gateway)
    except (PySparkException, OSError) as error:
        raise SparkStartError(f"Spark did not start: {_reason(log) or error}") from None
    except Exception as error:
        if type(error).__name__ != "Py4JJavaError":
            raise
        reason = error.java_exception.getMessage()  # type: ignore[attr-defined]
        raise SparkStartError(f"Spark did not start: {reason}") from None


def _reason(log: Path) -> str:
    """The first line of a log that tells what went wrong."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    telling = [line.strip() for line in lines if re.search("error|exception|java", line, re.IGNORECASE)]
    return re.sub(r'^Exception in thread "[^"]*" [\w.$]+: ', "", (telling or lines or [""])[0])


def _temporary_home() -> Path:
    """A directory for what Spark keeps while it runs, in the place that the user chose for such things."""
    home = Path(tempfile.mkdtemp(prefix="wirelake-spark-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return home


def _use(home: Path, wanted: dict[str, str]) -> None:
    wanted.setdefault("spark.sql.warehouse.dir", str(home / "warehouse"))
    for name in ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"):
        wanted[name] = f"{JAVA_OPTIONS} {wanted.get(name, '')}".strip()
    if not wanted.get("spark.master", "local").startswith("local"):
        return  # other machines have their own directories
    if "SPARK_LOCAL_DIRS" not in os.environ:
        wanted.setdefault("spark.local.dir", str(home))
    options = wanted.get("spark.driver.extraJavaOptions", "")
    if len(str(home)) + _SOCKET_NAME_BYTES < SOCKET_PATH_BYTES and "java.io.tmpdir" not in options:
        wanted["spark.driver.extraJavaOptions"] = f"{options} -Djava.io.tmpdir={home}".strip()
