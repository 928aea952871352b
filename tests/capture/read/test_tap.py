"""The reader of taps: torn, damaged, growing, in any windows."""

from __future__ import annotations

import gzip
import io
from collections import defaultdict
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.capture.reloading import reloaded
from tests.capture.taps import CLIENT, SERVER, SET, START_US, Found, Step, play, read_tap, rotated, tap, together
from wirelake.capture.chunks import TO_CLIENT, TO_SERVER, Connection
from wirelake.capture.read import open_capture
from wirelake.capture.read.files import CaptureFile
from wirelake.capture.read.tap import TapConnections, TapReader
from wirelake.capture.tap_format import FILE_HEAD_BYTES
from wirelake.capture.tcp import Tracker
from wirelake.capture.write.tap import TapWriter
from wirelake.errors import CaptureError
from wirelake.generate import Traffic, generate, write_tap

# --- what is written is read


def test_a_tap_gives_back_connections_bytes_times_and_offsets(tmp_path: Path) -> None:
    with tap(tmp_path / "a.tap") as writer:
        one = writer.open(CLIENT, SERVER, START_US, "casual")
        two = writer.open(("fd00::1", 5), ("fd00::2", 8088), START_US + 1)
        writer.data(one, TO_SERVER, START_US + 10, b"hello")
        writer.data(two, TO_CLIENT, START_US + 11, b"x" * 100)
        writer.data(one, TO_CLIENT, START_US + 12, b"answer")
        writer.data(one, TO_SERVER, START_US + 13, b" again")
        writer.close(one, START_US + 20, "reset")
    content = (tmp_path / "a.tap").read_bytes()
    found, reader = read_tap(content)
    first, second = found.connections.values()
    assert (first.client, first.client_port, first.server, first.server_port) == (*CLIENT, *SERVER)
    assert (first.protocol, first.is_whole, first.ended) == ("casual", True, "reset")
    assert (first.first_us, first.last_us, first.ended_us) == (START_US, START_US + 20, START_US + 20)
    assert (second.client, second.protocol, second.ended) == ("fd00::1", None, "")
    assert bytes(found.streams[first.id, TO_SERVER]) == b"hello again"
    assert bytes(found.streams[first.id, TO_CLIENT]) == b"answer"
    assert [(row[2], row[4]) for row in found.rows] == [
        (0, START_US + 10), (0, START_US + 11), (0, START_US + 12), (5, START_US + 13),
    ]  # fmt: skip
    for _, _, _, data, _, position in found.rows:
        assert content[position : position + len(data)] == data
    assert not found.gaps and not reader.counts.broken and not reader.counts.notes
    assert reader.position == reader.counts.bytes == len(content)
    assert reader.counts.packets == 7


def test_the_same_bytes_get_the_same_ids_and_another_set_gets_others(tmp_path: Path) -> None:
    def ids(name: str, set_id: bytes | None) -> list[str]:
        with TapWriter(tmp_path / name, set_id=set_id) as writer:
            for _ in range(2):
                writer.open(CLIENT, SERVER, START_US)
        return list(read_tap((tmp_path / name).read_bytes())[0].connections)

    assert ids("a", SET) == ids("b", SET)
    assert len({*ids("a", SET), *ids("c", None), *ids("d", None)}) == 6


def test_bytes_that_were_not_recorded_are_gaps_also_at_the_end(tmp_path: Path) -> None:
    with tap(tmp_path / "a.tap") as writer:
        one = writer.open(CLIENT, SERVER, START_US)
        writer.skip(one, TO_SERVER, 7)
        writer.data(one, TO_SERVER, START_US, b"abc")
        writer.skip(one, TO_CLIENT, 1000)
        writer.close(one, START_US + 5)
    found, reader = read_tap((tmp_path / "a.tap").read_bytes())
    (name,) = found.connections
    assert found.gaps == [(name, TO_SERVER, 0, 7), (name, TO_CLIENT, 0, 1000)]
    assert reader.counts.missing_bytes == 1007


# --- any order, torn anywhere, any window

steps = st.lists(
    st.tuples(
        st.sampled_from(["open", "data", "data", "data", "close", "skip"]),
        st.integers(0, 5),
        st.integers(0, 1),
        st.integers(0, 300),
    ),
    max_size=40,
)


