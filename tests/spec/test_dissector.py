"""The generated dissector in a real tshark: it shows what the record codec decodes, fields and faults alike."""

from __future__ import annotations

import json
import math
import os
import re
import struct
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

import wirelake
from tests.needs import require
from tests.vectors import load as vector_files
from wirelake.codec.content import show_json
from wirelake.codec.scales import read_time
from wirelake.codec.stream import Decoded, StreamDecoder
from wirelake.errors import DecodeError, SpecError
from wirelake.generate import generate, random_frame
from wirelake.generate.writers import write_pcap
from wirelake.spec import (
    UNSET,
    Body,
    Code,
    Frame,
    Head,
    Labels,
    Line,
    Magic,
    Message,
    Option,
    Present,
    Protocol,
    Run,
    Size,
    Struct,
    Tags,
    TagTable,
    be,
    bool8,
    choose,
    declare,
    derived,
    fixed,
    flag,
    labelled,
    le,
    many,
    msgpack,
    nested,
    optional,
    rest,
    tag,
    text,
    u8,
    view,
)
from wirelake.spec import field as declared
from wirelake.spec import nodes as n
from wirelake.spec import number as number_word
from wirelake.spec import word as text_word
from wirelake.spec.check import holds_choice
from wirelake.spec.dissector import dissector
from wirelake.spec.resolve import candidates

