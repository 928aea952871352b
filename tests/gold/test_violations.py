"""Good bytes at the wrong moment are found where the generator put them, and nowhere else."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from wirelake.columnar.schema import TIMESTAMP
from wirelake.generate import Traffic, generate
from wirelake.gold.violations import VIOLATIONS
from wirelake.protocols import casual, ceda, dsa, mb
from wirelake.spec import Cell

from .matched import ViolationsOfFacts, repacked
from .scenes import DOWN, UP, scene
from .watched import Fed, Watched, watch

PROTOCOLS = ("casual", "dsa", "mb", "ceda")
DAMAGE = pa.schema(
    [
        ("connection", pa.string()),
        ("direction", pa.string()),
        ("offset", pa.int64()),
        ("ts", pa.timestamp("us", "UTC")),
    ]
)


def found_in(watched: Watched, feeds: Any = None) -> pa.Table:
    """What the step finds, fed at once or in these pieces, with a carry in between."""
    carry = None
    parts = []
    for fed in feeds if feeds is not None else [watched.at_once()]:
        step = ViolationsOfFacts(carry)
        parts.append(step.feed(fed.facts, fed.connections))
        parts.append(step.settle(fed.watermark))
        carry = repacked(step.carry())
    return pa.concat_tables(parts)


def rules(table: pa.Table) -> list[tuple[Any, ...]]:
    names = ("connection", "direction", "offset", "message", "rule")
    return sorted(zip(*(table.column(name).to_pylist() for name in names), strict=True))


def expected(watched: Watched) -> list[tuple[Any, ...]]:
    return sorted((*watched.place[one.event], one.message, one.rule) for one in watched.truth.violations)


def check(traffic: Traffic) -> pa.Table:
    watched = watch(traffic)
    found = found_in(watched)
    assert rules(found) == expected(watched)
    return found


# --- generated traffic


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_generated_violations_are_found_and_no_others(protocol: str, seed: int) -> None:
    found = check(generate(protocol, seed=seed, messages=1500, connections=7, violations=0.05))
    assert found.num_rows


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_clean_traffic_has_no_violations(protocol: str) -> None:
    assert not check(generate(protocol, seed=5, messages=1500, connections=7)).num_rows


@pytest.mark.parametrize(
    ("protocol", "options"),
    [("casual", {"profile": "late"}), ("dsa", {"mode": "compat"}), ("ceda", {"dialect": "ceda4-ws"})],
)
def test_what_known_peers_do_differently_is_no_violation(protocol: str, options: dict[str, Any]) -> None:
    assert not check(generate(protocol, seed=6, messages=1500, connections=7, **options)).num_rows


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_any_cut_gives_the_same_violations(protocol: str) -> None:
    watched = watch(generate(protocol, seed=4, messages=800, connections=6, violations=0.05))
    for seed in range(4):
        assert rules(found_in(watched, watched.randomly(seed, 1 + 3 * seed))) == expected(watched)


def test_a_capture_in_which_everything_is_wrong_says_so_of_everything() -> None:
    """Calls without a handshake, all with the same few correlations: each is forbidden, and carried as such."""
    calls = [(UP, call(i % 5), "state") for i in range(2000)]
    found = check(scene("casual", calls))
    assert found.num_rows == 2000
    assert set(found.column("rule").to_pylist()) == {"state"}
    watched = watch(scene("casual", calls))
    assert found_in(watched, watched.randomly(1, 4)).num_rows == 2000


def test_traffic_of_several_protocols_is_judged_each_by_its_own_rules() -> None:
    check(generate(PROTOCOLS, seed=7, messages=2000, connections=3, violations=0.03))


# --- casual

ID = bytes(range(16))
DOMAIN = casual.Domain(ID, "a")


def number(i: int) -> bytes:
    return bytes([i]) * 16


def connect() -> list[Any]:
    ids = {"correlation": number(255), "execution": ID}
    return [
        (UP, casual.DomainConnectRequest(**ids, domain=DOMAIN, protocol=casual.Offer((1000,)))),
        (DOWN, casual.DomainConnectReply(**ids, domain=DOMAIN, protocol=casual.Chosen(1000))),
    ]


def call(i: int, limit_us: int = 0, flags: int = 0) -> casual.ServiceCallRequest:
    return casual.ServiceCallRequest(
        correlation=number(i),
        execution=ID,
        service=casual.Service("echo", limit_us),
        parent=casual.Parent(""),
        xid=casual.NULL_XID,
        flags=flags,
        buffer=casual.Buffer("NULL", b""),
    )


def result(i: int) -> casual.ServiceCallReply:
    return casual.ServiceCallReply(
        correlation=number(i),
        execution=ID,
        call=casual.Call(0, 0),
        xid=casual.NULL_XID,
        transaction=casual.TransactionState(0),
        buffer=casual.Buffer("NULL", b""),
    )


def dequeue(i: int) -> casual.QueueDequeueRequest:
    return casual.QueueDequeueRequest(
        correlation=number(i),
        execution=ID,
        name="q",
        xid=casual.NULL_XID,
        selector=casual.Selector("", casual.NIL),
        block=False,
    )


def test_a_call_before_the_handshake_breaks_the_life_cycle_and_its_reply_does_too() -> None:
    found = check(scene("casual", [(UP, call(1), "state"), (DOWN, result(1), "state"), *connect(), (UP, call(2))]))
    first = found.to_pylist()[0]
    assert first["state"] == "new"
    assert first["detail"] == "in state new the client may send domain_connect_request"
    assert first["correlation"] == number(1).hex()
    assert found.schema.equals(VIOLATIONS)


def test_after_a_violation_the_state_is_what_it_was() -> None:
    lines = connect()
    check(scene("casual", [lines[0], (UP, call(1), "state"), (UP, call(2), "state"), lines[1], (UP, call(3))]))


def test_a_second_connect_request_breaks_the_life_cycle() -> None:
    check(scene("casual", [*connect(), (UP, call(1)), (*connect()[0], "state"), (DOWN, result(1))]))


def test_after_a_refused_handshake_nothing_more_may_be_sent() -> None:
    refusal = casual.DomainConnectReply(correlation=number(255), execution=ID, domain=DOMAIN, protocol=casual.Chosen(0))
    check(scene("casual", [connect()[0], (DOWN, refusal), (UP, call(1), "state")]))


def test_who_asks_to_connect_is_the_client_also_if_it_was_dialled() -> None:
    swapped = [(DOWN if direction == UP else UP, message) for direction, message in connect()]
    check(scene("casual", [*swapped, (DOWN, call(1)), (UP, result(1)), (UP, call(2), "state")]))


def test_replies_that_nobody_asked_for_and_second_replies_are_told_apart() -> None:
    lines = [*connect(), (UP, call(1)), (DOWN, result(2), "unexpected_reply"), (DOWN, result(1))]
    check(scene("casual", [*lines, (DOWN, result(1), "duplicate_reply"), (DOWN, result(1), "duplicate_reply")]))


def test_a_request_whose_correlation_is_in_progress_is_a_duplicate() -> None:
    lines = [*connect(), (UP, call(1)), (UP, call(1), "duplicate_request"), (DOWN, result(1)), (DOWN, result(1))]
    lines += [(DOWN, result(1), "duplicate_reply"), (UP, call(1)), (DOWN, result(1))]
    check(scene("casual", lines))


def test_a_late_reply_is_no_violation_up_to_its_horizon() -> None:
    limit = 2_000_000
    lines = [*connect(), (UP, call(1, limit)), limit + 59_000_000, (DOWN, result(1)), (UP, call(2, limit))]
    check(scene("casual", [*lines, limit + 61_000_000, (DOWN, result(2), "unexpected_reply")]))


def test_without_a_limit_a_reply_may_come_at_any_time() -> None:
    check(scene("casual", [*connect(), (UP, call(1)), 3_600_000_000, (DOWN, result(1))]))


def test_a_reply_to_a_call_that_wants_none_is_unexpected() -> None:
    check(scene("casual", [*connect(), (UP, call(1, flags=4)), (DOWN, result(1), "unexpected_reply")]))


def test_a_reply_of_another_kind_does_not_fit_but_an_enqueue_reply_to_a_dequeue_does() -> None:
    enqueued = casual.QueueEnqueueReply(correlation=number(2), execution=ID, id=casual.NIL)
    lines = [*connect(), (UP, dequeue(1)), (DOWN, result(1), "unexpected_reply"), (UP, dequeue(2)), (DOWN, enqueued)]
    check(scene("casual", lines))


def test_what_was_answered_long_ago_is_forgotten() -> None:
    lines = [*connect(), (UP, call(1)), (DOWN, result(1)), 61_000_000, (DOWN, result(1), "unexpected_reply")]
    check(scene("casual", lines))


# --- dsa


def handshake() -> list[Any]:
    key, salt = b"\x04" + bytes(64), bytes(32)
    return [
        (UP, dsa.ClientHello(handshake=dsa.HandshakeF0((2, 0), "c" * 50, key, salt))),
        (DOWN, dsa.ServerHello(handshake=dsa.HandshakeF1("s" * 50, key, salt))),
        (UP, dsa.ClientProof(handshake=dsa.HandshakeF2("", False, "", salt))),
        (DOWN, dsa.ServerProof(handshake=dsa.HandshakeF3(True, "", salt))),
    ]


def ask(cls: Any, rid: int, **content: Any) -> Any:
    return cls(request_id=rid, ack_id=0, headers=dsa.Headers(target_path="a"), **content)


def answer(cls: Any, rid: int, status: int, page: int = 0, sequence: int = 0, **content: Any) -> Any:
    headers: dict[str, Any] = {"page_id": page, "sequence_id": sequence} if page else {}
    return cls(request_id=rid, ack_id=0, headers=dsa.Headers(status=status, **headers), **content)


def page(number: int, status: int = 0, rid: int = 1, sequence: int = 1) -> Any:
    return answer(dsa.InvokeResponse, rid, status, number, sequence, body=b"x")


INVOKE = (UP, ask(dsa.InvokeRequest, 1, body=b""))


def test_requests_before_the_end_of_the_handshake_break_the_life_cycle() -> None:
    lines = handshake()
    early = (UP, ask(dsa.ListRequest, 1), "state")
    check(scene("dsa", [lines[0], early, *lines[1:3], early, lines[3], (UP, ask(dsa.ListRequest, 2))]))


def test_a_closing_status_is_the_last_response_of_a_stream() -> None:
    lines: list[Any] = [(UP, ask(dsa.ListRequest, 1)), (DOWN, answer(dsa.ListResponse, 1, 0, body=b""))]
    lines += [(DOWN, answer(dsa.ListResponse, 1, 0x20, body=b""))]
    again = answer(dsa.ListResponse, 1, 0, body=b"")
    check(
        scene(
            "dsa",
            [*handshake(), *lines, (DOWN, again, "duplicate_reply"), (UP, ask(dsa.ListRequest, 1)), (DOWN, again)],
        )
    )


def test_responses_under_way_when_the_requester_closes_are_fine() -> None:
    lines = [(UP, ask(dsa.SubscribeRequest, 1)), (DOWN, answer(dsa.SubscribeResponse, 1, 0, body=b""))]
    close = dsa.Close(request_id=1, ack_id=0)
    check(scene("dsa", [*handshake(), *lines, (UP, close), (DOWN, answer(dsa.SubscribeResponse, 1, 0, body=b""))]))


def test_request_ids_of_the_two_sides_and_of_subscriptions_are_apart() -> None:
    lines = [
        (UP, ask(dsa.SubscribeRequest, 1)),
        (UP, ask(dsa.ListRequest, 1)),
        (DOWN, ask(dsa.ListRequest, 1)),
        (DOWN, answer(dsa.SubscribeResponse, 1, 0, body=b"")),
        (DOWN, answer(dsa.ListResponse, 1, 0x20, body=b"")),
        (DOWN, answer(dsa.SubscribeResponse, 1, 0, body=b"")),
        (UP, answer(dsa.ListResponse, 1, 0x20, body=b"")),
        (DOWN, answer(dsa.InvokeResponse, 1, 0x20, body=b""), "unexpected_reply"),
    ]
    check(scene("dsa", [*handshake(), *lines]))


def test_subscriptions_and_actions_may_be_asked_again_and_lists_may_not() -> None:
    lines: list[Any] = [(UP, ask(dsa.SubscribeRequest, 1))] * 2 + [(UP, ask(dsa.InvokeRequest, 2, body=b""))] * 2
    lines += [(UP, ask(dsa.ListRequest, 3)), (UP, ask(dsa.ListRequest, 3), "duplicate_request")]
    check(scene("dsa", [*handshake(), *lines]))


def test_pages_come_in_their_order() -> None:
    check(scene("dsa", [*handshake(), INVOKE, (DOWN, page(-3)), (DOWN, page(1)), (DOWN, page(2, 0x20))]))


def test_a_page_that_is_left_out_breaks_the_order_once() -> None:
    lines = [
        INVOKE,
        (DOWN, page(-4)),
        (DOWN, page(2), "page_order"),
        (DOWN, page(3)),
        (DOWN, page(-2)),
        (DOWN, page(1)),
    ]
    found = check(scene("dsa", [*handshake(), *lines]))
    assert found.column("detail").to_pylist() == ["page 2 where page 1 of 4 must come"]


def test_pages_without_a_first_one_break_the_order_once() -> None:
    check(scene("dsa", [*handshake(), INVOKE, (DOWN, page(1), "page_order"), (DOWN, page(2))]))


def test_a_group_that_begins_or_a_message_that_comes_before_the_last_page_breaks_the_order() -> None:
    plain = (DOWN, answer(dsa.InvokeResponse, 1, 0, body=b""), "page_order")
    lines = [INVOKE, (DOWN, page(-3)), (DOWN, page(-2), "page_order"), (DOWN, page(1)), (DOWN, page(-2)), plain]
    check(scene("dsa", [*handshake(), *lines]))


def test_pages_of_another_sequence_do_not_go_on_with_a_group_and_other_streams_may_go_between() -> None:
    other = (UP, ask(dsa.InvokeRequest, 2, body=b""))
    lines = [INVOKE, other, (DOWN, page(-2)), (DOWN, page(-2, rid=2)), (DOWN, page(1, rid=2))]
    check(scene("dsa", [*handshake(), *lines, (DOWN, page(1, sequence=2), "page_order")]))


def test_a_closing_status_on_an_early_page_ends_the_group_with_its_stream() -> None:
    check(scene("dsa", [*handshake(), INVOKE, (DOWN, page(-2, 0x20)), INVOKE, (DOWN, page(-2)), (DOWN, page(1, 0x20))]))


# --- mb


def rid(i: int) -> str:
    return f"00000000-0000-4000-8000-{i:012d}"


def message(cls: Any, i: int | None, topic: str = "a.b", payload: bytes = b"{}") -> Any:
    return cls(topic=topic, version="1.0.0", request_id=None if i is None else rid(i), payload=payload)


ERROR = b'{"error":{"code":"NO_ROUTE_FOUND","message":"m","timestamp":"t"}}'


def test_a_service_answers_only_what_it_was_asked_and_once() -> None:
    lines = [
        (DOWN, message(mb.Request, 1)),
        (UP, message(mb.Response, 1)),
        (UP, message(mb.Response, 1), "duplicate_reply"),
        (UP, message(mb.Response, 2), "unexpected_reply"),
        (UP, message(mb.Response, None), "unexpected_reply"),
        (UP, message(mb.Response, 3, "system.heartbeat")),
    ]
    check(scene("mb", lines, framing="tcp"))


def test_a_broker_may_make_up_ids_for_errors_and_system_topics_only() -> None:
    lines = [
        (UP, message(mb.Publish, None)),
        (DOWN, message(mb.Response, 4, payload=ERROR)),
        (DOWN, message(mb.Response, 5, "system.metrics")),
        (DOWN, message(mb.Response, 6), "unexpected_reply"),
    ]
    check(scene("mb", lines, framing="tcp"))


def test_requests_of_a_broker_s_client_may_share_an_id() -> None:
    lines = [(UP, message(mb.Request, 1)), (UP, message(mb.Request, 1)), (UP, message(mb.Publish, 2))]
    lines += [(DOWN, message(mb.Response, 1)), (DOWN, message(mb.Response, 2)), (DOWN, message(mb.Response, 1))]
    check(scene("mb", [*lines, (DOWN, message(mb.Response, 1), "duplicate_reply")], framing="tcp"))


# --- ceda


def login(ok: bool = True) -> list[Any]:
    return [
        (UP, ceda.Login(control_code=3, record=(Cell(4, "STRING", "u"), Cell(5, "STRING", "secret")))),
        (DOWN, ceda.Login(control_code=4, record=(Cell(1, "INT", int(ok)),))),
    ]


PUBLISH = ceda.Publish(topic="A.B", record=())
BEAT = ceda.Heartbeat()


def request(i: int, **more: Any) -> Any:
    return ceda.Request(
        topic="Q", connection_id=1, server_id="", signal_id="", **({"reply_topic": f"1.1.{i}", "record": ()} | more)
    )


def reply(i: int, record: Any = ()) -> Any:
    return ceda.Reply(topic=f"1.1.{i}", connection_id=1, server_id="", signal_id="", record=record)


def piece(index: int, count: int = 3, topic: str = "DOC") -> Any:
    signature = struct.pack("<bhhihi", 1, 0, count, 1, 2, 1) if index == 0 else struct.pack("<bhi", 1, index, 1)
    record = (Cell(2, "BYTES", b"x"), Cell(0, "BYTES", signature))
    return ceda.GroupPub(topic=topic, connection_id=ceda.UNASSIGNED, server_id="", signal_id="", record=record)


def test_data_before_the_login_breaks_the_life_cycle_and_heartbeats_do_not() -> None:
    lines = [(UP, BEAT), (DOWN, BEAT), (UP, PUBLISH, "state"), login()[0], (DOWN, PUBLISH, "state"), login()[1]]
    check(scene("ceda", [*lines, (UP, PUBLISH), (DOWN, PUBLISH)]))


def test_a_failed_login_leads_back_to_where_it_began() -> None:
    check(scene("ceda", [*login(ok=False), (UP, PUBLISH, "state"), *login(), (UP, PUBLISH)]))


def test_a_login_result_that_nobody_waits_for_breaks_the_life_cycle() -> None:
    check(scene("ceda", [*login(), (*login()[1], "state")]))


def test_after_a_logout_the_client_is_silent_and_what_the_server_had_under_way_still_comes() -> None:
    lines = [*login(), (UP, ceda.Logout()), (DOWN, PUBLISH), (UP, PUBLISH, "state"), 2_000_000]
    check(scene("ceda", [*lines, (DOWN, PUBLISH, "state")]))


def test_a_login_on_a_connection_that_is_logged_in_does_not_stop_what_is_under_way() -> None:
    check(scene("ceda", [*login(), login()[0], (DOWN, PUBLISH), login()[1], (DOWN, PUBLISH)]))


def test_replies_are_matched_by_their_topic() -> None:
    lines = [*login(), (UP, request(1)), (DOWN, reply(1)), (DOWN, reply(1), "duplicate_reply")]
    lines += [(DOWN, reply(2), "unexpected_reply"), (DOWN, request(1)), (UP, reply(1)), (UP, request(3))]
    check(scene("ceda", [*lines, (UP, request(3), "duplicate_request")]))


def test_the_pieces_of_one_request_or_reply_are_one_message() -> None:
    records = [piece(i, 2).record for i in range(2)]
    lines = [(UP, request(1, record=record)) for record in records] + [(DOWN, reply(1, record)) for record in records]
    check(scene("ceda", [*login(), *lines]))


def test_pieces_come_in_their_order_and_groups_may_interleave() -> None:
    lines = [
        (DOWN, piece(0)),
        (DOWN, piece(0, topic="X")),
        (DOWN, piece(1)),
        (DOWN, piece(1, topic="X")),
        (DOWN, piece(2)),
    ]
    lines += [(DOWN, piece(2), "group_order"), (DOWN, piece(0)), (DOWN, piece(2), "group_order"), (DOWN, piece(1))]
    check(scene("ceda", [*login(), *lines, (DOWN, piece(0)), (DOWN, piece(0), "group_order")]))


# --- captures that show packets late


def late(traffic: Traffic, moved: int, by: int) -> Watched:
    """The traffic as a capture shows it in which one message comes so many places later."""
    watched = watch(traffic)
    order = watched.facts.column("order").to_pylist()
    times = dict(zip(order, watched.facts.column("ts").to_pylist(), strict=True))
    at = watched.facts.schema.get_field_index("ts")
    shown = [times[one + by] if one == moved else times[one] for one in order]
    facts = watched.facts.set_column(at, watched.facts.schema.field(at), pa.array(shown, TIMESTAMP))
    seen = pa.array([one + by + 0.5 if one == moved else float(one) for one in order])
    by_place = [("connection", "ascending"), ("seen", "ascending")]
    watched.facts = facts.append_column("seen", seen).sort_by(by_place).drop(["seen"])
    return watched


def test_an_answer_that_the_capture_shows_before_its_request_is_no_violation() -> None:
    lines = [*connect(), (UP, call(1)), (DOWN, result(1)), (UP, call(2)), (DOWN, result(2))]
    watched = late(scene("casual", [*lines, (DOWN, result(1), "duplicate_reply")]), 2, 1)
    assert rules(found_in(watched)) == expected(watched)
    for cut in watched.facts.column("ts").cast(pa.int64()).to_pylist():
        assert rules(found_in(watched, watched.cut([cut - 1]))) == expected(watched)


@pytest.mark.parametrize("moved", [0, 1, 2])
def test_a_handshake_that_the_capture_shows_out_of_order_makes_no_violations(moved: int) -> None:
    watched = late(scene("dsa", [*handshake(), (UP, ask(dsa.ListRequest, 1)), (*handshake()[0], "state")]), moved, 1)
    assert rules(found_in(watched)) == expected(watched)
    for cut in watched.facts.column("ts").cast(pa.int64()).to_pylist():
        assert rules(found_in(watched, watched.cut([cut - 1]))) == expected(watched)


# --- what was not captured


def without_head(fed: Fed) -> Fed:
    heads = fed.connections.set_column(
        fed.connections.schema.get_field_index("is_whole"), "is_whole", pa.array([False] * fed.connections.num_rows)
    )
    return Fed(fed.facts, heads, fed.accounts, fed.watermark)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_capture_that_begins_in_the_middle_makes_no_violations_of_clean_traffic(protocol: str) -> None:
    watched = watch(generate(protocol, seed=11, messages=1200, connections=6))
    ts = watched.facts.column("ts").cast(pa.int64()).to_pylist()
    for seed in range(5):
        start = Random(seed).choice(ts)
        later = list(watched.cut([start]))[1]
        step = ViolationsOfFacts()
        assert not step.feed(later.facts, without_head(later).connections).num_rows


def test_where_the_beginning_is_missing_the_state_becomes_certain_by_what_comes() -> None:
    watched = watch(scene("casual", [(UP, call(1)), (DOWN, result(1)), (DOWN, result(9)), *connect()]))
    fed = without_head(watched.at_once())
    rows = ViolationsOfFacts().feed(fed.facts, fed.connections).to_pylist()
    assert [(row["message"], row["state"]) for row in rows] == [
        ("domain_connect_request", "connected"),
        ("domain_connect_reply", "connected"),
    ]


def lossy(traffic: Traffic, lost: set[int]) -> tuple[Watched, pa.Table]:
    """The traffic without these events, and the ranges that are quarantined in their place."""
    watched = watch(traffic)
    order = watched.facts.column("order").to_pylist()
    gone = watched.facts.filter(pa.array([one in lost for one in order]))
    watched.facts = watched.facts.filter(pa.array([one not in lost for one in order]))
    return watched, gone.select(DAMAGE.names).cast(DAMAGE)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_lost_messages_make_no_violations_of_clean_traffic(protocol: str) -> None:
    traffic = generate(protocol, seed=12, messages=1200, connections=5)
    for seed in range(4):
        rng = Random(seed)
        watched, damage = lossy(traffic, {i for i in range(1300) if rng.random() < 0.08})
        fed = watched.at_once()
        rows = ViolationsOfFacts().feed(fed.facts, fed.connections, damage)
        assert rows.to_pylist() == []


def test_a_loss_that_is_known_late_excuses_what_was_found_before() -> None:
    """The request of an answer is lost; that this is so comes with the next feed."""
    lines = [*connect(), (UP, call(1)), (UP, call(2)), (UP, call(3)), (DOWN, result(3)), (UP, call(4))]
    watched, damage = lossy(scene("casual", lines), {4})
    times = watched.facts.column("ts").cast(pa.int64()).to_pylist()
    found = []
    for late in (None, damage):
        step, parts = ViolationsOfFacts(), []
        for fed, lost in zip(watched.cut([times[-2]]), (None, late), strict=True):
            step = ViolationsOfFacts(repacked(step.carry()))
            parts.append(step.feed(fed.facts, fed.connections, lost))
        found.append(pa.concat_tables([*parts, step.settle(0, final=True)]).column("rule").to_pylist())
    assert found == [["unexpected_reply"], []]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_losses_are_remembered_over_a_cut(protocol: str) -> None:
    watched, damage = lossy(generate(protocol, seed=13, messages=600, connections=4), set(range(5, 600, 11)))
    lost = damage.column("ts").cast(pa.int64()).to_numpy()
    carry = None
    before = -1
    for fed in watched.randomly(1, 5):
        step = ViolationsOfFacts(carry)
        here = damage.filter(pa.array((lost > before) & (lost <= fed.watermark)))
        assert not step.feed(fed.facts, fed.connections, here).num_rows
        step.settle(fed.watermark)
        before, carry = fed.watermark, repacked(step.carry())


def test_a_duplicate_is_a_duplicate_also_long_after_a_loss_but_not_if_the_loss_may_explain_it() -> None:
    first = [*connect(), (UP, call(7)), (UP, call(1)), (DOWN, result(1)), (DOWN, result(1))]
    second = [*connect(), (UP, call(1)), (DOWN, result(1)), (UP, call(7)), (DOWN, result(1))]
    seen = []
    for lines, lost in ((first, 2), (second, 4)):
        watched, damage = lossy(scene("casual", lines), {lost})
        fed = watched.at_once()
        seen.append(ViolationsOfFacts().feed(fed.facts, fed.connections, damage).column("rule").to_pylist())
    assert seen == [["duplicate_reply"], []]


def test_a_loss_that_later_messages_have_settled_does_not_come_back_after_a_cut() -> None:
    lines = [*login(), (UP, PUBLISH), (UP, PUBLISH), 100, (*login()[1], "state")]
    watched, damage = lossy(scene("ceda", lines), {2})
    cut = watched.facts.sort_by("order").column("ts").cast(pa.int64()).to_pylist()[2]
    first, second = watched.cut([cut])
    step = ViolationsOfFacts()
    assert not step.feed(first.facts, first.connections, damage).num_rows
    rows = ViolationsOfFacts(step.carry()).feed(second.facts, second.connections).to_pylist()
    assert [(row["message"], row["state"]) for row in rows] == [("login", "ready")]


def test_a_bad_range_begins_where_the_message_before_it_ended() -> None:
    """Its time is that of its last byte; what lies in it may have been answered long before."""
    lines = [*connect(), (UP, call(1)), (DOWN, result(1)), (UP, call(2)), (DOWN, result(2)), 5_000_000, (UP, call(3))]
    watched, damage = lossy(scene("casual", [*lines, (DOWN, result(3))]), {4, 6})
    fed = watched.at_once()
    one_range = (
        damage.sort_by("offset")
        .slice(0, 1)
        .set_column(3, DAMAGE.field(3), damage.sort_by("offset").column("ts").slice(1))
    )
    assert not ViolationsOfFacts().feed(fed.facts, fed.connections, one_range).num_rows
    assert ViolationsOfFacts().feed(fed.facts, fed.connections).column("rule").to_pylist() == ["unexpected_reply"] * 2


def test_what_is_remembered_stays_small() -> None:
    watched = watch(generate("casual", seed=14, messages=4000, connections=2))
    step = ViolationsOfFacts()
    fed = watched.at_once()
    step.feed(fed.facts, fed.connections)
    assert len(step.carry().matching.remembered) < 2 * 1024 + 200
    step.settle(fed.watermark + 10**12, final=True)
    assert not len(step.carry().matching.remembered) and not step.carry().violations.watches
