"""Opening, committing, replacing, reading; what is refused; what is said when the disk says no."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from tests.lake.flat import flat
from tests.lake.lakes import SCHEMA, numbers, rows, stage, tree
from wirelake.errors import LakeError
from wirelake.lake import Lake, examine, read_ipc, stage_ipc


def everything(place: Path) -> list[str]:
    return sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file())


# --- opening


def test_a_lake_is_made_where_nothing_is(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "new" / "lake", tmp_path / "empty"):
        lake = Lake.open(place, settings={"buckets": 8})
        assert lake.settings == {"buckets": 8}
        assert (lake.number(), lake.tables(), lake.inputs(), lake.carry()) == (0, [], {}, {})


def test_a_lake_keeps_the_settings_it_was_made_with(tmp_path: Path) -> None:
    Lake.open(tmp_path, settings={"buckets": 8})
    assert Lake.open(tmp_path, settings={"buckets": 9}).settings == {"buckets": 8}
    assert Lake.open(tmp_path, create=False).settings == {"buckets": 8}


def test_a_uri_and_a_path_are_the_same_lake(tmp_path: Path) -> None:
    place = tmp_path / "my lake"
    with Lake.open(place.as_uri()).writing() as run:
        run.commit(stage(run, "silver/x", 1))
    assert numbers(Lake.open(str(place), create=False), "silver/x") == [1]


def test_what_is_no_lake_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(LakeError, match=r"is not empty and not a lake \(it has 'notes.txt', but no '_lake.json'\)"):
        Lake.open(tmp_path)
    with pytest.raises(LakeError, match=r"notes.txt: is a file, not a lake"):
        Lake.open(tmp_path / "notes.txt")
    with pytest.raises(LakeError, match=r"notes.txt/lake: cannot be made: Not a directory"):
        Lake.open(tmp_path / "notes.txt" / "lake")
    with pytest.raises(LakeError, match=r"nonsense://lake: cannot be opened: [^\n]+$"):
        Lake.open("nonsense://lake")
    assert everything(tmp_path) == ["notes.txt"]


def test_only_who_wants_one_gets_a_new_lake(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "missing"):
        with pytest.raises(LakeError, match="there is no lake"):
            Lake.open(place, create=False)
    assert everything(tmp_path) == []


def test_a_lake_of_a_newer_wirelake_is_refused(tmp_path: Path) -> None:
    (tmp_path / "_lake.json").write_text(json.dumps({"format": 2, "wirelake": "9.1", "settings": {}}))
    with pytest.raises(LakeError, match=r"has format 2, of a newer wirelake \(9.1\); this one knows up to 1"):
        Lake.open(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": "x", "settings": {}}', '{"format": 1}'])
def test_a_description_that_makes_no_sense_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "_lake.json").write_text(text)
    with pytest.raises(LakeError, match=r"_lake.json: does not describe a lake: "):
        Lake.open(tmp_path)


# --- committing


def test_committed_rows_are_there_and_others_are_not(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path)
    with lake.writing() as run:
        assert run.number == 1
        first = stage(run, "silver/x", 1, 2)
        stage(run, "silver/x", 3, task=1)
        assert run.commit(first) == 1
        assert run.number == 2
        assert run.commit(stage(run, "silver/x", 4)) == 2
    assert numbers(lake, "silver/x") == [1, 2, 4]
    assert [path for path in everything(tmp_path) if not path.startswith("_")] == [
        "silver/x/date=1970-01-01/part-00000001-00000-0.parquet",
        "silver/x/date=1970-01-01/part-00000002-00000-0.parquet",
    ]
    assert not list((tmp_path / "_staging").rglob("*"))


def test_a_snapshot_stays_as_the_lake_was_and_writes_nothing(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path)
    with lake.writing() as run:
        run.commit(stage(run, "silver/x", 1), labels={"batch": 1})
        before = lake.snapshot()
        run.commit([*stage(run, "silver/x", 2), *stage(run, "silver/y", 3)], labels={"batch": 2})
    assert (before.number(), before.tables(), before.labels()) == (1, ["silver/x"], {"batch": 1})
    assert numbers(before, "silver/x") == [1] and numbers(lake, "silver/x") == [1, 2]
    assert (lake.number(), lake.snapshot().number()) == (2, 2)
    with pytest.raises(LakeError, match="a snapshot is for reading"), before.writing():
        pass


def test_another_engine_reads_the_directory(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path)
    with lake.writing() as run, run.staging.attempt(0) as attempt:
        table = attempt.table("silver/x", SCHEMA)
        table.write(rows(1, ts=0))
        table.write(rows(2, ts=86_400_000_000))
        run.commit(attempt.close())
    listed = ds.dataset(tmp_path / "silver" / "x", partitioning="hive").to_table().sort_by("n")
    assert listed.column("n").to_pylist() == [1, 2]
    assert [str(day) for day in listed.column("date").to_pylist()] == ["1970-01-01", "1970-01-02"]


def test_an_exception_in_a_run_leaves_the_lake_as_it_was(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path)
    with pytest.raises(RuntimeError, match="gone wrong"), lake.writing() as run:
        stage(run, "silver/x", 1)
        raise RuntimeError("gone wrong")
    assert lake.number() == 0
    assert [path for path in everything(tmp_path) if path not in ("_lake.json", "_lock")] == []


def test_a_replaced_file_is_gone(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path)
    with lake.writing() as run:
        run.commit([*stage(run, "gold/open", 1), *stage(run, "silver/x", 7)])
        run.commit(stage(run, "gold/open", 2), removed=lake.files("gold/open"))
        assert numbers(lake, "gold/open") == [2]
        run.commit(removed=[file.path for file in lake.files("gold/open")])
    assert lake.tables() == ["silver/x"]
    assert numbers(lake, "silver/x") == [7]
    assert [path for path in everything(tmp_path) if path.startswith("gold")] == []
    assert lake.dataset("gold/open", SCHEMA).count_rows() == 0
    with pytest.raises(LakeError, match="gold/open: has no rows"):
        lake.dataset("gold/open")


def test_carry_is_handed_on_by_name_and_the_old_one_deleted(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path)
    with lake.writing() as run:
        for value in (1, 2):
            with run.staging.attempt("carry") as attempt:
                bucket = stage_ipc(attempt, "bucket", SCHEMA, [rows(value)])
                attempt.close()
            driver = run.staging.stage_bytes("driver", "state.bin", bytes([value]))
            run.commit(carry={"bucket-0": bucket, **({"driver": driver} if value == 1 else {})})
    again = Lake.open(tmp_path)
    assert again.carry() == {
        "bucket-0": "_carry/00000002-bucket-0.arrow",
        "driver": "_carry/00000001-driver.bin",
    }
    assert [batch.column("n").to_pylist() for batch in read_ipc(again.store, again.carry()["bucket-0"])] == [[2]]
    assert again.store.read(again.carry()["driver"], 9) == b"\x01"
    assert tree(again.store, "_carry") == ["_carry/00000001-driver.bin", "_carry/00000002-bucket-0.arrow"]
    with again.writing() as run:
        run.commit(carry={"driver": None})
    assert list(again.carry()) == ["bucket-0"]
    assert tree(again.store, "_carry") == ["_carry/00000002-bucket-0.arrow"]


def test_inputs_facts_and_labels_are_part_of_the_commit(tmp_path: Path) -> None:
    capture = tmp_path / "a.pcap"
    capture.write_bytes(b"abcdef")
    lake = Lake.open(tmp_path / "lake")
    with lake.writing() as run:
        seen, _ = examine(capture)
        facts = {"messages": 3, "by": {"casual": 3}, "last": "x"}
        run.commit(stage(run, "silver/x", 5), inputs=[seen.read_to(4)], facts=facts, labels={"batch": 7})
        seen, standing = examine(capture, lake.inputs()[str(capture)])
        assert (standing, seen.position) == ("same", 4)
        facts = {"messages": 1, "by": {"casual": 1, "mb": 2}, "last": "y"}
        run.commit(inputs=[seen.read_to(6)], facts=facts, labels={"batch": 8})
    again = Lake.open(tmp_path / "lake")
    assert again.inputs() == {str(capture): seen.read_to(6)}
    assert again.labels() == {"batch": 8}
    summary = again.summary()
    assert (summary.commits, summary.inputs) == (2, 1)
    assert summary.facts == {"messages": 4, "by": {"casual": 4, "mb": 2}, "last": "y"}
    assert (summary.tables["silver/x"].files, summary.tables["silver/x"].rows) == (1, 1)


def test_two_attempts_at_one_task_cannot_both_be_committed(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path)
    with lake.writing() as run:
        first, second = stage(run, "silver/x", 1), stage(run, "silver/x", 1)
        with pytest.raises(LakeError, match=r"part-00000001-00000-0\.parquet: is named twice"):
            run.commit([*first, *second])
        run.commit(second)
    assert numbers(lake, "silver/x") == [1]


def test_a_staged_file_that_is_not_what_it_was_is_not_committed(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path)
    with lake.writing() as run:
        files = stage(run, "silver/x", 1)
        with (tmp_path / files[0].staged).open("ab") as stream:
            stream.write(b"!")
        size = files[0].bytes
        with pytest.raises(LakeError, match=f"was staged with {size} bytes, now there are {size + 1}"):
            run.commit(files)
        (tmp_path / files[0].staged).unlink()
        with pytest.raises(LakeError, match="now there are none"):
            run.commit(files)
    assert lake.number() == 0


def test_only_committed_files_can_be_removed(tmp_path: Path) -> None:
    with Lake.open(tmp_path).writing() as run, pytest.raises(LakeError, match=r"x\.parquet: cannot be removed"):
        run.commit(removed=["gold/open/x.parquet"])


def test_a_number_that_is_taken_meanwhile_is_noticed(tmp_path: Path) -> None:
    """Where there is no lock, two runs may meet; the second says so instead of overwriting the first."""
    store = flat(tmp_path)
    lake, other = (Lake.open("bucket/lake", filesystem=store) for _ in range(2))
    with lake.writing() as run:
        files = stage(run, "silver/x", 1)
        with other.writing() as second:
            second.commit()
        files = stage(run, "silver/x", 1)
        with pytest.raises(LakeError, match="bucket/lake: commit 1 was made by another run meanwhile"):
            run.commit(files)


def test_a_table_may_gain_columns(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path)
    wider = SCHEMA.append(pa.field("extra", pa.string()))
    with lake.writing() as run:
        run.commit(stage(run, "silver/x", 1))
        with run.staging.attempt(0) as attempt:
            attempt.table("silver/x", wider).write(rows(2).append_column("extra", pa.array(["more"])))
            run.commit(attempt.close())
    table = lake.dataset("silver/x").to_table().sort_by("n")
    assert table.select(["n", "extra"]).to_pylist() == [{"n": 1, "extra": None}, {"n": 2, "extra": "more"}]


def test_a_reader_sees_a_commit_whose_files_are_not_moved_yet(tmp_path: Path) -> None:
    """The record is the commit. The last step is undone here, as a kill between the two leaves it."""
    lake = Lake.open(tmp_path)
    with lake.writing() as run:
        files = stage(run, "silver/x", 1)
        run.commit(files)
    (tmp_path / files[0].staged).parent.mkdir(parents=True)
    (tmp_path / files[0].path).rename(tmp_path / files[0].staged)
    reader = Lake.open(tmp_path)
    assert reader.dataset("silver/x").to_table().select(["n", "date"]).num_rows == 1
    with Lake.open(tmp_path).writing():
        pass
    assert (tmp_path / files[0].path).exists()
    assert numbers(reader, "silver/x") == [1]


# --- a disk that says no


BLOBS = pa.schema([("ts", pa.timestamp("us", "UTC")), ("blob", pa.binary())])


def fill(lake: Lake) -> None:
    """Writes more than there is room for."""
    blobs = [os.urandom(1 << 16) for _ in range(16)]
    batch = pa.RecordBatch.from_arrays([pa.array([0] * 16, BLOBS.field("ts").type), pa.array(blobs)], schema=BLOBS)
    with lake.writing() as run, run.staging.attempt(0) as attempt:
        for _ in range(8):
            attempt.table("silver/x", BLOBS, buffer_bytes=1 << 19).write(batch)
        run.commit(attempt.close())


@contextmanager
def small_disk(place: Path) -> Iterator[str]:
    """A file system of 4 MB if one can be mounted, otherwise no file may be larger than that; the error to expect."""
    place.mkdir()
    mount = [shutil.which("mount") or "false", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode == 0:
        try:
            yield "No space left on device"
        finally:
            subprocess.run(["umount", "--lazy", str(place)], check=True)
        return
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, before[1]))
    try:
        yield "File too large"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_one_line_and_leaves_the_lake_as_it_was(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as why:
        lake = Lake.open(tmp_path / "disk" / "lake")
        with lake.writing() as run:
            run.commit(stage(run, "silver/y", 1))
        with pytest.raises(LakeError, match=rf"part-00000002-00000-0.parquet: cannot be written: {why}$"):
            fill(lake)
        assert (lake.number(), numbers(lake, "silver/y")) == (1, [1])
        assert not tree(lake.store, "_staging")
        with lake.writing() as run:
            run.commit(stage(run, "silver/y", 2))
        assert numbers(Lake.open(tmp_path / "disk" / "lake"), "silver/y") == [1, 2]
        del lake, run


def test_a_file_where_a_directory_should_be_is_one_line(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path)
    (tmp_path / "_staging").write_text("")
    with lake.writing() as run, pytest.raises(LakeError, match=r"_staging/\S+: cannot be made: Not a directory$"):
        stage(run, "silver/x", 1)
    (tmp_path / "_staging").unlink()
    (tmp_path / "_lock").unlink()
    (tmp_path / "_lock").mkdir()
    with pytest.raises(LakeError, match=r"_lock: cannot be written: Is a directory$"), lake.writing():
        pass


def test_a_commit_that_fails_while_files_are_moved_is_finished_by_the_next_run(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path)
    (tmp_path / "silver").write_text("in the way")
    with lake.writing() as run:
        files = [*stage(run, "gold/exchanges", 1), *stage(run, "silver/x", 2, task=1)]
        with pytest.raises(LakeError, match=r"silver/x/date=1970-01-01: cannot be made: Not a directory$"):
            run.commit(files)
        with pytest.raises(LakeError, match="commit 1 failed in this run; start another"):
            run.commit(files)
    (tmp_path / "silver").unlink()
    lake = Lake.open(tmp_path)
    with lake.writing():
        pass
    assert (numbers(lake, "gold/exchanges"), numbers(lake, "silver/x"), lake.number()) == ([1], [2], 1)
    assert not tree(lake.store, "_staging")
