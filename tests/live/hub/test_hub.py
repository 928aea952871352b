"""A hub with both protocols on all their transports, over plain sockets."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from websockets.asyncio.client import connect

import wirelake
from tests.live import toy
from tests.live.certificates import Authority
from tests.live.faults import FaultyNetwork
from tests.live.plainly import GREETING, HEARTBEAT, LOGIN, Ceda, Mb, get, http, mb_frame, mb_request, split_address
from tests.waiting import until
from wirelake.live.drive import http as http_module
from wirelake.live.hub.hub import Hub, HubError, HubSettings, SettingsError, _loop_factory, read_settings
from wirelake.live.hub.machine import Machine, raise_file_limit


def settings(tables: dict[str, Any], directory: Path = Path()) -> HubSettings:
    return read_settings(tables, "test", directory)


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def tidy() -> None:
        try:
            await main()
        finally:
            leave()
            await asyncio.sleep(0)

    toy.run(tidy)


def leave() -> None:
    Mb.leave_all()
    Ceda.leave_all()


ANY = "127.0.0.1:0"
BOTH = {"mb": {"tcp": ANY, "ws": ANY}, "ceda": {"tcp": ANY, "ws": ANY}, "metrics": {"listen": ANY}}


SAMPLE = re.compile(r'([a-z_]+)(\{[a-z]+="[a-z_0-9]+"(?:,[a-z]+="[a-z_0-9]+")*\})? ([0-9.e+-]+)')


def where(hub: Hub, name: str) -> tuple[str, int]:
    return split_address(hub.listening[name])


def test_both_protocols_work_in_one_process_on_all_transports(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("hub")
    tables: dict[str, Any] = {name: dict.fromkeys(("tcp", "tls", "ws", "wss"), ANY) for name in ("mb", "ceda")}
    tables["tls"] = {"certificate": str(certificate), "key": str(key)}

    async def main() -> None:
        async with Hub(settings(tables)) as hub:
            assert set(hub.listening) == {f"{n}{t}" for n in ("mb", "ceda") for t in ("", "-tls", "-ws", "-wss")}
            secure: dict[str, Any] = {"ssl": authority.client(), "server_hostname": "localhost"}
            plain = await Mb.to(where(hub, "mb"))
            tls = await Mb.to(where(hub, "mb-tls"), **secure)
            await plain.subscribe("ev.one")
            await tls.subscribe("ev.#")
            ws_port, wss_port = (where(hub, name)[1] for name in ("mb-ws", "mb-wss"))
            async with (
                connect(f"ws://localhost:{ws_port}") as ws,
                connect(f"wss://localhost:{wss_port}", ssl=authority.client()) as wss,
            ):
                assert await ws.recv() == await wss.recv() == GREETING.decode()
                await wss.send(mb_request("system.topic.subscribe", {"action": "publish", "topic": "ev.one"})[4:])
                assert '"success"' in str(await wss.recv())
                await ws.send('publish:ev.one:1.0.0\n{"k":1}')
                received = [await plain.message(), await tls.message(), str(await wss.recv()).encode()]
                assert len(set(received)) == 1
                assert re.fullmatch(rb'publish:ev\.one:1\.0\.0:[0-9a-f-]{36}\n\{"k":1\}', received[0])
            one, two = await Ceda.to(where(hub, "ceda")), await Ceda.to(where(hub, "ceda-tls"), **secure)
            assert await one.login() and await two.login()
            one.subscribe(b"FX.*")
            one.writer.write(HEARTBEAT)
            assert await one.payload() == b"\x01"
            port = where(hub, "ceda-ws")[1]
            async with connect(f"ws://localhost:{port}/mqtunnel") as tunnel:
                await tunnel.send(LOGIN[2:])
                assert b"Success" in (await tunnel.recv())  # type: ignore[operator]
                two.publish(b"FX.EUR", b"1.08")
                assert await one.payload() == b"\x61\x06FX.EUR\x3c\x00\x04\x001.08"
            leave()

    run(main)


def test_what_passes_an_imperfect_network_is_what_was_sent() -> None:
    async def main() -> None:
        async with Hub(settings(BOTH)) as hub:
            address = where(hub, "mb")
            async with FaultyNetwork(address, seed=11, longest=7, most_delay=0.0005) as network:
                one, two = await Mb.to(network.address), await Mb.to(address)
                await one.subscribe("a.b")
                for n in range(30):
                    two.publish("a.b", b"%d" % n)
                assert [int((await one.message()).partition(b"\n")[2]) for _ in range(30)] == list(range(30))
                leave()

    run(main)


# --- who may log in


def test_everybody_may_log_in_unless_users_are_named(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        for users, is_in in (({}, True), ({"users": {"demo": "s3cret"}}, True), ({"users": {"demo": "x"}}, False)):
            async with Hub(settings({"ceda": {"tcp": ANY, **users}})) as hub:
                client = await Ceda.to(where(hub, "ceda"))
                assert await client.login() is is_in
                leave()

    run(main)
    assert sum(record.message == "every user may log in, with any password" for record in caplog.records) == 1


def test_a_file_of_users_is_read_again_when_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "users.toml").write_text('demo = "old"')

    async def main() -> None:
        async with Hub(settings({"ceda": {"tcp": ANY, "users_file": "users.toml"}}, tmp_path)) as hub:
            client = await Ceda.to(where(hub, "ceda"))
            assert not await client.login()
            (tmp_path / "users.toml").write_text('demo = "s3cret"')
            hub.reload()
            assert await client.login()
            (tmp_path / "users.toml").write_text("demo = 3")
            hub.reload()
            assert await client.login()
            leave()

    run(main)


@pytest.mark.parametrize("prefix", ["def", "async def"])
def test_a_function_may_decide_who_logs_in(tmp_path: Path, prefix: str) -> None:
    name = f"doorman_{len(prefix)}"
    (tmp_path / f"{name}.py").write_text(
        f"{prefix} check(attempt):\n"
        "    return attempt.password == 's3cret' and attempt.client_id == 'py-1'\n"
        f"{prefix} refuse(attempt):\n    return 'not today'\n"
        f"{prefix} stumble(attempt):\n    raise OSError('no directory')\n"
    )

    async def main() -> None:
        for function, is_in in (("check", True), ("refuse", False), ("stumble", False)):
            tables = {"ceda": {"tcp": ANY, "authenticator": f"{name}:{function}"}}
            async with Hub(settings(tables, tmp_path)) as hub:
                client = await Ceda.to(where(hub, "ceda"))
                assert await client.login() is is_in
                leave()

    try:
        run(main)
    finally:
        sys.path.remove(str(tmp_path))
        del sys.modules[name]


@pytest.mark.parametrize(
    ("function", "told"),
    [
        ("nowhere", "has to be module:attribute"),
        ("no_such_module:check", "cannot import no_such_module: ModuleNotFoundError"),
        ("json:nothing", "json has no nothing"),
    ],
)
def test_a_function_that_is_not_there_is_refused(function: str, told: str) -> None:
    async def main() -> None:
        with pytest.raises(SettingsError, match=told):
            await Hub(settings({"ceda": {"tcp": ANY, "authenticator": function}})).start()

    run(main)


# --- beginning and ending


def test_a_hub_that_cannot_listen_says_why_and_leaves_nothing_behind(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("hub")
    (tmp_path / "bad.pem").write_text("nonsense")

    async def main() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            cases: list[tuple[dict[str, Any], str]] = [
                ({"mb": {"tcp": ANY, "ws": f"127.0.0.1:{port}"}}, f"mb-ws: cannot listen on 127.0.0.1:{port}: address"),
                ({"mb": {}, "metrics": {"listen": f"127.0.0.1:{port}"}}, "metrics: cannot listen on"),
                ({"mb": {"tcp": "no.such.host.invalid:1"}}, "mb: cannot listen on no.such.host.invalid:1: "),
                (
                    {"mb": {"tls": ANY}, "tls": {"certificate": str(tmp_path / "bad.pem"), "key": str(key)}},
                    r"mb-tls: .*bad\.pem.*no certificate or key in PEM form",
                ),
                (
                    {"mb": {"wss": ANY}, "tls": {"certificate": str(certificate), "key": str(tmp_path / "none")}},
                    r"mb-wss: cannot read .*none: no such file",
                ),
                ({"mb": {"tcp": ANY}, "tap": {"directory": str(certificate)}}, "cannot record into"),
            ]
            for tables, told in cases:
                if "metrics" in tables:
                    tables["mb"] = {"tcp": ANY}
                hub = Hub(settings(tables))
                with pytest.raises(HubError, match=told):
                    await hub.start()
                for address in hub.listening.values():
                    with pytest.raises(OSError):
                        await asyncio.open_connection(*split_address(address))

    run(main)


def test_a_shutdown_drains_and_tells_so() -> None:
    async def main() -> None:
        hub = Hub(settings(BOTH))
        await hub.start()
        health = where(hub, "metrics")
        sender, reader = await Mb.to(where(hub, "mb")), await Mb.to(where(hub, "mb"))
        await reader.subscribe("a")
        for n in range(400):
            sender.publish("a", b"%06d" % n + b"x" * 15_000)
        await until(lambda: hub.servers["mb"].session.counts["router.publish.count"] == 400)
        assert (await get(health, "/health"))[0] == 200
        closing = asyncio.create_task(hub.close(10))
        await asyncio.sleep(0)
        status, _, content = await get(health, "/health")
        assert status == 503 and json.loads(content)["status"] == "draining"
        with pytest.raises(OSError):
            await asyncio.open_connection(*where(hub, "mb"))
        numbers = [int((await reader.message()).partition(b"\n")[2][:6]) for _ in range(400)]
        assert numbers == list(range(400))
        assert await reader.reader.read() == b""
        leave()
        await closing
        with pytest.raises(OSError):
            await asyncio.open_connection(*health)

    run(main)


def test_a_second_stop_ends_at_once() -> None:
    async def main() -> None:
        hub = Hub(settings({"mb": {"tcp": ANY}, "shutdown": {"drain_seconds": 60}}))
        await hub.start()
        deaf = toy.deaf_socket(where(hub, "mb"))
        deaf.sendall(mb_request("system.topic.subscribe", {"action": "publish", "topic": "a"}))
        sender = await Mb.to(where(hub, "mb"))
        await until(lambda: hub.servers["mb"].session.counts["router.request.count"] == 1)
        for _ in range(450):
            sender.publish("a", b"x" * 16_000)
        await until(lambda: hub.servers["mb"].endpoint.slow == 1)
        hub.stop()
        await hub.until_stopped()
        start = asyncio.get_running_loop().time()
        closing = asyncio.create_task(hub.close())
        await asyncio.sleep(0.05)
        hub.stop()
        await closing
        assert asyncio.get_running_loop().time() - start < 5
        deaf.close()

    run(main)


def test_certificates_are_read_again_and_bad_ones_are_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("first")
    users = tmp_path / "users.toml"
    users.write_text("me = 'secret'")
    tables = {
        "mb": {"tls": ANY},
        "ceda": {"tcp": ANY, "users_file": str(users)},
        "tls": {"certificate": str(certificate), "key": str(key)},
    }

    async def shown(hub: Hub) -> str:
        client = await Mb.to(where(hub, "mb-tls"), ssl=authority.client(), server_hostname="localhost")
        return str(dict(pair[0] for pair in client.writer.get_extra_info("peercert")["subject"])["commonName"])

    async def main() -> None:
        async with Hub(settings(tables)) as hub:
            assert await shown(hub) == "first"
            authority.issue("second")
            hub.reload()
            assert await shown(hub) == "second"
            authority.issue("third")
            users.write_text("me = 3")
            hub.reload()
            assert await shown(hub) == "second"
            users.write_text("me = 'other'")
            key.write_text("nonsense")
            hub.reload()
            assert await shown(hub) == "second"
            async with wirelake.connect(f"ceda://me:secret@{hub.listening['ceda']}") as client:
                assert client.is_connected
            leave()

    run(main)
    assert caplog.text.count("not reloaded, all stays as it was") == 2


# --- limits


def test_limits_of_the_settings_are_those_of_the_sessions() -> None:
    tables = {
        "mb": {"tcp": ANY, "connections": 2, "options": {"max_subscriptions": 3}},
        "ceda": {"ws": ANY, "handshake_seconds": 0.1},
    }

    async def main() -> None:
        async with Hub(settings(tables)) as hub:
            one, _ = [await Mb.to(where(hub, "mb")) for _ in range(2)]
            third = Mb(*await asyncio.open_connection(*where(hub, "mb")))
            assert await third.reader.read() == b""
            for n in range(3):
                await one.subscribe(f"a.b{n}")
            refused = await one.ask("system.topic.subscribe", {"action": "publish", "topic": "a.c"})
            assert "error" in refused
            silent = Ceda(*await asyncio.open_connection(*where(hub, "ceda-ws")))
            assert await silent.reader.read() == b""
            leave()

    run(main)


def test_messages_over_websocket_have_the_limit_of_the_protocol() -> None:
    async def main() -> None:
        async with Hub(settings(BOTH)) as hub:
            for name, message in (("mb-ws", "x" * 16_752), ("ceda-ws", bytes(65_536))):
                async with connect(f"ws://localhost:{where(hub, name)[1]}") as client:
                    await client.send(message)
                    await client.wait_closed()
                    assert (client.close_code, client.close_reason) == (1009, "")
            one = await Mb.to(where(hub, "mb"))
            one.writer.write(mb_frame(b"x" * 16_751) + b"\x00\x00\x41\x70")
            assert b"MALFORMED_MESSAGE" in await one.message()
            assert await one.reader.read() == b""
            leave()

    run(main)


# --- what it tells


def test_metrics_are_what_prometheus_reads() -> None:
    async def main() -> None:
        async with Hub(settings(BOTH)) as hub:
            one = await Mb.to(where(hub, "mb"))
            await one.subscribe("a")
            one.publish("a", b"1")
            await one.message()
            client = await Ceda.to(where(hub, "ceda"))
            assert await client.login()
            status, fields, content = await get(where(hub, "metrics"), "/metrics")
            assert status == 200 and fields["Content-Type"].startswith("text/plain; version=0.0.4")
            assert int(fields["Content-Length"]) == len(content)
            samples = {}
            kinds = {}
            for line in content.decode().splitlines():
                if line.startswith("# TYPE "):
                    _, _, name, kind = line.split()
                    kinds[name] = kind
                elif not line.startswith("#"):
                    found = SAMPLE.fullmatch(line)
                    assert found is not None, line
                    assert found[1] in kinds
                    assert (found[1] + (found[2] or "")) not in samples
                    samples[found[1] + (found[2] or "")] = float(found[3])
            assert all(name.endswith("_total") == (kind == "counter") for name, kind in kinds.items())
            assert samples['wirelake_connections{protocol="mb"}'] == 1
            assert samples['wirelake_connections_accepted_total{protocol="ceda"}'] == 1
            assert samples['wirelake_messages_total{protocol="mb"}'] == 2
            assert samples['wirelake_messages_total{protocol="ceda"}'] == 1
            assert samples['wirelake_session_total{name="router_publish_count",protocol="mb"}'] == 1
            assert samples['wirelake_received_bytes_total{protocol="ceda"}'] == len(LOGIN)
            assert samples['wirelake_unsent_bytes{protocol="mb"}'] == 0
            assert samples["process_resident_memory_bytes"] > 1 << 20
            assert 0 <= samples["wirelake_loop_lag_seconds"] < 5
            leave()

    run(main)


def test_slow_readers_show_in_the_metrics() -> None:
    async def main() -> None:
        async with Hub(settings({**BOTH, "mb": {"tcp": ANY, "slow_reader": "slow"}})) as hub:
            deaf = toy.deaf_socket(where(hub, "mb"))
            deaf.sendall(mb_request("system.topic.subscribe", {"action": "publish", "topic": "a"}))
            sender = await Mb.to(where(hub, "mb"))
            await until(lambda: hub.servers["mb"].session.counts["router.request.count"] == 1)
            for _ in range(600):
                sender.publish("a", b"x" * 16_000)
            await until(lambda: hub.servers["mb"].endpoint.slow == 1)
            _, _, content = await get(where(hub, "metrics"), "/metrics")
            assert b'wirelake_slow_readers{protocol="mb"} 1.0\n' in content
            found = re.search(rb'wirelake_unsent_bytes\{protocol="mb"\} (\S+)', content)
            assert found is not None and 1 << 17 < float(found[1]) < 8 << 20
            deaf.close()
            leave()

    run(main)


def test_health_is_told_as_json() -> None:
    async def main() -> None:
        async with Hub(settings(BOTH)) as hub:
            await Mb.to(where(hub, "mb"))
            status, fields, content = await get(where(hub, "metrics"), "/health?verbose=1")
            told = json.loads(content)
            assert (status, fields["Content-Type"], told["status"]) == (200, "application/json", "ok")
            assert told["connections"] == {"mb": 1, "ceda": 0}
            status, fields, content = await http(where(hub, "metrics"), b"HEAD /health HTTP/1.1\r\nHost: [::1]\r\n\r\n")
            assert status == 200 and int(fields["Content-Length"]) > 10 and content == b""
            leave()

    run(main)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        (b"GET /metrics HTTP/1.1\r\nHost: evil.example:9464\r\n\r\n", 421),
        (b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n\r\n", 421),
        (b"GET /metrics HTTP/1.1\r\nHost: hub.example:80\r\n\r\n", 200),
        (b"GET /metrics HTTP/1.1\r\nHost: 10.1.2.3:80\r\n\r\n", 200),
        (b"GET /metrics HTTP/1.0\r\n\r\n", 200),
        (b"GET /metrics HTTP/1.1\r\n\r\n", 400),
        (b"nonsense\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"y" * 17_000, 431),
    ],
)
def test_other_requests_and_names_of_others_are_refused(request_: bytes, status: int) -> None:
    async def main() -> None:
        async with Hub(settings({**BOTH, "metrics": {"listen": ANY, "hosts": ["hub.example"]}})) as hub:
            assert (await http(where(hub, "metrics"), request_))[0] == status

    run(main)


def test_requests_that_never_end_are_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "REQUEST_SECONDS", 0.1)
    monkeypatch.setattr(http_module, "MAX_CONNECTIONS", 3)

    async def main() -> None:
        async with Hub(settings(BOTH)) as hub:
            address = where(hub, "metrics")
            slow = [Ceda(*await asyncio.open_connection(*address)) for _ in range(5)]
            slow[0].writer.write(b"GET /metr")
            for one in slow:
                assert await one.reader.read() == b""
            assert (await get(address, "/health"))[0] == 200
            leave()

    run(main)


def test_who_asks_for_metrics_is_answered_while_others_keep_all_connections_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_module, "MAX_CONNECTIONS", 3)

    async def main() -> None:
        async with Hub(settings(BOTH)) as hub:
            address = where(hub, "metrics")
            slow = [Ceda(*await asyncio.open_connection(*address)) for _ in range(3)]
            for one in slow:
                one.writer.write(b"GET /metr")
            assert (await get(address, "/health"))[0] == 200
            with suppress(ConnectionError):
                assert await slow[0].reader.read() == b""
            leave()

    run(main)


def test_what_passes_is_recorded(tmp_path: Path) -> None:
    async def main() -> None:
        async with Hub(settings({**BOTH, "tap": {"directory": str(tmp_path / "tap")}})) as hub:
            one = await Mb.to(where(hub, "mb"))
            await one.subscribe("a")
            client = await Ceda.to(where(hub, "ceda"))
            assert await client.login()
            leave()
            await until(lambda: not hub.servers["mb"].connections and not hub.servers["ceda"].connections)

    run(main)
    (path,) = (tmp_path / "tap").iterdir()
    assert LOGIN in path.read_bytes() and GREETING in path.read_bytes()


# --- the machine


def test_what_the_machine_does_is_known_under_the_names_of_mb() -> None:
    async def main() -> None:
        async with Hub(settings(BOTH)) as hub:
            one = await Mb.to(where(hub, "mb"))
            told = (await one.ask("system.metrics"))["metrics"]
            assert told["process.memory.bytes"] > 1 << 20
            assert 0 < told["process.memory.percent"] < 1
            assert 0 <= told["system.cpu.percent"] <= 1
            leave()

    run(main)
    machine = Machine()
    first = machine()
    assert machine() == first, "numbers are not asked for all the time"


def test_the_limit_of_open_files_is_as_high_as_it_may_be() -> None:
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
        found = raise_file_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard
        assert found in (hard, 0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# --- the loop


def test_uvloop_is_taken_if_it_is_there_and_no_listener_has_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = Authority(tmp_path / "ca").issue("hub")
    tls = {"certificate": str(certificate), "key": str(key)}
    plain = read_settings({"mb": {"tcp": "127.0.0.1:0"}}, "here", tmp_path)
    safe = read_settings({"mb": {"tls": "127.0.0.1:0"}, "tls": tls}, "here", tmp_path)
    other = ModuleType("uvloop")
    monkeypatch.setattr(other, "new_event_loop", asyncio.new_event_loop, raising=False)
    monkeypatch.setitem(sys.modules, "uvloop", other)
    assert _loop_factory(plain) is asyncio.new_event_loop
    assert _loop_factory(safe) is not asyncio.new_event_loop
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert _loop_factory(plain) is _loop_factory(safe)
