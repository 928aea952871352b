"""Frames of live streams whose dialect is found out; ``tests/live/ceda/test_wire.py`` has the rules of CEDA."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wirelake
from wirelake.codec.quick_dialects import QuickDialects
from wirelake.protocols import load
from wirelake.protocols.ceda import Publish
from wirelake.spec.resolve import layout, resolve

LAYOUTS = {name: layout(load("ceda"), dialect=name) for name in ("ceda4", "ceda4-ws")}


def a_stream(dialect: str | None = None) -> QuickDialects:
    return QuickDialects(LAYOUTS, "ceda4-ws", dialect)


@pytest.mark.parametrize("dialect", LAYOUTS)
@given(sizes=st.lists(st.sampled_from((0, 10, 100, 200, 300, 5000)), max_size=6), cut=st.integers(1, 400))
def test_payloads_come_whole_however_the_stream_is_cut(dialect: str, sizes: list[int], cut: int) -> None:
    payloads = [b"\x61\x01a" + b"\x1e\x00" + size.to_bytes(2, "little") + bytes(size) for size in sizes]
    frames = [wirelake.encode(Publish(topic="a", body=payload[3:]), dialect=dialect) for payload in payloads]
    data = b"".join(frames)
    for stream in (a_stream(), a_stream(dialect)):
        found = [p for at in range(0, len(data), cut) for batch in stream.read(data[at : at + cut]) for p in batch]
        assert found == payloads and stream.error is None and stream.pending == 0
        assert stream.reading == (dialect if max(sizes, default=0) > 118 or stream.dialect else "ceda4-ws")


def test_a_layout_that_is_made_again_is_the_same() -> None:
    """A cache may let a layout go; what it then makes for another part of the program is equal, not identical."""
    data = b"\x82\x7e\xcf\x00\x61\x01a\x1e\x00\xc8\x00" + bytes(200)
    assert [p for batch in a_stream().read(data) for p in batch]
    resolve.cache_clear()
    made = {name: layout(load("ceda"), dialect=name) for name in LAYOUTS}
    stream = QuickDialects(made, "ceda4-ws", None)
    assert made["ceda4"] is not LAYOUTS["ceda4"]
    assert [p for batch in stream.read(data) for p in batch] and stream.dialect == "ceda4"


def test_lost_framing_is_an_error_and_ends_the_stream() -> None:
    stream = a_stream("ceda4")
    assert list(stream.read(b"\x82\x01\x01\x00\x00\x00")) == [[b"\x01"]]
    assert stream.error is not None and list(stream.read(b"\x82\x01\x01")) == []


def test_other_frames_are_refused() -> None:
    with pytest.raises(ValueError, match="casual do not begin with a byte and an escaped length"):
        QuickDialects({"casual": layout(load("casual"))}, "casual", None)
