"""casual: the messages, who sends them, and what the other readers are told about their fields."""

from __future__ import annotations

import pytest

from wirelake.protocols import casual
from wirelake.spec import nodes as n
from wirelake.spec.resolve import layout

MESSAGES = {
    7200: ("domain_connect_request", 7201, "client"),
    7201: ("domain_connect_reply", None, "server"),
    7300: ("domain_discover_request", 7301, "client"),
    7301: ("domain_discover_reply", None, "server"),
    3100: ("service_call_request", 3101, "client"),
    3101: ("service_call_reply", None, "server"),
    5201: ("resource_prepare_request", 5202, "client"),
    5202: ("resource_prepare_reply", None, "server"),
    5203: ("resource_commit_request", 5204, "client"),
    5204: ("resource_commit_reply", None, "server"),
    5205: ("resource_rollback_request", 5206, "client"),
    5206: ("resource_rollback_reply", None, "server"),
    6100: ("queue_enqueue_request", 6101, "client"),
    6101: ("queue_enqueue_reply", None, "server"),
    6200: ("queue_dequeue_request", 6201, "client"),
    6201: ("queue_dequeue_reply", None, "server"),
    3200: ("conversation_connect_request", 3201, "client"),
    3201: ("conversation_connect_reply", None, "server"),
    3202: ("conversation_send", None, "both"),
    3203: ("conversation_disconnect", None, "both"),
    3210: ("conversation_connect_request_late", 3211, "client"),
    3211: ("conversation_connect_reply_late", None, "server"),
    3212: ("conversation_send_late", None, "both"),
    3213: ("conversation_disconnect_late", None, "both"),
}


def test_every_message_has_its_type_name_answer_and_sender() -> None:
    found = {code: (m.name, m.answer, m.sent_by) for code, m in layout(casual.PROTOCOL).messages.items()}
    assert found == MESSAGES


@pytest.mark.parametrize("profile", ["document", "late"])
def test_all_24_types_are_read_with_either_profile(profile: str) -> None:
    assert len(layout(casual.PROTOCOL, profile=profile).messages) == 24


def test_only_what_java_pads_may_be_padded() -> None:
    padded = {code for code, m in layout(casual.PROTOCOL).messages.items() if m.padding}
    assert padded == {3100, 3210, 3213}


def test_every_message_has_a_correlation_and_an_execution_first() -> None:
    for message in layout(casual.PROTOCOL).messages.values():
        assert [(f.name, f.role) for f in message.fields[:2]] == [
            ("correlation", "correlation"),
            ("execution", "execution"),
        ]


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (casual.XATMI_FLAGS, {0x0004: "TPNOREPLY", 0x0008: "TPNOTRAN", 0x1000: "TPRECVONLY"}),
        (casual.XATMI_ERROR, {0: "OK", 6: "TPENOENT", 11: "TPESVCFAIL", 13: "TPETIME", 23: "TPEMATCH"}),
        (casual.XATMI_EVENTS, {0x01: "TPEV_DISCONIMM", 0x20: "TPEV_SENDONLY"}),
        (casual.XA_FLAGS, {0x40000000: "TMONEPHASE", 0x80000000: "TMASYNC"}),
        (casual.XA_RETURN, {0: "XA_OK", 3: "XA_RDONLY", 107: "XA_RBTRANSIENT", -4: "XAER_NOTA", -9: "XAER_OUTSIDE"}),
        (casual.SERVICE_TRANSACTION_MODE, {0: "auto", 1: "join", 2: "atomic", 3: "none", 4: "branch"}),
    ],
)
def test_numbers_have_the_names_of_the_specification(labels: n.Labels, names: dict[int, str]) -> None:
    assert names.items() <= labels.names.items()


def test_sets_of_bits_are_told_from_enumerations() -> None:
    bits = {labels.name for labels in casual.PROTOCOL.labels if labels.bits}
    assert bits == {"xatmi_flags", "xatmi_events", "xa_flags"}


def test_the_life_cycle_begins_with_connect() -> None:
    cycle = casual.PROTOCOL.life_cycle
    assert cycle is not None
    assert cycle.client["new"] == {"domain_connect_request": "connecting"}
    assert cycle.server["new"] == cycle.client["connecting"] == {}
    assert cycle.server["connecting"] == {"domain_connect_reply": "connected"}
    assert "service_call_request" in cycle.client["connected"]
    assert "service_call_request" not in cycle.server["connected"]
    assert "conversation_send" in cycle.server["connected"]
    assert "domain_connect_request" not in cycle.client["connected"]
