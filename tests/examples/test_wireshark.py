"""Wireshark's own dissectors see in the gallery's traffic what our declarations see: another implementation agrees."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from tests.examples.test_protocols import name_of
from tests.needs import require
from tests.spec.test_dissector import PORT, Capture
from wirelake import encode, load
from wirelake.generate import Event, generate, write_pcap
from wirelake.spec.dissector import dissector as make_dissector

BETWEEN, AND = "\x1f", "\x1e"


def seen_by_wireshark(
    capture: Path, dissector: str, port: int, *fields: str, only: str = "", script: Path | None = None
) -> list[tuple[list[str], ...]]:
    """The values of these fields, packet by packet; a packet may hold several messages.

    ``only``: of packets that this filter finds. ``script`` is a dissector in Lua; else one of Wireshark's own is meant.
    """
    require("tshark")
    command = ["tshark", *(["-X", f"lua_script:{script}"] if script else []), "-r", str(capture), "-T", "fields"]
    command += ["-d", f"tcp.port=={port},{dissector}", "-Y", f"{dissector} && {only}" if only else dissector]
    command += ["-E", f"separator={BETWEEN}", "-E", f"aggregator={AND}", "-E", "occurrence=a"]
    for field in fields:
        command += ["-e", field]
    home = {"HOME": str(capture.parent), "XDG_CONFIG_HOME": str(capture.parent)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **home})
    rows = [line.split(BETWEEN) for line in done.stdout.splitlines()]
    return [tuple(cell.split(AND) if cell else [] for cell in row) for row in rows]


def traffic(stem: str, capture: Path) -> list[Event]:
    made = generate(load(name_of(stem)), messages=300, connections=2, seed=6)
    write_pcap(made, capture)
    return list(made)


def flat(rows: list[tuple[list[str], ...]], place: int) -> list[int]:
    return [int(value, 0) for row in rows for value in row[place]]


def codes(events: list[Event]) -> list[int]:
    return [event.message.__message__["code"] for event in events]


def given(events: list[Event], name: str) -> list[Any]:
    """The values of a field that messages have, in order."""
    values = (getattr(event.message, name, None) for event in events)
    return [value for value in values if value is not None]


def test_mqtt_packets_are_those_that_wireshark_sees(tmp_path: Path) -> None:
    events = traffic("mqtt", tmp_path / "a.pcap")
    fields = ("mqtt.msgtype", "mqtt.msgid", "mqtt.qos", "mqtt.kalive", "mqtt.conack.val")
    rows = seen_by_wireshark(tmp_path / "a.pcap", "mqtt", 1883, *fields)
    assert sorted(flat(rows, 0)) == sorted(codes(events))
    assert sorted(flat(rows, 1)) == sorted(given(events, "packet_id"))
    published = [event for event in events if event.message.__message__["name"] == "publish"]
    assert sorted(flat(rows, 2)) == sorted(given(published, "qos"))
    assert sorted(flat(rows, 3)) == sorted(given(events, "keep_alive"))
    assert sorted(flat(rows, 4)) == sorted(given(events, "return_code"))


def test_modbus_frames_are_those_that_wireshark_sees(tmp_path: Path) -> None:
    events = traffic("modbus_tcp", tmp_path / "a.pcap")
    rows = seen_by_wireshark(tmp_path / "a.pcap", "mbtcp", 502, "mbtcp.trans_id", "mbtcp.unit_id", "mbtcp.len")
    assert sorted(flat(rows, 0)) == sorted(given(events, "transaction"))
    assert sorted(flat(rows, 1)) == sorted(given(events, "unit"))
    assert sorted(flat(rows, 2)) == sorted(len(event.frame) - 6 for event in events)


def test_our_modbus_dissector_shows_what_wireshark_shows(tmp_path: Path) -> None:
    """Packet by packet: which messages there are, from which side, and their main fields."""
    events, capture = traffic("modbus_tcp", tmp_path / "a.pcap"), tmp_path / "a.pcap"
    script = tmp_path / "ours.lua"
    script.write_text(make_dissector(load(name_of("modbus_tcp")), "ours"), "utf-8")
    known = ("mbtcp.trans_id", "mbtcp.unit_id", "mbtcp.len", "modbus.func_code", "modbus.exception_code")
    ours = ("ours.transaction", "ours.unit", "ours.length", "ours.function", "ours.exception")
    theirs = seen_by_wireshark(capture, "mbtcp", 502, "tcp.dstport", *known)
    shown = seen_by_wireshark(capture, "ours", 502, "tcp.dstport", *ours, "ours.sent_by", script=script)
    assert len(theirs) == len(shown) and len(flat(theirs, 1)) == len(events)
    for (port, *rest), (port_shown, *rest_shown, sides) in zip(theirs, shown, strict=True):
        numbers = [[int(value, 0) for value in cell] for cell in rest]
        numbers_shown = [[int(value, 0) for value in cell] for cell in rest_shown]
        numbers_shown[3] = [function & 0x7F for function in numbers_shown[3]]  # an exception has its highest bit
        assert port == port_shown and numbers == numbers_shown
        assert set(sides) == {"client" if port == ["502"] else "server"}
    asked = [("modbus.reference_num", "modbus.bit_cnt", "modbus.word_cnt"), ("ours.address", "ours.count")]
    theirs = seen_by_wireshark(capture, "mbtcp", 502, *asked[0], only="tcp.dstport == 502")
    shown = seen_by_wireshark(capture, "ours", 502, *asked[1], only="tcp.dstport == 502", script=script)
    assert sorted(flat(theirs, 0)) == sorted(flat(shown, 0))
    assert sorted(flat(theirs, 1) + flat(theirs, 2)) == sorted(flat(shown, 1))
    theirs = seen_by_wireshark(capture, "mbtcp", 502, "frame.number", "modbus.request_frame")
    shown = seen_by_wireshark(capture, "ours", 502, "frame.number", "ours.request_in", script=script)
    linked = [row for row in theirs if row[1]]
    assert linked and all(row in shown for row in linked)  # it links only replies of the unit that was asked


def test_hpfeeds_frames_are_those_that_wireshark_sees(tmp_path: Path) -> None:
    events = traffic("hpfeeds", tmp_path / "a.pcap")
    rows = seen_by_wireshark(tmp_path / "a.pcap", "hpfeeds", 10000, "hpfeeds.opcode", "hpfeeds.msglen")
    assert sorted(flat(rows, 0)) == sorted(codes(events))
    assert sorted(flat(rows, 1)) == sorted(len(event.frame) for event in events)


def test_amqp_frames_are_those_that_wireshark_and_our_dissector_see(tmp_path: Path) -> None:
    events, capture = traffic("amqp", tmp_path / "a.pcap"), tmp_path / "a.pcap"
    script = tmp_path / "ours.lua"
    script.write_text(make_dissector(load(name_of("amqp")), "ours"), "utf-8")
    fields = ("amqp.type", "amqp.channel", "amqp.length", "amqp.header.body-size", "amqp.header.property-flags")
    theirs = seen_by_wireshark(capture, "amqp", 5672, "frame.number", *fields)
    fields = ("ours.type", "ours.channel", "ours.size", "ours.body_size", "ours.flags")
    shown = seen_by_wireshark(capture, "ours", 5672, "frame.number", *fields, script=script)
    assert len(theirs) == len(shown)
    for place in range(6):
        assert flat(theirs, place) == flat(shown, place)
    coded = [event.message.__message__["codes"] for event in events if event.message.__message__["frame"] == ""]
    assert sorted(flat(theirs, 1)) == sorted(each[0] for each in coded)
    methods = [each for each in coded if each[0] == 1]
    rows = seen_by_wireshark(capture, "amqp", 5672, "amqp.method.class", "amqp.method.method")
    for place in range(2):
        assert sorted(flat(rows, place)) == sorted(each[place + 1] for each in methods)


# --- of these, texts are compared, so only messages whose texts lines can hold are shown


def layers(capture: Path, dissector: str, *fields: str) -> list[dict[str, list[str]]]:
    """The values of these fields, packet by packet."""
    require("tshark")
    command = ["tshark", "-r", str(capture), "-T", "json", "-d", f"tcp.port=={PORT},{dissector}", "-Y", dissector]
    for field in fields:
        command += ["-e", field]
    home = {"HOME": str(capture.parent), "XDG_CONFIG_HOME": str(capture.parent)}
    done = subprocess.run(command, capture_output=True, check=True, env={**os.environ, **home})
    return [packet["_source"]["layers"] for packet in json.loads(done.stdout)]


def plain(value: Any) -> bool:
    """Whether all texts in a value can be printed."""
    if isinstance(value, str):
        return value.isascii() and (value.isprintable() or not value)
    if isinstance(value, tuple):
        return all(map(plain, value))
    return plain(value.value) if hasattr(value, "tag") else True


def values_in(value: Any, kind: str, found: dict[str, list[Any]]) -> None:
    """Add what a value of RESP is, and what is in it, to what Wireshark calls it."""
    if kind == "*":
        found["resp.array.length"].append(-1 if value is None else len(value))
        for item in value or ():
            values_in(item.value, item.tag.decode(), found)
    elif kind == "$":
        found["resp.bulk_string.length"].append(-1 if value is None else len(value))
        if value:
            found["resp.bulk_string.value"].append(value.encode().hex())
    else:
        found[{"+": "resp.string", "-": "resp.error", ":": "resp.integer"}[kind]].append(value)


def test_resp_values_are_those_that_wireshark_sees(tmp_path: Path) -> None:
    names = ("resp.string", "resp.error", "resp.integer", "resp.array.length")
    names += ("resp.bulk_string.length", "resp.bulk_string.value")
    capture, wanted, kinds = Capture(), [], Counter[str]()
    for event in traffic("resp2", tmp_path / "b.pcap"):
        (value,) = (getattr(event.message, declared.name) for declared in event.message.__wire_fields__)
        if not plain(value):
            continue
        found: dict[str, list[Any]] = {name: [] for name in names}
        values_in(value, chr(event.message.__message__["code"]), found)
        capture.stream(len(wanted), event.frame)
        wanted.append({name: list(map(str, values)) for name, values in found.items() if values})
        kinds.update(wanted[-1].keys())
    capture.write(tmp_path / "a.pcap")
    shown = layers(tmp_path / "a.pcap", "resp", *names)
    for row in shown:
        row.update({name: [text.replace(":", "") for text in row[name]] for name in names[-1:] if name in row})
    assert shown == wanted and len(wanted) > 100 and min(kinds[name] for name in names) > 20


def test_syslog_records_are_those_that_wireshark_sees(tmp_path: Path) -> None:
    """It knows no octet counting, so it gets what stands behind the counts; and it knows version 1 only."""
    made = [msgspec.structs.replace(event.message, version=1) for event in traffic("syslog", tmp_path / "b.pcap")]
    records = [record for record in made if all(plain(getattr(record, name)) for name in record.__struct_fields__)]
    capture = Capture()
    for number, record in enumerate(records):
        capture.stream(number, encode(record).split(b" ", 1)[1])
    capture.write(tmp_path / "a.pcap")
    names = {"syslog.hostname": "host", "syslog.appname": "app", "syslog.procid": "process"}
    shown = layers(tmp_path / "a.pcap", "syslog", "syslog.facility", "syslog.level", "syslog.version", *names)
    assert len(shown) == len(records) > 50
    for row, record in zip(shown, records, strict=True):
        assert int(row["syslog.facility"][0]) * 8 + int(row["syslog.level"][0]) == record.priority
        assert row["syslog.version"] == ["1"]
        for name, field in names.items():
            assert row[name] == [getattr(record, field)]
