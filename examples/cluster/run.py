"""Start a real cluster on this machine: a master, two workers, and jobs whose executors take wirelake from its archive.

    python examples/cluster/run.py [--archive FILE] [COMMAND ...]

Starts Spark's standalone master and two workers on the loopback interface, on free ports, each with a working
directory of its own; packs wirelake, unless the archive is given; shows what the executors see, and ingests some
traffic; or runs the command, with ``{master}`` and ``{archive}`` filled in. Stops what it started, whatever happened.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from wirelake.spark.package import build, settings, submit_options

HERE = Path(__file__).resolve().parent
SPARK = Path(pyspark.__file__).parent
HOST = "127.0.0.1"
WORKERS = 2
START_SECONDS = 180
JOB_SECONDS = 600
STOP_SECONDS = 20
ENVIRONMENT = os.environ | {
    "SPARK_HOME": str(SPARK),
    "SPARK_LOCAL_IP": HOST,
    "PYSPARK_PYTHON": sys.executable,
    "PYSPARK_DRIVER_PYTHON": sys.executable,
}


@contextmanager
def service(place: Path, says: str, role: str, *arguments: str) -> Iterator[re.Match[str]]:
    """Run a master or a worker, from its first sign of life to its end."""
    place.mkdir()
    command = [str(SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{role.lower()}.{role}"]
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--host", HOST, "--port", "0", "--webui-port", "0", *arguments],
            cwd=place, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        yield wait_for(says, place / "log", process)
    finally:
        stop(process)


def wait_for(says: str, log: Path, process: subprocess.Popen[bytes]) -> re.Match[str]:
    """Read the log until the line is there, the process has ended, or the time is over."""
    ended = threading.Event()
    threading.Thread(target=lambda: (process.wait(), ended.set()), daemon=True).start()
    for _ in range(START_SECONDS * 5):
        if found := re.search(says, log.read_text(errors="replace")):
            return found
        if ended.wait(0.2):
            break
    raise SystemExit(f"{log.parent.name} did not start:\n{log.read_text(errors='replace')[-2000:]}")


def stop(process: subprocess.Popen[bytes]) -> None:
    """Terminate before killing: a worker that is terminated stops its executors too."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def cluster(place: Path) -> Iterator[str]:
    """Return the address of a master with its workers."""
    with ExitStack() as services:
        started = service(place / "master", r"Starting Spark master at (spark://\S+)", "Master")
        master = services.enter_context(started)[1]
        for number in range(WORKERS):
            home = place / f"worker-{number}"
            options = ("--cores", "1", "--memory", "1g", "--work-dir", str(home / "work"), master)
            services.enter_context(service(home, "Successfully registered with master", "Worker", *options))
        yield master


def jobs(asked: list[str], master: str, archive: Path, place: Path) -> list[list[str]]:
    """Run the given job, or the check and an ingest."""
    if asked:
        return [[word.replace("{master}", master).replace("{archive}", str(archive)) for word in asked]]
    submit = [str(SPARK / "bin" / "spark-submit"), "--master", master, *submit_options(archive)]
    quiet = ["--conf", "spark.ui.enabled=false", "--conf", "spark.log.level=WARN"]
    wirelake = str(Path(sys.executable).with_name("wirelake"))
    conf = [word for name, value in settings(archive).items() for word in ("--conf", f"{name}={value}")]
    capture, lake = str(place / "some.pcap"), str(place / "lake")
    return [
        [*submit, *quiet, str(HERE / "check.py"), str(WORKERS)],
        [wirelake, "generate", *["-p", "casual", "-p", "dsa", "-p", "mb", "-p", "ceda", "-n", "20000", "-o"], capture],
        [wirelake, "ingest", capture, lake, "--final", "--partition-bytes", "1m", "--master", master, *conf],
    ]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--archive", type=Path)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wirelake-cluster-") as name:
        place = Path(name)
        archive = given.archive.resolve() if given.archive else build(place / "wirelake.tar.gz").path
        with cluster(place) as master:
            print(f"{master}: {WORKERS} workers in {place}", file=sys.stderr)
            return next((code for job in jobs(given.command, master, archive, place) if (code := run(job))), 0)


def run(command: list[str]) -> int:
    try:
        return subprocess.run(command, env=ENVIRONMENT, timeout=JOB_SECONDS, check=False).returncode
    except subprocess.TimeoutExpired:
        raise SystemExit(f"the job was stopped after {JOB_SECONDS} s") from None


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started is stopped then, too
    sys.exit(main())
