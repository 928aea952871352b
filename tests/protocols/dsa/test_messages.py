"""dsa: which header may stand on which method, in both modes, byte for byte."""

from __future__ import annotations

import struct

import pytest

from wirelake import decode, encode
from wirelake.errors import DecodeError
from wirelake.protocols import dsa
from wirelake.spec.declare import tag_rows
from wirelake.spec.resolve import layout

METHODS = {
    0x01: ("subscribe_request", 0x81),
    0x02: ("list_request", 0x82),
    0x03: ("invoke_request", 0x83),
    0x04: ("set_request", 0x84),
    0x07: ("preflight_request", 0x87),
    0x0F: ("close", None),
    0x81: ("subscribe_response", None),
    0x82: ("list_response", None),
    0x83: ("invoke_response", None),
    0x84: ("set_response", None),
    0x87: ("preflight_response", None),
    0xF0: ("handshake_f0", None),
    0xF1: ("handshake_f1", None),
    0xF2: ("handshake_f2", None),
    0xF3: ("handshake_f3", None),
    0xF8: ("ack", None),
    0xF9: ("ping", None),
}
REQUESTS = {0x01, 0x02, 0x03, 0x04, 0x07}

HEADERS = {
    0x00: ("status", "byte", {0x81, 0x82, 0x83, 0x84, 0x87, 0xF1, 0xF3}),
    0x01: ("sequence_id", "int", {0x81, 0x03, 0x83}),
    0x02: ("page_id", "int", {0x81, 0x03, 0x83, 0x04}),
    0x04: ("audit_log", "string", {0x83, 0x84}),
    0x05: ("error_detail", "string", {0x83, 0x84}),
    0x08: ("alias_count", "byte", REQUESTS),
    0x10: ("priority", "flag", REQUESTS),
    0x11: ("no_stream", "flag", REQUESTS),
    0x12: ("qos", "byte", {0x01}),
    0x14: ("queue_size", "int", {0x01}),
    0x15: ("queue_duration", "int", {0x01}),
    0x20: ("refreshed", "flag", {0x82, 0x03, 0x83}),
    0x21: ("pub_path", "string", {0x82}),
    0x30: ("skippable", "flag", {0x83}),
    0x32: ("max_permission", "byte", {0x03}),
    0x41: ("attribute_field", "string", {0x04}),
    0x60: ("permission_token", "string", REQUESTS),
    0x80: ("target_path", "string", REQUESTS),
    0x81: ("source_path", "string", {0x81, 0x82}),
}
"""The published table: code, name, type, methods."""

VALUES = {"flag": b"", "byte": b"\x07", "int": struct.pack("<i", -7), "string": b"\x03\x00abc"}
SHOWN = {"flag": True, "byte": 7, "int": -7, "string": "abc"}
BODIES = {0x04: b"\0\0\xc0", 0xF8: bytes(4)}


def frame(method: int, headers: bytes) -> bytes:
    """A message in the long form, with what its body cannot do without."""
    body = BODIES.get(method, b"")
    ids = struct.pack("<II", 1, 2)
    return struct.pack("<IHB", 15 + len(headers) + len(body), 15 + len(headers), method) + ids + headers + body


def test_every_method_has_its_code_name_and_answer() -> None:
    assert {code: (m.name, m.answer) for code, m in layout(dsa.PROTOCOL).messages.items()} == METHODS


def test_every_header_has_its_code_and_name() -> None:
    assert {row.code: row.name for row in tag_rows(dsa.Headers)} == {code: row[0] for code, row in HEADERS.items()}


@pytest.mark.parametrize("method", METHODS, ids=lambda code: METHODS[code][0])
def test_a_header_is_read_where_it_is_allowed_and_refused_elsewhere(method: int) -> None:
    options = {"frame_only": True}  # handshakes have no body here: only headers matter
    target = b"\x80\x01\x00a" if method in REQUESTS else b""
    for code, (name, kind, allowed) in HEADERS.items():
        header = bytes([code]) + VALUES[kind]
        data = frame(method, (target if name != "target_path" else b"") + header)
        if method in allowed:
            message = decode("dsa", data, **options)
            assert getattr(message.headers, name) == SHOWN[kind]
            assert encode(message) == data
        else:
            with pytest.raises(DecodeError) as caught:
                decode("dsa", data, **options)
            assert caught.value.rule == "header_not_allowed"
            assert (caught.value.path, caught.value.offset) == (f"headers.{name}", 15 + len(target))


@pytest.mark.parametrize("method", METHODS, ids=lambda code: METHODS[code][0])
def test_compat_reads_every_known_header_on_every_method(method: int) -> None:
    for code, (name, kind, _) in HEADERS.items():
        data = frame(method, bytes([code]) + VALUES[kind])
        message = decode("dsa", data, mode="compat", frame_only=True)
        assert getattr(message.headers, name) == SHOWN[kind]
        assert encode(message) == data


@pytest.mark.parametrize("mode", ["strict", "compat"])
def test_every_other_code_is_unknown(mode: str) -> None:
    for code in set(range(256)) - set(HEADERS):
        with pytest.raises(DecodeError) as caught:
            decode("dsa", frame(0x83, bytes([code, 0, 0, 0, 0])), mode=mode)
        assert (caught.value.rule, caught.value.offset) == ("unknown_header", 15)


@pytest.mark.parametrize("mode", ["strict", "compat"])
def test_every_other_method_is_unknown(mode: str) -> None:
    for method in set(range(256)) - set(METHODS):
        with pytest.raises(DecodeError) as caught:
            decode("dsa", frame(method, b"")[:7], mode=mode)
        assert (caught.value.rule, caught.value.path, caught.value.offset) == ("unknown_code", "method", 6)


def test_a_status_closes_from_0x20_on() -> None:
    for status in range(256):
        message = decode("dsa", frame(0x84, bytes([0x00, status])))
        assert message.closed is (status >= 0x20)


def test_statuses_and_permissions_have_their_names() -> None:
    assert dsa.STATUS.names[0x0E] == "not_available"
    assert dsa.STATUS.names[0x61] == "alias_loop"
    assert list(dsa.PERMISSION.names) == [0x00, 0x10, 0x20, 0x30, 0x40]


def test_the_life_cycle_is_a_handshake_of_four_then_anything() -> None:
    cycle = dsa.PROTOCOL.life_cycle
    assert cycle is not None
    state, said = cycle.initial, []
    while state != "ready":
        moves = cycle.client.get(state) or cycle.server.get(state) or {}
        (message, state) = next(iter(moves.items()))
        said.append(message)
    assert said == ["handshake_f0", "handshake_f1", "handshake_f2", "handshake_f3"]
    assert not any(name.startswith("handshake") for name in cycle.client["ready"])
