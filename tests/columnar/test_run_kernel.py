"""Room for elements, which grows, and the search for the next frame: what the kernel cannot do is left to others."""

from __future__ import annotations

import numpy as np

import wirelake
from wirelake.columnar import decode, decode_frames
from wirelake.columnar.run_kernel import Walked, fast_for
from wirelake.protocols.casual import PROTOCOL, Domain, DomainDiscoverRequest
from wirelake.spec.resolve import layout

ID = bytes(16)


def _request(names: int) -> bytes:
    return wirelake.encode(DomainDiscoverRequest(ID, ID, Domain(ID, "d"), ("n",) * names, ()))


def test_a_message_with_more_elements_than_there_can_be_room_for_is_still_decoded() -> None:
    counts = [1, 20_000, 2]
    batch = decode_frames("casual", [_request(count) for count in counts], ["service_names"])
    assert [len(names) for names in batch.records.column("service_names").to_pylist()] == counts
    assert list(batch.slow) == [1]
    assert not batch.quarantined.num_rows


def test_in_a_stream_such_a_message_keeps_its_place() -> None:
    counts = [3, 60_000, 1, 2]
    batch = decode("casual", b"".join(_request(count) for count in counts), ["offset", "service_names"])
    assert [len(names) for names in batch.records.column("service_names").to_pylist()] == counts
    offsets = batch.records.column("offset").to_pylist()
    assert offsets == [sum(len(_request(count)) for count in counts[:i]) for i in range(4)]


def _walk(data: bytes, final: bool = True, may_search: bool = True) -> Walked:
    buf = np.frombuffer(data, np.uint8)
    ends = np.array([len(data)])
    return fast_for(layout(PROTOCOL), (), ()).ranges(buf, np.array([0]), ends, np.array([final]), may_search, 100)


def test_a_range_goes_on_behind_an_odd_header_where_two_frames_follow() -> None:
    frame = _request(1)
    walked = _walk(frame + b"\xff" * 5 + 3 * frame)
    assert walked.faults == [[0, len(frame), len(frame) + 5, 0, 1]]
    assert walked.count == 4
    assert not walked.status.any()


def test_a_declined_frame_whose_end_is_no_good_is_the_broken_one() -> None:
    frame = _request(1)
    walked = _walk(frame + frame[:70] + frame[71:] + 3 * frame)
    assert walked.faults == [[0, len(frame), 2 * len(frame) - 1, len(frame), 1]]
    assert walked.count == 4


def test_a_range_ends_at_an_odd_header_where_nothing_is_sure() -> None:
    frame = _request(1)
    for data, final, may_search in (
        (frame + b"\xff" * 5 + frame, False, True),
        (frame + b"\xff" * 5 + 3 * frame, True, False),
        (frame + b"\xff" * 2_000 + 3 * frame, True, True),
    ):
        walked = _walk(data, final, may_search)
        assert walked.faults == []
        assert walked.count == 1
        assert walked.stops.tolist() == [len(frame)]
