"""Captures are known again by their content, whatever happened to their files."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.capture.packing import PACK
from wirelake.capture.read.listing import ListedFile, Peek
from wirelake.generate import generate, write_pcap, write_raw
from wirelake.ingest import known as module
from wirelake.ingest.known import Known, Seen, beside, look, recognise
from wirelake.lake import Input
from wirelake.lake.inputs import HEAD_BYTES, head_hash, marks

HEAD = b"the head of a pcap file."


@dataclass
class World:
    """Files and a lake, without either: what is seen of files, and what is recorded of them."""

    known: dict[str, Input] = field(default_factory=dict)
    clock: int = 0

    def see(self, path: str, content: bytes, kind: str = "pcap", size: int | None = None) -> Seen:
        """A file that was just written; ``size`` is that of a compressed one."""
        self.clock += 1
        is_bare = content == HEAD
        first = None if is_bare or kind == "raw" else int.from_bytes(content[24:30], "big")
        capture = Peek(path, kind, first, is_bare, "zstd" if size is not None else "")
        head = content[:HEAD_BYTES]
        now = Input(
            path,
            len(content) if size is None else size,
            self.clock,
            head_hash(head),
            len(head),
            kind=kind,
            first_us=first,
            is_bare=is_bare,
            marks=marks(head),
        )
        return Seen(capture, now, lambda count: head_hash(content[:count]) if count <= len(content) else "")

    def decide(self, *seen: Seen) -> list[tuple[str, str, int]]:
        """Name, change and where to begin, in the order of names."""
        self.found = sorted(recognise(seen, self.known), key=lambda one: one.now.path)
        return [(one.now.path, one.change, one.before.position if one.before else 0) for one in self.found]

    def ingest(self, *seen: Seen, lengths: dict[str, int] | None = None) -> list[tuple[str, str, int]]:
        """Decide, and record what an ingest would; ``lengths`` are those of compressed contents."""
        decided = self.decide(*seen)
        places = {path: path for path in self.known}
        records, kept = beside(self.found, places)
        assert kept.keys() == {record.path for record in records}
        for record in records:
            self.known[record.path] = record
        for one in self.found:
            if one.change in ("new", "grown", "changed"):
                end = (lengths or {}).get(one.now.path, one.now.size)
                self.known[one.now.path] = one.now.read_to(max(end, one.now.position))
        return decided


def content(number: int, size: int = 100_000) -> bytes:
    return (HEAD + bytes([0, 0, 0, 0, 1, number]) + bytes([number]) * size)[:size]


@pytest.fixture
def world() -> World:
    return World()


A, B, C = content(1), content(2), content(3)


def test_a_file_that_nobody_saw_is_new_and_then_the_same(world: World) -> None:
    seen = world.see("a", A)
    assert world.ingest(seen) == [("a", "new", 0)]
    assert world.decide(seen) == [("a", "same", 100_000)]
    assert not world.found[0].is_recorded


@pytest.mark.parametrize("before", [30, 100, 5000, HEAD_BYTES - 1, HEAD_BYTES, 99_000])
@pytest.mark.parametrize("path", ["a", "moved"])
@pytest.mark.parametrize("size", [None, 777])
def test_a_file_that_grew_goes_on_also_moved_and_compressed(
    world: World, before: int, path: str, size: int | None
) -> None:
    world.ingest(world.see("a", A[:before]))
    assert world.ingest(world.see(path, A, size=size), lengths={path: len(A)}) == [(path, "grown", before)]
    assert world.known[path].position == len(A)
    assert world.known[path].origin == world.known["a"].origin != ""


def test_a_moved_file_is_the_same_and_is_recorded(world: World) -> None:
    world.ingest(world.see("a", A))
    seen = world.see("b", A)
    assert world.ingest(seen) == [("b", "same", 100_000)]
    assert world.known["b"].position == 100_000
    assert world.decide(seen) == [("b", "same", 100_000)] and not world.found[0].is_recorded
    assert world.ingest(world.see("c", A + b"more")) == [("c", "grown", 100_000)]


def test_a_compressed_file_is_read_on_once_and_is_then_the_same_wherever_it_is(world: World) -> None:
    world.ingest(world.see("a", A))
    packed = world.see("a.zst", A, size=777)
    assert world.ingest(packed, lengths={"a.zst": len(A)}) == [("a.zst", "grown", 100_000)]
    assert world.decide(packed) == [("a.zst", "same", 100_000)]
    moved = world.see("b.zst", A, size=777)
    moved = replace(moved, now=msgspec.structs.replace(moved.now, mtime_us=packed.now.mtime_us))
    assert world.ingest(moved) == [("b.zst", "same", 100_000)]
    assert world.ingest(world.see("a", A)) == [("a", "same", 100_000)], "unpacked again"


def test_a_small_compressed_file_is_the_same_without_being_read(world: World) -> None:
    world.ingest(world.see("a", A[:5000]))
    assert world.decide(world.see("a.zst", A[:5000], size=50)) == [("a.zst", "same", 5000)]
    assert world.decide(world.see("a.zst", A[:5001], size=50)) == [("a.zst", "grown", 5000)]


@pytest.mark.parametrize("part", [40, 3000, 66_000])
def test_a_copy_or_archive_that_is_being_written_is_not_read_twice(world: World, part: int) -> None:
    world.ingest(world.see("a", A))
    assert world.ingest(world.see("b", A[:part])) == [("b", "same", 100_000)]
    assert world.ingest(world.see("b", A[: part * 2])) in ([("b", "same", 100_000)], [("b", "grown", 100_000)])
    assert world.ingest(world.see("b", A)) == [("b", "same", 100_000)]
    ((_, change, begin),) = world.decide(world.see("b.zst", A[:part], size=77))
    assert change in ("same", "grown") and begin == 100_000


def test_of_two_new_copies_the_longer_one_is_read_and_the_other_one_is_named(world: World) -> None:
    short, long, packed = world.see("a", A[:90_000]), world.see("b", A), world.see("c.zst", A, size=10)
    assert world.ingest(short, long, packed) == [("a", "same", 0), ("b", "new", 0), ("c.zst", "same", 0)]
    assert world.found[0].note == "a: it has the content of b, which is read instead"
    assert world.known.keys() == {"b"}, "what was not compared to its end is looked at again"
    assert world.ingest(short, long, packed) == [
        ("a", "same", 100_000),
        ("b", "same", 100_000),
        ("c.zst", "grown", 100_000),
    ]
    assert world.ingest(short, long, packed) == [(name, "same", 100_000) for name in ("a", "b", "c.zst")]
    assert not any(one.is_recorded for one in world.found)


def test_two_new_files_of_which_one_is_only_a_beginning_are_one_capture(world: World) -> None:
    assert world.decide(world.see("a", A[:40]), world.see("b", A)) == [("a", "same", 0), ("b", "new", 0)]


def test_captures_that_begin_at_one_time_are_two_if_their_bytes_differ(world: World) -> None:
    other = A[:60] + bytes(50_000)
    assert world.ingest(world.see("a", A), world.see("b", other)) == [("a", "new", 0), ("b", "new", 0)]
    assert world.decide(world.see("c", other[:200])) == [("c", "same", 50_060)]
    assert world.decide(world.see("c", A[:60] + b"yet another one" * 5)) == [("c", "new", 0)]


def test_another_capture_under_a_known_name_is_read_from_its_beginning_with_a_note(world: World) -> None:
    world.ingest(world.see("a", A))
    assert world.decide(world.see("a", B)) == [("a", "changed", 0)]
    assert world.found[0].note == "a: another capture than before has this name"


def test_a_ring_of_files_loses_nothing_that_it_overwrites(world: World) -> None:
    world.ingest(world.see("r0", A[:70_000]), world.see("r1", B))
    assert world.ingest(world.see("r0", C)) == [("r0", "changed", 0)]
    assert world.found[0].displaced is not None
    assert world.ingest(world.see("r0", HEAD)) == [("r0", "changed", 0)]
    assert world.ingest(world.see("saved", A)) == [("saved", "grown", 70_000)], "it was copied before"
    assert world.ingest(world.see("other", C)) == [("other", "same", 100_000)]


def test_the_furthest_record_of_a_capture_is_kept_when_another_takes_its_name(world: World) -> None:
    world.ingest(world.see("a", A[:70_000]))
    world.ingest(world.see("b", A))
    world.ingest(world.see("b", C))
    assert world.ingest(world.see("c", A)) == [("c", "same", 100_000)], "not read on from the record of a"


def test_rotation_by_renaming_shifts_every_name(world: World) -> None:
    contents = [content(number) for number in range(5)]
    for step, newest in enumerate(contents):
        half = [world.see("cap", newest[:80_000])]
        half += [world.see(f"cap.{n + 1}", older) for n, older in enumerate(reversed(contents[:step]))]
        decided = world.ingest(*half)
        assert decided[0] == ("cap", "new" if step == 0 else "changed", 0)
        assert [change for _, change, _ in decided[1:]] == ["grown", *["same"] * (step - 1)][:step]
        assert [begin for _, _, begin in decided[1:]] == [80_000, *[100_000] * (step - 1)][:step]
    assert len(world.known) == 5, "no record is kept twice"


def test_rotation_by_renaming_is_followed_also_if_only_the_newest_file_is_looked_at(world: World) -> None:
    for newest in (A, B, C):
        world.ingest(world.see("cap", newest[:80_000]))
    assert world.ingest(world.see("cap.1", B), world.see("cap.2", A)) == [
        ("cap.1", "grown", 80_000),
        ("cap.2", "grown", 80_000),
    ]


def test_a_file_that_became_shorter_than_what_was_read_is_refused(world: World) -> None:
    world.ingest(world.see("a", A))
    for size in (70, 5000, HEAD_BYTES, 99_999):
        assert world.ingest(world.see("a", A[:size])) == [("a", "shrunk", 100_000)]
        assert world.found[0].note.startswith("a: it became shorter than what was read of it, 100000 bytes")
        assert world.known["a"].position == 100_000
    assert world.decide(world.see("a", A[:5000], size=30)) == [("a", "shrunk", 100_000)]


def test_files_with_nothing_but_a_head_are_known_by_their_path_alone(world: World) -> None:
    seen = [world.see("a", HEAD), world.see("b", HEAD)]
    assert world.ingest(*seen) == [("a", "new", 0), ("b", "new", 0)]
    assert world.decide(*seen) == [("a", "same", 24), ("b", "same", 24)]
    assert world.ingest(world.see("b", B)) == [("b", "grown", 24)]
    assert world.ingest(world.see("c", A)) == [("c", "new", 0)]
    assert world.ingest(world.see("d", HEAD)) == [("d", "new", 0)]


def test_raw_files_are_known_by_their_path_alone(world: World) -> None:
    assert world.ingest(world.see("a", A, "raw"), world.see("b", A, "raw")) == [("a", "new", 0), ("b", "new", 0)]
    assert world.ingest(world.see("c", A, "raw")) == [("c", "new", 0)]
    assert world.decide(world.see("a", A + b"more", "raw")) == [("a", "grown", 100_000)]
    assert world.decide(world.see("a", A[:-1], "raw")) == [("a", "shrunk", 100_000)]
    assert world.decide(world.see("a", B[:500], "raw")) == [("a", "changed", 0)]


def test_a_file_that_comes_back_under_an_old_name_is_not_read_from_the_old_place(world: World) -> None:
    world.ingest(world.see("a", A[:70_000]))
    world.ingest(world.see("b", A))
    assert world.ingest(world.see("a", A)) == [("a", "same", 100_000)]


def test_a_record_of_an_earlier_wirelake_is_known_by_its_content(world: World) -> None:
    world.known["a"] = Input("a", 70_000, 1, head_hash(A[:HEAD_BYTES]), HEAD_BYTES, 70_000)
    assert world.decide(world.see("b", A)) == [("b", "grown", 70_000)]
    assert world.decide(world.see("c", B)) == [("c", "new", 0)]


def test_captures_are_returned_in_the_order_in_which_they_were_taken(world: World) -> None:
    found = recognise([world.see("x", C), world.see("y", HEAD), world.see("z", A)], {})
    assert [one.now.path for one in found] == ["z", "x", "y"]


@settings(max_examples=200)
@given(data=st.data())
def test_whatever_is_done_to_files_every_byte_is_read_exactly_once(data: st.DataObject) -> None:
    """Captures grow, move, are copied, packed and unpacked under few names; after each round they are ingested."""
    world, lengths = World(), {1: 0, 2: 0, 3: 0}
    files: dict[str, tuple[int, int, bool]] = {}
    seen: dict[str, Seen] = {}
    read = dict.fromkeys(lengths, 0)
    for _ in range(data.draw(st.integers(1, 6))):
        for _ in range(data.draw(st.integers(1, 3))):
            _do_something(data, files, lengths)
        for path, (number, length, is_packed) in files.items():
            before = seen.get(path)
            now = world.see(path, content(number, length), size=length // 9 if is_packed else None)
            same = before is not None and before.now.head == now.now.head and before.now.size == now.now.size
            seen[path] = before if same and before is not None else now
        seen = {path: one for path, one in seen.items() if path in files}
        present = {path: length for path, (_, length, _) in files.items()}
        for path, change, begin in world.ingest(*seen.values(), lengths=present):
            number, length, _ = files[path]
            assert change != "shrunk"
            if change in ("new", "changed", "grown"):
                assert begin == read[number] or (begin == 24 and read[number] == 0)
                read[number] = max(read[number], length)
        for number in read:
            plain = [length for which, length, is_packed in files.values() if which == number and not is_packed]
            assert read[number] >= max(plain, default=0)


def _do_something(data: st.DataObject, files: dict[str, tuple[int, int, bool]], lengths: dict[int, int]) -> None:
    """Take the longest file of a capture: let it grow, rename it, copy it, pack it, unpack it; or begin a capture."""
    number = data.draw(st.sampled_from([1, 2, 3]))
    name = data.draw(st.sampled_from("abcd"))
    files_of = {path: file for path, file in files.items() if file[0] == number}
    if not files_of:
        if lengths[number] == 0:
            lengths[number] = data.draw(st.sampled_from([40, 200, 70_000]))
            files[name] = (number, lengths[number], False)
        return
    path, (_, length, is_packed) = max(files_of.items(), key=lambda item: item[1][1])
    match data.draw(st.sampled_from(["grow", "move", "copy", "pack", "unpack"])):
        case "grow" if not is_packed:
            for copy in files_of:  # else a shorter one could take the place of the longest
                del files[copy]
            lengths[number] = length + data.draw(st.sampled_from([7, 300, 66_000]))
            files[path] = (number, lengths[number], False)
        case "move":
            files[name] = files.pop(path)
        case "copy":
            files[name] = files[path]
        case "pack":
            del files[path]
            files[name] = (number, length, True)
        case "unpack":
            del files[path]
            files[name] = (number, length, False)


# --- looking at files


def listed(path: Path) -> ListedFile:
    found = path.stat()
    return ListedFile(str(path), found.st_size, mtime_us=found.st_mtime_ns // 1000)


@pytest.mark.parametrize("suffix", PACK)
def test_a_compressed_capture_has_the_head_of_its_content(suffix: str, tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.pcap", tmp_path / f"a.pcap{suffix}"
    write_pcap(generate("mb", seed=2, messages=800), plain)
    packed.write_bytes(PACK[suffix](plain.read_bytes()))
    one, other = look(listed(plain), None), look(listed(packed), None)
    assert one.now.head_bytes == HEAD_BYTES
    for name in ("head", "head_bytes", "marks", "kind", "first_us", "is_bare"):
        assert getattr(one.now, name) == getattr(other.now, name)
    assert one.hash_of(5000) == other.hash_of(5000) == head_hash(plain.read_bytes()[:5000])
    assert (other.now.size, other.capture.compression) == (
        packed.stat().st_size,
        look(listed(packed), None).capture.compression,
    )
    assert one.hash_of(plain.stat().st_size + 1) == ""


def test_an_unchanged_file_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.pcap"
    write_pcap(generate("mb", seed=2, messages=20), path)
    before = look(listed(path), None).now.read_to(100)

    def refuse(path: str) -> None:
        raise AssertionError(f"{path} was opened")

    monkeypatch.setattr(module, "open_binary", refuse)
    monkeypatch.setattr(module, "peek", lambda path, kind: refuse(path))
    seen = look(listed(path), before)
    assert seen.now == before and seen.capture == Peek(str(path), "pcap", before.first_us)
    assert [one.change for one in recognise([seen], {str(path): before})] == ["same"]
    for touched in (
        replace(listed(path), mtime_us=1),
        replace(listed(path), size=1),
        replace(listed(path), mtime_us=None),
    ):
        with pytest.raises(AssertionError, match="was opened"):
            look(touched, before)
    with pytest.raises(AssertionError, match="was opened"):
        look(listed(path), before, "raw")


def test_a_raw_file_has_no_first_packet(tmp_path: Path) -> None:
    write_raw(generate("dsa", seed=2, messages=20), tmp_path)
    seen = [look(listed(path), None) for path in sorted(tmp_path.glob("*.bin"))]
    assert seen and all((one.now.kind, one.now.first_us) == ("raw", None) for one in seen)
    found: list[Known] = recognise(seen, {})
    assert [one.change for one in found] == ["new"] * len(seen)
