"""Who may log in: hashed passwords are checked beside the event loop, and once for each."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.live import toy
from tests.live.plainly import LOGIN, Ceda, split_address
from wirelake.live.core.settings import SettingsError
from wirelake.live.hub import users
from wirelake.live.hub.hub import Hub, read_settings
from wirelake.live.hub.users import UserGate, hash_password

HASHED = hash_password("s3cret")


def attempt(user: str, password: str) -> Any:
    return SimpleNamespace(user=user, password=password)


def test_a_hashed_password_lets_its_user_in_and_nobody_else() -> None:
    gate = UserGate({"demo": HASHED, "plain": "text"})
    wanted = {("demo", "s3cret"): True, ("demo", "x"): False, ("eve", "s3cret"): False, ("demo", HASHED): False}
    wanted |= {("plain", "text"): True, ("plain", ""): False}

    async def main() -> None:
        for _ in range(2):
            for (user, password), is_in in wanted.items():
                assert await gate.authenticate(attempt(user, password)) is is_in

    asyncio.run(main())


def test_checking_a_password_holds_up_nobody() -> None:
    gate = UserGate({"demo": HASHED})

    async def main() -> None:
        checks = [asyncio.ensure_future(gate.authenticate(attempt("demo", str(n)))) for n in range(4)]
        began, longest = time.thread_time(), 0.0
        users.check_password(b"x", HASHED)
        whole = time.thread_time() - began
        while not all(check.done() for check in checks):
            before = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - before)
        assert not any(check.result() for check in checks)
        assert longest < whole / 2

    asyncio.run(main())


def test_a_password_that_was_right_is_not_hashed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = UserGate({"demo": HASHED})
    checked: list[str] = []
    check = users.check_password
    monkeypatch.setattr(users, "check_password", lambda given, stored: checked.append(stored) or check(given, stored))

    async def main() -> None:
        for password in ("s3cret", "s3cret", "x", "s3cret"):
            assert await gate.authenticate(attempt("demo", password)) is (password == "s3cret")

    asyncio.run(main())
    assert len(checked) == 2


@pytest.mark.parametrize("stored", ["scrypt$", "scrypt$14$8$1$AA==$AA==", "scrypt$40$8$1$AA==$" + HASHED[-44:]])
def test_a_hash_that_makes_no_sense_is_refused(stored: str) -> None:
    with pytest.raises(SettingsError):
        UserGate({"demo": stored})


def test_plain_passwords_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "wirelake.live"):
        UserGate({"demo": HASHED})
        assert not caplog.records
        UserGate({"demo": HASHED, "other": "x"})
    (record,) = caplog.records
    assert "plain text" in record.message and record.fields == {"users": 1}


def test_a_hub_takes_hashed_passwords_and_what_is_sent_behind_the_login_and_logs_out(tmp_path: Path) -> None:
    (tmp_path / "users.toml").write_text(f'demo = "{HASHED}"')
    tables = {"ceda": {"tcp": "127.0.0.1:0", "users_file": "users.toml"}}

    async def main() -> None:
        async with Hub(read_settings(tables, "test", tmp_path)) as hub:
            one = await Ceda.to(split_address(hub.listening["ceda"]))
            one.writer.write(LOGIN)
            one.subscribe(b"a")
            one.publish(b"a", b"hello")
            assert b"Success" in await one.payload()
            assert (await one.payload()).endswith(b"hello")
            closing = asyncio.create_task(hub.close())
            assert await one.payload() == b"\x14"
            Ceda.leave_all()
            await closing

    toy.run(main)
