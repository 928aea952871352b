"""``wirelake report --serve`` as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

COMMAND = [sys.executable, "-c", "from wirelake.cli import main; main()", "report"]
SECONDS = 60.0
ANY = "127.0.0.1:0"


class Process:
    """A report that is served by a process of its own."""

    def __init__(self, directory: Path, *arguments: str, **environment: str) -> None:
        self._errors = directory / "stderr"
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [*COMMAND, *arguments, "--serve"],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=directory,
                env={**os.environ, **environment},
            )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        if not self.line:
            self.close()
            raise AssertionError(self.told)
        self.url: str = json.loads(self.line)["listening"]

    @property
    def told(self) -> str:
        return self._errors.read_text()

    def ask(self, path: str, **headers: str) -> tuple[int, Any]:
        client = HTTPConnection("127.0.0.1", urlsplit(self.url).port, timeout=SECONDS)
        try:
            client.request("GET", path, headers=headers)
            answer = client.getresponse()
            body = answer.read()
            is_json = answer.headers["Content-Type"].startswith("application/json")
            return answer.status, json.loads(body) if is_json else body.decode()
        finally:
            client.close()

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        status = self.process.wait(SECONDS)
        assert self.process.stdout is not None
        assert self.process.stdout.read() == ""
        return status

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


Start = Callable[..., Process]


@contextmanager
def starting(folder: Path) -> Iterator[Start]:
    """Starts processes in a folder; none of them is there afterwards."""
    started: list[Process] = []

    def begin(*arguments: str, **environment: str) -> Process:
        started.append(Process(folder, *arguments, **environment))
        return started[-1]

    try:
        yield begin
    finally:
        for process in started:
            process.close()
