"""Checkpoints: a lake opened from one is the lake of all its records, and one that somebody else wrote is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from tests.lake.lakes import numbers, stage
from wirelake.errors import LakeError
from wirelake.lake import Input, Kept, Lake, checkpoints
from wirelake.lake import commits as commits_module
from wirelake.lake.checkpoints import Head, pack, read_checkpoint, unpack
from wirelake.lake.history import Listing
from wirelake.lake.state import State
from wirelake.lake.table_files import FILES

FEW = 4


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits_module, "CHECKPOINT_EVERY", FEW)


def grown(place: Path, commits: int) -> Lake:
    """Each commit adds to one table, replaces another, and moves everything else on."""
    lake = Lake.open(place, settings={"buckets": 2})
    with lake.writing() as run:
        for number in range(run.number, run.number + commits):
            carry = run.staging.stage_bytes("driver", "x.bin", bytes([number % 256]))
            before = Kept(number - 1, number, "a", dict(lake.carry()))
            run.commit(
                [*stage(run, "silver/x", number), *stage(run, "gold/open", number)],
                removed=lake.files("gold/open"),
                inputs=[Input(f"in-{number % 7}", number, None, "h", 4, number, marks=("a", "b"))],
                carry={"driver": carry},
                facts={"commits": 1, "by": {"x": number}},
                labels={"batch": number},
                kept={"s": [before] if number > 1 else []},
                settings={"grace_seconds": 600} if number == 2 else None,
            )
    return lake


def seen(lake: Lake) -> dict[str, Any]:
    return {
        "numbers": {table: numbers(lake, table) for table in lake.tables()},
        "files": {table: sorted(file.path for file in lake.files(table)) for table in lake.tables()},
        "rest": (lake.inputs(), lake.carry(), lake.kept(), lake.labels(), lake.settings, lake.number()),
        "summary": lake.summary(),
    }


@pytest.mark.usefixtures("often")
def test_a_lake_opened_from_a_checkpoint_is_that_of_all_its_records(tmp_path: Path) -> None:
    lake = grown(tmp_path, 11)
    assert Listing.of(lake.store).checkpoints == [4, 8]
    expected = seen(lake)
    assert seen(Lake.open(tmp_path)) == expected
    for number in range(1, 8):  # a checkpoint stands for all of them
        (tmp_path / "_commits" / f"{number:08d}.json").unlink()
    (tmp_path / "_commits" / "00000004.checkpoint").unlink()
    assert seen(Lake.open(tmp_path)) == expected
    assert expected["summary"].facts == {"commits": 11, "by": {"x": 66}}
    assert seen(grown(tmp_path, 6))["numbers"] == {"silver/x": list(range(1, 18)), "gold/open": [17]}


@pytest.mark.usefixtures("often")
def test_a_reader_that_rested_while_records_went_begins_at_the_checkpoint(tmp_path: Path) -> None:
    reader = grown(tmp_path, 2)
    assert reader.number() == 2
    grown(tmp_path, 8)
    for number in range(1, 8):
        (tmp_path / "_commits" / f"{number:08d}.json").unlink()
    assert (reader.number(), numbers(reader, "silver/x")) == (10, list(range(1, 11)))


@pytest.mark.usefixtures("often")
def test_a_refresh_reads_new_records_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, reader = grown(tmp_path, 6), Lake.open(tmp_path)
    assert reader.number() == 6
    grown(tmp_path, 1)
    read: list[str] = []
    monkeypatch.setattr(type(reader.store), "read", _noting(type(reader.store).read, read))
    monkeypatch.setattr(type(reader.store), "names", _noting(type(reader.store).names, read))
    assert reader.number() == 7 and read == ["_commits/00000007.json"]
    assert reader.number() == 7 and len(read) == 1
    assert writer.number() == 7


def _noting(method: Any, paths: list[str]) -> Any:
    def noted(store: Any, path: str, *rest: Any) -> Any:
        paths.append(path)
        return method(store, path, *rest)

    return noted


def test_a_lake_of_many_records_without_a_checkpoint_gets_one_from_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown(tmp_path, 9)
    monkeypatch.setattr(commits_module, "CHECKPOINT_EVERY", FEW)
    with Lake.open(tmp_path).writing():
        pass
    assert Listing.of(Lake.open(tmp_path).store).checkpoints == [9]


def test_a_lake_of_the_format_before_is_read_and_becomes_one_of_this(tmp_path: Path) -> None:
    lake = grown(tmp_path, 3)
    expected = seen(lake)
    about = json.loads((tmp_path / "_lake.json").read_text())
    (tmp_path / "_lake.json").write_text(json.dumps({"format": 2, "settings": about["settings"], "wirelake": "0.1.0"}))
    for path in (tmp_path / "_tables").rglob("*.parquet"):
        path.unlink()
    for number in (1, 2, 3):
        path = tmp_path / "_commits" / f"{number:08d}.json"
        record = json.loads(path.read_text())
        del record["swept"]
        path.write_text(json.dumps(dict(record, format=1)))
    old = Lake.open(tmp_path)
    assert seen(old) == expected
    with old.writing():
        pass
    assert json.loads((tmp_path / "_lake.json").read_text())["format"] == 3
    assert seen(old) == seen(Lake.open(tmp_path)) == expected
    assert seen(grown(tmp_path, 1))["numbers"] == {"silver/x": [1, 2, 3, 4], "gold/open": [4]}


# --- what is refused


def head_changed(data: bytes, **changes: Any) -> bytes:
    """A checkpoint with other words in its head, and a checksum that fits."""
    magic, version, named, length, _ = checkpoints._START.unpack_from(data)
    at = checkpoints._START.size + named
    head = msgspec.msgpack.decode(data[at : at + length]) | changes
    packed = msgspec.msgpack.encode(head)
    start = checkpoints._START.pack(magic, version, named, len(packed), checkpoints.zlib.crc32(packed))
    return start + data[checkpoints._START.size : at] + packed + data[at + length :]


@pytest.fixture
def state(tmp_path: Path) -> State:
    return grown(tmp_path, 3).refresh()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"tables": {"../outside": {"start": 0, "packed": 0, "size": 0, "checksum": 0, "items": 0}}},
            "names the table",
        ),
        ({"carry": {"x": "../outside"}}, "names the file"),
        ({"carry": {"../x": "_carry/00000001-x"}}, "names the carry"),
        ({"kept": {"s": [{"commit": 1, "after_us": 0, "after": "", "carry": {"x": "/etc/passwd"}}]}}, "names the file"),
        ({"number": 7}, "it is that of commit 7"),
        ({"number": "3"}, "Expected `int`"),
        ({"command": "rm"}, "unknown field"),
        ({"facts": {"x": [1]}}, "Expected"),
        ({"inputs": {}}, "missing required field"),
    ],
)
def test_a_head_that_wirelake_did_not_write_is_refused(state: State, changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(LakeError, match=reason) as error:
        unpack(head_changed(pack(state), **changes), 3, "x.checkpoint")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("at", range(0, 400, 7))
def test_a_damaged_checkpoint_is_refused_in_one_line(state: State, at: int) -> None:
    data = bytearray(pack(state))
    data[at * len(data) // 400] ^= 0xFF
    with pytest.raises(LakeError, match=r"x\.checkpoint: (is not a checkpoint|has the format of a newer)") as error:
        found = unpack(bytes(data), 3, "x.checkpoint")
        len(found.inputs)
        for files in found.files.values():
            files.by_path()
        found.inputs.by_key()
        if data[11:16] != pack(state)[11:16]:  # the version of the writer is for people only
            raise LakeError("x.checkpoint", "is not a checkpoint, but nobody can tell")
    assert "\n" not in str(error.value)


def test_a_cut_checkpoint_is_refused(state: State) -> None:
    data = pack(state)
    for end in (0, 5, 20, len(data) // 2):
        with pytest.raises(LakeError, match="is not a checkpoint"):
            found = unpack(data[:end], 3, "x")
            found.inputs.by_key()


def test_a_checkpoint_of_a_newer_wirelake_says_so(state: State) -> None:
    data = pack(state)
    newer = data[:8] + (99).to_bytes(2, "little") + data[10:]
    with pytest.raises(LakeError, match=r"has the format of a newer wirelake \(0\.1\.0\); upgrade this one"):
        unpack(newer, 3, "x")


BAD_FILES: dict[str, dict[str, Any]] = {
    "above": {"name": "../../../etc/passwd"},
    "another name": {"name": "x.parquet"},
    "a line more": {"name": "part-00000001-t-0.parquet\n"},
    "another directory": {"partition": "date=../.."},
    "negative rows": {"rows": -1},
    "no bytes": {"bytes": None},
    "no sensor": {"sensor": None},
    "a long sensor": {"sensor": "s" * 20_000},
}


@pytest.mark.parametrize("change", BAD_FILES.values(), ids=BAD_FILES.keys())
def test_files_that_no_record_names_are_refused(
    state: State, change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = state.files_of("silver/x").to_arrow().to_pylist()[0] | change
    rows = pa.Table.from_pylist([row], FILES)
    monkeypatch.setattr(type(state.files_of("silver/x")), "to_arrow", lambda files: rows)
    found = unpack(pack(state), 3, "x.checkpoint")
    with pytest.raises(LakeError, match=r"x\.checkpoint: is not a checkpoint that wirelake wrote") as error:
        found.files["silver/x"].paths()
    assert "\n" not in str(error.value)


def test_a_section_that_would_fill_the_memory_is_not_unpacked(state: State) -> None:
    data = pack(state)
    head, _ = checkpoints._head(data, "x")
    huge = msgspec.to_builtins(head.inputs) | {"size": 1 << 29}
    found = unpack(head_changed(data, inputs=huge), 3, "x")
    with pytest.raises(LakeError, match="a section of 536870912 bytes is packed into"):
        found.inputs.by_key()


def test_a_lake_with_a_damaged_checkpoint_opens_from_the_one_before(tmp_path: Path, often: None) -> None:
    lake = grown(tmp_path, 9)
    expected = seen(lake)
    (tmp_path / "_commits" / "00000008.checkpoint").write_bytes(b"?")
    with pytest.raises(LakeError, match=r"00000008\.checkpoint: is not a checkpoint.*delete it if an older"):
        Lake.open(tmp_path).tables()
    (tmp_path / "_commits" / "00000008.checkpoint").unlink()
    assert seen(Lake.open(tmp_path)) == expected


def test_a_checkpoint_is_the_state_that_was_packed(state: State) -> None:
    again = unpack(pack(state), 3, "x")
    assert replace(again, files={}, inputs=state.inputs, last=state.last, checkpoint=0) == replace(state, files={})
    assert again.inputs.by_key() == state.inputs.by_key()
    assert Head.__struct_fields__[0] == "number"


def test_a_checkpoint_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match=r"00000009\.checkpoint: cannot be read: No such file"):
        read_checkpoint(Lake.open(tmp_path).store, 9)
