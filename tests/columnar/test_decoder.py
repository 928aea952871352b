"""Batches: columns, subsets, bounds, and life without numba."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
import tracemalloc

import pyarrow as pa
import pytest

import wirelake
from tests.differential import valid_frames
from wirelake import columnar
from wirelake.codec.stream import Decoded, Quarantined
from wirelake.columnar import decode, decode_frames, decode_stream
from wirelake.columnar.to_json import all_columns
from wirelake.protocols import load
from wirelake.protocols.casual import (
    Buffer,
    Domain,
    DomainDiscoverReply,
    OfferedQueue,
    OfferedService,
    Parent,
    Service,
    ServiceCallRequest,
    Xid,
)
from wirelake.spec.resolve import layout, resolve

ID = bytes(range(16))


def call(name: str = "echo", payload: bytes = b"[1]") -> ServiceCallRequest:
    return ServiceCallRequest(
        ID, ID, Service(name, 2_500_000), Parent(""), Xid(42, b"g", b"b"), 4, Buffer(".json/", payload)
    )


def test_columns_have_the_names_of_the_specification() -> None:
    records = decode("casual", wirelake.encode(call())).records
    row = records.to_pylist()[0]
    assert row["message"] == "service_call_request"
    assert row["code"] == 3100
    assert row["service"] == {"name": "echo", "timeout": 2_500_000}
    assert row["xid"] == {"format": 42, "gtrid": b"g", "bqual": b"b"}
    assert row["buffer"] == {"type": ".json/", "payload": b"[1]"}
    assert row["correlation"] == ID
    assert row["domain"] is None
    assert row["notes"] is None


def test_colliding_fields_have_columns_of_their_own() -> None:
    kinds = columnar.schema(load("casual"))
    assert kinds.field("service_names").type == pa.list_(pa.string())
    assert kinds.field("queue_names").type == pa.list_(pa.string())
    assert {"enqueued", "dequeued", "codes", "services", "queues"} <= set(kinds.names)


def test_lists_of_structures_become_lists_of_structs() -> None:
    services = tuple(OfferedService(f"s{i}", "c", 1, i, 0) for i in range(3))
    reply = DomainDiscoverReply(ID, ID, Domain(ID, "d"), services, (OfferedQueue("q", 7),))
    empty = DomainDiscoverReply(ID, ID, Domain(ID, "d"), (), ())
    rows = decode("casual", b"".join(map(wirelake.encode, (reply, empty, reply)))).records.to_pylist()
    assert [s["name"] for s in rows[0]["services"]] == ["s0", "s1", "s2"]
    assert rows[0]["queues"] == [{"name": "q", "retries": 7}]
    assert rows[1]["services"] == []
    assert rows[2]["services"] == rows[0]["services"]


def test_a_subset_of_columns_is_that_subset_in_the_order_asked_for() -> None:
    frames = valid_frames("casual", 200, random.Random(1))
    whole = decode_frames("casual", frames).records
    some = decode_frames("casual", frames, ["service", "offset", "dequeued"]).records
    assert some.schema.names == ["service", "offset", "dequeued"]
    for name in some.schema.names:
        assert some.column(name).equals(whole.column(name))


@pytest.mark.parametrize("protocol", ["casual", "dsa", "mb", "ceda"])
def test_each_column_alone_is_what_it_is_among_all(protocol: str) -> None:
    options = {"dialect": "ceda4"} if protocol == "ceda" else {}
    frames = valid_frames(protocol, 300, random.Random(6), **options)
    names = all_columns(load(protocol))
    whole = decode_frames(protocol, frames, names, **options).records
    for name in names:
        alone = decode_frames(protocol, frames, [name], **options).records
        assert repr(alone.column(0).to_pylist()) == repr(whole.column(name).to_pylist()), name


def test_an_unknown_column_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"casual has no column 'servise'; it has: offset, .*service"):
        decode("casual", b"", ["servise"])


def test_text_that_is_not_utf8_is_null_with_its_bytes_beside_it() -> None:
    frame = wirelake.encode(call("caf\udce9"))
    batch = decode("casual", frame * 2)
    for row in batch.records.to_pylist():
        assert row["service"]["name"] is None
        assert row["raw_text"] == [("service.name", b"caf\xe9")]
        assert row["service"]["timeout"] == 2_500_000


def test_free_form_values_are_rendered_only_when_asked_for() -> None:
    frame = bytes.fromhex("3e0000001100810600000020000000000022008 1a27473bd".replace(" ", ""))
    frame += b"2024-03-01T12:00:00.000+00:00" + bytes.fromhex("cb4035c00000000000")
    assert "value" not in decode("dsa", frame).records.schema.names
    row = decode("dsa", frame, ["value", "value_meta", "value_present"]).records.to_pylist()[0]
    assert row == {"value": "21.75", "value_meta": '{"ts":"2024-03-01T12:00:00.000+00:00"}', "value_present": True}


def test_bad_ranges_are_rejects_with_rule_path_offset_and_bytes() -> None:
    good = wirelake.encode(call())
    batch = decode("casual", good + b"garbage!" + good)
    assert batch.records.column("offset").to_pylist() == [0, len(good) + 8]
    (reject,) = batch.quarantined.to_pylist()
    assert (reject["offset"], reject["length"], reject["bytes"]) == (len(good), 8, b"garbage!")
    assert reject["verdict"] == "error"


def test_a_cut_off_tail_is_an_incomplete_reject() -> None:
    good = wirelake.encode(call())
    batch = decode("casual", good + good[:50])
    assert batch.records.num_rows == 1
    assert batch.quarantined.column("verdict").to_pylist() == ["incomplete"]


def test_a_column_that_is_full_ends_the_batch_and_nothing_is_lost() -> None:
    many = DomainDiscoverReply(ID, ID, Domain(ID, "d"), (OfferedService("s", "", 0, 0, 0),) * 5000, ())
    few = DomainDiscoverReply(ID, ID, Domain(ID, "d"), (), ())
    data = b"".join(wirelake.encode(m) for m in (few, many, few, many, many, few))
    rows = decode("casual", data).records.to_pylist()
    assert [len(row["services"]) for row in rows] == [0, 5000, 0, 5000, 5000, 0]


def test_a_layout_that_is_made_again_is_the_same() -> None:
    data = b"".join(valid_frames("ceda", 500, random.Random(2), dialect="ceda4"))
    wanted = sum(batch.records.num_rows for batch in decode_stream("ceda", [data]))
    before = layout(load("ceda"), dialect="ceda4")
    resolve.cache_clear()
    after = layout(load("ceda"), dialect="ceda4")
    assert after == before and after is not before
    assert sum(batch.records.num_rows for batch in decode_stream("ceda", [data])) == wanted == 500


def test_batches_of_a_stream_are_bounded_and_complete() -> None:
    frames = valid_frames("ceda", 3000, random.Random(2), dialect="ceda4")
    data = b"".join(frames)
    batches = list(decode_stream("ceda", (data[i : i + 1000] for i in range(0, len(data), 1000)), batch_bytes=20_000))
    assert len(batches) > 5
    assert sum(b.records.num_rows for b in batches) == 3000
    largest = max(map(len, frames))
    for batch in batches:
        assert sum(batch.records.column("length").to_pylist()) <= 20_000 + largest + 1000


@pytest.mark.parametrize("claim", [1 << 60, 1 << 61, (1 << 63) - 1, -1])
def test_a_small_frame_that_claims_many_elements_costs_nothing(claim: int) -> None:
    reply = bytearray(wirelake.encode(DomainDiscoverReply(ID, ID, Domain(ID, "d"), (), ())))
    at = 32 + 16 + 16 + 9
    reply[at : at + 8] = claim.to_bytes(8, "big", signed=True)
    decode_frames("casual", [bytes(reply)])
    tracemalloc.start()
    started = time.perf_counter()
    batch = decode_frames("casual", [bytes(reply)])
    took = time.perf_counter() - started
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert batch.quarantined.column("rule").to_pylist() == ["negative_count" if claim < 0 else "count_fits"]
    assert peak < 4 << 20
    assert took < 1


def test_without_numba_the_result_is_the_same_and_one_warning_says_so() -> None:
    script = """
