"""Opening, committing, replacing, reading; what is refused; what is said when the disk says no."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from tests.lake.lakes import SCHEMA, numbers, rows, stage
from wirelake.errors import LakeError
from wirelake.lake import Lake


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
    with pytest.raises(LakeError, match=r"notes.txt/lake: cannot be listed: Not a directory"):
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
    (tmp_path / "_lake.json").write_text(json.dumps({"format": 4, "wirelake": "9.1", "settings": {}}))
    with pytest.raises(LakeError, match=r"has format 4, of a newer wirelake \(9.1\); this one knows up to 3"):
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
