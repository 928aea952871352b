"""Users' protocols as workers get them: with the text of their file."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from wirelake.capture.settings import ReadSettings
from wirelake.errors import OptionError
from wirelake.ingest.declared import Declared, for_workers
from wirelake.protocols import load

BULLETIN = Path(__file__).resolve().parents[2] / "examples" / "bulletin.py"


def test_a_worker_needs_no_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(BULLETIN.read_text())
    declared = Declared.named(f"{path}:PROTOCOL")
    path.unlink()
    assert pickle.loads(pickle.dumps(declared)).load().name == "bulletin"


def test_a_built_in_protocol_is_known_by_its_name() -> None:
    declared = Declared.named("mb")
    assert (declared.text, declared.here, declared.load()) == (None, "mb", load("mb"))


@pytest.mark.parametrize(("name", "said"), [("nobody", "nobody"), ("nowhere.py:X", "nowhere.py cannot be read")])
def test_what_is_no_protocol_is_refused(name: str, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        Declared.named(name)


def test_settings_for_workers_name_users_protocols_so_that_they_can_be_loaded() -> None:
    name = f"{BULLETIN}:PROTOCOL"
    declared = Declared.named(name)
    reading = ReadSettings(protocols=("mb", name), ports={1: name, 2: "mb"}, columns={name: ("board",)})
    made = for_workers(reading, [declared])
    assert made.protocols == ("mb", declared.here) != reading.protocols
    assert (made.ports, made.columns, made.fallbacks) == (
        {1: declared.here, 2: "mb"},
        {declared.here: ("board",)},
        None,
    )
    assert for_workers(reading, []) is reading
