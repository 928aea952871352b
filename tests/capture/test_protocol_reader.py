"""Protocol readers: those of the protocols that are read, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from wirelake.capture.protocol_reader import ProtocolReaders
from wirelake.capture.settings import ReadSettings
from wirelake.errors import OptionError


def test_a_protocol_has_one_reader_for_plain_streams_and_one_for_websocket() -> None:
    readers = ProtocolReaders(ReadSettings())
    assert [readers.number("mb", False), readers.number("ceda", True), readers.number("mb", False)] == [0, 1, 0]
    assert readers.names == ["mb", "ceda"]


def test_a_protocol_that_only_carried_state_names_is_refused_and_its_file_does_not_run(tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    for name in (str(tmp_path / "evil.py:PROTOCOL"), "wirelake_declared_0123456789abcdef:PROTOCOL", "toy"):
        with pytest.raises(OptionError, match=r"but only casual, dsa, mb, ceda are read; add it with -p"):
            ProtocolReaders(ReadSettings()).number(name, False)
    assert not (tmp_path / "ran").exists()
