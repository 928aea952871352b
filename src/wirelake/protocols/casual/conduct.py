"""The conduct of casual: domains dial either way, replies to queues vary, transactions follow XA."""

from __future__ import annotations

from ...spec.conduct import Branches, Conduct, Matching, Outcome

TMONEPHASE = 0x40000000
XA_OK, XA_RDONLY, XAER_NOTA = 0, 3, -4
XA_HEURMIX, XA_HEURRB, XA_HEURCOM, XA_HEURHAZ = 5, 6, 7, 8

_ROLLED_BACK: dict[int, Outcome] = dict.fromkeys(range(100, 108), "rolled_back")
_HEURISTIC: dict[int, Outcome] = {
    XA_HEURMIX: "in_doubt",
    XA_HEURHAZ: "in_doubt",
    XA_HEURRB: "rolled_back",
    XA_HEURCOM: "committed",
}

CONDUCT = Conduct(
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
        one_phase_bits=TMONEPHASE,
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
