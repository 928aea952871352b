"""``wirelake serve`` as a process: flags, the line that it prints, signals, and what is wrong said in one line."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.live.certificates import Authority, common_name
from tests.live.plainly import GREETING, LOGIN, get, mb_frame, mb_request, split_address
from tests.waiting import wait_until
from wirelake.cli import cli
from wirelake.live.records import LIVE

COMMAND = [sys.executable, "-c", "from wirelake.cli import main; main()", "serve"]
SECONDS = 30.0
ANY = "127.0.0.1:0"


class Process:
    """A hub that runs. ``logs`` is what it has said on standard error."""

    def __init__(self, arguments: tuple[str, ...], directory: Path) -> None:
        self._errors = directory / "stderr"
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=errors, text=True, cwd=directory
            )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        assert self.line, self._errors.read_text()
        self.listening: dict[str, str] = json.loads(self.line)["listening"]

    def address(self, name: str) -> tuple[str, int]:
        return split_address(self.listening[name])

    def socket(self, name: str) -> socket.socket:
        return socket.create_connection(self.address(name), timeout=SECONDS)

    @property
    def logs(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._errors.read_text().splitlines()]

    def wait_for(self, condition: Callable[[Process], bool]) -> None:
        wait_until(lambda: condition(self), SECONDS, self._errors.read_text)

    def said(self, text: str) -> bool:
        return text in self._errors.read_text()

    def end(self, number: int = signal.SIGTERM) -> int:
        """Asks it to end; gives its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(SECONDS)
        assert self.process.stdout is not None
        assert self.process.stdout.read() == ""
        self.process.stdout.close()
        return status


Start = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Process] = []

    def begin(*arguments: str) -> Process:
        started.append(Process(arguments, tmp_path))
        return started[-1]

    yield begin
    for process in started:
        if process.process.poll() is None:
            process.process.kill()
            process.process.wait()
        assert process.process.stdout is not None
        process.process.stdout.close()