@given(steps, st.randoms(use_true_random=False), st.integers(1, 700))
def test_a_tap_torn_at_any_byte_is_read_to_its_last_whole_record_in_any_windows(
    tmp_path_factory: pytest.TempPathFactory, script: list[Step], rng: Random, window: int
) -> None:
    path = tmp_path_factory.mktemp("tap") / "a.tap"
    with tap(path) as writer:
        ends = play(writer, script)
    if not ends:
        return
    content = path.read_bytes()
    whole, reader = read_tap(content)
    assert reader.counts.packets == len(ends) and not reader.counts.broken

    torn = rng.randrange(len(content) + 1)
    found, reader = read_tap(content[:torn], window=window)
    last = max((end for end in ends if end <= torn), default=FILE_HEAD_BYTES)
    assert reader.counts.packets == sum(end <= torn for end in ends)
    assert found.rows == [row for row in whole.rows if row[5] + len(row[3]) <= last]
    assert bool(reader.counts.broken) == (torn != last)

    # The file grows, and another reader goes on where the first one stopped.
    connections = TapConnections(reloaded(reader.connections.state()))
    rest, reader = read_tap(content, connections, start=reloaded(reader.resume_point()), window=window)
    assert found.rows + rest.rows == whole.rows
    assert found.gaps + rest.gaps == whole.gaps
    assert reader.position == len(content)


@given(steps, st.randoms(use_true_random=False), st.integers(1, 700))
def test_a_damaged_tap_gives_the_same_in_any_windows_and_all_records_that_are_whole(
    tmp_path_factory: pytest.TempPathFactory, script: list[Step], rng: Random, window: int
) -> None:
    path = tmp_path_factory.mktemp("tap") / "a.tap"
    with tap(path) as writer:
        ends = play(writer, script)
    if not ends:
        return
    content = bytearray(path.read_bytes())
    whole, _ = read_tap(bytes(content))
    place = rng.randrange(FILE_HEAD_BYTES, len(content))
    content[place] ^= 1 + rng.randrange(255)
    one, reader = read_tap(bytes(content))
    other, again = read_tap(bytes(content), window=window)
    assert (one.rows, one.gaps) == (other.rows, other.gaps)
    assert (reader.counts, reader.position) == (again.counts, again.position)
    begin = max((end for end in ends if end <= place), default=FILE_HEAD_BYTES)
    end = min(end for end in ends if end > place)
    if not reader.counts.broken:  # a length that became too large hides what is behind it
        assert reader.counts.notes == [f"{end - begin} bytes at {begin} are not a record, or a damaged one"]
        assert _payloads(one) == [row for row in _payloads(whole) if not begin <= row[0] < end]


def _payloads(found: Found) -> list[tuple[int, bytes]]:
    return [(row[5], row[3]) for row in found.rows if row[3]]


def test_a_hole_from_a_damaged_record_is_a_gap(tmp_path: Path) -> None:
    with tap(tmp_path / "a.tap") as writer:
        one = writer.open(CLIENT, SERVER, START_US)
        for number in range(3):
            writer.data(one, TO_SERVER, START_US + number, b"%d" % number * 50)
    content = (tmp_path / "a.tap").read_bytes().replace(b"1" * 50, b"1" * 20 + b"?" + b"1" * 29)
    found, reader = read_tap(content)
    assert [(offset, length) for _, _, offset, length in found.gaps] == [(50, 50)]
    assert reader.counts.missing_bytes == 50
    assert "not a record" in reader.counts.notes[0]


def test_notes_about_damage_do_not_grow_with_it(tmp_path: Path) -> None:
    with tap(tmp_path / "a.tap") as writer:
        one = writer.open(CLIENT, SERVER, START_US)
        for number in range(200):
            writer.data(one, TO_SERVER, START_US + number, b"!" * 9 if number % 2 else b"?" * 9)
    found, reader = read_tap((tmp_path / "a.tap").read_bytes().replace(b"!" * 9, b"." * 9))
    assert len(found.rows) == 100 and len(found.gaps) == 99
    assert len(reader.counts.notes) == 21 and reader.counts.notes[-1] == "there are more such places"


def test_a_connection_whose_beginning_is_damaged_is_still_there(tmp_path: Path) -> None:
    with tap(tmp_path / "a.tap") as writer:
        one = writer.open(CLIENT, SERVER, START_US)
        writer.data(one, TO_SERVER, START_US + 3, b"abc")
        writer.close(one, START_US + 4)
    content = (tmp_path / "a.tap").read_bytes().replace(b"10.0.0.1", b"10.0.0.9")
    found, _ = read_tap(content)
    (known,) = found.connections.values()
    assert (known.client, known.is_whole, known.first_us, known.ended) == ("", False, START_US + 3, "closed")
    assert [row[3] for row in found.rows] == [b"abc"]


