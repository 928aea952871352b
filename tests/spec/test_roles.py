"""Fields are found by their roles, inside structures and tag tables too."""

from __future__ import annotations

from wirelake.protocols import load
from wirelake.spec.roles import field_with, label, places


def test_the_places_of_a_role_name_their_messages() -> None:
    casual = load("casual")
    found = {
        place.path: {casual.messages[i].__message__["name"] for i in place.messages}
        for place in places(casual)["status"]
    }
    assert found[("protocol", "version")] == {"domain_connect_reply"}
    assert "resource_commit_reply" in found[("resource", "state")]


def test_a_field_is_found_in_a_tag_table() -> None:
    field = field_with(load("dsa"), "set_response", "status")
    assert field is not None and field.name == "status"
    assert field_with(load("dsa"), "ping", "payload") is None
    assert field_with(load("dsa"), "nonsense", "status") is None


def test_values_have_the_names_that_their_field_declares() -> None:
    assert label(load("casual"), "resource_commit_reply", "status", "-4") == "XAER_NOTA"
    assert label(load("dsa"), "set_response", "status", "32") == "closed"
    assert label(load("casual"), "resource_commit_reply", "status", "4711") == "4711"
    assert label(load("casual"), "resource_commit_reply", "status", "none") == "none"
    assert label(load("mb"), "response", "status", "TIMEOUT") == "TIMEOUT"
