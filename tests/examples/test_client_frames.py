"""The gallery on frames that well-known clients write: their encoders, without a server."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pika import frame, spec
from pika.spec import Basic, Channel, Confirm, Connection, Exchange, Queue
from stomp.utils import Frame, convert_frame, parse_frame

from tests.examples.test_protocols import name_of
from tests.ingest.lakes import table
from tests.spec.test_dissector import Capture, Tshark
from wirelake import decode, encode, load
from wirelake.capture.settings import ReadSettings
from wirelake.codec.stream import StreamDecoder
from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.run import ingest

# --- AMQP: pika

TABLE: dict[str, Any] = {
    "text": "täxt",
    "bytes": b"\0\xff",
    "yes": True,
    "small": -5,
    "large": 1 << 40,
    "price": Decimal("1.25"),
    "day": datetime(2026, 1, 2, tzinfo=UTC),
    "table": {"inner": {"nothing": None}},
    "list": [1, "x", [False]],
}
ENTRIES: list[dict[str, Any]] = [
    {"name": "text", "value": {"tag": "S", "value": "täxt".encode().hex()}},
    {"name": "bytes", "value": {"tag": "x", "value": "00ff"}},
    {"name": "yes", "value": {"tag": "t", "value": True}},
    {"name": "small", "value": {"tag": "I", "value": -5}},
    {"name": "large", "value": {"tag": "l", "value": 1 << 40}},
    {"name": "price", "value": {"tag": "D", "value": {"scale": 2, "value": 125}}},
    {"name": "day", "value": {"tag": "T", "value": 1767312000}},
    {
        "name": "table",
        "value": {
            "tag": "F",
            "value": [{"name": "inner", "value": {"tag": "F", "value": [{"name": "nothing", "value": {"tag": "V"}}]}}],
        },
    },
    {
        "name": "list",
        "value": {
            "tag": "A",
            "value": [
                {"tag": "I", "value": 1},
                {"tag": "S", "value": "78"},
                {"tag": "A", "value": [{"tag": "t", "value": False}]},
            ],
        },
    },
]
PROPERTIES: dict[str, Any] = {
    "content_type": "text/plain",
    "content_encoding": "utf-8",
    "delivery_mode": 2,
    "priority": 3,
    "correlation_id": "c",
    "reply_to": "r",
    "expiration": "60000",
    "message_id": "m",
    "timestamp": 1767312000,
    "type": "t",
    "user_id": "u",
    "app_id": "a",
    "cluster_id": "k",
}
EMPTY = [cls() for cls in spec.methods.values() if len(inspect.signature(cls).parameters) == 0]
METHODS: list[Any] = [
    *EMPTY,
    Connection.Start(0, 9, TABLE, "PLAIN AMQPLAIN", "en_US de_DE"),
    Connection.StartOk(TABLE, "PLAIN", "\0anna\0secret", "en_US"),
    Connection.Secure("who?"),
    Connection.SecureOk("me"),
    Connection.Tune(2047, 131072, 60),
    Connection.TuneOk(1, 4096, 0),
    Connection.Open("/plant", "none", True),
    Connection.OpenOk("here"),
    Connection.Close(320, "closed by hand", 50, 10),
    Connection.Blocked("low on memory"),
    Connection.UpdateSecret("secret", "renewed"),
    Channel.Open("band"),
    Channel.OpenOk("long"),
    Channel.Flow(True),
    Channel.FlowOk(True),
    Channel.Close(404, "no queue", 50, 20),
    Exchange.Declare(7, "plant", "topic", True, False, True, False, True, TABLE),
    Exchange.Declare(0, "plant", "direct", False, True, False, True, False, None),
    Exchange.Delete(7, "plant", True, False),
    Exchange.Bind(7, "one", "other", "key", True, TABLE),
    Exchange.Unbind(7, "one", "other", "key", True, TABLE),
    Queue.Declare(7, "heat", True, False, True, False, True, TABLE),
    Queue.Declare(0, "heat", False, True, False, True, False, None),
    Queue.DeclareOk("heat", 5, 6),
    Queue.Bind(7, "heat", "plant", "#.heat", True, TABLE),
    Queue.Purge(7, "heat", True),
    Queue.PurgeOk(5),
    Queue.Delete(7, "heat", True, False, True),
    Queue.DeleteOk(6),
    Queue.Unbind(7, "heat", "plant", "#.heat", TABLE),
    Basic.Qos(8, 9, True),
    Basic.Consume(7, "heat", "tag", True, False, True, False, TABLE),
    Basic.Consume(0, "heat", "tag", False, True, False, True, None),
    Basic.ConsumeOk("tag"),
    Basic.Cancel("tag", True),
    Basic.CancelOk("tag"),
    Basic.Publish(7, "plant", "a.heat", True, False),
    Basic.Publish(0, "plant", "a.heat", False, True),
    Basic.Return(312, "no route", "plant", "a.heat"),
    Basic.Deliver("tag", 1 << 40, True, "plant", "a.heat"),
    Basic.Get(7, "heat", True),
    Basic.GetOk(1 << 40, True, "plant", "a.heat", 5),
    Basic.GetEmpty("cluster"),
    Basic.Ack(1 << 40, True),
    Basic.Reject(1 << 40, True),
    Basic.RecoverAsync(True),
    Basic.Recover(True),
    Basic.Nack(1 << 40, True, False),
    Basic.Nack(1 << 40, False, True),
    Confirm.Select(True),
]
OURS = {
    "nowait": "no_wait",
    "global_qos": "is_global",
    "version_major": "major",
    "version_minor": "minor",
    "capabilities": "reserved_1",
    "insist": "reserved_2",
    "known_hosts": "reserved_1",
    "out_of_band": "reserved_1",
    "channel_id": "reserved_long",
    "cluster_id": "reserved_1",
}
"""Fields of methods that pika calls otherwise."""


def shown(value: Any) -> Any:
    """Return a value of pika as our JSON has it, apart from long strings."""
    return ENTRIES if value is TABLE else [] if value is None else int(value) if isinstance(value, bool) else value


def test_all_methods_of_pika_are_tried() -> None:
    tried = {type(each).NAME for each in METHODS}
    assert tried >= {cls.NAME for cls in spec.methods.values() if not cls.NAME.startswith("Access.")}  # of AMQP 0-8


@pytest.mark.parametrize("method", METHODS, ids=lambda each: type(each).NAME)
def test_methods_that_pika_writes_are_read_with_their_fields(method: Any) -> None:
    protocol, data = load(name_of("amqp")), frame.Method(3, method).marshal()
    message = decode(protocol, data)
    assert type(message).__name__ == type(method).NAME.replace(".", "")
    fields = message.to_json()["fields"]
    assert fields.pop("channel") == 3 and fields.pop("unused", 0) == 0
    wanted = {OURS.get(name, name): shown(value) for name, value in vars(method).items()}
    long = {name for name in wanted if isinstance(getattr(message, name), bytes)}
    assert fields == {name: value.encode().hex() if name in long else value for name, value in wanted.items()}
    assert encode(message) == data


@pytest.mark.parametrize("names", [(), *((name,) for name in [*PROPERTIES, "headers"]), (*PROPERTIES, "headers")])
def test_properties_that_pika_writes_are_read(names: tuple[str, ...]) -> None:
    given = {name: (PROPERTIES | {"headers": TABLE})[name] for name in names}
    data = frame.Header(3, 1 << 40, spec.BasicProperties(**given)).marshal()
    message = decode(load(name_of("amqp")), data)
    fields = message.to_json()["fields"]
    assert (fields.pop("channel"), fields.pop("weight"), fields.pop("body_size")) == (3, 0, 1 << 40)
    assert bin(fields.pop("flags")).count("1") == len(names)
    assert fields == {name: shown(value) for name, value in given.items()}
    assert encode(message) == data


def test_a_stream_of_frames_that_pika_writes_is_read() -> None:
    body = b"\xce\0body"
    frames = [
        frame.ProtocolHeader(),
        frame.Method(1, Basic.Publish(0, "plant", "a.heat")),
        frame.Header(1, len(body), spec.BasicProperties(delivery_mode=2)),
        frame.Body(1, body),
        frame.Heartbeat(),
        frame.Body(1, b""),
    ]
    data = b"".join(each.marshal() for each in frames)
    decoder = StreamDecoder(load(name_of("amqp")))
    found = [event.message for event in [*decoder.feed(data), *decoder.finish()]]
    assert [type(each).__name__ for each in found] == [
        *("ProtocolHeader", "BasicPublish", "ContentHeader", "ContentBody", "Heartbeat", "ContentBody")
    ]
    assert (found[0].version, found[3].content, found[5].content) == (b"\0\0\x09\x01", body, b"")
    assert b"".join(encode(each) for each in found) == data


def test_replies_on_a_channel_belong_to_the_oldest_request_of_that_channel(tmp_path: Path) -> None:
    """Clients that do not wait declare several queues at once; what wants no reply gets none."""
    capture, asked, told = Capture(), [], []
    for channel in (1, 2):
        asked += [frame.Method(channel, Queue.Declare(0, name)) for name in "ab"]
        asked += [frame.Method(channel, Queue.Declare(0, "quiet", nowait=True))]
        asked += [frame.Method(channel, Basic.Get(0, name)) for name in "ab"]
        told += [frame.Method(channel, Queue.DeclareOk(name, 0, 0)) for name in "ab"]
        told += [frame.Method(channel, Basic.GetOk(1, False, "", "a", 0)), frame.Method(channel, Basic.GetEmpty())]
    capture.segment(0, b"".join(each.marshal() for each in (frame.ProtocolHeader(), *asked)), port=5672)
    for each in sorted(told, key=lambda each: each.channel_number, reverse=True):
        capture.segment(0, each.marshal(), from_client=False, port=5672)
    capture.write(tmp_path / "a.pcap")
    lake, reading = tmp_path / "lake", ReadSettings(protocols=(name_of("amqp"),))
    report = ingest(InlineRunner(), [str(tmp_path / "a.pcap")], str(lake), reading=reading, final=True)
    assert (report.bytes_quarantined, report.violations) == (0, 0)
    found = sorted(table(lake, "gold/exchanges"), key=lambda row: row["request_offset"])
    of_one = [("a", "queue_declare_ok"), ("b", "queue_declare_ok"), ("quiet", None)]
    of_one += [("a", "basic_get_ok"), ("b", "basic_get_empty")]
    assert [(row["address"], row["reply_message"]) for row in found] == of_one * 2
    replies = [row["reply_offset"] for row in found if row["reply_message"]]
    assert replies == [*sorted(replies[:4]), *sorted(replies[4:])] and replies[0] > replies[4]
    tshark = Tshark(tmp_path, load(name_of("amqp")), "our_amqp")
    shown = tshark.show(tmp_path / "a.pcap", "-2", port=5672)
    linked = [one.one("our_amqp.request_in") for one in shown if "our_amqp.request_in" in one.fields]
    assert linked == ["1"] * 8
    partners = [one.one("our_amqp.reply_in") for one in shown if "our_amqp.reply_in" in one.fields]
    assert partners == ["6", "7", "8", "9", "2", "3", "4", "5"]


# --- STOMP: stomp.py

FRAMES = [
    Frame("CONNECT", {"accept-version": "1.2", "host": "here", "heart-beat": "1000,2000", "passcode": "a:b"}),
    Frame("STOMP", {"accept-version": "1.2", "host": "here"}),
    Frame("SEND", {"destination": "/queue/a", "receipt": 7, "content-type": "text/plain"}, "täxt\n"),
    Frame("SEND", {"destination": "/queue/ä", "empty": "", "content-length": 0}, b"\0a\0\n\n\0"),
    Frame("SEND", {"destination": "/queue/a", "content-length": 0}, ""),
    Frame("SUBSCRIBE", {"destination": "/queue/a", "id": 1, "ack": "client-individual"}),
    Frame("UNSUBSCRIBE", {"id": 1}),
    Frame("BEGIN", {"transaction": "t"}),
    Frame("COMMIT", {"transaction": "t"}),
    Frame("ABORT", {"transaction": "t"}),
    Frame("ACK", {"id": "m", "transaction": "t"}),
    Frame("NACK", {"id": "m", "receipt": "r"}),
    Frame("DISCONNECT", {}),
]


@pytest.mark.parametrize("given", FRAMES, ids=lambda given: given.cmd)
def test_frames_that_stomp_py_writes_are_read_and_read_ours(given: Frame) -> None:
    data = b"".join(convert_frame(given))
    message = decode(load(name_of("stomp")), data)
    body = given.body.encode() if isinstance(given.body, str) else given.body or b""
    headers = {name: str(value) for name, value in given.headers.items()}
    assert type(message).__name__.upper() == given.cmd
    assert {each.name: each.value for each in message.headers} == headers and message.body == body
    fields = message.to_json()["fields"]
    for name in {"destination", "transaction", "receipt"} & {*headers}:
        assert fields[name] == headers[name]
    ours = encode(message)
    parsed = parse_frame(ours.removesuffix(b"\0"))
    assert ours == data and (parsed.cmd, parsed.headers, parsed.body) == (given.cmd, headers, body)


def test_heart_beats_of_stomp_py_lie_between_its_frames() -> None:
    beat = Frame(None, {}, None)
    data = b"".join(b"".join(convert_frame(each)) for one in FRAMES for each in (one, beat))
    decoder = StreamDecoder(load(name_of("stomp")))
    found = [event.message for event in [*decoder.feed(data), *decoder.finish()]]
    assert [type(each).__name__ for each in found[1::2]] == ["HeartBeat"] * len(FRAMES)
    assert [type(each).__name__.upper() for each in found[::2]] == [each.cmd for each in FRAMES]
    assert b"".join(encode(each) for each in found) == data
