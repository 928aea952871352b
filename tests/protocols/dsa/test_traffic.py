from __future__ import annotations

from base64 import urlsafe_b64encode
from collections import Counter, defaultdict
from functools import cache
from hashlib import sha256
from typing import Any

import msgpack

from wirelake.generate import Event, Traffic, generate
from wirelake.protocols import dsa as p

HANDSHAKE = [p.ClientHello, p.ServerHello, p.ClientProof, p.ServerProof]


@cache
def traffic() -> Traffic:
    return generate("dsa", messages=10_000, connections=6, seed=4)


@cache
def connections() -> dict[int, list[Event]]:
    found: dict[int, list[Event]] = defaultdict(list)
    for event in traffic():
        found[event.connection.number].append(event)
    return found


def test_connections_begin_with_four_handshake_messages_of_the_right_sizes() -> None:
    for events in connections().values():
        hello, welcome, proof, accepted = (event.message for event in events[:4])
        assert [type(event.message) for event in events[:4]] == HANDSHAKE
        assert not any(isinstance(event.message, tuple(HANDSHAKE)) for event in events[4:])
        for greeting in (hello, welcome):
            known = greeting.handshake
            assert known.public_key[0] == 4 and len(known.public_key) == 65 and len(known.salt) == 32
            digest = urlsafe_b64encode(sha256(known.public_key).digest()).decode().rstrip("=")
            assert known.dsid.endswith("-" + digest)
        assert len(proof.handshake.auth) == len(accepted.handshake.auth) == 32
        assert len(proof.handshake.token) in (0, 59)
        assert accepted.handshake.path.startswith("downstream/") == proof.handshake.is_responder


def test_each_side_numbers_its_messages_and_acknowledges_the_others() -> None:
    for events in connections().values():
        last = {"to_server": 0, "to_client": 0}
        acks = 0
        for event in events:
            message = event.message
            if isinstance(message, p.Ack):
                other = "to_client" if event.direction == "to_server" else "to_server"
                assert 0 < message.acked_id <= last[other]
                acks += 1
            elif not isinstance(message, (p.Ping, *HANDSHAKE)):
                last[event.direction] += 1
                assert message.ack_id == last[event.direction]
        assert acks > 0


def test_every_response_belongs_to_an_open_stream_of_the_other_side() -> None:
    requests = {p.SUB, p.LIST, p.INVOKE, p.SET, p.PREFLIGHT}
    for events in connections().values():
        streams: dict[tuple[str, int], int] = {}
        for event in events:
            message, code = event.message, event.message.__message__["code"]
            if code in requests:
                assert (event.direction, message.request_id) not in streams
                streams[event.direction, message.request_id] = code
            elif code - 0x80 in requests:
                other = "to_client" if event.direction == "to_server" else "to_server"
                key = (other, message.request_id)
                if key in streams:
                    assert streams[key] == code - 0x80
                    if message.closed:
                        del streams[key]
                else:
                    assert code == p.SUB_R  # still under way when the subscription was closed
            elif isinstance(message, p.Close):
                del streams[event.direction, message.request_id]


def test_no_value_follows_long_after_a_close() -> None:
    for events in connections().values():
        closed: dict[tuple[str, int], int] = {}
        for event in events:
            if isinstance(event.message, p.Close):
                closed[event.direction, event.message.request_id] = event.ts_us
            elif isinstance(event.message, p.SubscribeResponse):
                other = "to_client" if event.direction == "to_server" else "to_server"
                at = closed.get((other, event.message.request_id))
                assert at is None or event.ts_us - at < 10_000


def test_values_carry_their_time_and_sometimes_only_a_status() -> None:
    answers = [
        e.message for events in connections().values() for e in events if isinstance(e.message, p.SubscribeResponse)
    ]
    values = [answer for answer in answers if answer.body]
    assert all(
        set(answer.value_meta) == {"ts"} and answer.value_meta["ts"].startswith("2024-01-01T") for answer in values
    )
    assert {type(answer.value) for answer in values} == {float, bool, str}
    statuses = Counter(answer.headers.status for answer in answers if not answer.body)
    assert set(statuses) == {0x0E, 0x41}


def test_pages_join_to_one_object() -> None:
    joined = 0
    for events in connections().values():
        groups: dict[tuple[str, int], list[Any]] = defaultdict(list)
        for event in events:
            if isinstance(event.message, p.InvokeResponse) and event.message.headers.page_id is not None:
                groups[event.direction, event.message.request_id].append(event.message)
        for pages in groups.values():
            assert [page.headers.page_id for page in pages] == [-len(pages), *range(1, len(pages))]
            assert [page.closed for page in pages] == [False] * (len(pages) - 1) + [True]
            result = msgpack.unpackb(b"".join(page.body for page in pages))
            assert set(result) == {"columns", "rows"}
            joined += 1
    assert joined


def test_the_broker_forwards_with_its_own_ids_and_paths() -> None:
    events = list(traffic())
    legs = [x for x in traffic().truth.exchanges if x.other_leg is not None and x.direction == "to_server"]
    assert len(legs) > 50
    for x in legs:
        assert x.other_leg is not None
        asked, forwarded = events[x.request], events[x.other_leg]
        assert forwarded.direction == "to_client" and forwarded.connection is not asked.connection
        full, rest = asked.message.headers.target_path, forwarded.message.headers.target_path
        assert full.startswith("downstream/") and full.endswith("/" + rest)


def test_quiet_sides_ping() -> None:
    pings = 0
    for events in connections().values():
        last: dict[str, int] = {}
        for event in events:
            if isinstance(event.message, p.Ping):
                pings += 1
                assert event.ts_us - last[event.direction] >= 30_000_000
            last[event.direction] = event.ts_us
    assert pings


def test_all_methods_occur() -> None:
    seen = {type(event.message) for events in connections().values() for event in events}
    assert seen == set(p.MESSAGES)


def test_compat_peers_leave_out_what_known_peers_leave_out() -> None:
    made = [event.message for event in generate("dsa", messages=1000, mode="compat")]
    lists = [message for message in made if isinstance(message, p.ListRequest)]
    assert any(message.headers.target_path is None for message in lists)
    assert any(m.headers.status is None for m in made if isinstance(m, p.SubscribeResponse) and m.body)
