"""Removed files: gone from the listing at once, there for snapshots, deleted after the grace period."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.lake.flat import flat
from tests.lake.lakes import numbers, stage, tree
from wirelake.errors import LakeError
from wirelake.lake import Lake
from wirelake.lake import commits as commits_module
from wirelake.lake.history import Listing
from wirelake.lake.layout import hidden
from wirelake.lake.publications import note_publication
from wirelake.lake.sweep import sweep

GRACE = timedelta(minutes=10)


def replaced(lake: Lake, times: int) -> None:
    """Commits that each replace what the one before wrote."""
    with lake.writing() as run:
        for _ in range(times):
            number = run.number
            run.commit(
                [*stage(run, "gold/open", number), *stage(run, "silver/x", number)], removed=lake.files("gold/open")
            )


def later(minutes: float) -> datetime:
    return datetime.now(UTC) + timedelta(minutes=minutes)


def listed(lake: Lake, table: str) -> list[str]:
    return [path.rpartition("/")[2] for path in tree(lake.store, table) if path.endswith(".parquet")]


@pytest.fixture(params=["local", "objects"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    if request.param == "objects":
        return Lake.open("bucket/lake", filesystem=flat(tmp_path))
    return Lake.open(tmp_path / "lake")


def test_a_removed_file_leaves_the_listing_and_stays_for_snapshots(lake: Lake) -> None:
    replaced(lake, 1)
    before = lake.snapshot()
    replaced(lake, 2)
    assert listed(lake, "gold/open") == ["part-00000003-00000-0.parquet"]
    assert numbers(lake, "gold/open") == [3]
    assert numbers(lake.at(1), "gold/open") == [1] and numbers(lake.at(2), "gold/open") == [2]
    assert numbers(lake.at(2), "silver/x") == [1, 2]
    if lake.store.links:
        assert numbers(before, "gold/open") == [1]


def test_a_snapshot_with_open_paths_survives_whatever_is_committed(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path)
    replaced(lake, 1)
    dataset = lake.snapshot().dataset("gold/open")
    replaced(lake, 3)
    assert dataset.to_table().column("n").to_pylist() == [1]


def test_the_sweep_takes_what_is_older_than_the_grace_period(lake: Lake) -> None:
    replaced(lake, 3)
    state = lake.refresh()
    assert sweep(lake.store, state, GRACE) == 0
    assert sweep(lake.store, state, GRACE, later(11)) == 2
    assert state.swept == 3
    assert sweep(lake.store, state, GRACE, later(11)) == 0
    assert numbers(lake.at(3), "gold/open") == [3]
    with pytest.raises(LakeError, match=r"part-00000001-00000-0\.parquet: was removed by a later commit and swept"):
        numbers(lake.at(1), "gold/open")
    assert numbers(lake.at(1), "silver/x") == [1]
    replaced(lake, 1)
    assert Lake.open(lake.store.root, filesystem=lake.store.files).refresh().swept == 3


@pytest.mark.parametrize(
    ("files", "said"), [(1, "swept; read"), (2, "so was 1 more file of"), (3, "so were 2 more files")]
)
def test_an_error_says_how_many_files_are_swept(tmp_path: Path, files: int, said: str) -> None:
    lake = Lake.open(tmp_path)
    with lake.writing() as run:
        run.commit([file for task in range(files) for file in stage(run, "gold/open", task, task=task)])
        run.commit(removed=lake.files("gold/open"))
    sweep(lake.store, lake.refresh(), GRACE, later(11))
    with pytest.raises(LakeError, match=f"was removed by a later commit and .*{said}"):
        lake.at(1).places("gold/open")


def test_a_run_sweeps_when_it_begins(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path, settings={"grace_seconds": 0})
    replaced(lake, 3)
    replaced(lake, 1)
    hidden_files = tree(lake.store, hidden("gold/open"))
    assert [path.rpartition("/")[2] for path in hidden_files] == [
        "part-00000003-00000-0.parquet",  # replaced by the last commit, which no sweep has followed
        "part-00000004-00000-0.parquet",
    ]


def test_a_sweep_waits_for_those_who_read_a_published_table(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path)
    replaced(lake, 2)
    note_publication(lake.store, 2, later(-10))
    replaced(lake, 2)  # what commit 3 removes is still published
    state = lake.refresh()
    assert sweep(lake.store, state, GRACE, later(11)) == 1
    assert state.swept == 2
    note_publication(lake.store, 4, later(-10))
    assert sweep(lake.store, state, GRACE, later(11)) == 2


def test_records_that_a_checkpoint_covers_go_with_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits_module, "CHECKPOINT_EVERY", 5)
    lake = Lake.open(tmp_path)
    replaced(lake, 23)
    state = lake.refresh()
    sweep(lake.store, state, GRACE)
    assert Listing.of(lake.store).records[0] == 1
    sweep(lake.store, state, GRACE, later(11))
    found = Listing.of(lake.store)
    assert (found.records, found.checkpoints) == (list(range(15, 24)), [15, 20])
    again = Lake.open(tmp_path)
    assert (again.number(), numbers(again, "silver/x"), numbers(again, "gold/open")) == (23, list(range(1, 24)), [23])
    assert numbers(again.at(15), "silver/x") == list(range(1, 16))
    with pytest.raises(LakeError, match="cannot be read as of commit 14: it has commits 15 to 23"):
        again.at(14)
    replaced(again, 1)
    assert again.number() == 24


def test_a_lake_is_read_as_of_a_time(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path)
    with pytest.raises(LakeError, match="has no commit yet"):
        lake.at(1)
    replaced(lake, 3)
    times = [datetime.fromisoformat(lake.at(number).summary().last_at or "") for number in (1, 2, 3)]
    assert times == sorted(times)
    assert lake.at(times[2]).number() == 3 and lake.at(later(1)).number() == 3
    assert lake.at(times[0]).number() in [n for n, at in enumerate(times, 1) if at == times[0]]
    with pytest.raises(LakeError, match=r"cannot be read as of .*: it reaches back to commit 1, made at 2"):
        lake.at(later(-60))
    with pytest.raises(LakeError, match="cannot be read as of commit 4: it has commits 1 to 3"):
        lake.at(4)
    with pytest.raises(LakeError, match="a snapshot is for reading"), lake.at(2).writing():
        pass
