"""A PostgreSQL server for tests, reached by a socket in a directory of its own: no port, nothing of the system's."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from itertools import count
from pathlib import Path

import psycopg

from tests.waiting import wait_until

USERS = ("postgres", "nobody")
"""Whom the server runs as if the tests run as root, which it refuses."""


class PostgresServer:
    """A running server; ``new_database`` returns the URL of an empty one. ``settings`` are options of the server."""

    def __init__(self, **settings: str) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="wirelake-pg-"))
        self._numbers = count(1)
        data = self._directory / "data"
        self._as_user: list[str] = []
        if os.geteuid() == 0:
            user = next(name for name in USERS if _exists(name))
            os.chown(self._directory, pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid)
            self._as_user = ["setpriv", f"--reuid={user}", f"--regid={pwd.getpwnam(user).pw_gid}", "--clear-groups"]
        make = [
            _program("initdb"),
            "-D",
            data,
            "-A",
            "trust",
            "-U",
            "wirelake",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
        ]
        subprocess.run([*self._as_user, *make], check=True, capture_output=True, cwd="/")
        options = {
            "listen_addresses": "",
            "unix_socket_directories": str(self._directory),
            "fsync": "off",
            "deadlock_timeout": "20ms",
            **settings,
        }
        arguments = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        self._command = [*self._as_user, _program("postgres"), "-D", data, *arguments]
        self._start()

    def _start(self) -> None:
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, cwd="/")
        wait_until(self._is_up, 60, (self._directory / "log").read_text)

    def restart(self) -> None:
        """End all connections at once, and start again with what is on the disk."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(30)
        self._start()

    def url(self, database: str) -> str:
        return f"postgresql://wirelake@/{database}?host={self._directory}"

    def new_database(self) -> str:
        name = f"test{next(self._numbers)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def _is_up(self) -> bool:
        assert self._process.poll() is None, (self._directory / "log").read_text()
        try:
            psycopg.connect(self.url("postgres")).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait(30)
        shutil.rmtree(self._directory)


def _program(name: str) -> str:
    found = shutil.which(name) or next(iter(sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), reverse=True)), None)
    assert found is not None, f"{name} is missing"
    return found


def _exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True
