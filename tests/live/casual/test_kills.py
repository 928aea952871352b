"""Money between real domains whose processes are killed again and again: none is lost, none is made, nothing in doubt.

Two hubs with a durable store each, and a process that moves money between them in transactions of its own. One of the
three is killed with SIGKILL at a random moment and started again. ``WIRELAKE_KILLS`` is how often, in all.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from queue import Empty, Queue

import pytest

from tests.live.casual.stores.stores import KINDS, T, uuid
from tests.live.casual.transferring import QUEUE
from tests.live.postgres import PostgresServer
from tests.waiting import wait_until
from wirelake.live.casual.store import Enqueue, Peek, QueueMessage, QueueSettings
from wirelake.live.casual.stores import open_store
from wirelake.live.casual.stores.administration import Administration

KILLS = int(os.environ.get("WIRELAKE_KILLS", "20"))
TOKENS = 12
SECONDS = 90.0
SERVICES = '''
from wirelake.live.casual import Domain

domain = Domain()

@domain.service("forward", transaction="auto")
async def forward(there):
    """Move a message of ours to another domain, in the transaction of the caller."""
    message = await domain.dequeue("money")
    if message is not None:
        await domain.enqueue("money", message.value, peer=there)
    return message is not None
'''


class Process:
    """A process that can be killed, and what it prints."""

    def __init__(self, *command: str, log: Path) -> None:
        self.command, self.log = command, log
        self.start()

    def start(self) -> None:
        self.lines: Queue[str] = Queue()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *self.command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self._reader = threading.Thread(target=self._read, args=(self.process, self.lines))
        self._reader.start()

    def _read(self, process: subprocess.Popen[str], lines: Queue[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line.strip())

    def line(self) -> str:
        try:
            return self.lines.get(timeout=SECONDS)
        except Empty:
            raise AssertionError(f"{self.command} says nothing: {self.log.read_text()[-2_000:]}") from None

    def until(self, word: str) -> None:
        while not self.line().startswith(word):
            pass

    def kill(self, number: int = signal.SIGKILL) -> None:
        self.process.send_signal(number)
        self.process.wait(30)
        self._reader.join()
        for end in (self.process.stdin, self.process.stdout):
            assert end is not None
            end.close()

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()


class Bank:
    """Two hubs and who moves money between them."""

    def __init__(self, directory: Path, places: list[str], storage: str) -> None:
        ports = [_free_port() for _ in places]
        self.places, self.storage = places, storage
        (directory / "bank_services.py").write_text(SERVICES)
        self.processes: list[Process] = []
        for number, (place, port) in enumerate(zip(places, ports, strict=True)):
            config = directory / f"hub{number}.toml"
            other = ports[1 - number]
            config.write_text(
                f'[casual]\nname = "bank{number}"\nstorage = "{place}"\nservices = "bank_services:domain"\n'
                f'queues = [{{name = "{QUEUE}", retries = 1000000}}]\npeers = [{{address = "127.0.0.1:{other}"}}]\n'
                f"[casual.options]\nretry_seconds = 0.02\nmost_retry_seconds = 0.2\n"
            )
            words = ("serve", "--casual", f"127.0.0.1:{port}", "--config", str(config))
            program = ("-c", "from wirelake.cli import main; main()")
            self.processes.append(Process(*program, *words, log=directory / f"hub{number}.log"))
        for process in self.processes:
            assert "listening" in process.line()
        urls = [f"casual://127.0.0.1:{port}" for port in ports]
        mover = ("-m", "tests.live.casual.transferring", storage, *urls)
        self.mover = Process(*mover, log=directory / "mover.log")
        self.processes.append(self.mover)
        self.mover.until("ready")

    def open_branches(self) -> list[object]:
        """What is not finished in any of the three stores."""
        found: list[object] = []
        for place in (*self.places, self.storage):
            with Administration(place) as administration:
                found += administration.transactions()
        return found

    def end(self) -> None:
        """Let everybody finish, then stop."""
        self.mover.tell("stop")
        self.mover.until("stopped")
        wait_until(lambda: not self.open_branches(), SECONDS, self.open_branches)
        self.stop()

    def stop(self) -> None:
        for process in self.processes:
            if process.process.poll() is None:
                process.kill(signal.SIGTERM)


def _free_port() -> int:
    with socket.socket() as end:
        end.bind(("127.0.0.1", 0))
        return int(end.getsockname()[1])


def make_money(places: list[str]) -> None:
    for number, place in enumerate(places):
        store = open_store(place, [QueueSettings(QUEUE, retries=1_000_000)])
        for token in range(number, TOKENS, 2):
            message = QueueMessage(uuid(token + 1), type=".json/", payload=str(token).encode())
            store.run([Enqueue(QUEUE, message, None, T + token)])
        store.close()


def count_money(places: list[str]) -> list[int]:
    tokens = []
    for place in places:
        store = open_store(place, is_guest=True)
        for queue in (QUEUE, f"{QUEUE}.error"):
            (result,) = store.run([Peek(queue, 1_000)])
            tokens += [int(message.payload) for message in result.value]
        store.close()
    return sorted(tokens)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_money_is_conserved_when_processes_are_killed(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if kind == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        *places, storage = (server.new_database() for _ in range(3))
    else:
        *places, storage = (str(tmp_path / f"{name}.db") for name in ("one", "two", "mover"))
    make_money(places)
    chance = random.Random(7)
    bank = Bank(tmp_path, places, storage)
    try:
        for _ in range(KILLS // 2):
            for _ in range(chance.randint(1, 6)):
                bank.mover.until("moved")
            time.sleep(chance.uniform(0.0, 0.02))  # somewhere in a transfer
            victim = chance.choice(bank.processes)
            victim.kill()
            victim.start()
            victim.until("ready" if victim is bank.mover else '{"listening"')
        bank.end()
    finally:
        bank.stop()
    assert count_money(places) == list(range(TOKENS))
