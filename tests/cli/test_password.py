"""password: the line of a users file."""

from __future__ import annotations

from pathlib import Path

from tests.cli.invoked import run
from wirelake.live.hub.users import check_password, read_users


def test_a_password_becomes_a_line_of_a_users_file(tmp_path: Path) -> None:
    lines = [run("password", user, given="s3cret\n").stdout for user in ("alice", 'b "o" b')]
    (tmp_path / "users.toml").write_text("".join(lines))
    users = read_users(tmp_path / "users.toml")
    assert list(users) == ["alice", 'b "o" b'] and len(set(users.values())) == 2
    for stored in users.values():
        assert check_password(b"s3cret", stored) and not check_password(b"secret", stored)
        assert "s3cret" not in stored


def test_an_empty_password_is_refused() -> None:
    result = run("password", "alice", given="\n")
    assert result.exit_code == 2 and "empty" in result.stderr
