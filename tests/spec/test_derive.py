"""Values that are computed from a record."""

from __future__ import annotations

from typing import Any

import pytest

import wirelake
from wirelake.protocols import casual, ceda, dsa
from wirelake.spec import Cell
from wirelake.spec import nodes as n
from wirelake.spec.derive import derive, looked_into, payload_length, reach


def decoded(message: Any, **options: Any) -> Any:
    return wirelake.decode(type(message).__protocol__, wirelake.encode(message, **options), **options)


def invoke(body: bytes, **headers: Any) -> Any:
    made = dsa.Headers(target_path="a", **headers)
    return decoded(dsa.InvokeRequest(request_id=1, ack_id=1, headers=made, body=body))


def test_a_path_leads_through_structures_and_ends_where_something_is_absent() -> None:
    record = invoke(b"\x01", page_id=None)
    assert reach(record, "headers.target_path") == "a"
    assert reach(record, "headers.page_id") is None
    assert reach(record, "headers.page_id.anything") is None


@pytest.mark.parametrize(
    ("how", "value"),
    [
        (n.FrameLength(), 20),
        (n.FrameLength(less="body"), 19),
        (n.LengthOf("body"), 1),
        (n.AtLeast("headers.alias_count", 1), False),
        (n.AtLeast("request_id", 1), True),
        (n.Present("value"), True),
        (n.Empty("value"), False),
        (n.OrderOf("headers"), ["target_path"]),
    ],
)
def test_every_kind_of_computed_value(how: n.Derived, value: Any) -> None:
    assert derive(how, invoke(b"\x01")) == value


def test_a_body_that_is_a_page_is_not_looked_into() -> None:
    assert looked_into(invoke(b"\x01"))
    page = invoke(b"\xc1", page_id=1, sequence_id=1)
    assert not looked_into(page)
    assert derive(n.Present("value"), page) is None


def test_a_refused_handshake_has_no_body_to_look_into() -> None:
    refused = decoded(dsa.ServerHello(headers=dsa.Headers(status=0x40), body=b""))
    assert not looked_into(refused)


@pytest.mark.parametrize(("size", "wide"), [(100, False), (200, True)])
@pytest.mark.parametrize("mask", [None, b"mask"])
def test_the_length_of_a_payload_leaves_out_header_and_mask(size: int, wide: bool, mask: bytes | None) -> None:
    record = (Cell(1, "BYTES", bytes(size)),)
    message = decoded(ceda.Publish(topic="T", record=record, mask_key=mask), dialect="ceda4-ws")
    expected = 1 + 2 + 2 + 2 + size
    assert payload_length(message) == expected
    assert derive(n.Wide(126), message) is wide
    assert derive(n.Masked(), message) is (mask is not None)


def test_the_length_of_a_payload_is_what_the_size_of_the_frame_counts() -> None:
    disconnect = decoded(casual.ConversationDisconnectLate(correlation=bytes(16), execution=bytes(16)))
    assert payload_length(disconnect) == 16
    assert payload_length(invoke(b"\x01")) == 20
