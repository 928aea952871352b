"""``wirelake ingest`` and ``stream`` as users run them, and jobs: processes of their own, with all that they start."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

COMMAND = (sys.executable, "-c", "from wirelake.cli import main; main()")
JAVA = "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
QUICK_START = ("--conf", JAVA, "--conf", "spark.driver.memory=512m")
"""Most of what a small ingest does is to start: the compiler that costs least is enough."""
PATIENCE = 600.0
TICK = 0.002


class Ingest:
    """A run; it and all that it starts are a session of processes of their own."""

    def __init__(
        self, *arguments: object, verb: str = "ingest", master: str = "local[2]", log: Path, command: Sequence[str] = ()
    ) -> None:
        """``command`` runs something else than a verb; it gets the arguments alone."""
        options = () if command else ("--master", master, *QUICK_START)
        command = [*(command or (*COMMAND, verb)), *map(str, arguments), *options]
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
        self.log = log
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment, start_new_session=True
            )
        self._ended = os.pidfd_open(self.process.pid)

    def wait(self, seconds: float = PATIENCE, until: Callable[[], bool] | None = None) -> bool:
        """Waits so long for its end, or for something else to be true; whether it has ended."""
        left = seconds
        while left > 0 and not (until and until()):
            step = min(left, TICK) if until else left
            if select.select([self._ended], [], [], step)[0]:
                return True
            left -= step
        return False

    def finish(self) -> str:
        """Waits for a good end; what it printed."""
        is_over = self.wait()
        text = self.log.read_text(errors="replace")
        assert is_over, f"it hangs: {text}"
        assert self.process.wait() == 0, text
        return text

    def kill(self) -> None:
        """Kills it and the JVM, not asking. Python workers are left to find out for themselves."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def kill_all(self) -> None:
        """Kill it, the JVM, and the Python workers."""
        for number in self.members():
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        self.process.wait()

    def members(self) -> dict[int, tuple[int, str]]:
        """The processes of its session: number -> that of the parent, command line."""
        found = {}
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError, ValueError):
                state, parent, _, session = (place / "stat").read_text().rpartition(")")[2].split()[:4]
                if int(session) == self.process.pid and state != "Z":
                    found[int(place.name)] = (int(parent), (place / "cmdline").read_bytes().decode())
        return found

    def python_workers(self) -> list[int]:
        """Those that do the work of tasks: children of the daemon that the JVM has started."""
        members = self.members()
        daemons = {number for number, (_, command) in members.items() if "daemon\0pyspark.worker" in command}
        return sorted(number for number in daemons if members[number][0] in daemons)

    def clean_up(self) -> None:
        """Nothing of it stays."""
        for number in self.members():
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        self.process.wait()
        os.close(self._ended)
