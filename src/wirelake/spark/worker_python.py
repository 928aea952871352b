"""Whether the Python that Spark's workers run can run wirelake, and what to set where it cannot.

Spark itself then knows no format ``casual``, or shows the traceback of a worker. The workers of a local master run on
this machine, so that their interpreter can be asked; on a cluster, the first task that fails tells.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from shutil import which
from typing import TYPE_CHECKING

from .session import SparkStartError

if TYPE_CHECKING:
    from pyspark import SparkContext

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
ASK_SECONDS = 20.0
_ASK = """
import sys
print("%d.%d" % sys.version_info[:2])
from importlib.util import find_spec
def is_there(name):
    try:
        return find_spec(name) is not None
    except ImportError:
        return False
print(" ".join(name for name in sys.argv[1:] if not is_there(name)))
"""


def check_workers(context: SparkContext | None = None) -> None:
    """Refuse a session of a local master, by default the running one, whose workers cannot run wirelake."""
    import pyspark

    kind = getattr(pyspark, "SparkContext", None)  # a client of Spark Connect has none
    context = context or (None if kind is None else kind._active_spark_context)
    if context is None or not re.match(r"local(\[|$)", str(context.master)):
        return
    python = str(context.pythonExec)
    fault = _fault(python, _search_path(context))
    if fault is None:
        return
    is_this = which(python) == sys.executable
    advice = "install it there, or name its place in PYTHONPATH," if is_this else f"set PYSPARK_PYTHON={sys.executable}"
    raise SparkStartError(_told(context, fault, f"{advice} before the session starts"))


def translated(context: SparkContext, error: BaseException) -> str | None:
    """Return what a failed task says about the Python of its executor, in one line; None if it is something else."""
    text = str(error)
    if version := re.search(r"PYTHON_VERSION_MISMATCH\D*([\d.]+\d)", text):
        fault = _of_version(version[1])
    elif program := re.search(r'Cannot run program "[^"]*".*?: error=\d+, ([^\n]*)', text):
        fault = f"which cannot be run ({program[1].strip()})"
    elif (module := re.search(r"No module named '([\w.]+)'", text)) and module[1] in _modules():
        fault = f"which has no {module[1]}"
    else:
        return None
    archive = "give the executors the archive of `wirelake package`, or " if fault.startswith("which has") else ""
    return _told(
        context, fault, f"{archive}name a Python {HERE} that has wirelake by PYSPARK_PYTHON or spark.pyspark.python"
    )


def _told(context: SparkContext, fault: str, advice: str) -> str:
    python, wanted = context.pythonExec, context.getConf().get("spark.pyspark.python")
    ignored = f" (only spark-submit reads spark.pyspark.python={wanted})" if wanted not in (None, python) else ""
    return f"the workers of this session run {python}, {fault}{ignored}: {advice}"


def _fault(python: str, path: str) -> str | None:
    try:
        version, missing = _answer(python, path, os.getcwd())
    except subprocess.TimeoutExpired:
        return None  # it may yet work
    except OSError as error:
        return f"which cannot be run ({error.strerror})"
    except ValueError:
        return "which is no Python"
    if version != HERE:
        return _of_version(version)
    if "wirelake" in missing:
        return "which has no wirelake"
    return f"which has no {', '.join(missing)}" if missing else None


def _modules() -> tuple[str, ...]:
    from .package import LIBRARIES

    return ("wirelake", *LIBRARIES)


def _of_version(version: str) -> str:
    return f"which is Python {version}, not {HERE} as here"


@cache
def _answer(python: str, path: str, _: str) -> tuple[str, tuple[str, ...]]:
    """Return the version of an interpreter, and which modules it lacks. One that cannot be asked is asked again."""
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(
        [python, "-c", _ASK, *_modules()],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=ASK_SECONDS,
        check=False,
    )
    version, _, missing = done.stdout.partition("\n")
    if not re.fullmatch(r"\d+\.\d+", version):
        raise ValueError(python)
    return version, tuple(missing.split())


def _search_path(context: SparkContext) -> str:
    """Return where workers look for modules besides their own places."""
    from pyspark import SparkFiles

    root = SparkFiles.getRootDirectory()
    files = [os.path.join(root, name) for name in context._python_includes or ()]
    given = [context.environment.get("PYTHONPATH"), os.environ.get("PYTHONPATH")]
    return os.pathsep.join([root, *files, *filter(None, given)])
