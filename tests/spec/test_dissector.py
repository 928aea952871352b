"""The generated dissector in a real tshark: what it shows is what the record codec decodes, fault by fault and field by field."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import struct
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

import wirelake
from tests.vectors import load as vector_files
from wirelake.codec.content import show_json
from wirelake.codec.stream import Decoded, StreamDecoder
from wirelake.errors import DecodeError
from wirelake.generate import random_frame
from wirelake.spec import (
    Body,
    Code,
    Frame,
    Labels,
    Magic,
    Message,
    Option,
    Protocol,
    Size,
    Struct,
    be,
    bool8,
    choose,
    declare,
    field as declared,
    fixed,
    labelled,
    le,
    many,
    nested,
    rest,
    text,
    u8,
)
from wirelake.spec import nodes as n
from wirelake.spec.dissector import dissector
from wirelake.spec.resolve import candidates, layout

TSHARK = shutil.which("tshark")
PORT = 9999
HIGHEST_SEGMENT = 60_000
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that tshark prints and XML does not allow."""

PROTOCOLS = ("casual", "dsa", "mb", "ceda")
READINGS = [
    ("casual", {}),
    ("dsa", {"mode": "strict"}),
    ("dsa", {"mode": "compat"}),
    ("dsa", {"mode": "strict", "frame_only": True}),
    ("mb", {"profile": "strict"}),
    ("mb", {"profile": "upstream"}),
    ("mb", {"profile": "strict", "json_payload": True}),
    ("ceda", {"dialect": "auto"}),
    ("ceda", {"dialect": "ceda4"}),
    ("ceda", {"dialect": "ceda4-ws"}),
]


@pytest.fixture(autouse=True, scope="module")
def tshark_is_there() -> None:
    if TSHARK is None:
        reason = "tshark is not installed (Debian: apt-get install tshark)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


# --- captures


