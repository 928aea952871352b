"""Blobs: cut into pieces and put together again, with everything that may go wrong in between."""

from __future__ import annotations

import random
import struct
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from wirelake.errors import EncodeError
from wirelake.live.ceda.data import MAX_BLOB, Blob, Keys, Message, payloads, read_data, write_record
from wirelake.live.ceda.groups import GroupLimits, Merger
from wirelake.live.ceda.wire import CEDA4, CEDA4_WS, FRAMINGS, GROUP_PUB, P2P, PUBLISH, REPLY, REQUEST
from wirelake.spec import Cell

DIALECTS = (CEDA4, CEDA4_WS)
SPLIT_REQUEST = (
    "8242 62 07 444f432e505554 120400 024d51 016b 08 313034322e312e33 5c000500 612e747874"
    " 1e000800 4142434445464748 0e000f00 01 0000 0200 0b000000 0100 08000000",
    "822b 62 07 444f432e505554 120400 024d51 00 08 313034322e312e33 1e000300 494a4b 0e000700 01 0100 03000000",
)
"""The pieces of the worked example 8."""


class Bench:
    """A merger that is fed payloads."""

    def __init__(self, limits: GroupLimits | None = None, dialect: str = CEDA4_WS) -> None:
        self.counts: Counter[str] = Counter()
        self.merger = Merger(limits or GroupLimits(), self.counts)
        self.dialect = dialect

    def feed(self, *given: bytes | Message, now: float = 0.0) -> list[Message]:
        found = []
        for one in given:
            message = one if isinstance(one, Message) else read_data(one, self.dialect)
            whole = self.merger.take(message, self.dialect, now)
            if whole is not None:
                found.append(whole)
        return found


def blob_request(size: int, topic: str = "DOC.PUT") -> Message:
    data = random.Random(size).randbytes(size)
    return Message(REQUEST, topic, write_record({5: "a.txt"}), 1042, "MQ", "k", "1042.1.3", Blob(1, data))


def piece(kind: int = REQUEST, topic: str = "t", key: str = "k", **cells: bytes) -> Message:
    body = write_record([Cell(int(name[1:]), "BYTES", value) for name, value in cells.items()])
    return Message(kind, topic, body, reply_topic=key)


def first(count: int, total: int, position: int, length: int) -> bytes:
    return struct.pack("<BhhihI", 1, 0, count, total, position, length)


def later(index: int, length: int) -> bytes:
    return struct.pack("<BhI", 1, index, length)


def test_example_8_is_written_and_merged() -> None:
    message = Message(
        REQUEST, "DOC.PUT", write_record({5: "a.txt"}), 1042, "MQ", "k", "1042.1.3", Blob(1, b"ABCDEFGHIJK")
    )
    for dialect in DIALECTS:
        written = payloads(message, dialect, piece=8)
        assert [FRAMINGS[dialect].wrap(one) for one in written] == [bytes.fromhex(one) for one in SPLIT_REQUEST]
        (whole,) = Bench(dialect=dialect).feed(*written)
        assert whole == replace(message, pieces=2)
        assert whole.record == {5: "a.txt", 1: b"ABCDEFGHIJK"}
        assert whole.blob is not None


def test_example_9_is_written_and_merged() -> None:
    body = "2e000200 5859 0e000f00 01 0000 0100 02000000 0200 02000000"
    message = Message(PUBLISH, "DOC.NEW", b"", blob=Blob(2, b"XY"))
    deployed, document = payloads(message, CEDA4_WS, "DOC.NEW.0a1b2c3d.1"), payloads(message, CEDA4)
    key = "12 444f432e4e45572e30613162326333642e31"
    assert deployed == [bytes.fromhex(f"65 07 444f432e4e4557 ffffff 00 00 {key} {body}")]
    assert document == [bytes.fromhex(f"65 07 444f432e4e4557 ffffff 00 00 {body}")]
    for dialect, written in ((CEDA4_WS, deployed), (CEDA4, document)):
        (whole,) = Bench(dialect=dialect).feed(*written)
        assert (whole.topic, whole.blob, whole.pieces) == ("DOC.NEW", Blob(2, b"XY"), 1)


