"""A domain whose disk is full: a small file system of its own, or a limit on the size of files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.live.casual.play import xid
from tests.live.casual.raw import Process, Wire
from wirelake.live.casual.wire import NIL
from wirelake.protocols import casual as c

HUB = """\
[casual]
storage = "disk/casual.db"
queues = [{name = "qA", retries = 2}]
"""
DISK_BYTES = 6 << 20
PAYLOAD = bytes(9_000)
SMALL_DISK = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]


class Disk:
    """A directory ``disk`` that takes little; ``inside`` is what a process has to be run with to see it so."""

    def __init__(self, directory: Path, inside: list[str]) -> None:
        self.directory = directory
        self.inside = inside
        self.started: list[Process] = []

    def start(self) -> Process:
        self.started.append(Process(self.directory, self.inside))
        return self.started[-1]

    def fill(self) -> None:
        """Let others take all that is left."""
        command = [*self.inside, "dd", "if=/dev/zero", "of=disk/others", "bs=4096"]
        assert subprocess.run(command, cwd=self.directory, capture_output=True, check=False).returncode == 1

    def clear(self) -> None:
        subprocess.run([*self.inside, "rm", "disk/others"], cwd=self.directory, check=True)

    def stop(self) -> None:
        for process in self.started:
            process.kill()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "hub.toml").write_text(HUB)
    (tmp_path / "disk").mkdir()
    return tmp_path


@pytest.fixture
def small_disk(directory: Path) -> Iterator[Disk]:
    """A file system in memory, which only processes that enter its namespace see."""
    mount = f"mount -t tmpfs -o size={DISK_BYTES} tmpfs disk && echo mounted && exec cat"
    keeper = subprocess.Popen(
        [*SMALL_DISK, mount], cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert keeper.stdin is not None and keeper.stdout is not None and keeper.stderr is not None
    try:
        if not keeper.stdout.readline():
            pytest.skip(f"this machine gives no file system to a process: {keeper.stderr.read().decode()}")
        enter = ["nsenter", f"--target={keeper.pid}", "--user", "--mount", "--preserve-credentials"]
        disk = Disk(directory, [*enter, f"--wdns={directory}"])
        yield disk
        disk.stop()
    finally:
        keeper.stdin.close()
        keeper.wait(20)
        keeper.stdout.close()
        keeper.stderr.close()


@pytest.fixture
def small_files(directory: Path) -> Iterator[Disk]:
    limited = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, 3 << 20));"
    disk = Disk(directory, [sys.executable, "-c", f"{limited} os.execvp(sys.argv[1], sys.argv[1:])"])
    yield disk
    disk.stop()


@pytest.fixture(params=["small_disk", "small_files"])
def disk(request: pytest.FixtureRequest) -> Disk:
    found: Disk = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def connect() -> Iterator[Callable[[Process], Wire]]:
    wires: list[Wire] = []

    def begin(process: Process) -> Wire:
        wires.append(Wire(process.address))
        return wires[-1]

    yield begin
    for wire in wires:
        wire.close()


def fill(wire: Wire) -> list[bytes]:
    """Enqueue until that is refused; return what was acknowledged."""
    acknowledged = []
    for number in range(10_000):
        payload = number.to_bytes(4, "big") + PAYLOAD
        if wire.enqueue(payload) == NIL:
            return acknowledged
        acknowledged.append(payload)
    raise AssertionError("the disk is not full")


def take_all(wire: Wire) -> list[bytes]:
    taken = []
    while messages := wire.dequeue():
        taken += messages
    return taken


def test_a_full_disk_refuses_enqueues_and_gives_out_what_it_has(disk: Disk, connect: Callable[[Process], Wire]) -> None:
    wire = connect(disk.start())
    assert wire.enqueue(b"prepared", xid(1)) != NIL and wire.resource(c.ResourcePrepareRequest, xid(1)) == 0
    assert wire.enqueue(b"active", xid(2)) != NIL
    acknowledged = fill(wire)
    assert len(acknowledged) > 20 and wire.enqueue(PAYLOAD) == NIL
    assert wire.resource(c.ResourceCommitRequest, xid(1)) == 0
    assert wire.resource(c.ResourcePrepareRequest, xid(2)) == 0 == wire.resource(c.ResourceRollbackRequest, xid(2))
    assert wire.dequeue(xid(3)) == [b"prepared"]
    assert wire.dequeue(xid(4)) == acknowledged[:1]
    assert wire.resource(c.ResourcePrepareRequest, xid(4)) == 0 == wire.resource(c.ResourceCommitRequest, xid(4))
    assert wire.resource(c.ResourceRollbackRequest, xid(3)) == 0
    assert wire.dequeue() == [b"prepared"]
    assert take_all(wire) == acknowledged[1:]
    assert wire.enqueue(b"there is room again") != NIL


def test_what_was_acknowledged_is_there_when_a_domain_starts_on_a_full_disk(
    disk: Disk, connect: Callable[[Process], Wire]
) -> None:
    process = disk.start()
    acknowledged = fill(connect(process))
    process.kill()
    wire = connect(disk.start())
    assert wire.enqueue(PAYLOAD) == NIL
    assert take_all(wire) == acknowledged


def test_a_disk_that_others_fill_loses_nothing(small_disk: Disk, connect: Callable[[Process], Wire]) -> None:
    process = small_disk.start()
    wire = connect(process)
    acknowledged = [bytes([number]) + PAYLOAD for number in range(100)]
    assert NIL not in [wire.enqueue(payload) for payload in acknowledged]
    small_disk.fill()
    for number in range(50):
        payload = bytes([100 + number]) + PAYLOAD
        if wire.enqueue(payload) != NIL:
            acknowledged.append(payload)
        taken = wire.dequeue()
        assert taken in ([], acknowledged[:1]), "it may have to wait for room"
        acknowledged = acknowledged[len(taken) :]
    small_disk.clear()
    assert take_all(wire) == acknowledged and wire.enqueue(PAYLOAD) != NIL
    assert process.process.poll() is None
