"""The broker as a process: its ready line, what is the same after a restart, killed at any moment, and what it says."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from tests.live.dsa.plain_link import SECONDS, PlainLink, frame, update
from wirelake.live.dsa.wire import read_ack, read_value
from wirelake.protocols import dsa as p

COMMAND = [sys.executable, "-c", "from wirelake.cli import main; main()", "serve", "--dsa", "127.0.0.1:0"]
SETTINGS = """
[dsa]
allow_all = true
key_file = "broker.key"
store = "dsa.db"
[dsa.roles.default]
level = "config"
"""


class Hub:
    def __init__(self, directory: Path, *arguments: str) -> None:
        self.errors = directory / "stderr"
        with self.errors.open("ab") as errors:
            self.process = subprocess.Popen(
                [*COMMAND, "--config", "hub.toml", *arguments],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=directory,
            )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        assert self.line, self.errors.read_text()
        self.port = int(json.loads(self.line)["listening"]["dsa"].rpartition(":")[2])

    def end(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)
        self.process.wait(SECONDS)
        assert self.process.stdout is not None
        self.process.stdout.close()


Start = Callable[..., Hub]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    (tmp_path / "hub.toml").write_text(SETTINGS)
    started: list[Hub] = []

    def begin(*arguments: str) -> Hub:
        started.append(Hub(tmp_path, *arguments))
        return started[-1]

    yield begin
    for hub in started:
        if hub.process.poll() is None:
            hub.end(signal.SIGKILL)


def test_key_dsid_link_names_and_roles_are_the_same_after_a_restart(start: Start, tmp_path: Path) -> None:
    hub = start()
    assert json.loads(hub.line) == {"listening": {"dsa": f"127.0.0.1:{hub.port}"}}
    with PlainLink(hub.port, "plant", seed=1) as plant, PlainLink(hub.port, "plant", seed=2) as other:
        before = plant.broker, plant.path, other.path
        reply = other.call(1, "sys/roles/add-role", {"Name": "operator"})
        assert reply.status == 0x20
    key = (tmp_path / "broker.key").read_bytes()
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("*.[kd][eb]*")} == {
        "broker.key": 0o600,
        "dsa.db": 0o600,
    } | {path.name: 0o600 for path in tmp_path.glob("dsa.db-*")} | {"dsa.db.lock": 0o600}
    hub.end()
    hub = start()
    with PlainLink(hub.port, "plant", seed=2) as other, PlainLink(hub.port, "plant", seed=1) as plant:
        assert (plant.broker, plant.path, other.path) == before
        assert plant.call(1, "sys/roles/add-role", {"Name": "operator"}).status == 0x45, "it is there already"
    assert (tmp_path / "broker.key").read_bytes() == key


def test_no_acknowledged_value_of_a_persistent_queue_is_lost_by_kills(start: Start) -> None:
    chance, sent, acked = random.Random(5), 0, 0
    got: list[int] = []
    for _ in range(4):
        hub = start()
        with PlainLink(hub.port, "source", seed=1) as source:
            with PlainLink(hub.port, "reader", seed=2, is_responder=False) as reader:
                reader.subscribe(1, f"{source.path}/value", qos=3)
                request_id = source.asked()
                while acked and (not got or got[-1] < acked):
                    message = reader.read_reply()
                    if message.body:
                        got.append(read_value(message.body)[0])
            values, count = sent, chance.randrange(20, 200)
            for number in range(1, count + 1):
                sent += 1
                source.end.sendall(update(request_id, sent, number))
            stop = chance.randrange(1, count)
            while True:
                message = source.read()
                if message.method == p.ACK and read_ack(message) >= stop:
                    acked = values + read_ack(message)
                    break
        hub.end(signal.SIGKILL)
        sent = acked
    assert sorted(set(got)) == list(range(1, max(got) + 1)), "there is a gap"


def test_tcp_websocket_and_metrics_show_the_broker(start: Start, tmp_path: Path) -> None:
    hub = start("--dsa-ws", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
    assert list(json.loads(hub.line)["listening"]) == ["dsa", "dsa-ws", "metrics"]
    with PlainLink(hub.port, "plant") as plant:
        plant.ask(p.LIST, 1, target_path="")
        assert plant.read_reply().method == p.LIST_R
        from urllib.request import urlopen

        with urlopen(f"http://{json.loads(hub.line)['listening']['metrics']}/metrics") as page:
            shown = page.read().decode()
    assert 'wirelake_connections{protocol="dsa"} 1.0' in shown
    assert 'wirelake_messages_total{protocol="dsa"} 3.0' in shown


def test_no_key_and_no_token_is_in_any_output(start: Start, tmp_path: Path) -> None:
    hub = start("--log-level", "debug", "--metrics", "127.0.0.1:0", "--tap", "captures")
    with PlainLink(hub.port, "admin", is_responder=False) as admin:
        token = msgspec.msgpack.decode(admin.call(1, "sys/tokens/add", {"Count": 5}).body)["Token"]
        with PlainLink(hub.port, "good", token=token):
            pass
        with pytest.raises(ConnectionError):
            PlainLink(hub.port, "bad", token=token[:16] + "x" * 32)
        admin.end.sendall(b"\xff" + token.encode())
        with pytest.raises(ConnectionError):
            while True:
                admin.read()
    hub.end()
    key = (tmp_path / "broker.key").read_text().strip()
    output = hub.line + hub.errors.read_text()
    assert "refused" in output and "undecodable" in output
    for secret in (key, token, token[16:]):
        assert secret not in output


def test_a_frame_for_nobody_costs_only_its_connection(start: Start) -> None:
    hub = start()
    with PlainLink(hub.port, "bad") as bad, PlainLink(hub.port, "good") as good:
        bad.end.sendall(frame(p.LIST, 1, target_path="") + b"\xff" * 40)
        with pytest.raises(ConnectionError):
            while True:
                bad.read()
        good.ask(p.LIST, 1, target_path="")
        assert good.read_reply().status == 0