def test_a_record_of_a_tap_within_the_data_of_a_tap_is_only_data(tmp_path: Path) -> None:
    with TapWriter(tmp_path / "inner.tap") as writer:
        one = writer.open(CLIENT, SERVER, START_US)
        writer.data(one, TO_SERVER, START_US, b"inner")
    inner = (tmp_path / "inner.tap").read_bytes()
    with TapWriter(tmp_path / "a.tap") as writer:
        one = writer.open(CLIENT, SERVER, START_US)
        writer.data(one, TO_SERVER, START_US, inner)
        writer.data(one, TO_SERVER, START_US, b"after")
    content = bytearray((tmp_path / "a.tap").read_bytes())
    content[content.index(inner)] ^= 1  # so that the search goes through it
    found, _ = read_tap(bytes(content))
    assert [row[3] for row in found.rows] == [b"after"]


# --- rotated sets


def test_a_rotated_set_reads_as_one_capture(tmp_path: Path) -> None:
    writer, sent = rotated(tmp_path / "set")
    assert len(writer.paths) > 5
    assert sorted((tmp_path / "set").iterdir()) == writer.paths
    found = together(writer.paths)
    assert not found.gaps
    assert len(found.connections) == 3 and all(one.is_whole for one in found.connections.values())
    for number, name in enumerate(found.connections):
        parts = [sent[number][at : at + 100] for at in range(0, 3000, 100)]
        assert [bytes(found.streams[name, way]) for way in (0, 1)] == [b"".join(parts[way::2]) for way in (0, 1)]
    assert max(path.stat().st_size for path in writer.paths) < 1500


def test_a_file_of_a_set_can_be_read_alone(tmp_path: Path) -> None:
    writer, _ = rotated(tmp_path / "set")
    whole = together(writer.paths)
    alone = together(writer.paths[3:4])
    assert set(alone.connections) == set(whole.connections)
    assert not any(one.is_whole for one in alone.connections.values())
    assert not alone.gaps
    assert set(alone.rows) <= set(whole.rows) and alone.rows


def test_a_file_of_a_set_that_is_missing_is_a_gap(tmp_path: Path) -> None:
    writer, _ = rotated(tmp_path / "set")
    whole, found = together(writer.paths), together(writer.paths[:3] + writer.paths[4:])
    lost = together(writer.paths[3:4])
    assert sum(gap[3] for gap in found.gaps) == sum(len(row[3]) for row in lost.rows)
    assert found.ends == whole.ends


def test_a_state_holds_only_the_connections_that_are_asked_for(tmp_path: Path) -> None:
    writer, _ = rotated(tmp_path / "set")
    connections = TapConnections()
    with writer.paths[0].open("rb") as source:
        found = [chunks.connections for chunks in TapReader(CaptureFile(source), connections)][-1]
    one = connections.state().only({found[1].id})
    assert [known.connection.id for known in one.connections] == [found[1].id]


# --- places in the file


def test_a_range_between_two_resume_points_is_read_by_another_reader(tmp_path: Path) -> None:
    with tap(tmp_path / "a.tap") as writer:
        play(writer, [("open", 0, 0, 0), ("open", 1, 0, 0), *[("data", n % 2, n % 2, 90) for n in range(200)]])
    content = (tmp_path / "a.tap").read_bytes()
    whole, _ = read_tap(content)
    reader = TapReader(CaptureFile(io.BytesIO(content), window=1000), TapConnections())
    places = [(reader.resume_point(), reader.connections.state())]
    for _ in reader:
        places.append((reader.resume_point(), reader.connections.state()))
    rows = []
    for (start, before), (stop, _) in zip(places[::5], [*places[5::5], places[-1]], strict=False):
        found, part = read_tap(content, TapConnections(before), start=start, stop=stop.position)
        assert part.position == stop.position and not part.counts.broken
        rows += found.rows
    assert rows == whole.rows


# --- what goes wrong


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\x89WTAQ\r\n\x1a" + bytes(40), "not a tap"),
        (b"\x89WTAP\r\n\x1a\x02\0" + bytes(40), "version 2"),
        (b"\x89WTAP\r\n\x1a\x01\0" + bytes(40), "damaged"),
    ],
)
def test_a_file_that_is_no_tap_is_refused(content: bytes, told: str) -> None:
    with pytest.raises(CaptureError, match=f"x.tap: .*{told}"):
        TapReader(CaptureFile(io.BytesIO(content), "x.tap"), TapConnections())


def test_the_arrays_of_a_window_have_the_kinds_that_chunks_have(tmp_path: Path) -> None:
    with tap(tmp_path / "a.tap") as writer:
        play(writer, [("open", 0, 0, 0), ("data", 0, 1, 9)])
    with (tmp_path / "a.tap").open("rb") as source:
        (chunks,) = TapReader(CaptureFile(source), TapConnections())
    assert chunks.data.dtype == np.uint8 and {column.dtype for column in chunks.columns()} == {np.dtype(np.int64)}