import sys, warnings
sys.modules["numba"] = None
import wirelake
from wirelake import columnar
from wirelake.codec.stream import Decoded, Quarantined
data = bytes.fromhex(sys.argv[1])
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    batch = columnar.decode("casual", data)
    columnar.decode("casual", data)
assert len(seen) == 1 and "numba" in str(seen[0].message), seen
print(batch.records.to_pylist(), batch.quarantined.to_pylist())
"""
    data = b"".join(valid_frames("casual", 30, random.Random(3))) + b"xx" + wirelake.encode(call())
    run = subprocess.run(
        [sys.executable, "-c", script, data.hex()], capture_output=True, text=True, check=True, env=os.environ.copy()
    )
    batch = decode("casual", data)
    assert run.stdout.strip() == f"{batch.records.to_pylist()} {batch.quarantined.to_pylist()}"


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_small_batches_of_a_broken_stream_lose_no_byte(rows: int) -> None:
    good = wirelake.encode(call())
    data = (b"\xff" * 5 + good + good[:-3] + good + good) * 3
    batches = list(decode_stream("casual", [data], batch_rows=rows))
    assert max(batch.records.num_rows for batch in batches) <= rows
    decoder = wirelake.StreamDecoder("casual")
    events = decoder.feed(data) + decoder.finish()
    offsets = [offset for batch in batches for offset in batch.records.column("offset").to_pylist()]
    bad = [offset for batch in batches for offset in batch.quarantined.column("offset").to_pylist()]
    assert offsets == [event.offset for event in events if isinstance(event, Decoded)]
    assert bad == [event.offset for event in events if isinstance(event, Quarantined)]


def test_a_frame_of_an_unknown_message_costs_itself_alone_if_another_seems_to_follow() -> None:
    good = wirelake.encode(call())
    batch = decode("casual", good + b"\x01" + good[1:] + good[:-1] + 3 * good)
    first = batch.quarantined.to_pylist()[0]
    assert (first["offset"], first["length"], first["rule"]) == (len(good), len(good), "unknown_code")
