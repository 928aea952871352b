"""demo: what is in the way is said before anything is done."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.demo.running import demo
from wirelake.cli import cli


def test_a_file_that_is_no_report_is_not_overwritten(tmp_path: Path) -> None:
    foreign = tmp_path / "notes.html"
    foreign.write_text("<title>my notes</title>")
    ended = CliRunner().invoke(cli, ["demo", "-o", str(foreign)])
    assert ended.exit_code == 2
    assert "notes.html cannot be replaced: it exists and is not a report of wirelake" in ended.stderr
    assert foreign.read_text() == "<title>my notes</title>"


def test_a_folder_that_has_a_lake_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    ended = CliRunner().invoke(cli, ["demo", "--keep", str(tmp_path)])
    assert ended.exit_code == 2
    assert f"{tmp_path / 'lake'} exists already" in ended.stderr


def test_a_place_that_cannot_be_written_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir()
    monkeypatch.setattr(os, "access", lambda place, _: "closed" not in Path(place).parts)
    page, kept = tmp_path / "closed" / "new" / "x.html", tmp_path / "closed" / "kept"
    ended = CliRunner().invoke(cli, ["demo", "-o", str(page)])
    assert ended.exit_code == 2 and f"{page} cannot be written; name another file" in ended.stderr
    ended = CliRunner().invoke(cli, ["demo", "--keep", str(kept), "-o", str(tmp_path / "x.html")])
    assert ended.exit_code == 2 and f"{kept} cannot be written; name another folder" in ended.stderr


@pytest.mark.parametrize(("package", "extra"), [("duckdb", "report"), ("pyspark", "spark")])
def test_a_missing_package_is_named_before_anything_is_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, package: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    ended = CliRunner().invoke(cli, ["demo", "-o", str(tmp_path / "x.html")])
    assert (ended.exit_code, ended.stdout) == (1, "")
    assert ended.stderr == f"Error: this needs {package}: pip install 'wirelake[{extra}]'\n"


def test_without_java_it_says_so_before_there_is_traffic(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with demo(tmp_path, "-n", 1) as run:
        assert run.end() == (1, "")
        assert "2/5" not in run.said and "Traceback" not in run.said
        assert run.said.splitlines()[-1].startswith("Error: Spark did not start:")
        assert run.left() == [] and list(run.home.iterdir()) == [] and list(tmp_path.iterdir()) == []
