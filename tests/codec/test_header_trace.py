"""What ``inspect`` tells about headers, also of those that are cut off."""

from __future__ import annotations

from tests.codec.test_header_fields import TAGGED
from wirelake.codec.annotate import annotate
from wirelake.spec.resolve import layout


def shown(data: bytes) -> list[tuple[str, int, int]]:
    return [(seen.path, seen.offset, seen.length) for seen in annotate(layout(TAGGED), data).seen]


def test_parts_behind_a_field_of_any_size_have_their_places() -> None:
    whole = [("tag", 0, 3), ("flags", 4, 1), ("kind", 5, 1), ("n", 6, 1), ("data", 7, 2)]
    assert shown(b"abc \0\7\2hi") == whole
    assert shown(b"abc \1\0\1\7\0") == [*whole[:2], ("more", 5, 2), ("kind", 7, 1), ("n", 8, 1), ("data", 9, 0)]


def test_of_a_header_that_is_cut_off_there_is_what_was_read() -> None:
    assert shown(b"abc \1\0") == [("tag", 0, 3), ("flags", 4, 1)]
    assert shown(b"abc \0\7") == [("tag", 0, 3), ("flags", 4, 1), ("kind", 5, 1)]