@given(
    st.integers(0, 40),
    st.integers(1, 9),
    st.sampled_from((PUBLISH, REQUEST, REPLY, P2P)),
    st.sampled_from(DIALECTS),
    st.integers(1, 4094),
)
def test_any_blob_comes_out_as_it_went_in(size: int, cut: int, code: int, dialect: str, position: int) -> None:
    blob = Blob(position, bytes(range(size)))
    body = write_record({4000 if position != 4000 else 1: "other", 7 if position != 7 else 8: 1})
    message = Message(code, "a.b", body, 5, "S", "s", "r.1" if code == REQUEST else "", blob)
    if code == PUBLISH:
        message = Message(code, "a.b", body, blob=blob)
    found = Bench(dialect=dialect).feed(*payloads(message, dialect, "a.b.00000000.1", piece=cut))
    (whole,) = found
    assert whole.record == message.record
    assert (whole.topic, whole.server_id, whole.signal_id) == (message.topic, message.server_id, message.signal_id)
    if size:
        assert (whole.blob, whole.pieces) == (blob, -(-size // cut))


def test_an_empty_blob_is_an_ordinary_message() -> None:
    message = Message(PUBLISH, "a.b", write_record({5: 1}), blob=Blob(3, b""))
    (payload,) = payloads(message, CEDA4_WS, "key")
    assert payload[0] == PUBLISH
    assert read_data(payload, CEDA4_WS).record == {5: 1, 3: b""}


def test_the_longest_blob_has_313_pieces() -> None:
    message = Message(PUBLISH, "a", b"", blob=Blob(1, bytes(MAX_BLOB)))
    written = payloads(message, CEDA4_WS, "a.1")
    assert len(written) == 313
    (whole,) = Bench().feed(*written)
    assert whole.blob is not None and len(whole.blob.data) == MAX_BLOB
    with pytest.raises(EncodeError, match="cell_limit"):
        payloads(replace(message, blob=Blob(1, bytes(MAX_BLOB + 1))), CEDA4_WS, "a.1")


@pytest.mark.parametrize("position", [0, 4095, -1])
def test_a_blob_lies_at_a_field_from_1_to_4094(position: int) -> None:
    with pytest.raises(EncodeError, match="cell_id"):
        payloads(Message(PUBLISH, "a", b"", blob=Blob(position, b"x")), CEDA4_WS)


def test_later_pieces_have_no_signal_id_and_no_other_fields() -> None:
    written = [read_data(one, CEDA4_WS) for one in payloads(blob_request(100_000), CEDA4_WS)]
    assert [one.signal_id for one in written] == ["k", "", "", ""]
    assert [sorted(one.record) for one in written] == [[0, 1, 5], [0, 1], [0, 1], [0, 1]]
    assert {(one.topic, one.connection_id, one.server_id, one.reply_topic) for one in written} == {
        ("DOC.PUT", 1042, "MQ", "1042.1.3")
    }


def test_keys_count_to_500000_and_begin_again() -> None:
    keys = Keys(0x0A1B2C3D)
    assert keys.next("DOC.NEW") == "DOC.NEW.0a1b2c3d.1"
    keys._count = 499_999
    assert keys.next("a") == "a.0a1b2c3d.500000"
    assert keys.next("a") == "a.0a1b2c3d.1"


def test_a_key_has_at_most_200_characters() -> None:
    keys = Keys(0)
    assert len(keys.next("x" * 189)) == 200
    with pytest.raises(EncodeError):
        keys.next("x" * 190)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_groups_with_different_keys_may_interleave(dialect: str) -> None:
    bench = Bench(dialect=dialect)
    one, two = (payloads(blob_request(90_000 + i, f"t{i}"), dialect) for i in range(2))
    mixed = [part for pair in zip(one, two, strict=True) for part in pair]
    assert [len(whole.blob.data) for whole in bench.feed(*mixed) if whole.blob] == [90_000, 90_001]


def test_published_groups_on_one_topic_are_kept_apart_by_their_keys_in_the_deployed_dialect() -> None:
    blobs = [Message(PUBLISH, "t", b"", blob=Blob(1, bytes([i]) * 40_000)) for i in range(2)]
    one, two = (payloads(blob, CEDA4_WS, f"t.0.{i}") for i, blob in enumerate(blobs))
    found = Bench().feed(one[0], two[0], one[1], two[1])
    assert [whole.blob for whole in found] == [blob.blob for blob in blobs]


def test_in_the_other_dialect_the_topic_is_the_key_of_published_groups() -> None:
    blobs = [Message(PUBLISH, "t", b"", blob=Blob(1, bytes([i]) * 40_000)) for i in range(2)]
    one, two = (payloads(blob, CEDA4) for blob in blobs)
    bench = Bench(dialect=CEDA4)
    assert [whole.blob for whole in bench.feed(one[0], two[0], two[1])] == [blobs[1].blob]
    assert bench.counts["groups_restarted"] == 1


def test_a_new_first_piece_drops_the_open_group() -> None:
    bench = Bench()
    start, *_ = payloads(blob_request(40_000), CEDA4_WS)
    assert bench.feed(start) == []
    (whole,) = bench.feed(*payloads(blob_request(50_000), CEDA4_WS))
    assert whole.blob is not None and len(whole.blob.data) == 50_000
    assert bench.counts["groups_restarted"] == 1
    assert bench.merger.held == 0


def test_a_piece_out_of_order_drops_its_group() -> None:
    bench = Bench()
    a, b, c, d = payloads(blob_request(100_000), CEDA4_WS)
    assert bench.feed(a, c, b, d) == []
    assert bench.counts["groups_out_of_order"] == 1
    assert bench.counts["pieces_dropped"] == 3
    assert not bench.merger.open and bench.merger.held == 0


def test_a_piece_without_a_group_is_dropped() -> None:
    bench = Bench()
    assert bench.feed(payloads(blob_request(40_000), CEDA4_WS)[1]) == []
    assert bench.counts["pieces_dropped"] == 1


@pytest.mark.parametrize(
    "given",
    [
        piece(f1=b"xy", f0=first(0, 2, 1, 2)),
        piece(f1=b"xy", f0=first(-1, 2, 1, 2)),
        piece(f1=b"xy", f0=first(1, -1, 1, 2)),
        piece(f1=b"xy", f0=first(1, MAX_BLOB + 1, 1, 2)),
        piece(f1=b"xy", f0=first(1, 2, 0, 2)),
        piece(f1=b"xy", f0=first(1, 2, 4095, 2)),
        piece(f1=b"xy", f0=first(1, 2, 2, 2)),
        piece(f1=b"xy", f0=first(1, 2, 1, 3)),
        piece(f1=b"xy", f0=first(1, 3, 1, 2)),
        piece(f1=b"xy", f0=first(1, 1, 1, 2)),
        piece(f0=first(1, 2, 1, 2)),
    ],
)
def test_a_first_piece_that_cannot_be_true_is_refused(given: Message) -> None:
    bench = Bench()
    assert bench.feed(given) == []
    assert bench.counts["groups_refused"] + bench.counts["groups_broken"] == 1
    assert not bench.merger.open and bench.merger.held == 0


@pytest.mark.parametrize(
    "signature",
    [b"", b"\x02" + bytes(14), b"\x01" + bytes(13), first(1, 2, 1, 2)[:-1], b"\x01\x01\x00" + bytes(12), later(0, 2)],
)
def test_what_is_no_signature_is_an_ordinary_field(signature: bytes) -> None:
    message = piece(f1=b"xy", f0=signature)
    assert Bench().feed(message) == [message]


def test_a_number_in_field_0_is_an_ordinary_field() -> None:
    message = Message(REQUEST, "t", write_record({0: 14, 1: b"\x0e\x00"}))
    assert Bench().feed(message) == [message]


def test_a_publish_is_never_a_first_piece() -> None:
    message = piece(PUBLISH, f1=b"xy", f0=first(1, 2, 1, 2))
    assert Bench().feed(message) == [message]


def test_a_bad_record_is_no_piece() -> None:
    message = replace(piece(f1=b"xy", f0=first(1, 2, 1, 2)), is_bad=True)
    assert Bench().feed(message) == [message]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_java_client_goes_on_with_plain_publishes(dialect: str) -> None:
    start, *rest = payloads(
        Message(PUBLISH, "t.x", write_record({5: 1}), blob=Blob(3, bytes(70_000))), dialect, "t.x.0.1"
    )
    bench = Bench(dialect=dialect)
    as_publishes = [replace(read_data(one, dialect), code=PUBLISH, reply_topic="") for one in rest]
    other = Message(PUBLISH, "t.y", as_publishes[0].body)
    (passed, whole) = bench.feed(start, as_publishes[0], other, as_publishes[1])
    assert passed is other
    assert whole.blob is not None and len(whole.blob.data) == 70_000
    assert whole.record[5] == 1


def test_a_plain_publish_goes_on_only_with_what_a_group_pub_began() -> None:
    bench = Bench()
    start, second = payloads(blob_request(40_000, "t"), CEDA4_WS)
    publish = replace(read_data(second, CEDA4_WS), code=PUBLISH)
    assert bench.feed(start, publish) == [publish]


def test_a_plain_publish_out_of_order_drops_the_group() -> None:
    bench = Bench()
    start, _, third = payloads(Message(PUBLISH, "t", b"", blob=Blob(3, bytes(70_000))), CEDA4_WS, "t.0.1")
    assert bench.feed(start, replace(read_data(third, CEDA4_WS), code=PUBLISH)) == []
    assert bench.counts["groups_out_of_order"] == 1


def test_a_group_without_pieces_for_60_seconds_is_dropped() -> None:
    bench = Bench()
    a, b, c, d = payloads(blob_request(100_000), CEDA4_WS)
    bench.feed(a, now=0.0)
    bench.feed(b, now=50.0)
    assert bench.merger.expire(109.9) == 110.0
    bench.feed(c, now=109.9)
    assert bench.merger.expire(169.9) == float("inf")
    assert bench.counts["groups_expired"] == 1
    assert bench.feed(d, now=170.0) == []


def test_a_piece_that_is_late_is_dropped_even_if_nobody_looked() -> None:
    bench = Bench()
    a, b = payloads(blob_request(40_000), CEDA4_WS)
    bench.feed(a, now=0.0)
    assert bench.feed(b, now=60.0) == []
    assert bench.counts["groups_expired"] == 1 and bench.merger.held == 0


def test_open_groups_are_bounded_in_number_and_in_bytes() -> None:
    bench = Bench(GroupLimits(groups=3, held=80_000))
    for i in range(5):
        bench.feed(payloads(blob_request(70_000, f"t{i}"), CEDA4_WS)[0])
    assert len(bench.merger.open) == 2
    assert bench.merger.held == 2 * 32768
    assert bench.counts["groups_refused"] == 3
    small = Bench(GroupLimits(groups=3))
    for i in range(5):
        small.feed(payloads(blob_request(40_000, f"t{i}"), CEDA4_WS)[0])
    assert len(small.merger.open) == 3 and small.counts["groups_refused"] == 2


PIECES = st.builds(
    piece,
    st.sampled_from((PUBLISH, REQUEST, REPLY, P2P, GROUP_PUB)),
    st.sampled_from("ab"),
    st.sampled_from("kl"),
    f0=st.one_of(
        st.builds(first, st.integers(-1, 3), st.integers(-1, 6), st.integers(-1, 2), st.integers(0, 3)),
        st.builds(later, st.integers(-1, 3), st.integers(0, 3)),
        st.binary(max_size=16),
    ),
    f1=st.binary(max_size=3),
)


@given(st.lists(PIECES, max_size=30), st.sampled_from(DIALECTS))
def test_whatever_pieces_come_nothing_is_raised_and_what_is_held_is_known(given: list[Message], dialect: str) -> None:
    bench = Bench(dialect=dialect)
    for whole in bench.feed(*given):
        if whole.blob is not None:
            assert whole.record[whole.blob.position] == whole.blob.data
    assert bench.merger.held == sum(sum(map(len, group.pieces)) for group in bench.merger.open.values())
