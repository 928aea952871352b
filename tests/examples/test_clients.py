"""The gallery on bytes that others have made: well-known clients and servers, recorded by our tap, and ingested."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
import redis
import stomp
from pymodbus.client import ModbusTcpClient
from pymodbus.server import ModbusTcpServer
from pymodbus.simulator import DataType, SimData, SimDevice

from tests.examples.talks import HERE, Talk, coilmq, collector, mosquitto, redis_server, tapped
from tests.examples.test_protocols import name_of
from tests.ingest.lakes import table
from tests.live.tapping import recorded
from tests.waiting import wait_until
from wirelake import load
from wirelake.capture.settings import ReadSettings
from wirelake.codec.stream import StreamDecoder
from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.run import ingest


class Tables:
    """The tables of a recorded talk, in which every byte is a message and nothing breaks a rule."""

    def __init__(self, stem: str, talk: Talk) -> None:
        lake = talk.folder / "lake"
        reading = ReadSettings(protocols=(name_of(stem),))
        report = ingest(InlineRunner(), [str(talk.folder)], str(lake), reading=reading, final=True)
        assert (report.bytes_quarantined, report.violations) == (0, 0)
        self.messages = sorted(table(lake, f"silver/{load(name_of(stem)).name}"), key=lambda row: row["ts"])
        self.exchanges = table(lake, "gold/exchanges")
        assert sum(row["length"] for row in self.messages) == sum(talk.passed) > 0
        assert all(row["latency_us"] > 0 for row in self.exchanges if row["outcome"] in ("ok", "error"))

    def of(self, message: str, **fields: Any) -> list[dict[str, Any]]:
        """The messages of this name and with these values, in order of time."""
        named = (row for row in self.messages if row["message"] == message)
        return [row for row in named if fields.items() <= row.items()]

    def outcomes(self) -> Counter[tuple[str, str]]:
        return Counter((row["message"], row["outcome"]) for row in self.exchanges)


def messages(stem: str, talk: Talk) -> list[Any]:
    """What the client sent, as records."""
    (one,) = recorded(talk.folder).values()
    decoder = StreamDecoder(load(name_of(stem)))
    return [event.message for event in [*decoder.feed(one.both[0]), *decoder.finish()]]


# --- MQTT: paho and mosquitto


class Client:
    """A client of paho that remembers what it is told."""

    def __init__(self, port: int, name: str) -> None:
        self.done: list[Any] = []
        self.received: list[tuple[str, bytes, int]] = []
        self.client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id=name, protocol=paho.MQTTv311)
        self.client.on_connect = self.client.on_subscribe = self.client.on_unsubscribe = self._note
        self.client.on_publish = self.client.on_disconnect = self._note
        self.client.on_message = lambda _client, _data, got: self.received.append((got.topic, got.payload, got.qos))
        self.client.username_pw_set("anna", "secret")
        self.client.will_set("wills/anna", b"gone", qos=1, retain=True)
        self.do(self.client.connect, HERE, port, keepalive=77)

    def _note(self, *_told: Any) -> None:
        self.done.append(None)

    def do(self, call: Any, *arguments: Any, **named: Any) -> None:
        """Call, and wait until the broker has confirmed it."""
        before = len(self.done)
        call(*arguments, **named)
        self.until(lambda: len(self.done) > before)

    def until(self, condition: Any) -> None:
        wait_until(lambda: self.client.loop(0.01) is None or condition())


def test_mqtt_between_paho_and_mosquitto(tmp_path: Path) -> None:
    with mosquitto(tmp_path) as broker, tapped(tmp_path / "tap", broker, "mqtt") as talk:
        client = Client(talk.port, "tester")
        client.do(client.client.subscribe, [("plant/+/heat", 1), ("plant/#", 2)])
        for qos in (0, 1, 2):
            client.do(client.client.publish, f"plant/{qos}/heat", f"{qos} degrees", qos=qos)
        client.do(client.client.publish, "plant/long", b"x" * 300, qos=1, retain=True)
        client.until(lambda: len({topic for topic, _, _ in client.received}) == 4)
        client.do(client.client.unsubscribe, "plant/#")
        client.client.disconnect()
        client.until(lambda: not client.client.is_connected())
    found = Tables("mqtt", talk)
    (connect,) = found.of("connect")
    assert {"client_id": "tester", "keep_alive": 77, "user": "anna", "password": b"secret"}.items() <= connect.items()
    assert (connect["will_topic"], connect["will"], connect["will_qos"], connect["will_retain"]) == (
        *("wills/anna", b"gone", 1, 1),
    )
    assert [row["return_code"] for row in found.of("connack")] == [0]
    sent = [(row["topic"], row["payload"], row["qos"]) for row in found.of("publish", direction="to_server")]
    assert sent == [(f"plant/{qos}/heat", f"{qos} degrees".encode(), qos) for qos in range(3)] + [
        ("plant/long", b"x" * 300, 1)
    ]
    told = [(row["topic"], row["payload"], row["qos"]) for row in found.of("publish", direction="to_client")]
    assert sorted(told) == sorted(client.received)
    assert [[dict(one) for one in row["topics"]] for row in found.of("subscribe")] == [
        [{"topic": "plant/+/heat", "qos": 1}, {"topic": "plant/#", "qos": 2}]
    ]
    assert [row["granted"] for row in found.of("suback")] == [[1, 2]]
    assert set(found.outcomes()) == {(name, "ok") for name in ("publish", "pubrel", "subscribe", "unsubscribe")}
    assert found.outcomes()["publish", "ok"] == len([one for one in sent + told if one[2]])


# --- RESP: redis-py and Redis


def test_resp_between_redis_py_and_redis(tmp_path: Path) -> None:
    with (
        redis_server(tmp_path) as server,
        tapped(tmp_path / "tap", server, "resp2") as talk,
        redis.Redis(HERE, talk.port, protocol=2) as client,
    ):
        assert client.set("name", "anna") and client.get("name") == b"anna"
        assert client.get("nobody") is None
        assert client.incrby("count", 41) == 41
        client.rpush("list", "a", "b", b"\xff\x00\r\n")
        assert client.lrange("list", 0, -1) == [b"a", b"b", b"\xff\x00\r\n"]
        with pytest.raises(redis.ResponseError) as refusal:
            client.lpush("name", "x")
        with client.pipeline(transaction=True) as pipe:
            for i in range(20):
                pipe.set(f"key{i}", "v" * i)
            assert pipe.execute() == [True] * 20
    found = Tables("resp2", talk)
    commands = [
        [item.value.encode("utf-8", "surrogateescape") for item in one.items] for one in messages("resp2", talk)
    ]
    own = [words for words in commands if words[0] != b"CLIENT"]
    assert own[:6] == [
        *([b"SET", b"name", b"anna"], [b"GET", b"name"], [b"GET", b"nobody"], [b"INCRBY", b"count", b"41"]),
        *([b"RPUSH", b"list", b"a", b"b", b"\xff\x00\r\n"], [b"LRANGE", b"list", b"0", b"-1"]),
    ]
    pipelined = [[b"SET", b"key%d" % i, b"v" * i] for i in range(20)]
    asked = [row["items"] for row in found.of("array", direction="to_server") if "CLIENT" not in row["items"][0]]
    assert [json.loads(item)["value"] for item in asked[0]] == ["SET", "name", "anna"]
    assert own[6:] == [[b"LPUSH", b"name", b"x"], [b"MULTI"], *pipelined, [b"EXEC"]]
    assert [row["value"] for row in found.of("bulk", direction="to_client")] == ["anna", None]
    assert [row["number"] for row in found.of("integer")] == [41, 3]
    assert found.of("error")[-1]["error"] == str(refusal.value)
    replies = [row["reply_message"] for row in sorted(found.exchanges, key=lambda row: row["request_offset"])]
    assert len(replies) == len(commands) and replies[-22:] == ["simple_string"] * 21 + ["array"]
    failed = [row["request_offset"] for row in found.exchanges if row["outcome"] == "error"]
    refused = [
        words
        for words, row in zip(commands, found.of("array", direction="to_server"), strict=True)
        if row["offset"] in failed and words[0] != b"CLIENT"
    ]
    assert refused == [[b"LPUSH", b"name", b"x"]]


# --- Modbus: pymodbus


@contextmanager
def modbus_server() -> Iterator[int]:
    """A device with 100 registers and as many coils, on a free port."""
    ports: list[int] = []
    ready, stopping = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        registers = SimData(0, count=100, values=7, datatype=DataType.REGISTERS)
        device = SimDevice(1, simdata=[registers])
        server = ModbusTcpServer(device, address=(HERE, 0))
        await server.serve_forever(background=True)
        ports.append(server.transport.sockets[0].getsockname()[1])
        loops.append(asyncio.get_running_loop())
        ready.set()
        await stopping.wait()
        await server.shutdown()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(20)
        yield ports[0]
    finally:
        if loops:
            loops[0].call_soon_threadsafe(stopping.set)
        thread.join(20)


def test_modbus_between_the_client_and_the_server_of_pymodbus(tmp_path: Path) -> None:
    with modbus_server() as server, tapped(tmp_path / "tap", server, "modbus") as talk:
        client = ModbusTcpClient(HERE, port=talk.port)
        assert client.connect()
        assert client.read_holding_registers(3, count=2).registers == [7, 7]
        assert not client.write_register(4, 99).isError()
        assert not client.write_registers(5, [1, 2, 3]).isError()
        assert client.read_input_registers(4, count=4).registers == [99, 1, 2, 3]
        assert not client.write_coil(1, True).isError()
        assert not client.write_coils(8, [True] * 9).isError()
        assert client.read_coils(8, count=9).bits[:9] == [True] * 9
        assert not client.read_discrete_inputs(0, count=3).isError()
        assert client.read_holding_registers(99, count=9).isError()
        client.close()
    found = Tables("modbus_tcp", talk)
    asked = [row for row in found.messages if row["direction"] == "to_server"]
    assert [row["transaction"] for row in asked] == [*range(1, 10)]
    assert [row["code"] for row in asked] == [3, 6, 16, 4, 5, 15, 1, 2, 3]
    assert {row["unit"] for row in found.messages} == {1}
    (single,) = found.of("write_single_register_request")
    assert (single["address"], single["value"]) == (4, 99)
    (several,) = found.of("write_multiple_registers_request")
    assert (several["address"], several["count"], several["registers"]) == (5, 3, [1, 2, 3])
    (coils,) = found.of("write_multiple_coils_request")
    assert (coils["address"], coils["count"], coils["coils"]) == (8, 9, b"\xff\x01")
    exchanges = sorted(found.exchanges, key=lambda row: row["request_offset"])
    assert [int(row["correlation"]) for row in exchanges] == [*range(1, 10)]
    assert [row["outcome"] for row in exchanges] == ["ok"] * 8 + ["error"]
    assert (exchanges[-1]["reply_message"], exchanges[-1]["status"]) == ("read_holding_registers_exception", "2")


# --- STOMP: stomp.py and CoilMQ


class Told(stomp.ConnectionListener):
    """Remembers what the broker tells a client."""

    def __init__(self) -> None:
        self.receipts: list[str] = []
        self.received: list[tuple[str, str]] = []
        self.errors: list[str] = []

    def on_receipt(self, frame: Any) -> None:
        self.receipts.append(frame.headers["receipt-id"])

    def on_message(self, frame: Any) -> None:
        self.received.append((frame.headers["destination"], frame.body))

    def on_error(self, frame: Any) -> None:
        self.errors.append(frame.body)


def test_stomp_between_stomp_py_and_coilmq(tmp_path: Path) -> None:
    with coilmq(tmp_path) as broker, tapped(tmp_path / "tap", broker, "stomp") as talk:
        told = Told()
        client = stomp.Connection12([(HERE, talk.port)], vhost=socket.getfqdn(), auto_content_length=True)
        client.set_listener("", told)
        client.connect(wait=True)
        client.subscribe("/queue/heat", id="1", ack="auto", receipt="subscribed")
        wait_until(lambda: told.receipts == ["subscribed"])
        client.send("/queue/heat", "7 degrees, täglich", receipt="sent")
        client.send("/queue/heat", b"\0\n\0", content_type="bytes")
        client.begin("t", receipt="begun")
        client.send("/queue/heat", "later", transaction="t")  # for a receipt CoilMQ would send two
        client.commit("t", receipt="committed")
        wait_until(lambda: len(told.received) == 3 and "committed" in told.receipts)
        client.disconnect(receipt="over")
        wait_until(lambda: "over" in told.receipts)
    found = Tables("stomp", talk)
    assert [row["message"] for row in found.of("stomp")] + [row["message"] for row in found.of("connected")] == [
        *("stomp", "connected")
    ]
    sent = [(row["destination"], row["body"], row["receipt"], row["transaction"]) for row in found.of("send")]
    assert sent == [
        ("/queue/heat", "7 degrees, täglich".encode(), "sent", None),
        ("/queue/heat", b"\0\n\0", None, None),
        ("/queue/heat", b"later", None, "t"),
    ]
    assert [(row["destination"], row["body"].decode()) for row in found.of("message")] == told.received
    assert sorted(row["receipt"] for row in found.of("receipt")) == sorted(told.receipts)
    replied = {row["correlation"]: row["message"] for row in found.exchanges if row["outcome"] == "ok"}
    asked = {"subscribed": "subscribe", "sent": "send", "begun": "begin", "committed": "commit", "over": "disconnect"}
    assert replied == asked and told.errors == []
    assert Counter(row["reply_message"] for row in found.exchanges) == {"receipt": 5, None: 2}


# --- syslog: logger of util-linux


def test_syslog_that_logger_sends(tmp_path: Path) -> None:
    logger = shutil.which("logger")
    if logger is None:
        pytest.skip("logger is missing (util-linux has it)")
    lines = ["the first line", "täglich <13>1 and 12 more", "x" * 500]
    with collector() as server, tapped(tmp_path / "tap", server, "syslog") as talk:
        command = [logger, "--tcp", "--octet-count", "--rfc5424", "--server", HERE, "--port", str(talk.port)]
        command += ["--tag", "heater", "--priority", "local3.err", "--msgid", "HEAT", "--id=77"]
        subprocess.run(command, input="\n".join(lines), text=True, check=True, timeout=20)
    found = Tables("syslog", talk)
    records = found.of("record", direction="to_server", priority=19 * 8 + 3, version=1, app="heater", msgid="HEAT")
    assert len(records) == len(found.messages) == len(lines)
    assert [row["process"] for row in records] == ["77"] * 3
    assert [row["content"].split("] ", 1)[1] for row in records] == lines
