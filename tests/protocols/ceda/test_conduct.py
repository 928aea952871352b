"""The conduct of ceda: which messages want a reply, and what a heartbeat and a piece are."""

from __future__ import annotations

from typing import Any

from tests.gold.facts_of import facts_of
from wirelake.protocols import ceda
from wirelake.spec import Cell


def test_ceda_requests_without_reply_topic_want_no_reply() -> None:
    names: dict[str, Any] = {"topic": "T", "connection_id": 1, "server_id": "", "signal_id": ""}
    asked, lost = facts_of(
        "ceda", ceda.Request(**names, reply_topic="1.1.1", record=()), ceda.Request(**names, reply_topic="", record=())
    )
    assert (asked["correlation"], asked["wants_reply"]) == ("1.1.1", True)
    assert (lost["correlation"], lost["wants_reply"], lost["address"]) == (None, False, "T")


def test_only_control_codes_of_a_login_ask_for_a_reply() -> None:
    steps = {code: facts_of("ceda", ceda.Login(control_code=code, record=()))[0]["step"] for code in ceda.ControlCode}
    assert {code for code, step in steps.items() if step == 1} == set(ceda.LOGIN_REQUESTS)
    assert {code for code, step in steps.items() if step == 2} == {ceda.ControlCode.LOGIN_RESULT}


def test_heartbeats_are_told_from_other_messages() -> None:
    beat, left = facts_of("ceda", ceda.Heartbeat(), ceda.Logout())
    assert (beat["heartbeat"], left["heartbeat"]) == (True, False)


def test_the_pieces_of_a_publish_have_its_topic_or_reply_topic_as_their_key() -> None:
    signature = (1).to_bytes(1, "little") + bytes(2) + (3).to_bytes(2, "little") + bytes(10)
    names: dict[str, Any] = {"topic": "T", "connection_id": 1, "server_id": "", "signal_id": ""}
    record = (Cell(0, "BYTES", signature),)
    asked, grouped = facts_of(
        "ceda", ceda.Request(**names, reply_topic="1.1", record=record), ceda.GroupPub(**names, record=record)
    )
    assert [(row["piece"], row["pieces"], row["piece_key"]) for row in (asked, grouped)] == [(0, 3, "T")] * 2
