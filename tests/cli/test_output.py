"""What verbs print for programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from wirelake.cli.output import Tally, emit


def test_an_object_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    emit({"a": "two\nlines", "b": None})
    assert capsys.readouterr().out == '{"a":"two\\nlines","b":null}\n'


def test_an_announcement_is_flushed_at_once() -> None:
    code = "from wirelake.cli.output import announce; import os; announce({'listening': 'x'}); os._exit(0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert json.loads(done.stdout) == {"listening": "x"}


def test_a_closed_standard_output_does_not_stop_a_server() -> None:
    code = "from wirelake.cli.output import announce; announce({'listening': 'x'}); announce({'listening': 'y'})"
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run([sys.executable, "-c", code], stdout=writing, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_an_error_is_printed_and_decides_the_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally()
    tally.exit()
    tally.emit({"ok": True})
    tally.exit()
    tally.emit({"ok": False, "rule": "even"})
    with pytest.raises(SystemExit) as ended:
        tally.exit()
    assert ended.value.code == 1
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line) for line in lines] == [{"ok": True}, {"ok": False, "rule": "even"}]
