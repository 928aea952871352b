"""One protocol as captures carry it: its columns, its second layout, its schema."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from tests.capture.feeds import Feed, chunks_of, connection, generated, play
from wirelake import encode
from wirelake.capture.protocol_reader import ProtocolReader, ProtocolReaders
from wirelake.capture.settings import ReadSettings
from wirelake.capture.streams import Streams
from wirelake.errors import OptionError
from wirelake.protocols import mb


def test_only_the_columns_that_are_asked_for_are_made_and_in_that_order() -> None:
    feed = generated("casual", random.Random(1), messages=50, seed=4)
    names = ("message", "connection", "order", "execution")
    streams = Streams(ReadSettings(protocol="casual", columns={"casual": names}))
    output = streams.feed(chunks_of(feed.packets), "one.pcap")
    assert all(tuple(batch.schema.names) == names for batch in output.messages["casual"])
    only = Streams(ReadSettings(protocol="casual", columns={"casual": ("direction",)}))
    assert sum(batch.num_rows for batch in only.feed(chunks_of(feed.packets), "").messages["casual"]) > 50


def test_a_column_that_does_not_exist_is_refused() -> None:
    streams = Streams(ReadSettings(protocol="casual", columns={"casual": ("nonsense",)}))
    feed = generated("casual", random.Random(1), messages=5, seed=4)
    with pytest.raises(ValueError, match="casual has no column 'nonsense'"):
        streams.feed(chunks_of(feed.packets), "one.pcap")


def test_schemas_do_not_depend_on_what_was_seen() -> None:
    feed = generated("ceda", random.Random(1), messages=60, seed=4, corrupt=0.1)
    streams = Streams(ReadSettings(protocol="ceda"))
    schemas = {
        batch.schema for chunks in feed.windows([7]) for batch in streams.feed(chunks, "a").messages.get("ceda", ())
    }
    assert len(schemas) == 1
    (schema,) = schemas
    assert schema.names[:11] == [
        "capture", "connection", "direction", "offset", "length", "ts", "order", "message", "code", "notes", "raw_text",
    ]  # fmt: skip
    assert schema.field("ts").type == pa.timestamp("us", tz="UTC")


def test_what_only_the_strict_reading_refuses_is_read_and_noted() -> None:
    lax = mb.Request(topic="a.b", version="v1.0.0", request_id="00000000-0000-1000-8000-000000000001", payload=b"{}")
    plain = mb.Publish(topic="a.b", version="1.0.0", payload=b"{}")
    feed = Feed()
    frames = [encode(lax, framing="tcp", profile="upstream"), encode(plain, framing="tcp")]
    feed.add(connection(), 0, b"".join(frames))
    rows = play(feed, ReadSettings(protocol="mb")).messages["mb"]
    assert [(row["message"], row["notes"]) for row in rows] == [("request", ["upstream"]), ("publish", None)]
    chosen = play(feed, ReadSettings(protocol="mb", options={"mb": {"profile": "strict"}}))
    assert [row["message"] for row in chosen.messages["mb"]] == ["publish"]
    assert [row["length"] for row in chosen.quarantine] == [len(frames[0])]


def test_a_protocol_has_one_reader_for_plain_streams_and_one_for_websocket() -> None:
    readers = ProtocolReaders(ReadSettings())
    plain, wrapped = readers.number("mb", False), readers.number("mb", True)
    assert plain != wrapped == readers.number("mb", True)
    assert readers.names == readers.protocols == ["mb", "mb"]
    assert (readers[plain].is_given, readers[wrapped].is_given) == (False, True)


def test_counting_needs_no_columns() -> None:
    assert ProtocolReader(ReadSettings(counts_only=True), "casual", False).columns == ()


def test_a_protocol_that_only_carried_state_names_is_refused_and_its_file_does_not_run(tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    for name in (str(tmp_path / "evil.py:PROTOCOL"), "wirelake_declared_0123456789abcdef:PROTOCOL", "toy"):
        with pytest.raises(OptionError, match=r"but only casual, dsa, mb, ceda are read; add it with -p"):
            ProtocolReaders(ReadSettings()).number(name, False)
    assert not (tmp_path / "ran").exists()