@dataclass
class Capture:
    """TCP segments of many connections, each to the same server port."""

    packets: list[bytes] = field(default_factory=list)
    sent: dict[tuple[int, bool], int] = field(default_factory=dict)

    def segment(self, connection: int, payload: bytes, *, from_client: bool = True, port: int = PORT) -> None:
        key = (connection, from_client)
        client = (bytes([10, 1, connection >> 8, connection & 255]), 40_000)
        server = (bytes([10, 2, 0, 1]), port)
        source, target = (client, server) if from_client else (server, client)
        sequence = self.sent.get(key, 1)
        acknowledged = self.sent.get((connection, not from_client), 1)
        self.sent[key] = sequence + len(payload)
        tcp = struct.pack(">HHIIBBHHH", source[1], target[1], sequence, acknowledged, 5 << 4, 0x18, 8192, 0, 0)
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40 + len(payload), 0, 0, 64, 6, 0, source[0], target[0])
        self.packets.append(bytes(12) + b"\x08\x00" + ip + tcp + payload)

    def stream(self, connection: int, data: bytes, cuts: Iterable[int] = (), **details: Any) -> None:
        """The bytes of one direction in segments that end at ``cuts`` (and where a segment would become too large)."""
        ends = sorted({*cuts, *range(HIGHEST_SEGMENT, len(data), HIGHEST_SEGMENT), len(data)})
        start = 0
        for end in ends:
            self.segment(connection, data[start:end], **details)
            start = end

    def write(self, path: Path) -> None:
        out = bytearray(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 1))
        for number, packet in enumerate(self.packets):
            out += struct.pack("<IIII", number // 1000, number % 1000 * 1000, len(packet), len(packet)) + packet
        path.write_bytes(out)


# --- what tshark shows


@dataclass
class Shown:
    """One frame as the dissector shows it: field name -> (value for people, hex of its bytes), in order."""

    connection: int
    length: int
    fields: dict[str, list[tuple[str, str]]]
    experts: list[str]

    def one(self, name: str) -> str:
        ((shown, _),) = self.fields[name]
        return shown

    @property
    def fault(self) -> tuple[str, str, int] | None:
        name = self.protocol
        if f"{name}.malformed.rule" not in self.fields:
            return None
        path = self.one(f"{name}.malformed.path")
        return self.one(f"{name}.malformed.rule"), path, int(self.one(f"{name}.malformed.offset"))

    protocol: str = ""


class Tshark:
    """Runs tshark with the dissector of one protocol."""

    def __init__(self, folder: Path, protocol: n.Protocol) -> None:
        self.name = protocol.name
        self.folder = folder
        self.script = folder / f"{protocol.name}.lua"
        self.script.write_text(dissector(protocol), "utf-8")

    def run(self, capture: Capture, *arguments: str, decode_as: bool = True, **options: Any) -> str:
        path = self.folder / "capture.pcap"
        capture.write(path)
        command = [str(TSHARK), "-X", f"lua_script:{self.script}", "-r", str(path), *arguments]
        if decode_as:
            command += ["-d", f"tcp.port=={PORT},{self.name}"]
        for name, value in options.items():
            command += ["-o", f"{self.name}.{name}:{str(value).upper() if isinstance(value, bool) else value}"]
        home = {"HOME": str(self.folder), "XDG_CONFIG_HOME": str(self.folder)}
        done = subprocess.run(command, capture_output=True, env={**os.environ, **home}, check=False, timeout=300)
        complaints = [line for line in done.stderr.decode().splitlines() if "Running as user" not in line]
        assert done.returncode == 0 and complaints == [], "\n".join(complaints)
        return done.stdout.decode(errors="replace")  # a long label may be cut inside a character

    def show(self, capture: Capture, **details: Any) -> list[Shown]:
        """Every frame that the dissector found, in the order of the packets that completed them."""
        text_shown = self.run(capture, "-T", "pdml", "-J", f"ip tcp {self.name}", **details)
        root = ElementTree.fromstring(NOT_XML.sub("\ufffd", text_shown))
        found = []
        for packet in root.iter("packet"):
            found += list(self._frames(packet))
        return found

    def _frames(self, packet: ElementTree.Element) -> Iterator[Shown]:
        addresses = [f.get("show", "") for f in packet.iter("field") if f.get("name") == "ip.addr"]
        client = next(a for a in addresses if a.startswith("10.1."))
        high, low = client.split(".")[2:]
        for proto in packet.iter("proto"):
            if proto.get("name") != self.name:
                continue
            shown = Shown(int(high) << 8 | int(low), int(proto.get("size", "0")), {}, [], self.name)
            for item in proto.iter("field"):
                name = item.get("name", "")
                assert "Lua Error" not in item.get("showname", ""), item.get("showname")
                if name.startswith(f"{self.name}."):
                    shown.fields.setdefault(name, []).append((item.get("show", ""), item.get("value", "")))
                if name == "_ws.expert.message":
                    shown.experts.append(item.get("show", ""))
            yield shown


@pytest.fixture(scope="module")
def tsharks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tshark]:
    return {name: Tshark(tmp_path_factory.mktemp(name), wirelake.load(name)) for name in PROTOCOLS}


# --- what the record codec says, in the shape of a display filter


def stream_options(name: str, options: dict[str, Any]) -> dict[str, Any]:
    return {**options, "framing": "tcp"} if name == "mb" else options


def as_stream(name: str, frame: bytes) -> bytes:
    """A frame as it travels on TCP."""
    return struct.pack(">I", len(frame)) + frame if name == "mb" else frame


def free_form(message: Any) -> set[str]:
    """Names of free-form values, which are shown as one JSON text."""

    def find(fields: Iterable[n.Field], prefix: str) -> Iterator[str]:
        for one in fields:
            wire = one.wire.element if isinstance(one.wire, n.Many) else one.wire
            if isinstance(wire, n.Run) and wire.content in ("msgpack", "msgpack_map", "json"):
                yield prefix + one.key
            if isinstance(wire, n.Nested):
                yield from find(wire.struct.__wire_fields__, f"{prefix}{one.key}.")

    return set(find(message.__wire_fields__, ""))


def flatten(shown: Any, name: str, free: set[str]) -> Iterator[tuple[str, Any]]:
    match shown:
        case _ if name in free:
            yield name, {"free": shown}
        case None:
            pass
        case {"hex": str(digits)} if len(shown) == 1:
            yield name, bytes.fromhex(digits)
        case {"fid": fid, "type": kind, "value": value}:
            yield f"{name}.fid", fid
            yield f"{name}.type", {"label": kind}
            yield f"{name}.group_bit", bool(shown.get("group_bit", 0))
            yield from flatten(value, f"{name}.{kind.lower()}", free)
        case dict():
            for key, value in shown.items():
                yield from flatten(value, f"{name}.{key}" if name else key, free)
        case list():
            for value in shown:
                yield from flatten(value, name, free)
        case _:
            yield name, shown


