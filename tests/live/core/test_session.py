"""What all sessions have in common: links, effects and their limits, states."""

from __future__ import annotations

import pytest

from tests.live.toy import LINES
from tests.live.toy_durable import CYCLE
from wirelake.errors import LocalProtocolError, RemoteProtocolError
from wirelake.live.core.effects import Call, Cancel, Done, Effect, Store
from wirelake.live.core.link import Link
from wirelake.live.core.session import CLIENT, SERVER, Session, States


class Small(Session):
    most_effects = 4
    most_effects_in_all = 10


def links(session: Session, count: int) -> list[Link]:
    return [session.new_link(LINES, SERVER, f"peer{n}") for n in range(count)]


def want(session: Session, link: Link | None, count: int) -> list[Effect]:
    effects: list[Effect] = [Store(n, link=link) for n in range(count)]
    for effect in effects:
        session.want(effect)
    return effects


def complete(session: Session, effects: list[Effect]) -> None:
    for effect in effects:
        session.completed(effect, Done(), 0.0)


def test_a_session_numbers_its_links_whoever_made_them() -> None:
    session = Session()
    made = [session.new_link(LINES, side, "peer") for side in (SERVER, CLIENT, SERVER)]
    assert [(link.number, link.side) for link in made] == [(1, "server"), (2, "client"), (3, "server")]
    assert all(link.counts is session.counts and link.changed is session.changed for link in made)


def test_a_link_with_too_many_effects_is_full_until_half_of_them_have_completed() -> None:
    session = Small()
    one, other = links(session, 2)
    effects = want(session, one, 4)
    assert one.is_full and not other.is_full and session.changed == [one]
    complete(session, effects[:1])
    assert one.is_full
    complete(session, effects[1:2])
    assert not one.is_full and session.changed == [one, one]
    complete(session, effects[2:])
    assert (one.outstanding, session.outstanding) == (0, 0)


def test_too_many_effects_of_all_links_fill_those_that_want_more() -> None:
    session = Small()
    made = links(session, 4)
    effects = [want(session, link, 3) for link in made]
    assert [link.is_full for link in made] == [False, False, False, True]
    complete(session, effects[3])
    assert made[3].is_full, "it has room itself, but all links together have not"
    complete(session, effects[0] + effects[1])
    assert not any(link.is_full for link in made)


def test_effects_of_no_link_and_cancels_pause_nobody() -> None:
    session = Small()
    (link,) = links(session, 1)
    effects = want(session, None, 20)
    session.want(Cancel(effects[0], link=link))
    assert (session.outstanding, link.outstanding, link.is_full) == (20, 0, False)
    complete(session, effects)
    assert session.outstanding == 0


def test_two_effects_that_look_alike_are_two() -> None:
    assert len({Call(print, "x"), Call(print, "x"), Store(1), Store(1)}) == 4


def test_states_follow_the_declared_life_cycle() -> None:
    states = States(CYCLE)
    assert states.may(CLIENT, "login") and not states.may(CLIENT, "put")
    assert not states.move(SERVER, "welcome") and states.state == "open"
    states.sends(CLIENT, "login", is_us=True)
    states.sends(SERVER, "welcome", is_us=False)
    assert states.state == "ready"


@pytest.mark.parametrize(("is_us", "kind"), [(True, LocalProtocolError), (False, RemoteProtocolError)])
def test_what_is_forbidden_says_what_is_allowed(is_us: bool, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="a client may not send put when open; it may send login"):
        States(CYCLE).sends(CLIENT, "put", is_us=is_us)
