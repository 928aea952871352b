from __future__ import annotations

from pathlib import Path

import pytest

from wirelake.errors import OptionError
from wirelake.ingest.sources import Sources


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_input_that_stands_still_is_stalled_until_it_grows_and_others_are_not(tmp_path: Path) -> None:
    clock = Clock()
    silent, busy = tmp_path / "silent", tmp_path / "busy"
    for folder in (silent, busy):
        folder.mkdir()
    sources = Sources([str(silent), str(busy)], stalled_seconds=60, clock=clock)
    assert sources.look() == [] and sources.news() == []
    for clock.now in (20.0, 40.0, 60.0):
        (busy / "a.pcap").write_bytes(bytes(int(clock.now)))
        sources.look()
        told = sources.news()
    assert len(told) == 1 and told[0].startswith(f"{silent}: stalled") and sources.stalled == [str(silent)]
    assert sources.news() == [] and sources.silent_seconds() == {str(silent): 60.0, str(busy): 0.0}
    (silent / "b.pcap").write_bytes(b"more")
    assert [file.path for file in sources.look()] == [f"{busy}/a.pcap", f"{silent}/b.pcap"]
    assert sources.news() == [f"{silent}: it grows again"] and sources.stalled == []


def test_without_a_limit_nothing_stalls(tmp_path: Path) -> None:
    clock = Clock()
    sources = Sources([str(tmp_path)], clock=clock)
    clock.now = 1e9
    sources.look()
    assert sources.news() == [] and sources.stalled == []


def test_an_input_that_is_gone_is_told_and_others_are_followed(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / "a.pcap").write_bytes(b"some")
    sources = Sources([str(one), str(other)])
    assert len(sources.look()) == 2 and sources.news() == []
    one.rename(tmp_path / "away")
    assert [file.path for file in sources.look()] == [f"{other}/a.pcap"]
    (told,) = sources.news()
    assert told == f"{one}: stalled, path does not exist: {one}; other inputs are followed"
    assert sources.news() == [] and sources.stalled == [str(one)]
    (tmp_path / "away").rename(one)
    assert len(sources.look()) == 2 and sources.news() == [f"{one}: it grows again"]


def test_it_is_an_error_if_an_input_is_not_there_at_first_or_none_is_left(tmp_path: Path) -> None:
    gone = Sources([str(tmp_path), str(tmp_path / "gone")])
    with pytest.raises(OptionError, match="does not exist"):
        gone.check()
    with pytest.raises(OptionError, match="does not exist"):
        Sources([str(tmp_path / "gone"), str(tmp_path / "gone, too")]).look()
