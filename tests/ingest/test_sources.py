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


def test_an_input_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="does not exist"):
        Sources([str(tmp_path / "gone")]).look()
