"""The automaton of a life cycle, and the state of one connection that is run through it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wirelake.gold.lifecycle import (
    CLIENT,
    CROSSING_US,
    FORBIDDEN,
    MOST_KEPT,
    PATIENCE_US,
    SERVER,
    Automaton,
    ConnectionState,
    Message,
    automaton,
)
from wirelake.protocols import load


def machine_of(name: str) -> Automaton:
    machine = automaton(load(name))
    assert machine is not None
    return machine


CASUAL, CEDA = machine_of("casual"), machine_of("ceda")


def message(machine: Automaton, name: str, side: int, ts: int = 0, number: int = 0, refuses: bool = False) -> Message:
    code = np.array([cls.__message__["code"] for cls in load_messages(machine) if cls.__message__["name"] == name])
    return Message(ts, number, side, int(machine.symbols(code, np.array([side]), np.array([refuses]))[0]))


def load_messages(machine: Automaton) -> tuple[type, ...]:
    return load("casual" if machine is CASUAL else "ceda").messages


def test_a_protocol_without_life_cycle_has_no_automaton() -> None:
    assert automaton(replace(load("ceda"), life_cycle=None)) is None


def test_a_message_leads_from_state_to_state_or_is_forbidden() -> None:
    login = message(CEDA, "login", CLIENT).symbol
    assert CEDA.shown(int(CEDA.table[CEDA.initial, login])) == "login_sent"
    assert CEDA.table[CEDA.initial, message(CEDA, "publish", CLIENT).symbol] == FORBIDDEN
    assert CEDA.allowed(CEDA.initial, SERVER) == ["heartbeat", "logout"]


def test_in_an_unknown_state_a_message_leaves_the_states_that_allow_it() -> None:
    after = int(CEDA.table[CEDA.unknown, message(CEDA, "publish", SERVER).symbol])
    assert (CEDA.shown(CEDA.unknown), CEDA.shown(after)) == ("unknown", "ready")


def test_a_heartbeat_changes_no_state_and_a_login_does() -> None:
    assert not CEDA.moves[message(CEDA, "heartbeat", CLIENT).symbol]
    assert CEDA.moves[message(CEDA, "login", CLIENT).symbol]


def test_a_refused_handshake_ends_what_may_be_sent() -> None:
    state = ConnectionState(CASUAL.initial)
    assert state.take(CASUAL, message(CASUAL, "domain_connect_request", CLIENT))
    assert state.take(CASUAL, message(CASUAL, "domain_connect_reply", SERVER, refuses=True))
    assert CASUAL.shown(state.state) == "refused"
    late = message(CASUAL, "service_call_request", CLIENT, CROSSING_US + 1)
    assert not state.take(CASUAL, late)


def test_a_handshake_message_shown_late_excuses_the_one_that_was_kept() -> None:
    state = ConnectionState(CASUAL.initial)
    assert not state.take(CASUAL, message(CASUAL, "domain_connect_reply", SERVER, 10, number=7))
    assert state.take(CASUAL, message(CASUAL, "domain_connect_request", CLIENT, 20, number=8))
    assert CASUAL.shown(state.state) == "connected"
    assert (state.excused, state.kept) == ([7], [])


def test_what_was_kept_too_long_excuses_nothing() -> None:
    state = ConnectionState(CASUAL.initial)
    state.take(CASUAL, message(CASUAL, "domain_connect_reply", SERVER, 0, number=7))
    state.take(CASUAL, message(CASUAL, "domain_connect_request", CLIENT, PATIENCE_US + 1))
    assert (CASUAL.shown(state.state), state.excused) == ("connecting", [])


def test_few_messages_are_kept_and_a_loss_drops_them() -> None:
    state = ConnectionState(CASUAL.initial)
    for number in range(MOST_KEPT + 3):
        state.take(CASUAL, message(CASUAL, "domain_connect_reply", SERVER, number, number))
    assert len(state.kept) == MOST_KEPT
    state.lose(CASUAL)
    assert (state.state, state.kept) == (CASUAL.unknown, [])


def test_what_was_under_way_when_the_other_side_changed_the_state_is_allowed_for_a_while() -> None:
    state = ConnectionState(CEDA.initial)
    for name, side in (("login", CLIENT), ("login", SERVER), ("logout", CLIENT)):
        assert state.take(CEDA, message(CEDA, name, side, 1))
    assert state.take(CEDA, message(CEDA, "publish", SERVER, CROSSING_US))
    assert not state.take(CEDA, message(CEDA, "publish", CLIENT, CROSSING_US))
    assert not state.take(CEDA, message(CEDA, "publish", SERVER, CROSSING_US + 2))
