"""The place of a lake: local, objects, anything between; what is on the disk when; what is never read."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import fs

from tests.lake.flat import flat
from tests.lake.lakes import numbers, stage, tree
from wirelake.errors import LakeError
from wirelake.lake import Lake
from wirelake.lake.layout import hidden
from wirelake.lake.store import Store


def test_what_a_commit_needs_is_on_the_disk_before_it_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a loss of power leaves either the commit with all its files, or none of it."""
    done: list[tuple[str, str]] = []
    fsync, move, link = Store._fsync, Store.move, Store.link

    def note_fsync(store: Store, path: str) -> None:
        fsync(store, path)
        done.append(("fsync", path))

    def note_move(store: Store, source: str, target: str) -> None:
        move(store, source, target)
        done.append(("move", target))

    def note_link(store: Store, source: str, target: str) -> None:
        link(store, source, target)
        done.append(("link", target))

    monkeypatch.setattr(Store, "_fsync", note_fsync)
    monkeypatch.setattr(Store, "link", note_link)
    monkeypatch.setattr(Store, "move", note_move)
    lake = Lake.open(tmp_path)
    with lake.writing() as run:
        carry = run.staging.stage_bytes("driver", "x.bin", b"abc")
        files = stage(run, "silver/x", 1)
        run.commit(files, carry={"driver": carry})
    made = done.index(("move", "_commits/00000001.json"))
    assert ("fsync", files[0].staged) in done[:made] and ("link", hidden(files[0].path)) in done[:made]
    for path in (
        carry.staged,
        *(str(above) for place in (carry.staged, hidden(files[0].path)) for above in Path(place).parents),
    ):
        assert ("fsync", path.removeprefix(".")) in done[:made], path
    assert done[made + 1] == ("fsync", "_commits")
    placed = done.index(("link", files[0].path))
    assert made < placed
    for path in ("silver/x/date=1970-01-01", "silver/x", "silver", ""):
        assert ("fsync", path) in done[placed:], path


def test_a_store_without_directories_renames_and_exclusive_creation_is_enough(tmp_path: Path) -> None:
    store = flat(tmp_path)
    lake = Lake.open("bucket/lake", filesystem=store, settings={"buckets": 2})
    with lake.writing() as run:
        carry = run.staging.stage_bytes("driver", "x.bin", b"abc")
        run.commit([*stage(run, "silver/x", 1), *stage(run, "gold/open", 1)], carry={"driver": carry})
        stage(run, "silver/x", 9, task=5)
        run.commit(stage(run, "gold/open", 2), removed=lake.files("gold/open"))
    again = Lake.open("bucket/lake", create=False, filesystem=store)
    assert (numbers(again, "silver/x"), numbers(again, "gold/open")) == ([1], [2])
    assert again.store.read(again.carry()["driver"], 9) == b"abc"
    kept = tree(again.store, "")
    assert kept == [
        "_carry/00000001-driver.bin",
        "_commits/00000001.json",
        "_commits/00000002.json",
        "_lake.json",
        "_tables/gold/open/date=1970-01-01/part-00000001-00000-0.parquet",
        "gold/open/date=1970-01-01/part-00000002-00000-0.parquet",
        "silver/x/date=1970-01-01/part-00000001-00000-0.parquet",
    ]


def test_a_file_system_that_is_neither_local_nor_objects_works(tmp_path: Path) -> None:
    below = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    lake = Lake.open("lake", filesystem=below)
    with lake.writing() as run:
        run.commit(stage(run, "silver/x", 1))
    with lake.writing() as run:
        run.commit(stage(run, "silver/x", 2))
    assert numbers(Lake.open("lake", filesystem=below), "silver/x") == [1, 2]
    assert not tree(lake.store, "_staging")


def test_a_file_above_the_limit_is_not_read(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    store.write("small", b"abc")
    assert store.read("small", 3) == b"abc"
    with pytest.raises(LakeError, match="small: has 3 bytes, and 2 is the limit for such a file"):
        store.read("small", 2)
    with (tmp_path / "large").open("wb") as stream:
        stream.truncate(1 << 40)  # takes no room on the disk, but all memory if it were read
    with pytest.raises(LakeError, match="large: has 1,099,511,627,776 bytes"):
        store.read("large", 1 << 30)


@pytest.mark.parametrize("path", ["..", "a/../b", "/etc/passwd", "a//b", "a b", "a\\nb", "~"])
def test_a_path_that_could_lead_elsewhere_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(LakeError, match="refused the path"):
        Store.at(tmp_path).full(path)


def test_a_link_is_no_part_of_a_lake(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "link").symlink_to(tmp_path)
    with pytest.raises(LakeError, match="link: is a link or a device"):
        Store.at(tmp_path / "lake").full("link/secret")


def test_a_published_file_is_whole_and_replaces_the_one_before(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    for content in (b"one", b"two"):
        store.publish("_commits/x.json", content)
    assert (tree(store, ""), store.read("_commits/x.json", 9)) == (["_commits/x.json"], b"two")


def test_what_is_gone_already_is_deleted(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    store.write("a/b", b"")
    store.delete_all(["a/b", "a/c"])
    store.delete("a/b")
    store.delete_tree("nowhere")
    assert (store.kind("a"), store.kind("a/b"), store.names("a"), store.names("nowhere")) == ("directory", "", [], [])


def test_a_lake_that_need_not_survive_a_loss_of_power_waits_for_no_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(number: int) -> None:
        raise AssertionError("fsync")

    monkeypatch.setattr("os.fsync", refuse)
    lake = Lake.open(tmp_path / "lake", durable=False)
    with lake.writing() as run:
        carry = run.staging.stage_bytes("driver", "x.bin", b"abc")
        run.commit(stage(run, "silver/x", 1), carry={"driver": carry})
        run.commit(stage(run, "silver/x", 2), removed=lake.files("silver/x"))
    assert numbers(lake, "silver/x") == [2]
    with pytest.raises(AssertionError, match="fsync"):
        Lake.open(tmp_path / "durable")
