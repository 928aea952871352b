"""Commit records: what is refused, and what records add up to."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lake.lakes import stage
from wirelake.errors import LakeError
from wirelake.lake import Lake, StagedFile
from wirelake.lake.commit_records import Record
from wirelake.lake.layout import hidden
from wirelake.lake.state import State, add_facts


@pytest.mark.parametrize("text", ["", '{"format":1', "{}", '{"format":1,"number":1,"files":[{"x":1}]}'])
def test_a_record_that_makes_no_sense_stops_everything(tmp_path: Path, text: str) -> None:
    lake = Lake.open(tmp_path)
    with lake.writing() as run:
        run.commit()
    (tmp_path / "_commits" / "00000001.json").write_text(text)
    with pytest.raises(LakeError, match=r"00000001\.json: is not a commit record"):
        Lake.open(tmp_path).tables()


def test_a_record_of_a_newer_wirelake_stops_everything(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path)
    with lake.writing() as run:
        run.commit()
    (tmp_path / "_commits" / "00000002.json").write_text('{"format":9,"wirelake":"9.1"}')
    with pytest.raises(LakeError, match=r"00000002.json: has the format of a newer wirelake \(9.1\)"):
        lake.tables()


def test_a_missing_record_and_a_missing_file_are_noticed(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path)
    with lake.writing() as run:
        for k in range(3):
            run.commit(stage(run, "silver/x", k))
    (tmp_path / "_commits" / "00000002.json").rename(tmp_path / "kept")
    with pytest.raises(LakeError, match=r"00000002\.json: is missing, but later commits exist"):
        Lake.open(tmp_path).tables()
    (tmp_path / "kept").rename(tmp_path / "_commits" / "00000002.json")
    (tmp_path / hidden(lake.files("silver/x")[2].path)).unlink()
    expected = r"00003-00000-0\.parquet: is missing, though commit 3 has it"
    with pytest.raises(LakeError, match=expected), Lake.open(tmp_path).writing():
        pass


def record(number: int, files: list[StagedFile], **fields: object) -> Record:
    rest = {"removed": [], "inputs": [], "carry": {}, "superseded": [], "facts": {}, "labels": {}} | fields
    return Record(number, f"{number:08d}-0123456789ab", "2024-05-01T00:00:00", "1.0", files, **rest)  # type: ignore[arg-type]


def file(table: str, name: str) -> StagedFile:
    return StagedFile(table, "", f"_staging/run/{name}", name, 1, 10)


def test_records_add_up_in_their_order() -> None:
    state = State()
    first = record(1, [file("gold/open", "a"), file("accounting", "b")], carry={"x": file("_carry", "1-x")})
    state.add(first)
    state.add(record(2, [file("gold/open", "c")], removed=["gold/open/a"], carry={"x": None}, labels={"batch": 2}))
    assert {table: files.paths() for table, files in state.files.items()} == {
        "gold/open": ["gold/open/c"],
        "accounting": ["accounting/b"],
    }
    assert (state.number, state.carry, state.labels) == (2, {}, {"batch": 2})
    assert (state.has_file("gold/open/c"), state.has_file("gold/open/a")) == (True, False)


def test_numbers_are_added_up_and_of_anything_else_the_newer_counts() -> None:
    old = {"messages": 3, "by": {"x": 1}, "final": True, "last": "a"}
    new = {"messages": 2, "by": {"x": 1, "y": 5}, "final": True, "last": "b", "more": 0.5}
    assert add_facts(old, new) == {"messages": 5, "by": {"x": 2, "y": 5}, "final": True, "last": "b", "more": 0.5}
    assert add_facts({"x": {"y": 1}}, {"x": 7}) == {"x": 7}
