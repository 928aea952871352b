"""What only the server should read is in no table."""

from __future__ import annotations

from tests.capture.feeds import Feed, connection, play
from wirelake import encode
from wirelake.capture.settings import ReadSettings
from wirelake.protocols import ceda
from wirelake.spec import Cell


def test_the_password_of_a_login_is_not_in_the_tables() -> None:
    record = (Cell(4, "STRING", "demo"), Cell(5, "STRING", "s3cret"))
    frame = encode(ceda.Login(control_code=3, body=None, record=record))
    feed = Feed()
    peer = connection()
    feed.add(peer, 0, frame)
    feed.add(peer, 1, frame)
    asked, answered = sorted(
        play(feed, ReadSettings(protocol="ceda")).messages["ceda"], key=lambda row: row["direction"], reverse=True
    )
    assert asked["direction"] == "to_server"
    assert asked["notes"] == ["redacted"]
    assert asked["body_hex"] is None
    assert [cell["text"] for cell in asked["record"]] == ["demo", None]
    assert answered["notes"] is None
    assert [cell["text"] for cell in answered["record"]] == ["demo", "s3cret"]
    shown = play(feed, ReadSettings(protocol="ceda", redact=False)).messages["ceda"]
    assert [cell["text"] for row in shown for cell in row["record"]] == ["demo", "s3cret"] * 2
    few = play(feed, ReadSettings(protocol="ceda", columns={"ceda": ("connection", "direction", "offset", "record")}))
    assert sorted(str(row["record"][1]["text"]) for row in few.messages["ceda"]) == ["None", "s3cret"]