# --- among other captures


def test_taps_live_in_the_tracker_that_all_captures_share(tmp_path: Path) -> None:
    traffic = generate(["casual", "ceda"], messages=400, connections=2, seed=5)
    paths = write_tap(traffic, tmp_path, rotate_bytes=20_000)
    assert len(paths) > 2
    found, state = Found(), None
    for path in paths:
        tracker = Tracker(state)
        for chunks in open_capture(path, tracker, window=5_000):
            found.add(chunks)
        state = reloaded(tracker.state())
    assert not found.gaps
    assert {one.protocol for one in found.connections.values()} == {"casual", "ceda"}
    assert sorted(bytes(stream) for stream in found.streams.values()) == sorted(streams_of(traffic).values())


def test_a_packed_tap_is_unpacked_and_tells_if_it_ends_early(tmp_path: Path) -> None:
    (path,) = write_tap(generate("mb", messages=300), tmp_path / "a.tap")
    plain, _ = read_tap(path.read_bytes())
    packed = tmp_path / "a.tap.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    for cut in (0, 500):
        packed.write_bytes(packed.read_bytes()[: packed.stat().st_size - cut])
        found = Found()
        reader = open_capture(packed, Tracker())
        for chunks in reader:
            found.add(chunks)
        assert found.rows == plain.rows[: len(found.rows)] and found.rows
        assert bool(reader.counts.broken) == bool(cut)


def streams_of(traffic: Traffic) -> dict[tuple[int, str], bytes]:
    found: dict[tuple[int, str], bytes] = defaultdict(bytes)
    for event in traffic:
        found[event.connection.number, event.direction] += event.frame
    return found


def test_an_open_record_of_a_later_file_changes_nothing() -> None:
    taps = TapConnections()
    taps.open(SET, 1, Connection("first", "a", "b"))
    taps.open(SET, 1, Connection("second", "a", "b"))
    assert taps.of(SET, 1).connection.id == "first"
    closed = taps.close(SET, 1)
    assert closed is not None and closed.id == "first"
    assert taps.close(SET, 1) is None


def test_a_connection_without_an_open_record_is_the_same_in_every_run() -> None:
    assert TapConnections().of(SET, 5).connection.id == TapConnections().of(SET, 5).connection.id
    assert TapConnections().of(SET, 5).connection.id != TapConnections().of(SET, 6).connection.id


def test_a_state_is_not_changed_by_what_comes_later() -> None:
    taps = TapConnections()
    taps.of(SET, 1).ends = (3, 4)
    state = taps.state()
    taps.of(SET, 1).ends = (9, 9)
    taps.of(SET, 1).connection.ended = "closed"
    (known,) = reloaded(state).connections
    assert (known.ends, known.connection.ended) == ((3, 4), "")
    assert TapConnections(state).of(SET, 1).ends == (3, 4)


def test_time_records_tell_until_when_nothing_came_and_change_nothing_else(tmp_path: Path) -> None:
    for name in ("plain", "told"):
        with tap(tmp_path / name) as writer:
            writer.time(START_US)  # there is no file yet
            one = writer.open(CLIENT, SERVER, START_US)
            for number in range(3):
                writer.data(one, 0, START_US + number, b"bytes")
                if name == "told":
                    writer.time(START_US + 10 + number)
    plain, reader = read_tap((tmp_path / "plain").read_bytes())
    assert (reader.counts.time_records, reader.counts.silent_until_us) == (0, None)
    for window in (100, 1 << 20):
        told, reader = read_tap((tmp_path / "told").read_bytes(), window=window)
        assert [row[:-1] for row in told.rows] == [row[:-1] for row in plain.rows]
        assert told.connections.keys() == plain.connections.keys()
        assert (reader.counts.time_records, reader.counts.silent_until_us) == (3, START_US + 12)
        assert reader.counts.packets == 4 and not reader.counts.notes


def test_a_record_of_an_unknown_kind_is_noted_and_costs_nothing_else(tmp_path: Path) -> None:
    with tap(tmp_path / "a.tap") as writer:
        one = writer.open(CLIENT, SERVER, START_US)
        writer.data(one, 0, START_US, b"before")
        writer._put(9, 0, 0, bytes(8))
        writer.data(one, 0, START_US, b"behind")
    found, reader = read_tap((tmp_path / "a.tap").read_bytes())
    assert [row[3] for row in found.rows] == [b"before", b"behind"] and not found.gaps
    assert len(reader.counts.notes) == 1 and "24 bytes" in reader.counts.notes[0]
