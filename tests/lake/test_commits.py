"""How commits are made: all or nothing, whatever fails, and finished by the next run."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from tests.lake.flat import flat
from tests.lake.lakes import SCHEMA, numbers, rows, stage, tree
from wirelake.errors import LakeError
from wirelake.lake import Input, Lake, read_ipc, stage_ipc
from wirelake.lake.inputs import head_hash


def everything(place: Path) -> list[str]:
    return sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file())


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
    lake = Lake.open(tmp_path / "lake")
    with lake.writing() as run:
        seen = Input(str(capture), 6, 1, head_hash(b"abcdef"), 6, kind="pcap", first_us=5, origin="a", marks=("b", "c"))
        facts = {"messages": 3, "by": {"casual": 3}, "last": "x"}
        run.commit(stage(run, "silver/x", 5), inputs=[seen.read_to(4)], facts=facts, labels={"batch": 7})
        assert lake.inputs() == {str(capture): seen.read_to(4)}
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
    with pytest.raises(LakeError, match=r"_staging: cannot be listed: Not a directory$"), lake.writing():
        pass
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
