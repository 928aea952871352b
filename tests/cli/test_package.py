"""package: what it refuses. What an archive holds is tested in ``tests/spark/test_package.py``."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from wirelake.cli import cli


@pytest.mark.parametrize("name", ["wirelake.zip", "wirelake.tar", "wirelake"])
def test_a_name_that_spark_does_not_unpack_is_refused(tmp_path: Path, name: str) -> None:
    done = CliRunner().invoke(cli, ["package", "-o", str(tmp_path / name)])
    assert done.exit_code == 1
    assert "must end in .tar.gz" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["package", "-o", str(tmp_path / "no" / "w.tar.gz")])
    assert done.exit_code == 1
    assert f"there is no directory {tmp_path / 'no'}" in done.stderr
