"""``wirelake demo`` as users run it: a process of its own, in a place of its own, with everything that it starts."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from tests.waiting import wait_until

COMMAND = (sys.executable, "-c", "from wirelake.cli import main; main()", "demo")
PATIENCE = 240.0
NUMBERS = count()
GONE_SECONDS = 20.0
"""Workers of Spark end by themselves when their JVM has; that takes them a moment."""


class Demo:
    """A run. ``home`` is its temporary directory, which it should leave empty."""

    def __init__(self, home: Path, here: Path, *arguments: object) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
        self.home, self.here = home, here
        self.said = ""
        self._heard = ""
        self.process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment | {"TMPDIR": str(home)},
            cwd=here,
            start_new_session=True,
        )

    def hear(self, text: str) -> None:
        """Waits until it has said this on standard error."""
        assert self.process.stderr is not None
        file = self.process.stderr.fileno()
        deadline = time.monotonic() + PATIENCE
        while text not in self._heard:
            assert select.select([file], [], [], max(0.0, deadline - time.monotonic()))[0], self.said
            piece = os.read(file, 1 << 16).decode()
            assert piece, f"it ended without saying {text!r}: {self.said}"
            self.said += piece
            self._heard += piece
        self._heard = self._heard.partition(text)[2]

    def read_line(self) -> str:
        """The next line on standard output."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> tuple[int, str]:
        """Waits for its end: exit status, and what else it said on standard output."""
        out, more = self.process.communicate(timeout=PATIENCE)
        self.said += more.decode()
        return self.process.returncode, out.decode()

    def left(self) -> list[str]:
        """Its processes that are still there after a moment."""
        with suppress(AssertionError):
            wait_until(lambda: not list(self._members()), GONE_SECONDS)
        return list(self._members())

    def _members(self) -> Iterator[str]:
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError, ValueError):
                state, _, _, session = (place / "stat").read_text().rpartition(")")[2].split()[:4]
                if int(session) == self.process.pid and state != "Z":
                    yield (place / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200]

    def clean_up(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


@contextmanager
def demo(here: Path, *arguments: object) -> Iterator[Demo]:
    """A run, and the end of it. Paths of sockets are short, so the temporary directory must have a short name."""
    home = Path(tempfile.gettempdir()) / f"w{os.getpid():x}-{next(NUMBERS)}"
    home.mkdir()
    one = Demo(home, here, *arguments)
    try:
        yield one
    finally:
        one.clean_up()
        shutil.rmtree(home)
