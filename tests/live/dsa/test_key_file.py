"""Files with private keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from wirelake.live.dsa.key_file import load_identity


def test_a_key_file_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "link.key"
    first = load_identity(path, "a-")
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(path.parent.iterdir()) == [path]
    assert load_identity(path, "a-").dsid == first.dsid
    path.chmod(0o644)
    with pytest.raises(ValueError, match="chmod 600"):
        load_identity(path)


def test_a_file_that_is_no_key_file_is_refused_without_showing_it(tmp_path: Path) -> None:
    path = tmp_path / "link.key"
    for content in (b"", b"00" * 32, b"hunter2", b"ff" * 33, b"\xff\xfe"):
        path.write_bytes(content)
        path.chmod(0o600)
        with pytest.raises(ValueError, match="no key file") as refused:
            load_identity(path)
        assert "hunter2" not in str(refused.value)