PORT = 9999
HIGHEST_SEGMENT = 60_000
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that tshark prints and XML does not allow."""

BESIDE = {"raw_text", "note", "note.name", "request_in", "reply_in"}
"""What is shown beside the fields of a message."""
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


# --- captures


@dataclass
class Capture:
    """TCP segments of many connections, each to the same server port."""

    packets: list[bytes] = field(default_factory=list)
    sent: dict[tuple[int, bool], int] = field(default_factory=dict)

    def flow(self, connection: int, *, from_client: bool = True, port: int = PORT) -> tuple[str, ...]:
        client, server = (f"10.1.{connection >> 8}.{connection & 255}", "40000"), ("10.2.0.1", str(port))
        return (*client, *server) if from_client else (*server, *client)

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
    """One frame as the dissector shows it: field name -> (value for people, hex of its bytes), in order.

    ``flow``: addresses and ports of sender and receiver.
    """

    protocol: str
    flow: tuple[str, ...]
    length: int
    packet: int = 0
    fields: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    items: list[tuple[str, str, str]] = field(default_factory=list)
    experts: list[str] = field(default_factory=list)

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


class Tshark:
    """Runs tshark with the dissector of one protocol."""

    def __init__(self, folder: Path, protocol: n.Protocol, name: str = "", shown: str = "") -> None:
        require("tshark")
        self.name = shown or name or protocol.name
        self.folder = folder
        self.script = folder / f"{protocol.name}.lua"
        self.script.write_text(dissector(protocol, name), "utf-8")
        self.preferences: dict[str, Any] = {}

    def run(self, capture: Capture | Path, *arguments: str, port: int | None = PORT, **options: Any) -> str:
        """What tshark prints; ``port`` is decoded as this protocol."""
        path = capture if isinstance(capture, Path) else self.folder / "capture.pcap"
        if isinstance(capture, Capture):
            capture.write(path)
        command = ["tshark", "-X", f"lua_script:{self.script}", "-r", str(path), *arguments]
        if port is not None:
            command += ["-d", f"tcp.port=={port},{self.name}"]
        for name, value in {**self.preferences, **options}.items():
            command += ["-o", f"{self.name}.{name}:{str(value).upper() if isinstance(value, bool) else value}"]
        home = {"HOME": str(self.folder), "XDG_CONFIG_HOME": str(self.folder)}
        done = subprocess.run(command, capture_output=True, env={**os.environ, **home}, check=False, timeout=300)
        complaints = [line for line in done.stderr.decode().splitlines() if "Running as user" not in line]
        assert done.returncode == 0 and complaints == [], "\n".join(complaints)
        assert b"Lua Error" not in done.stdout
        return done.stdout.decode(errors="replace")  # a long label may be cut inside a character

    def show(self, capture: Capture | Path, *arguments: str, **details: Any) -> list[Shown]:
        """Every frame that the dissector found, in the order of the packets that completed them."""
        text_shown = self.run(capture, *arguments, "-T", "pdml", "-J", f"ip tcp {self.name}", **details)
        root = ElementTree.fromstring(NOT_XML.sub("\ufffd", text_shown))
        found = []
        for packet in root.iter("packet"):
            found += list(self._frames(packet))
        return found

    def _frames(self, packet: ElementTree.Element) -> Iterator[Shown]:
        first = {item.get("name"): item.get("show", "") for item in reversed(list(packet.iter("field")))}
        flow = tuple(first[name] for name in ("ip.src", "tcp.srcport", "ip.dst", "tcp.dstport"))
        for proto in packet.iter("proto"):
            if proto.get("name") != self.name:
                continue
            shown = Shown(self.name, flow, int(proto.get("size", "0")), int(first["num"]))
            for item in proto.iter("field"):
                name = item.get("name", "")
                if name.startswith(f"{self.name}."):
                    shown.fields.setdefault(name, []).append((item.get("show", ""), item.get("value", "")))
                    shown.items.append((name, item.get("show", ""), item.get("value", "")))
                if name == "_ws.expert.message":
                    shown.experts.append(item.get("show", ""))
            yield shown


def by_flow(frames: Iterable[Shown]) -> dict[tuple[str, ...], list[Shown]]:
    found: dict[tuple[str, ...], list[Shown]] = {}
    for frame in frames:
        found.setdefault(frame.flow, []).append(frame)
    return found


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
            return bytes.fromhex(raw) == expected or ("\ufffd" in shown and shown == as_meant(expected))
        case "NaN" | "Infinity" | "-Infinity":
            return shown.lower().lstrip("-+") in ("nan", "inf", "infinity")
        case str() if shown.endswith(" UTC"):
            return read_time(expected) == shown_time(shown)
        case str():
            meant = expected.encode()
            return expected in (shown, raw) or bytes.fromhex(raw) == meant or shown == as_meant(meant)
        case _:
            raise AssertionError(f"{expected!r} is no value of a field")


def as_meant(raw: bytes) -> str:
    """What escapes stand for, as tshark writes it into an attribute of XML."""
    spaced = re.sub("\r\n|[\t\n\r]", " ", raw.decode(errors="replace").replace("\0", "\u2400"))
    return re.sub("[\x01-\x1f\x7f]", lambda found: f"\\x{ord(found[0]):x}", spaced)


def shown_time(shown: str) -> datetime:
    """A time as tshark writes it, to the microsecond."""
    shown = re.sub(r", (\d+) ", lambda year: f", {year[1]:0>4} ", shown)
    return datetime.strptime(shown.removesuffix("000 UTC"), "%b %d, %Y %H:%M:%S.%f").replace(tzinfo=UTC)


def same_json(text_shown: str, expected: Any) -> bool:
    """MessagePack is shown as JSON; text that is JSON is shown as it is, control characters escaped."""
    try:
        found = show_json(json.loads(text_shown))
    except ValueError:
        return False
    return json.dumps(found, sort_keys=True) == json.dumps(expected, sort_keys=True)


def wire_only(cls: Any) -> set[str]:
    """Names of fields that are no part of the record, here and in structures."""
    found = {f.key for f in cls.__wire_fields__ if isinstance(f.wire, n.WireOnly | n.Length)}
    for inner in structures(cls, set()):
        found |= {f.key for f in inner.__wire_fields__ if isinstance(f.wire, n.WireOnly | n.Length)}
    return found


def structures(wire: Any, seen: set[Any]) -> Iterator[Any]:
    """The structures in a message, or in a value."""
    if wire in seen:
        return
    seen.add(wire)
    match wire:
        case n.Nested(struct=inner):
            yield inner
            yield from structures(inner, seen)
        case n.Many(element=inner) | n.Sized(inner=inner):
            yield from structures(inner, seen)
        case n.Choice(known=known):
            for case in known.values():
                yield from structures(case, seen)
        case type():
            for declared in wire.__wire_fields__:
                yield from structures(declared.wire, seen)


def bare_name(shown: Shown, message: Any, name: str, expected: dict[str, list[Any]]) -> str:
    """The name of a field without what sets it apart from others of the same name: its message."""
    bare = name.removeprefix(f"{shown.protocol}.")
    return bare if bare in expected else bare.removeprefix(f"{message.__message__['name']}.")


Items = Iterator[tuple[str, Any]]


def items_of(wire: Any, shown: Any, place: str, opened: dict[Any, str]) -> Items:
    """What a value in JSON is made of, under the names that the dissector gives it: a choice inside of itself has the
    names that it has where it begins.
    """
    match wire:
        case n.Choice(tag=tag, known=known):
            place = opened.get(wire, place)
            inner = opened | {wire: place}
            if tag is None:
                yield from items_of(known[None], shown, place, inner)
                return
            yield f"{place}.tag", shown["tag"]
            case = known[shown["tag"].encode("latin-1") if isinstance(tag, n.Fixed) else shown["tag"]]
            if case is not None:
                yield from items_of(case, shown["value"], f"{place}.value", inner)
        case n.Sized(inner=inner):
            yield from items_of(inner, shown, place, opened)
        case n.Many(element=element) if shown is not None:
            for item in shown:
                yield from items_of(element, item, place, opened)
        case n.Nested(struct=struct):
            for f in struct.__wire_fields__:
                yield from field_items(f, shown, place, opened)
            for made in struct.__derived_fields__:
                yield from flatten(shown[made.name], f"{place}.{made.name}", set())
        case n.Run(content="msgpack" | "msgpack_map" | "json"):
            yield place, {"free": shown}
        case _:
            yield from flatten(shown, place, set())


def field_items(f: n.Field, shown: dict[str, Any], place: str, opened: dict[Any, str]) -> Items:
    """What a field of a structure is made of: in JSON, a flat structure lies beside the others."""
    inside = {key.removeprefix(f"{f.key}."): value for key, value in shown.items() if key.startswith(f"{f.key}.")}
    here = f"{place}.{f.key}" if place else f.key
    if isinstance(f.wire, n.Nested) and f.wire.flat and inside:
        yield from items_of(f.wire, inside, here, opened)
    elif f.key in shown:
        yield from items_of(f.wire, shown[f.key], here, opened)


TYPES = "u?int(8|16|24|32|64)|string|bytes|bool|float|double|guid|absolute_time"


def compare_choices(message: Any, shown: Shown) -> set[str]:
    """Compare the fields with structures that hold choices, in the order in which they stand; return their names."""
    marked = [f for f in message.__wire_fields__ if holds_choice(f.wire)]
    messages = {cls.__message__["name"] for cls in message.__protocol__.messages}
    expected: dict[str, list[Any]] = {}
    for f in marked:
        for name, value in field_items(f, message.to_json()["fields"], "", {}):
            expected.setdefault(name, []).append(value)
    found: dict[str, list[tuple[str, str]]] = {}
    for item, text_shown, raw in shown.items:
        bare = item.removeprefix(f"{shown.protocol}.")
        first, _, rest = bare.partition(".")  # messages that share a structure show it under the name of the first one
        names = [bare, rest] if first in messages else [bare]
        names += [each.rsplit(".", 1)[0] for each in names if re.fullmatch(TYPES, each.rsplit(".", 1)[-1])]
        name = next((name for name in names if name in expected), "")
        if name:
            found.setdefault(name, []).append((text_shown, raw))
    empty = {name for name, values in expected.items() if values == [""] * len(values)}  # may not be on the wire
    assert found.keys() | empty == expected.keys(), f"{message.to_json()} as {shown.fields}"
    for name, values in expected.items():
        assert name in empty or len(values) == len(found[name]), f"{name}: {message.to_json()} as {shown.fields}"
        for value, (text_shown, raw) in zip(values, found.get(name, ()), strict=name not in empty):
            assert agrees(value, text_shown, raw), f"{name}: {value!r} is shown as {text_shown!r} {raw!r}"
    return {f.key for f in marked}


def compare(message: Any, shown: Shown) -> None:
    """All fields that the codec decodes are shown with the same values; what else is shown are lengths and bits."""
    context = f"{message.to_json()} as {shown.fields}"
    assert shown.fault is None, context
    assert shown.length == message.wire_length, context
    expected = expected_fields(message)
    tables = {f.key for f in message.__wire_fields__ if isinstance(f.wire, n.Tags)}
    reading = message.layout.at(message.layout.of(message))
    parts = {part.name for part in reading.frame.parts if hasattr(part, "name")}
    compared = compare_choices(message, shown)
    for name, values in expected.items():
        if name.split(".")[0] in compared:
            continue
        own = f"{shown.protocol}.{message.__message__['name']}.{name}"  # where another message has another type
        found = shown.fields.get(own) or shown.fields.get(f"{shown.protocol}.{name}", [])
        if name.split(".")[0] in tables:
            found = found[-len(values) :]  # the last of a repeated tag counts
        if name in parts:
            found = found[-len(values) :]  # the header has a code of the same name, which stands first
        if values == [""] and not found:
            continue  # not on the wire; the record has its default
        assert len(found) == len(values), f"{name}: {context}"
        for value, (text_shown, raw) in zip(values, found, strict=True):
            assert agrees(value, text_shown, raw), f"{name}: {value!r} is shown as {text_shown!r} {raw!r}"
    for name in shown.fields:
        bare = bare_name(shown, message, name, expected)
        if compared.intersection(bare.split(".")[:2]):
            continue
        beside = bare.endswith(("_length", "_count", "_code")) or bare.removeprefix("frame.") in parts | BESIDE
        beside = beside or name.rsplit(".", 1)[-1] in wire_only(type(message))
        assert bare in expected or beside or bare.rsplit(".", 1)[0] in expected, f"{name} is shown: {context}"
    assert ([f"note: {note}" for note in message.notes]) == [e for e in shown.experts if e.startswith("note: ")]


def outcome(protocol: n.Protocol, frame: bytes, options: dict[str, Any]) -> Any:
    """The message that a stream begins with, or the fault."""
    decoder = StreamDecoder(protocol, **stream_options(protocol.name, options))
    event = [*decoder.feed(frame), *decoder.finish()][0]
    return event.message if isinstance(event, Decoded) else event.error


def side_options(protocol: n.Protocol, from_client: bool) -> dict[str, Any]:
    """Which side sends, where a code is another message on each side."""
    return {n.SIDE: "client" if from_client else "server"} if n.SIDE in protocol.options else {}


def judge(
    protocol: n.Protocol, frames: list[bytes], options: dict[str, Any], tshark: Tshark, *, resume: bool = True
) -> dict[str, int]:
    """Each frame on a connection of its own, against the record codec; which messages and rules were met how often.

    Where codes depend on the side, each side sends every frame.
    """
    capture = Capture()
    sent = [(frame, True) for frame in frames]
    if n.SIDE in protocol.options:
        sent += [(frame, False) for frame in frames]
    for number, (frame, from_client) in enumerate(sent):
        capture.stream(number, frame, from_client=from_client)
    found = by_flow(tshark.show(capture, resume=resume, **options))
    met: dict[str, int] = {}
    for number, (frame, from_client) in enumerate(sent):
        result = outcome(protocol, frame, options | side_options(protocol, from_client))
        first = found.get(capture.flow(number, from_client=from_client), [None])[0]
        where = f"{frame.hex()} with {options}, {from_client=}: {result}"
        if not isinstance(result, DecodeError):
            assert first is not None, where
            compare(result, first)
            kind = result.to_json()["message"]
        elif result.incomplete:
            assert first is None, where
            kind = "incomplete"
        else:
            assert first is not None, where
            compare_faults(result, first, where)
            kind = result.rule
        met[kind] = met.get(kind, 0) + 1
    return met


def compare_faults(error: DecodeError, shown: Shown, where: str) -> None:
    assert shown.fault is not None, where
    rule, path, offset = shown.fault
    assert (rule, path) == (error.rule, error.path), where
    assert offset == error.offset or rule == "payload_json", where  # where JSON breaks, versions of Python disagree
    assert any(expert.startswith(f"malformed: {error.rule} (") for expert in shown.experts), where


def frames_of(vectors: Iterable[vector_files.Vector]) -> list[bytes]:
    """The bytes of the vectors as they travel on TCP, each once."""
    found = {}
    for vector in vectors:
        is_stream = vector.options.get("framing") == "tcp"
        found[vector.data if is_stream else as_stream(vector.protocol, vector.data)] = None
    return [frame for frame in found if frame]


def some_frames(protocol: n.Protocol, options: dict[str, Any], rng: Random, count: int) -> Iterator[bytes]:
    """Random good frames: every message in turn, in every dialect that the options leave open."""
    layouts = candidates(protocol, **stream_options(protocol.name, options))
    for number in range(count):
        made = layouts[number % len(layouts)]
        nodes = list(made.messages.values())
        yield random_frame(made, nodes[number // len(layouts) % len(nodes)], rng, size=0.5)[1]


def damaged(frame: bytes, rng: Random) -> bytes:
    """The frame with a byte changed, or a few taken out or put in."""
    broken = bytearray(frame)
    at = rng.randrange(len(broken))
    match rng.randrange(4):
        case 0:
            broken[at] = rng.randrange(256)
        case 1:
            broken[at] ^= 1 << rng.randrange(8)
        case 2:
            del broken[at : at + rng.randrange(1, 4)]
        case _:
            broken[at:at] = rng.randbytes(rng.randrange(1, 4))
    return bytes(broken) or frame[:1]


# --- against the record codec


@pytest.mark.parametrize(("name", "options"), READINGS)
def test_every_vector_is_shown_as_it_is_decoded(name: str, options: dict[str, Any], tsharks: dict[str, Tshark]) -> None:
    protocol = wirelake.load(name)
    met = judge(protocol, frames_of(vector_files.vectors(name)), options, tsharks[name])
    messages = {cls.__message__["name"] for cls in protocol.messages}
    assert messages <= met.keys()
    assert len(met.keys() - messages) > 8


@pytest.mark.parametrize(("name", "options"), READINGS)
def test_random_and_damaged_frames_are_shown_as_they_are_decoded(
    name: str, options: dict[str, Any], tsharks: dict[str, Tshark]
) -> None:
    rng = Random(f"{name} {options}")
    protocol = wirelake.load(name)
    good = list(some_frames(protocol, options, rng, 150))
    met = judge(protocol, good + [damaged(frame, rng) for frame in good], options, tsharks[name])
    assert {cls.__message__["name"] for cls in protocol.messages} <= met.keys()


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_generated_capture_is_shown_as_it_was_made(name: str, tmp_path: Path, tsharks: dict[str, Tshark]) -> None:
    traffic = generate(name, seed=3, messages=150, connections=3)
    write_pcap(traffic, tmp_path / "made.pcap")
    sent: dict[tuple[str, ...], list[bytes]] = {}
    ports = set()
    for event in traffic:
        client, server = event.connection.client, event.connection.server
        sender, receiver = (client, server) if event.direction == "to_server" else (server, client)
        sent.setdefault((sender[0], str(sender[1]), receiver[0], str(receiver[1])), []).append(event.frame)
        ports.add(str(server[1]))
    listening = {} if wirelake.load(name).ports else {"ports": ",".join(sorted(ports))}
    shown = by_flow(tsharks[name].show(tmp_path / "made.pcap", port=None, **listening))
    assert shown.keys() == sent.keys()
    for flow, frames in sent.items():
        decoder = StreamDecoder(name)
        events = [*decoder.feed(b"".join(frames)), *decoder.finish()]
        assert len(events) == len(shown[flow]) == len(frames)
        for event, frame in zip(events, shown[flow], strict=True):
            message = event.message
            if name == "ceda":  # the two directions prove the dialect together, so it may be known earlier
                frame.fields.pop("ceda.dialect")
                frame.fields["ceda.dialect"] = [(message.to_json()["fields"]["dialect"], "")]
            compare(message, frame)


# --- streams


@pytest.mark.parametrize(("name", "options"), READINGS)
def test_messages_are_the_same_however_segments_cut_them(
    name: str, options: dict[str, Any], tsharks: dict[str, Tshark]
) -> None:
    rng = Random(f"cuts {name} {options}")
    capture = Capture()
    streams = []
    for number, step in enumerate((1, 2, 5, 33, 1000)):
        layouts = candidates(wirelake.load(name), **stream_options(name, options))
        made = layouts[number % len(layouts)]
        nodes = list(made.messages.values())
        frames = [random_frame(made, rng.choice(nodes), rng, size=0.1 if step < 5 else 1)[1] for _ in range(8)]
        streams.append(b"".join(frames))
        capture.stream(number, streams[-1], range(step, len(streams[-1]), step), from_client=number % 2 == 0)
    shown = by_flow(tsharks[name].show(capture, **options))
    for number, data in enumerate(streams):
        decoder = StreamDecoder(name, **stream_options(name, options))
        events = [*decoder.feed(data), *decoder.finish()]
        frames_shown = shown[capture.flow(number, from_client=number % 2 == 0)]
        assert len(events) == len(frames_shown) == 8
        for event, frame in zip(events, frames_shown, strict=True):
            compare(event.message, frame)


@pytest.mark.parametrize(("name", "options"), READINGS)
def test_after_a_bad_frame_the_next_good_one_in_the_segment_is_found(
    name: str, options: dict[str, Any], tsharks: dict[str, Tshark]
) -> None:
    rng = Random(f"bad {name} {options}")
    protocol = wirelake.load(name)
    capture = Capture()
    streams = []
    for number in range(40):
        frames = list(some_frames(protocol, {**options, **first_dialect(protocol)}, rng, 6))
        rng.shuffle(frames)
        frames[2] = damaged(frames[2], rng)
        streams.append(b"".join(frames))
        capture.stream(number, streams[-1])
    shown = by_flow(tsharks[name].show(capture, **options))
    quarantined = 0
    for number, data in enumerate(streams):
        decoder = StreamDecoder(name, **stream_options(name, options))
        events = [*decoder.feed(data), *decoder.finish()]
        if any(not isinstance(event, Decoded) and event.error.incomplete for event in events):
            continue  # a false length: Wireshark waits for bytes that never come
        frames_shown = shown[capture.flow(number)]
        assert [event.length for event in events] == [frame.length for frame in frames_shown], data.hex()
        for event, frame in zip(events, frames_shown, strict=True):
            if isinstance(event, Decoded):
                compare(event.message, frame)
            else:
                compare_faults(event.error, frame, data.hex())
                quarantined += 1
    assert quarantined > 8


@pytest.mark.parametrize("name", PROTOCOLS)
def test_noise_is_malformed_and_never_an_error_of_the_dissector(name: str, tsharks: dict[str, Tshark]) -> None:
    rng = Random(name)
    capture = Capture()
    starts = [b"", *(frame[:9] for frame in some_frames(wirelake.load(name), {}, rng, 30))]
    for connection in range(300):
        capture.segment(connection, rng.choice(starts) + rng.randbytes(rng.randrange(1, 400)))
    faults = {frame.fault[0] for frame in tsharks[name].show(capture) if frame.fault is not None}
    assert faults and "dissector" not in faults


def first_dialect(protocol: n.Protocol) -> dict[str, Any]:
    """One setting for each option that is found out otherwise: a connection speaks one dialect."""
    return {name: option.auto for name, option in protocol.options.items() if option.auto}


def test_both_directions_of_a_connection_share_the_proved_dialect(tsharks: dict[str, Tshark]) -> None:
    capture = Capture()
    masked = bytes.fromhex("8298a1b2c3d4b0bfffd4b3b2858c8fe1939bf59ce9a8f3f39791f29ce9fe")
    capture.segment(0, bytes.fromhex("820101"))
    capture.segment(0, masked)
    capture.segment(0, bytes.fromhex("820101"), from_client=False)
    capture.segment(1, bytes.fromhex("820101"))
    dialects = [frame.one("ceda.dialect") for frame in tsharks["ceda"].show(capture)]
    assert dialects == ["undecided", "ceda4-ws", "ceda4-ws", "undecided"]
    again = [frame.one("ceda.dialect") for frame in tsharks["ceda"].show(capture, "-2")]
    assert again == dialects


def test_a_packet_that_the_capture_cut_short_is_said_to_be_incomplete(tsharks: dict[str, Tshark]) -> None:
    capture = Capture()
    frame = next(v.data for v in vector_files.valid("casual") if v.file == "service_call_request")
    capture.segment(0, frame)
    path = tsharks["casual"].folder / "short.pcap"
    capture.write(path)
    kept = 54 + len(frame) - 10
    whole = path.read_bytes()
    path.write_bytes(whole[:32] + struct.pack("<II", kept, 54 + len(frame)) + whole[40 : 40 + kept])
    (shown,) = tsharks["casual"].show(path)
    assert shown.experts == ["the rest of the frame is missing"]


# --- what people see


def test_the_packet_list_names_message_and_address_of_every_frame(tsharks: dict[str, Tshark]) -> None:
    capture = Capture()
    capture.segment(0, bytes.fromhex("820a61024655 3c0002006f6b 820101 820101".replace(" ", "")))
    capture.segment(0, bytes.fromhex("8201ff"))
    columns = ["-T", "fields", "-e", "_ws.col.Protocol", "-e", "_ws.col.Info"]
    lines = tsharks["ceda"].run(capture, *columns).splitlines()
    assert lines == ["CEDA\tpublish FU, heartbeat, heartbeat", "CEDA\t[malformed: unknown_code]"]


def test_flags_and_labels_are_shown_by_name(tsharks: dict[str, Tshark]) -> None:
    flags = (0x4 | 0x8).to_bytes(8, "big")
    call = wirelake.load("casual").messages[4]
    assert call.__message__["name"] == "service_call_request"
    frame = next(v.data for v in vector_files.valid("casual") if v.file == "service_call_request" and flags in v.data)
    capture = Capture()
    capture.segment(0, frame)
    text_shown = tsharks["casual"].run(capture, "-V")
    assert "type: service_call_request (3100)" in text_shown
    assert ".... .1.. = TPNOREPLY: True" in text_shown
    assert ".... ...0 = TPNOBLOCK: False" in text_shown


def test_frames_are_found_on_the_declared_ports_and_on_those_of_the_preference(tsharks: dict[str, Tshark]) -> None:
    capture = Capture()
    for connection, port in enumerate((8088, 5005, 5006)):
        capture.segment(connection, bytes.fromhex("820101"), port=port)
    flows = [capture.flow(connection, port=port) for connection, port in enumerate((8088, 5005, 5006))]
    assert [frame.flow for frame in tsharks["ceda"].show(capture, port=None)] == flows[:1]
    assert [frame.flow for frame in tsharks["ceda"].show(capture, port=None, ports="5005-5006")] == flows[1:]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_other_ports_are_looked_at_only_on_request(name: str, tsharks: dict[str, Tshark]) -> None:
    protocol = wirelake.load(name)
    capture = Capture()
    frames = [frame for frame in some_frames(protocol, {}, Random(1), 20) if len(frame) >= 8]
    for connection, frame in enumerate(frames):
        capture.segment(connection, frame)
    capture.segment(len(frames), b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n")
    capture.segment(len(frames) + 1, bytes(100))
    assert tsharks[name].show(capture, port=None) == []
    found = tsharks[name].show(capture, port=None, any_port=True)
    assert {frame.flow for frame in found} <= {capture.flow(connection) for connection in range(len(frames))}
    assert len(found) > 10


def test_text_that_is_not_utf8_is_shown_with_its_bytes(tsharks: dict[str, Tshark]) -> None:
    vector = next(v for v in vector_files.valid("casual") if "hex" in str(v.message))
    capture = Capture()
    capture.segment(0, vector.data)
    (shown,) = tsharks["casual"].show(capture)
    assert "casual.raw_text" in shown.fields


def test_a_character_set_is_a_preference(tsharks: dict[str, Tshark]) -> None:
    record = struct.pack("<HH", 3 << 4 | 6 << 1, 4) + "汉字".encode("gbk")
    capture = Capture()
    capture.segment(0, bytes([0x82, 3 + len(record), 0x61, 1]) + b"T" + record)
    (shown,) = tsharks["ceda"].show(capture)
    assert shown.fault is not None and shown.fault[0] == "cell_utf8"
    (shown,) = tsharks["ceda"].show(capture, charset="gbk")
    assert shown.one("ceda.record.string") == "汉字"
    (shown,) = tsharks["ceda"].show(capture, errors="replace")
    assert shown.fault is None


# --- a protocol of one's own

ALARMS = Labels("alarms", {0: "none", 1: "heat", 1 << 9: "smoke", 1 << 40: "water"}, bits=True)
STATES = Labels("states", {-2: "lost", 0: "idle", 1: "busy"})


class Spot(Struct):
    x: int = declared(le.i16, "metres east")
    y: int = declared(le.i16, "metres north")


class Reading(Message, code=1, kind="event"):
    """One of each kind of value."""

    station: int = declared(be.u24, "which station", role="address")
    name: str = declared(text(choose("width", narrow=u8, wide=be.u16)), "its name")
    level: int = declared(choose("width", narrow=be.u16, wide=be.u32), "how full")
    alarms: int = declared(labelled(le.u64, ALARMS), "what is wrong")
    state: int = declared(labelled(be.i16, STATES), "what it does")
    far: int = declared(labelled(be.i64, STATES), "what its neighbour does")
    spots: tuple[Spot, ...] = declared(many(nested(Spot), u8), "where")
    grid: tuple[tuple[int, ...], ...] = declared(many(many(be.i32, u8), u8), "lists of lists")
    ok: bool = declared(bool8, "in order")
    ratio: float = declared(le.f32, "of what there could be")
    share: float = declared(be.f64, "of what there is")
    key: bytes = declared(fixed(5), "five bytes")
    tail: bytes = declared(rest, "whatever comes")


class Rename(Message, code=2, kind="event"):
    """Here the name is a number, and so is what the frame calls its size."""

    name: int = declared(be.u32, "new name", column="new_name")
    length: str = declared(text(u8), "a name that the frame has too", column="length_text")
    malformed: str = declared(text(be.u16), "a name that the dissector has too")


class Remark(Message, code=3, kind="event"):
    """Text to the end."""

    name: str = declared(text(be.u32), "a name with a longer length")
    body: bytes = declared(Body(text=True), "the remark", default=b"")


TOY = declare(
    Protocol(
        name="toy",
        title="A toy protocol",
        frame=Frame((Magic(b"TY"), Size("length", be.u16, counts="after", least=1, most=4000), Code("kind", u8))),
        messages=(Reading, Rename, Remark),
        options={"width": Option(("narrow", "wide"), "narrow", "how wide numbers are")},
        ports={"tcp": 5007},
    )
)


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Tshark:
    return Tshark(tmp_path_factory.mktemp("toy"), TOY)


@pytest.mark.parametrize("width", ["narrow", "wide"])
def test_a_protocol_of_ones_own_is_shown_as_it_is_decoded(width: str, toy: Tshark) -> None:
    rng = Random(width)
    good = list(some_frames(TOY, {"width": width}, rng, 90))
    longer = bytearray(wirelake.encode(Rename(name=5, length="x", malformed="y"), width=width)) + b"!"
    longer[3] += 1
    met = judge(TOY, [*good, *(damaged(frame, rng) for frame in good), bytes(longer)], {"width": width}, toy)
    assert {"reading", "rename", "remark", "magic", "unknown_code", "leftover_bytes"} <= met.keys()


def test_a_protocol_of_ones_own_is_found_on_its_port_and_named_in_the_list(toy: Tshark) -> None:
    reading = Reading(
        station=77, name="mill", level=1, alarms=1 | 1 << 40, state=-2, far=-2, spots=(), grid=(), ok=True,
        ratio=0.5, share=0.25, key=b"12345", tail=b"",
    )  # fmt: skip
    capture = Capture()
    capture.segment(0, wirelake.encode(reading), port=5007)
    assert "TOY" in toy.run(capture, port=None) and "reading 77" in toy.run(capture, port=None)
    tree = toy.run(capture, "-V", port=None)
    assert "state: lost (-2)" in tree and "far: lost (-2)" in tree
    assert ".... ...1 = heat: True" in tree and ".... ...1 = water: True" in tree and ".... ..0. = smoke: False" in tree


def test_a_name_of_two_types_has_two_filters(toy: Tshark) -> None:
    capture = Capture()
    capture.segment(0, wirelake.encode(Rename(name=5, length="x", malformed="y")))
    capture.segment(1, wirelake.encode(Remark(name="five", body=b"")))
    rename, remark = toy.show(capture)
    assert rename.one("toy.rename.name") == "5" and remark.one("toy.name") == "five"
    assert rename.one("toy.rename.length") == "x" and rename.one("toy.rename.malformed") == "y"


class Counted(Message, code=1):
    """Numbers only."""

    value: int = declared(be.i32, "a number")


class Raw(Message, code=1):
    """Bytes only."""

    data: bytes = declared(rest, "whatever comes")


class Packed(Message, code=1):
    """A body that is MessagePack."""

    body: bytes = declared(Body(), "as it came", default=b"")
    content: Any = view(msgpack(), "what it holds", of="body", default=UNSET)
    has_content = derived(Present("content"), "whether it holds something")


class Written(Message, code=1):
    """A body that is JSON."""

    body: bytes = declared(Body(empty="absent"), "as it came", default=b"")
    content: Any = view(Run(None, "json"), "what it holds", of="body", default=UNSET)


class Marks(TagTable):
    """Two headers."""

    weight: int | None = tag(1, be.u16, frozenset({1}), "how heavy", default=None)
    fragile: bool = flag(2, frozenset({1}), "handle with care", default=False)


class Parcel(Message, code=1):
    """Headers and nothing else."""

    marks: Marks = declared(Tags(Marks), "what is written on it", default=Marks())


class Order(Message, code=1, word="order"):
    """A line of words, one of them a number without a bound."""

    thing: str = declared(text_word("[a-z]+", "thing"), "what", role="address")
    count: int | None = optional(number_word("([0-9]+)", "count", 1, 10**12, optional=True), "how many", default=None)


PLAIN = (Size("size", le.u16, counts="whole", least=3, most=900), Code("code", u8))
HEADED = (Size("size", le.u16, counts="whole", least=5, most=900), Head("head", le.u16, 5, 900), Code("code", u8))
LINED = (Size("size", u8, counts="after"), Line(b" ", b";", 100, fewest=2, most=3, code="verb", code_rule="verb"))


@pytest.mark.parametrize(
    ("message", "parts"),
    [(Counted, PLAIN), (Raw, PLAIN), (Packed, PLAIN), (Written, PLAIN), (Parcel, HEADED), (Order, LINED)],
)
def test_every_piece_of_the_source_works_without_the_others(message: Any, parts: Any, tmp_path: Path) -> None:
    name = f"alone_{message.__message__['name']}"
    protocol = declare(Protocol(name, f"Alone with {name}", Frame(parts), (message,)))
    rng = Random(name)
    good = list(some_frames(protocol, {}, rng, 40))
    met = judge(protocol, good + [damaged(frame, rng) for frame in good], {}, Tshark(tmp_path, protocol))
    assert message.__message__["name"] in met and len(met) > 2


# --- the source


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_source_is_the_same_in_every_run(name: str) -> None:
    program = f"import wirelake, wirelake.spec.dissector as d; print(d.dissector(wirelake.load({name!r})), end='')"
    made = [
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert made[0] == made[1] == dissector(wirelake.load(name)).encode()


def test_only_the_pieces_that_a_declaration_needs_are_written() -> None:
    assert "msgpack" in dissector(wirelake.load("dsa"))
    for word in ("msgpack", "json_value", "read.cells", "read.tags", "split_line", "proved"):
        assert word not in dissector(TOY), word


def test_frames_without_a_length_are_refused() -> None:
    class Bare(Message, code=1):
        """All there is."""

        value: int = declared(u8, "a number")

    bare = declare(Protocol("bare", "No length", Frame((Code("kind", u8),)), (Bare,)))
    with pytest.raises(ValueError, match="without a length"):
        dissector(bare)


def test_an_option_that_is_named_like_a_preference_of_the_dissector_is_refused() -> None:
    class Wide(Message, code=1):
        """Depends on an option with a bad name."""

        value: int = declared(choose("ports", a=u8, b=be.u16), "a number")

    frame = Frame((Size("length", u8, counts="after"), Code("kind", u8)))
    odd = declare(Protocol("odd", "Odd option", frame, (Wide,), options={"ports": Option(("a", "b"), "a")}))
    with pytest.raises(SpecError, match="ports"):
        dissector(odd)


# --- names that Wireshark has, and links between packets


class Tick(Message, code=1, kind="event"):
    number: int = declared(be.u32, "counts ticks")


TAKEN = declare(
    Protocol(
        name="mqtt",
        title="MQ Telemetry Transport Protocol",
        frame=Frame((Size("length", u8, counts="after"), Code("type", u8))),
        messages=(Tick,),
    )
)


@pytest.mark.parametrize(("name", "shown"), [("", "wl_mqtt"), ("ticks", "ticks"), ("mqtt", "wl_mqtt")])
def test_a_name_and_a_title_that_wireshark_has_are_no_obstacle(name: str, shown: str, tmp_path: Path) -> None:
    capture = Capture()
    capture.segment(1, wirelake.encode(Tick(number=7)))
    (frame,) = Tshark(tmp_path, TAKEN, name, shown).show(capture)
    assert frame.one(f"{shown}.number") == "7"


def test_a_name_that_no_filter_could_use_is_refused() -> None:
    with pytest.raises(ValueError, match="'My Name' cannot be the name of a dissector"):
        dissector(TAKEN, "My Name")


@pytest.mark.parametrize("name", ["casual", "dsa", "mb"])
def test_requests_and_replies_name_the_packets_of_each_other(
    name: str, tmp_path: Path, tsharks: dict[str, Tshark]
) -> None:
    options = {"framing": "tcp"} if name == "mb" else {}
    traffic = generate(name, messages=300, connections=2, **options)
    write_pcap(traffic, tmp_path / "linked.pcap")
    events, truth = list(traffic), traffic.truth
    port = events[0].connection.server[1]
    shown = tsharks[name].show(tmp_path / "linked.pcap", "-2", port=port)
    by_message = {}  # each event's message, by the connection, direction and order in which tshark shows it
    flows = by_flow(shown)
    for flow, frames in flows.items():
        mine = [number for number, event in enumerate(events) if flow == tuple(map(str, flow_of(event)))]
        by_message |= dict(zip(mine, frames, strict=True))
    linked = 0
    for exchange in truth.exchanges:
        if exchange.reply is None or exchange.replies > 1 or exchange.request not in by_message:
            continue  # of several replies the last page counts; other ports are not read here
        request, reply = by_message[exchange.request], by_message[exchange.reply]
        if f"{name}.request_in" in reply.fields:
            assert reply.one(f"{name}.request_in") == str(request.packet)
            assert request.one(f"{name}.reply_in") == str(reply.packet)
            linked += 1
    assert linked > 10


def flow_of(event: Any) -> tuple[str, int, str, int]:
    ends = event.connection.client, event.connection.server
    source, target = ends if event.direction == "to_server" else ends[::-1]
    return (*source, *target)