def expected_fields(message: Any) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for name, value in flatten(message.to_json()["fields"], "", free_form(message)):
        found.setdefault(name, []).append(value)
    return found


def agrees(expected: Any, shown: str, raw: str) -> bool:
    match expected:
        case {"free": value}:
            return any(same_json(text, value) for text in (shown, bytes.fromhex(raw).decode(errors="replace")))
        case {"label": _}:
            return True
        case bool():
            return shown in (("1", "True") if expected else ("0", "False"))
        case int():
            return int(shown, 0) in (expected, expected + (1 << 64))
        case float():
            return shown == f"{expected:.15g}" or math.isclose(float(shown), expected, rel_tol=1e-5)
        case bytes():
            return bytes.fromhex(raw) == expected
        case "NaN" | "Infinity" | "-Infinity":
            return shown.lower().lstrip("-+") in ("nan", "inf", "infinity")
        case str():
            return expected in (shown, raw) or bytes.fromhex(raw) == expected.encode()
        case _:
            raise AssertionError(f"{expected!r} is no value of a field")


def same_json(text_shown: str, expected: Any) -> bool:
    """MessagePack is shown as JSON; text that is JSON is shown as it is, control characters escaped."""
    try:
        found = show_json(json.loads(text_shown))
    except ValueError:
        return False
    return json.dumps(found, sort_keys=True) == json.dumps(expected, sort_keys=True)


def compare(message: Any, shown: Shown) -> None:
    """All fields that the codec decodes are shown with the same values; what else is shown are lengths, counts and bits."""
    context = f"{message.to_json()} as {shown.fields}"
    assert shown.fault is None, context
    assert shown.length == message.wire_length, context
    expected = expected_fields(message)
    tables = {f.key for f in message.__wire_fields__ if isinstance(f.wire, n.Tags)}
    for name, values in expected.items():
        found = shown.fields.get(f"{shown.protocol}.{name}", [])
        if name.split(".")[0] in tables:
            found = found[-len(values) :]  # the last of a repeated tag counts
        if values == [""] and not found:
            continue  # not on the wire; the record has its default
        assert len(found) == len(values), f"{name}: {context}"
        for value, (text_shown, raw) in zip(values, found, strict=True):
            assert agrees(value, text_shown, raw), f"{name}: {value!r} is shown as {text_shown!r} {raw!r}"
    parts = {part.name for part in message.layout.frame.parts if hasattr(part, "name")}
    for name in shown.fields:
        bare = name.removeprefix(f"{shown.protocol}.")
        beside = bare.endswith(("_length", "_count", "_code")) or bare in parts | {"raw_text", "note", "note.name"}
        assert bare in expected or beside or bare.rsplit(".", 1)[0] in expected, f"{name} is shown: {context}"
    assert ([f"note: {note}" for note in message.notes]) == [e for e in shown.experts if e.startswith("note: ")]


def outcome(name: str, frame: bytes, options: dict[str, Any]) -> Any:
    try:
        return wirelake.decode(name, frame, **options)
    except DecodeError as error:
        return error


def judge(name: str, frames: list[bytes], options: dict[str, Any], tshark: Tshark) -> tuple[int, int]:
    """Each frame on a connection of its own, against the record codec; how many were good and bad."""
    capture = Capture()
    for number, frame in enumerate(frames):
        capture.stream(number, frame)
    found: dict[int, list[Shown]] = {}
    for one in tshark.show(capture, **options):
        found.setdefault(one.connection, []).append(one)
    good = bad = 0
    for number, frame in enumerate(frames):
        result = outcome(name, frame, stream_options(name, options))
        first = found.get(number, [None])[0]
        where = f"{frame.hex()} with {options}: {result}"
        if not isinstance(result, DecodeError):
            assert first is not None, where
            compare(result, first)
            good += 1
        elif result.incomplete:
            assert first is None, where
        elif result.rule != "trailing_bytes":
            assert first is not None, where
            assert first.fault == (result.rule, result.path, result.offset), where
            assert any(expert.startswith(f"malformed: {result.rule} (") for expert in first.experts), where
            bad += 1
    return good, bad
