"""The conduct of casual: domains dial either way, replies to queues vary, transactions follow XA."""

from __future__ import annotations

from ...spec.conduct import (
    COMPLETE,
    REFUSED,
    SECOND_US,
    STATUS,
    Branches,
    Conduct,
    Introduction,
    Limit,
    Matching,
    Outcome,
    Result,
    Selection,
    TimeUnit,
    When,
)
from . import messages as m

TPNOREPLY, TPNOTRAN, TPNOTIME = map(m.XATMI_FLAGS.code, ("TPNOREPLY", "TPNOTRAN", "TPNOTIME"))
TPETIME = m.XATMI_ERROR.code("TPETIME")
NOT_SET = -1
"""What some peers send as the status of a call that went well."""
TMONEPHASE = m.XA_FLAGS.code("TMONEPHASE")
XA_OK, XA_RDONLY, XAER_NOTA = map(m.XA_RETURN.code, ("XA_OK", "XA_RDONLY", "XAER_NOTA"))
CONNECT_LIMIT_US = 10 * SECOND_US
LIMIT_US = 30 * SECOND_US
"""How long a coordinator waits for a resource, and a program for a queue."""

_CALLS = ("service_call_request", "conversation_connect_request")
_CALL_REPLIES = ("service_call_reply", "conversation_connect_reply", "conversation_connect_reply_late")
_RESOURCE_REPLIES = ("resource_prepare_reply", "resource_commit_reply", "resource_rollback_reply")

_ROLLED_BACK: dict[int, Outcome] = dict.fromkeys(range(100, 108), "rolled_back")
_HEURISTIC: dict[int, Outcome] = {
    m.XA_RETURN.code("XA_HEURMIX"): "in_doubt",
    m.XA_RETURN.code("XA_HEURHAZ"): "in_doubt",
    m.XA_RETURN.code("XA_HEURRB"): "rolled_back",
    m.XA_RETURN.code("XA_HEURCOM"): "committed",
}

CONDUCT = Conduct(
    limits=(
        Limit(CONNECT_LIMIT_US, messages=("domain_connect_request", "domain_discover_request")),
        Limit(
            LIMIT_US,
            messages=(
                "resource_prepare_request",
                "resource_commit_request",
                "resource_rollback_request",
                "queue_enqueue_request",
                "queue_dequeue_request",
            ),
        ),
        Limit(0, messages=("queue_dequeue_request",), when=When("block")),
        Limit(0, messages=_CALLS, when=When("flags", bits=TPNOTIME)),
    ),
    units=(TimeUnit("ns", messages=_CALLS, only=("profile", "late")),),
    no_reply=(Selection(messages=("service_call_request",), when=When("flags", bits=TPNOREPLY)),),
    results=(
        Result("error", messages=_CALL_REPLIES, when=When(STATUS, none_of=(0, NOT_SET))),
        Result("timeout", messages=_CALL_REPLIES, when=When(STATUS, one_of=(TPETIME,))),
        Result("error", messages=("domain_connect_reply",), when=When(STATUS, empty=True)),
        Result("error", messages=_RESOURCE_REPLIES, when=When(STATUS, none_of=(XA_OK, XA_RDONLY))),
        Result("error", messages=("queue_enqueue_reply",), when=When("id", one_of=(m.NIL,))),
    ),
    introductions=(
        Introduction(
            {"client_domain": "domain.name", "client_id": "domain.id", "offered_versions": "protocol.versions"},
            messages=("domain_connect_request",),
        ),
        Introduction(
            {"server_domain": "domain.name", "server_id": "domain.id", "version": "protocol.version"},
            messages=("domain_connect_reply",),
        ),
        Introduction({}, COMPLETE, messages=("domain_connect_reply",), when=When(STATUS)),
        Introduction({}, REFUSED, messages=("domain_connect_reply",), when=When(STATUS, empty=True)),
    ),
    # A queue that refuses a dequeue sends the reply of an enqueue (spec of the deployed peers).
    matching=Matching(instead=frozenset({(6201, 6101)})),
    either_may_dial=True,
    branches=Branches(
        work=frozenset(
            {
                "service_call_request",
                "conversation_connect_request",
                "conversation_connect_request_late",
                "queue_enqueue_request",
                "queue_dequeue_request",
            }
        ),
        prepare="resource_prepare_request",
        prepared="resource_prepare_reply",
        commit="resource_commit_request",
        committed="resource_commit_reply",
        rollback="resource_rollback_request",
        rolled_back="resource_rollback_reply",
        flags="flags",
        one_phase_bits=TMONEPHASE,
        resource="resource.id",
        promises=frozenset({XA_OK}),
        votes={**_ROLLED_BACK, XA_RDONLY: "read_only", XAER_NOTA: "rolled_back"},
        commits={**_ROLLED_BACK, **_HEURISTIC, XA_OK: "committed", XA_RDONLY: "committed", XAER_NOTA: "committed"},
        one_phase_commits={
            **_ROLLED_BACK,
            **_HEURISTIC,
            XA_OK: "committed",
            XA_RDONLY: "read_only",
            XAER_NOTA: "rolled_back",
        },
        rollbacks={
            **_ROLLED_BACK,
            **_HEURISTIC,
            XA_OK: "rolled_back",
            XA_RDONLY: "rolled_back",
            XAER_NOTA: "rolled_back",
        },
    ),
)
