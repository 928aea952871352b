"""What a lake remembers of a capture."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.lake import Input
from wirelake.lake.inputs import HEAD_BYTES, SMALLEST_MARK, head_hash, marks


def test_a_record_of_an_earlier_wirelake_is_read() -> None:
    old = b'{"path": "a", "size": 3, "mtime_us": null, "head": "00", "head_bytes": 3, "position": 2}'
    assert msgspec.json.decode(old, type=Input) == Input("a", 3, None, "00", 3, 2)


@pytest.mark.parametrize(
    ("size", "count"), [(0, 0), (SMALLEST_MARK, 0), (SMALLEST_MARK + 1, 1), (1000, 5), (HEAD_BYTES, 11)]
)
def test_marks_are_of_ever_twice_as_many_bytes_and_of_fewer_than_there_are(size: int, count: int) -> None:
    assert len(marks(bytes(size))) == count


@given(content=st.binary(max_size=2000), more=st.binary(min_size=1, max_size=2000))
def test_the_marks_of_a_part_are_the_first_of_the_whole(content: bytes, more: bytes) -> None:
    part, whole = marks(content), marks(content + more)
    assert whole[: len(part)] == part
    assert len(set(whole)) == len(whole) and head_hash(content) != head_hash(content + more)