def read(one: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        piece = one.recv(size - len(found))
        assert piece, found
        found += piece
    return found


def message(one: socket.socket) -> bytes:
    (size,) = struct.unpack("!I", read(one, 4))
    return read(one, size)


def test_the_help_names_every_protocol_with_its_usual_ports() -> None:
    shown = " ".join(CliRunner().invoke(cli, ["serve", "--help"]).output.split())
    for name, live in LIVE.items():
        if live.hub_listeners:
            tcp, websocket = live.hub_listeners["tcp"], live.hub_listeners["ws"]
            assert f"{name} on TCP {tcp} and WebSocket {websocket}" in shown
        else:
            assert f"{name} has no usual port" in shown
        assert all(
            f"--{name}{'' if transport == 'tcp' else f'-{transport}'} HOST:PORT" in shown
            for transport in live.transports
        )


def test_flags_name_what_is_served_and_the_line_says_where(start: Start) -> None:
    hub = start("--mb", ANY, "--mb-ws", ANY, "--ceda", ANY, "--ceda-ws", "[::1]:0", "--metrics", ANY)
    assert hub.line.count("\n") == 1 and hub.line.endswith("}\n")
    assert list(hub.listening) == ["mb", "mb-ws", "ceda", "ceda-ws", "metrics"]
    assert hub.listening["ceda-ws"].startswith("[::1]:") and not hub.listening["ceda-ws"].endswith(":0")
    with hub.socket("mb") as one, hub.socket("ceda") as two:
        assert message(one) == GREETING
        one.sendall(mb_request("system.topic.subscribe", {"action": "publish", "topic": "ev.one"}))
        assert message(one).endswith(b'{"status":"success"}')
        one.sendall(mb_frame(b'publish:ev.one:1.0.0\n{"k":1}'))
        assert message(one).startswith(b"publish:ev.one:1.0.0:")
        two.sendall(LOGIN)
        assert b"Success" in read(two, 27)
    assert hub.end() == 0
    assert [record["text"] for record in hub.logs][-1] == "shutting down"
    assert any("every user may log in" in record["text"] for record in hub.logs)
    assert {"ts", "level", "text"} <= set(hub.logs[0])


def test_the_end_lets_readers_take_what_was_said(start: Start) -> None:
    hub = start("--mb", ANY)
    with hub.socket("mb") as reader, hub.socket("mb") as sender:
        reader.sendall(mb_request("system.topic.subscribe", {"action": "publish", "topic": "a"}))
        assert message(reader) == GREETING
        message(reader)
        count = 300
        sender.sendall(b"".join(mb_frame(b"publish:a:1.0.0:\n%04d" % n + b"x" * 16_000) for n in range(count)))
        assert message(sender) == GREETING
        assert message(reader).partition(b"\n")[2].startswith(b"0000")
        sender.sendall(mb_request("system.heartbeat"))
        message(sender)
        hub.process.send_signal(signal.SIGTERM)
        for n in range(1, count):
            assert message(reader).partition(b"\n")[2].startswith(b"%04d" % n)
        assert reader.recv(1) == b""
    assert hub.process.wait(SECONDS) == 0  # a second signal would end it at once


def test_ctrl_c_ends_it_too(start: Start) -> None:
    assert start("--mb", ANY).end(signal.SIGINT) == 0


def test_a_file_of_settings_and_flags_that_go_before_it(start: Start, tmp_path: Path) -> None:
    (tmp_path / "hub.toml").write_text(
        f'[mb]\ntcp = "{ANY}"\nconnections = 1\n[ceda]\ntcp = "{ANY}"\nusers = {{ demo = "other" }}\n'
        f'[metrics]\nlisten = "{ANY}"\n[tap]\ndirectory = "tap"\n[log]\nlevel = "debug"\n'
    )
    hub = start("--config", "hub.toml")
    assert list(hub.listening) == ["mb", "ceda", "metrics"]
    with hub.socket("ceda") as one, hub.socket("mb") as two, hub.socket("mb") as three:
        one.sendall(LOGIN)
        assert b"Username or Password is error" in read(one, 43)
        assert message(two) == GREETING
        assert three.recv(1) == b""
    assert hub.end() == 0
    (recorded,) = (tmp_path / "tap").iterdir()
    assert LOGIN in recorded.read_bytes()

    again = start("--config", "hub.toml", "--mb", ANY, "--tap", "other")
    assert list(again.listening) == ["mb"]
    assert again.end() == 0
    assert (tmp_path / "other").is_dir()


def test_tls_and_new_certificates_on_sighup(start: Start, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    certificate, key = authority.issue("first")
    mine = authority.issue("me", "me")
    files = ["--cert", str(certificate), "--key", str(key), "--client-ca", str(authority.path)]
    hub = start("--mb-tls", ANY, "--ceda-wss", ANY, *files)
    assert list(hub.listening) == ["mb-tls", "ceda-wss"]

    def shown() -> str:
        context = authority.client(mine)
        with context.wrap_socket(hub.socket("mb-tls"), server_hostname="localhost") as one:
            assert message(one) == GREETING  # type: ignore[arg-type]
            found = one.getpeercert()
            assert found is not None
            return common_name(found)  # type: ignore[arg-type]

    assert shown() == "first"
    authority.issue("second")
    hub.process.send_signal(signal.SIGHUP)
    hub.wait_for(lambda one: one.said("reloaded certificates"))
    assert shown() == "second"
    key.write_text("nonsense")
    hub.process.send_signal(signal.SIGHUP)
    hub.wait_for(lambda one: one.said("not reloaded"))
    assert shown() == "second"
    with (
        pytest.raises(OSError),
        authority.client().wrap_socket(hub.socket("mb-tls"), server_hostname="localhost") as one,
    ):
        assert one.recv(1) == b""
        raise OSError
    assert hub.end() == 0


def test_metrics_and_health(start: Start) -> None:
    hub = start("--mb", ANY, "--metrics", ANY)
    status, _, content = asyncio.run(get(hub.address("metrics"), "/metrics"))
    assert status == 200 and b"wirelake_connections" in content
    status, _, content = asyncio.run(get(hub.address("metrics"), "/health"))
    assert status == 200 and json.loads(content)["status"] == "ok"
    assert hub.end() == 0


def test_who_does_not_read_our_logs_does_not_hold_us_up(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "--mb", ANY, "--log-level", "debug"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path
    )
    try:
        assert process.stdout is not None and process.stderr is not None
        address = split_address(json.loads(process.stdout.readline())["listening"]["mb"])
        for _ in range(1_500):  # each connection is worth some lines, and a pipe takes 64 KiB
            with socket.create_connection(address, timeout=SECONDS) as one:
                assert message(one) == GREETING
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.mark.parametrize("form", ["json", "text"])
def test_logs_are_as_they_are_wanted(start: Start, form: str) -> None:
    hub = start("--mb", ANY, "--log-format", form)
    assert hub.end() == 0
    if form == "json":
        assert hub.logs[0]["text"] == "listening"
    else:
        assert hub.said(f"info  listening  name=mb address={hub.listening['mb']}\n")


# --- what is wrong


def refused(*arguments: str) -> str:
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 2 and done.stdout == ""
    errors = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 1 and "Traceback" not in done.stderr
    return errors[0].removeprefix("Error: ")


def test_a_port_that_is_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert refused("--ceda-ws", address) == f"ceda-ws: cannot listen on {address}: address already in use"


def quickly_refused(*arguments: str) -> str:
    """The same without a process: for what is refused before anything is begun."""
    result = CliRunner().invoke(cli, ["serve", *arguments])
    assert result.exit_code == 2 and result.stdout == ""
    return result.stderr.splitlines()[-1].removeprefix("Error: ")


def test_what_is_wrong_is_said_in_one_line(tmp_path: Path) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text("[mb]\nport = 3")
    key = tmp_path / "key.pem"
    key.write_text("nonsense")
    assert quickly_refused("--mb", "here").startswith("--mb: 'here' is no address: write HOST:PORT")
    assert quickly_refused("--metrics", ":1").startswith("--metrics: ':1' has no host")
    assert quickly_refused("--mb-tls", ANY) == "mb over tls needs a certificate and its key"
    assert quickly_refused("--mb-tls", ANY, "--cert", str(key)).startswith("--key missing: a certificate and its key")
    assert quickly_refused("--client-ca", str(key)).startswith("--cert and --key missing")
    assert quickly_refused("--config", str(bad)).startswith(f"{bad}: mb.port: no such key; there are ")
    assert "cannot read" in quickly_refused("--config", str(tmp_path / "none.toml"))
    assert "no such option" in quickly_refused("--mqtt", "1").lower()
    told = refused("--mb-tls", ANY, "--cert", str(key), "--key", str(key))
    assert told.startswith("mb-tls: ") and "PEM" in told
    assert "cannot read" in refused("--mb-tls", ANY, "--cert", str(tmp_path / "none"), "--key", str(key))
    if os.getuid() != 0:
        assert "permission" in refused("--mb", "127.0.0.1:1")


def test_the_help_teaches() -> None:
    result = CliRunner().invoke(cli, ["serve", "--help"])
    assert result.exit_code == 0
    for text in ("--mb-wss", "--ceda-tls", "SIGHUP", '{"listening":{"mb":"127.0.0.1:3001"', "port 0", "3001"):
        assert text.lower() in result.stdout.lower()
