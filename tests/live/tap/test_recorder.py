from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.live.tapping import Recorded, recorded, small_disk
from tests.waiting import until
from wirelake.capture.read import open_capture
from wirelake.capture.tap_format import FILE_HEAD_BYTES
from wirelake.capture.tcp import Tracker
from wirelake.capture.write.tap_to_pcapng import export_pcapng
from wirelake.live.drive.endpoint import TO_CLIENT, TO_SERVER
from wirelake.live.tap.recorder import PROBE_BYTES, Recorder

CLIENT, SERVER = ("10.0.0.1", 4711), ("10.0.0.2", 3001)


class Clock:
    """A time that passes when it is told to."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def only(directory: Path) -> Recorded:
    (one,) = recorded(directory).values()
    return one


def free(place: Path) -> int:
    found = os.statvfs(place)
    return found.f_bavail * found.f_frsize


# --- when all is well


def logged(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno == level]


def test_only_its_owner_may_read_a_capture(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        recorder = Recorder(tmp_path / "captures", rotate_bytes=1)
        one = recorder.opened(CLIENT, SERVER)
        recorder.data(one, TO_SERVER, b"password")
        recorder.data(one, TO_SERVER, b"another file")
        recorder.end()
        export_pcapng([tmp_path / "captures"], tmp_path / "all.pcapng")
    finally:
        os.umask(before)
    assert len(recorder.paths) > 1
    assert {path.stat().st_mode & 0o777 for path in (*recorder.paths, tmp_path / "all.pcapng")} == {0o600}
    assert (tmp_path / "captures").stat().st_mode & 0o777 == 0o700


def test_connections_bytes_and_ends_are_recorded(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "new" / "captures")
    before = time.time_ns() // 1000
    one = recorder.opened(CLIENT, SERVER, "mb")
    two = recorder.opened(("fd00::1", 5), ("fd00::2", 6))
    recorder.data(one, TO_SERVER, b"hello")
    recorder.data(two, TO_SERVER, b"other")
    recorder.data(one, TO_CLIENT, b"answer")
    recorder.data(one, TO_SERVER, b" again")
    recorder.closed(one, "reset")
    recorder.end()
    first, second = recorded(tmp_path / "new" / "captures").values()
    known = first.connection
    assert (known.client, known.client_port, known.server, known.server_port) == (*CLIENT, *SERVER)
    assert (known.protocol, known.is_whole, known.ended) == ("mb", True, "reset")
    assert known.first_us is not None and before <= known.first_us <= time.time_ns() // 1000
    assert first.both == (b"hello again", b"answer")
    assert second.both == (b"other", b"") and second.connection.ended == ""
    assert (recorder.recorded, recorder.unrecorded, recorder.problem) == (22, 0, "")


def test_what_was_told_is_with_the_operating_system_at_once(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    one = recorder.opened(CLIENT, SERVER)
    for number in range(20):
        recorder.data(one, number % 2, b"%d" % number)
        assert sum(map(len, only(tmp_path).both)) == len("".join(map(str, range(number + 1))))
    recorder.closed(one)
    assert only(tmp_path).connection.ended == "closed"
    recorder.end()


def test_files_are_rotated_by_size_and_by_time(tmp_path: Path) -> None:
    sent = Random(1).randbytes(50_000)
    recorder = Recorder(tmp_path / "size", rotate_bytes=5_000)
    one = recorder.opened(CLIENT, SERVER)
    for at in range(0, len(sent), 1000):
        recorder.data(one, TO_SERVER, sent[at : at + 1000])
    recorder.end()
    assert len(recorder.paths) > 8 and sorted((tmp_path / "size").iterdir()) == recorder.paths
    assert only(tmp_path / "size").both == (sent, b"")

    recorder = Recorder(tmp_path / "time", rotate_seconds=0.01)
    one = recorder.opened(CLIENT, SERVER)
    deadline = time.monotonic() + 30
    while len(recorder.paths) < 3 and time.monotonic() < deadline:
        recorder.data(one, TO_CLIENT, b"x")
    recorder.end()
    assert len(recorder.paths) >= 3
    assert set(only(tmp_path / "time").both[1]) == {ord("x")}


def test_a_directory_that_cannot_be_written_is_an_error_from_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError):
        Recorder(tmp_path / "file")
    with pytest.raises(OSError):
        Recorder(tmp_path / "file" / "below")


def test_an_address_of_any_kind_can_be_recorded(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.opened(("/run/\udcff.sock", -1), ("fe80::1%eth0", 1 << 20))
    recorder.end()
    known = only(tmp_path).connection
    assert (known.client, known.client_port, known.server, known.server_port) == ("/run/?.sock", 0, "fe80::1%eth0", 0)


def test_times_do_not_go_back_when_the_clock_does_a_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_700_000_000_000_000_000
    recorder = Recorder(tmp_path)
    times = []
    for step in (0, 1_000_000, -2_000_000, 500_000, 3_000_000, -60_000_000_000):
        now += step
        monkeypatch.setattr(time, "time_ns", lambda now=now: now)
        times.append(recorder._now_us() - 1_700_000_000_000_000)
    assert times == [0, 1000, 1000, 1000, 2500, -59_997_500]


# --- trouble


def story(recorder: Recorder, clock: Clock, fill: Callable[[], None], make_room: Callable[[], None]) -> dict[str, int]:
    """Connections before, during and after a time in which nothing can be written."""
    stays = recorder.opened(("10.0.0.1", 1), SERVER)
    ends = recorder.opened(("10.0.0.1", 2), SERVER)
    recorder.data(stays, TO_SERVER, b"before")
    recorder.data(ends, TO_SERVER, b"before")
    fill()
    lost = 0
    while not recorder.problem:
        recorder.data(stays, TO_CLIENT, bytes([lost % 251]) * 4096)
        lost += 1
        assert lost < 10_000
    for _ in range(3):
        recorder.data(stays, TO_SERVER, b"unheard")
    begins = recorder.opened(("10.0.0.1", 3), SERVER)
    recorder.data(begins, TO_SERVER, b"early")
    gone = recorder.opened(("10.0.0.1", 4), SERVER)
    recorder.data(gone, TO_SERVER, b"never")
    recorder.closed(gone)
    recorder.data(ends, TO_CLIENT, b"farewell")
    recorder.closed(ends, "reset")
    clock.now += 10
    recorder.data(stays, TO_SERVER, b"still")
    assert recorder.problem
    make_room()
    recorder.data(stays, TO_SERVER, b"not tried yet")
    assert recorder.problem
    clock.now += 10
    recorder.data(stays, TO_SERVER, b"after")
    assert not recorder.problem
    recorder.data(begins, TO_SERVER, b"late")
    recorder.closed(begins)
    recorder.end()
    return {"chunks": lost}


def test_a_full_disk_stops_the_recording_and_room_makes_it_go_on_with_a_gap(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk, clock = tmp_path / "disk", Clock()
    with small_disk(disk) as is_there:
        if not is_there:
            pytest.skip("a small disk can be mounted by root only")
        recorder = Recorder(disk / "captures", clock=clock)
        filler = disk / "filler"

        def fill() -> None:
            filler.write_bytes(bytes(free(disk) - PROBE_BYTES))

        chunks = story(recorder, clock, fill, filler.unlink)["chunks"]
        found = {one.connection.client_port: one for one in recorded(disk / "captures").values()}
    assert (
        len(logged(caplog, logging.ERROR)) == 1
        and "No space left on device" in logged(caplog, logging.ERROR)[0]
        and "traffic goes on" in logged(caplog, logging.ERROR)[0]
    )
    missed = 3 * len("unheard") + len("early") + len("farewell") + len("still") + len("not tried yet")
    assert logged(caplog, logging.WARNING) == [f"recording goes on; {missed + len('never')} bytes were not recorded"]
    assert recorder.unrecorded == missed + len("never")
    assert recorder.unrecorded_connections == 1
    assert set(found) == {1, 2, 3}
    # The chunk that did not fit was kept, and written when there was room.
    wanted = b"".join(bytes([number % 251]) * 4096 for number in range(chunks))
    silence = 3 * len("unheard") + len("still") + len("not tried yet")
    assert found[1].both == (b"before" + bytes(silence) + b"after", wanted)
    assert found[1].gaps == ([(6, silence)], [])
    assert found[2].both == (b"before", bytes(8)) and found[2].gaps == ([], [(0, 8)])
    assert found[2].connection.ended == "reset"
    assert found[3].both == (bytes(5) + b"late", b"") and found[3].gaps == ([(0, 5)], [])
    assert found[3].connection.ended == "closed"


@contextmanager
def longest_file(size: int) -> Iterator[None]:
    """No file may grow beyond this: writing is an error like that of a broken disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_file_that_cannot_be_written_any_more_is_left_for_another(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    recorder = Recorder(tmp_path, clock=clock)
    one = recorder.opened(CLIENT, SERVER)
    sent = bytearray()
    with longest_file(1 << 20):
        for number in range(400):
            piece = bytes([1 + number % 250]) * 10_000
            sent += piece
            recorder.data(one, TO_SERVER, piece)
            clock.now += 0.5
    recorder.closed(one)
    recorder.end()
    assert len(logged(caplog, logging.ERROR)) == 3 and "File too large" in logged(caplog, logging.ERROR)[0]
    assert len(recorder.paths) == 4
    found = only(tmp_path)
    assert found.connection.ended == "closed" and found.connection.is_whole
    assert recorder.recorded + recorder.unrecorded == len(sent) == len(found.streams[0])
    assert sum(length for _, length in found.gaps[0]) == recorder.unrecorded > 0
    for offset, length in found.gaps[0]:
        sent[offset : offset + length] = bytes(length)
    assert found.streams[0] == sent


def test_what_could_never_be_written_is_counted_at_the_end(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    with longest_file(FILE_HEAD_BYTES + 200):
        one = recorder.opened(CLIENT, SERVER)
        recorder.data(one, TO_SERVER, b"short")
        recorder.data(one, TO_SERVER, b"long" * 100)
        recorder.data(one, TO_SERVER, b"more")
        recorder.end()
    assert "File too large" in recorder.problem
    assert (recorder.recorded, recorder.unrecorded) == (5, 404)
    assert only(tmp_path).both[0] == b"short"


class Unreliable:
    """A file that takes some of what is written to it, or fails."""

    def __init__(self, file: Any, chance: Random, errors: tuple[int, ...]) -> None:
        self._file, self._chance, self._errors = file, chance, errors

    def write(self, data: bytearray) -> int:
        lot = self._chance.random()
        if lot < 0.15 and self._errors:
            raise OSError(number := self._chance.choice(self._errors), os.strerror(number))
        count = self._chance.randint(1, len(data)) if lot < 0.4 else len(data)
        written: int = self._file.write(bytes(data[:count]))
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


steps = st.lists(
    st.tuples(
        st.sampled_from(["open", "data", "data", "data", "data", "close", "wait"]),
        st.integers(0, 3),
        st.integers(0, 1),
        st.integers(1, 400),
    ),
    max_size=60,
)


@settings(deadline=None)
@given(steps, st.integers(0, 1 << 32), st.sampled_from([(errno.ENOSPC,), (errno.ENOSPC, errno.EIO)]))
def test_whatever_the_disk_does_every_byte_is_recorded_right_or_missing(
    tmp_path_factory: pytest.TempPathFactory, script: list[tuple[str, int, int, int]], seed: int, errors: Any
) -> None:
    rng = Random(seed)
    directory = tmp_path_factory.mktemp("tap")
    clock = Clock()
    recorder = Recorder(directory, clock=clock, rotate_bytes=2_000)
    begin = recorder._writer._begin_file

    def begin_unreliable(ts_us: int) -> None:
        begin(ts_us)
        recorder._writer._file = Unreliable(recorder._writer._file, rng, errors)

    recorder._writer._begin_file = begin_unreliable  # type: ignore[method-assign]
    sent: dict[int, tuple[bytearray, bytearray]] = {}
    running: list[tuple[int, int]] = []
    ended: set[int] = set()
    for port, (kind, which, direction, size) in enumerate(script):
        if kind == "open":
            running.append((port, recorder.opened(("10.0.0.1", port), SERVER)))
            sent[port] = (bytearray(), bytearray())
        elif kind == "wait":
            clock.now += 3
        elif running and kind == "data":
            client, number = running[which % len(running)]
            data = rng.randbytes(size)
            recorder.data(number, direction, data)
            sent[client][direction].extend(data)
        elif running:
            client, number = running.pop(which % len(running))
            recorder.closed(number)
            ended.add(client)
    # At last the disk works again.
    recorder._writer._begin_file = begin  # type: ignore[method-assign]
    if isinstance(recorder._writer._file, Unreliable):
        recorder._writer._file._errors = ()
    clock.now += 3
    for client, number in running:
        recorder.closed(number)
        ended.add(client)
    recorder.end()
    assert not recorder.problem
    total = sum(len(way) for both in sent.values() for way in both)
    assert recorder.recorded + recorder.unrecorded == total
    found = {one.connection.client_port: one for one in recorded(directory).values()}
    assert len(sent) - len(found) <= recorder.unrecorded_connections or errno.EIO in errors
    for client, one in found.items():
        for way in (TO_SERVER, TO_CLIENT):
            truth = sent[client][way]
            for offset, length in one.gaps[way]:
                truth[offset : offset + length] = bytes(length)
            assert one.streams[way] == truth[: len(one.streams[way])]
            if one.connection.ended and one.connection.is_whole:
                assert len(one.streams[way]) == len(truth)
        assert one.connection.ended or errno.EIO in errors
    if errno.EIO not in errors:
        missing = sum(length for one in found.values() for gaps in one.gaps for _, length in gaps)
        assert missing <= recorder.unrecorded


# --- with an event loop


def test_a_disk_that_works_again_is_found_out_while_nothing_passes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:

    async def play() -> None:
        recorder = Recorder(tmp_path, retry_seconds=0.01)
        recorder.start()
        one = recorder.opened(CLIENT, SERVER)
        with longest_file(1000):
            recorder.data(one, TO_SERVER, bytes(2000))
            assert recorder.problem
        await until(lambda: not recorder.problem)
        recorder.data(one, TO_SERVER, b"again")
        recorder.end()

    asyncio.run(play())
    assert logged(caplog, logging.WARNING) == ["recording goes on; 2000 bytes were not recorded"]
    assert only(tmp_path).gaps[0] == [(0, 2000)]


def test_a_file_that_somebody_removes_is_followed_by_another(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:

    async def play() -> None:
        recorder = Recorder(tmp_path)
        recorder.start()
        one = recorder.opened(CLIENT, SERVER)
        recorder.data(one, TO_SERVER, b"gone")
        recorder.paths[0].unlink()
        await until(lambda: bool(logged(caplog, logging.ERROR)))
        recorder.data(one, TO_SERVER, b"kept")
        recorder.end()

    asyncio.run(play())
    assert len(logged(caplog, logging.ERROR)) == 1 and "was removed" in logged(caplog, logging.ERROR)[0]
    found = only(tmp_path)
    assert found.both[0] == bytes(4) + b"kept" and found.gaps[0] == [(0, 4)]


def test_files_are_synced_now_and_then_and_once_each_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)

    async def play() -> None:
        recorder = Recorder(tmp_path, rotate_bytes=1000, sync_seconds=0.01)
        recorder.start()
        one = recorder.opened(CLIENT, SERVER)
        for _ in range(5):
            recorder.data(one, TO_SERVER, bytes(600))
        await until(lambda: set(map(str, recorder.paths)) <= set(synced) and str(tmp_path) in synced)
        recorder.end()

    asyncio.run(play())


def test_a_disk_that_does_not_keep_what_it_took_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:

    def fsync(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    async def play() -> None:
        recorder = Recorder(tmp_path, sync_seconds=0.01)
        recorder.start()
        recorder.opened(CLIENT, SERVER)
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", fsync)
            await until(lambda: bool(logged(caplog, logging.ERROR)))
        recorder.end()

    asyncio.run(play())
    assert (
        "may not have kept everything" in logged(caplog, logging.ERROR)[0]
        and "Input/output error" in logged(caplog, logging.ERROR)[0]
    )


# --- silence


def test_while_nothing_comes_the_tap_says_so_less_and_less_often(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.tell_time(0.0)
    recorder.tell_time(100.0)
    assert not recorder.paths  # there is no capture yet, so nobody waits
    one = recorder.opened(CLIENT, SERVER)
    recorder.data(one, TO_SERVER, b"hello")
    told = [now / 2 for now in range(600) if is_told(recorder, 100.0 + now / 2)]
    assert told == [1.0, 3.0, 7.0, 15.0, 31.0, 63.0, 123.0, 183.0, 243.0]
    recorder.data(one, TO_SERVER, b"again")
    assert [now for now in range(5) if is_told(recorder, 400.0 + now)] == [1, 3]
    recorder.end()
    assert only(tmp_path).both == (b"helloagain", b"")


def is_told(recorder: Recorder, now: float) -> bool:
    before = recorder.paths[-1].stat().st_size
    recorder.tell_time(now)
    return recorder.paths[-1].stat().st_size > before


def test_a_tap_ends_with_the_time_until_which_nothing_came(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.closed(recorder.opened(CLIENT, SERVER))
    before = time.time_ns() // 1000
    recorder.end()
    reader = open_capture(recorder.paths[0], Tracker())
    assert sum(len(chunks) for chunks in reader) == 0
    assert reader.counts.silent_until_us is not None and reader.counts.silent_until_us >= before


def test_a_disk_that_fails_in_silence_stops_the_recording_until_it_is_well(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    recorder = Recorder(tmp_path, clock=clock)
    one = recorder.opened(CLIENT, SERVER)
    with longest_file(recorder.paths[0].stat().st_size + 10):
        for now in range(5):
            recorder.tell_time(100.0 + now)
        assert len(logged(caplog, logging.ERROR)) == 1 and recorder.problem
    clock.now += 10
    recorder.data(one, TO_SERVER, b"hello")
    recorder.closed(one)
    recorder.end()
    assert not recorder.problem and only(tmp_path).both == (b"hello", b"")
    assert only(tmp_path).connection.ended == "closed"
