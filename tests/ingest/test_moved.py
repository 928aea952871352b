"""Captures that are moved or replaced between the look at them and the step that reads them: nothing is lost."""

from __future__ import annotations

import gzip
import os
import struct
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

from tests.ingest.lakes import PLACE_OF_ROW, tables
from wirelake.generate import generate, write_pcap
from wirelake.ingest.follow import FollowSettings, Watcher, follow
from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.run import Ingest, ingest
from wirelake.lake import Lake

Act = Callable[[Path, list[bytes]], None]


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Captures taken one after the other. The packets of one begin where those of the one before do, as they may where
    traffic repeats itself.
    """
    path = tmp_path_factory.mktemp("parts") / "part.pcap"
    write_pcap(generate(("casual", "mb"), seed=5, messages=400, connections=4), path)
    first = path.read_bytes()
    return [first, an_hour_later(first), an_hour_later(an_hour_later(first))]


@pytest.fixture(scope="module")
def expected(parts: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> object:
    folder = tmp_path_factory.mktemp("once")
    for number, content in enumerate(parts):
        (folder / f"{number}.pcap").write_bytes(content)
    ingest(InlineRunner(), [str(folder)], str(folder / "lake"), final=True)
    return tables(folder / "lake", PLACE_OF_ROW)


def half(content: bytes) -> bytes:
    """Return the first packets of a pcap file."""
    end = 24
    while end < len(content) // 2:
        end += 16 + int(struct.unpack_from("<I", content, end + 8)[0])
    return content[:end]


def an_hour_later(content: bytes) -> bytes:
    """Return the same packets with other times: each begins where it did."""
    later, at = bytearray(content), 24
    while at < len(content):
        seconds, _, size = struct.unpack_from("<III", content, at)
        struct.pack_into("<I", later, at, seconds + 3600)
        at += 16 + size
    return bytes(later)


def renamed(folder: Path, parts: list[bytes]) -> None:
    os.rename(folder / "cap", folder / "cap.1")
    (folder / "cap").write_bytes(parts[1])


def overwritten_once_it_was_copied(folder: Path, parts: list[bytes]) -> None:
    (folder / "saved").write_bytes(parts[0])
    (folder / "cap").write_bytes(parts[1])


def compressed(folder: Path, parts: list[bytes]) -> None:
    (folder / "cap").unlink()
    (folder / "cap.gz").write_bytes(gzip.compress(parts[0]))


def begin_next(folder: Path, parts: list[bytes]) -> None:
    (folder / "next").write_bytes(parts[1])


def wait(folder: Path, parts: list[bytes]) -> None:
    """Nothing else is there yet."""


@pytest.mark.parametrize(
    ("before", "act"),
    [(wait, renamed), (wait, overwritten_once_it_was_copied), (wait, compressed), (begin_next, compressed)],
)
def test_a_capture_that_is_moved_before_it_is_read_is_read_all_the_same(
    parts: list[bytes], expected: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: Act, act: Act
) -> None:
    folder, lake = tmp_path / "captures", Lake.open(tmp_path / "lake", settings={"buckets": 2}, durable=False)
    folder.mkdir()
    (folder / "cap").write_bytes(half(parts[0]))
    now(folder, lake)
    (folder / "cap").write_bytes(parts[0])
    before(folder, parts)
    run, acts = Ingest.run, [act]
    monkeypatch.setattr(Ingest, "run", lambda *given: (acts and acts.pop()(folder, parts), run(*given))[1])
    told = Failures()
    now(folder, lake, told)
    (folder / "next").write_bytes(parts[1])
    (folder / "newest").write_bytes(parts[2])
    now(folder, lake, told, final=True)
    assert not acts and told.failures == []
    assert tables(lake, PLACE_OF_ROW) == expected


class Failures(Watcher):
    def __init__(self) -> None:
        self.failures: list[str] = []

    def failed(self, error: Exception, in_a_row: int, pause: float) -> None:
        self.failures.append(str(error))


def now(folder: Path, lake: Lake, watcher: Watcher | None = None, **options: bool) -> None:
    settings = FollowSettings(available_now=True, trigger_seconds=0, max_failures=2, **options)
    follow(InlineRunner(), [str(folder)], lake, settings, stop=Event(), watcher=watcher)
