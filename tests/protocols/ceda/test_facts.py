"""Facts of ceda: logins and their results."""

from __future__ import annotations

from tests.gold.facts_of import facts_of
from wirelake.protocols import ceda
from wirelake.spec import Cell


def login(code: int, *cells: Cell) -> ceda.Login:
    return ceda.Login(control_code=code, record=cells)


def test_a_login_and_its_result_are_request_and_reply() -> None:
    asked, accepted, refused = facts_of(
        "ceda",
        login(ceda.ControlCode.LOGIN, Cell(ceda.USER, "STRING", "ann"), Cell(ceda.PASSWORD, "STRING", "secret")),
        login(ceda.ControlCode.LOGIN_RESULT, Cell(ceda.CONNECTION_ID, "INT", 12), Cell(ceda.RESULT, "INT", 1)),
        login(ceda.ControlCode.LOGIN_RESULT, Cell(ceda.TEXT, "STRING", "no"), Cell(ceda.RESULT, "INT", 0)),
    )
    assert (asked["step"], asked["limit_us"], asked["wants_reply"]) == (1, 15_000_000, True)
    assert dict(asked["introduction"]) == {"user": "ann", "masked": "false"}
    assert (accepted["step"], accepted["status"], accepted["result"], accepted["ends"]) == (2, "1", "ok", True)
    assert dict(accepted["introduction"]) == {"handshake": "complete", "connection_id": "12"}
    assert (refused["status"], refused["result"]) == ("0", "error")
    assert dict(refused["introduction"]) == {"handshake": "refused", "login_result": "no"}


def test_other_control_codes_are_no_part_of_an_exchange() -> None:
    [row] = facts_of("ceda", login(ceda.ControlCode.SUB))
    assert (row["step"], row["introduction"]) == (0, None)
