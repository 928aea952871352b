from __future__ import annotations

import io
from pathlib import Path

import click
import pytest

from wirelake.cli import inputs
from wirelake.cli.inputs import open_inputs, read_chunks, read_lines


def test_files_are_read_in_order_and_a_dash_is_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"first")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"typed")))
    names = (str(tmp_path / "a"), "-")
    assert [(name, file.read()) for name, file in open_inputs(names)] == [(names[0], b"first"), ("-", b"typed")]


def test_without_names_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"typed")))
    assert [file.read() for _, file in open_inputs(())] == [b"typed"]


def test_a_file_that_cannot_be_read_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match=r"cannot read .*missing: No such file or directory"):
        list(open_inputs((str(tmp_path / "missing"),)))


def test_chunks_are_bounded_and_together_the_whole_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "CHUNK", 4)
    assert list(read_chunks(io.BytesIO(b"abcdefghij"))) == [b"abcd", b"efgh", b"ij"]


def test_lines_that_are_not_utf8_are_read_too() -> None:
    assert list(read_lines(io.BytesIO(b"a\n\xff\n"))) == ["a\n", "\ufffd\n"]
