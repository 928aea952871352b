from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from tests.protocols.casual.played import events, traffic
from wirelake.protocols import casual as p


def test_transactions_end_as_their_branches_say() -> None:
    truth = traffic().truth
    assert set(Counter(one.outcome for one in truth.transactions)) >= {
        "committed",
        "rolled_back",
        "read_only",
        "in_doubt",
    }
    seen: dict[tuple[int, bytes, bytes], dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for event in events():
        if isinstance(event.message, p.ResourceRequest | p.ResourceReply):
            xid = event.message.xid
            name = event.message.__message__["name"].removeprefix("resource_")
            seen[event.connection.number, xid.gtrid, xid.bqual][name].append(event.message)
    checked = 0
    for one in truth.transactions:
        for branch in one.branches:
            wire = seen[branch.connection, one.gtrid, branch.bqual]
            assert len(wire["prepare_request"]) == int(branch.prepare_sent)
            assert [reply.resource.state for reply in wire["prepare_reply"]] == [
                vote for vote in (branch.vote,) if vote is not None
            ]
            decided = wire["commit_request"] + wire["rollback_request"]
            assert len(decided) == int(branch.decision != "")
            if decided:
                assert (decided[0].flags == 0x40000000) == branch.one_phase
                assert isinstance(decided[0], p.ResourceCommitRequest) == (branch.decision == "commit")
            ends = wire["commit_reply"] + wire["rollback_reply"]
            assert [reply.resource.state for reply in ends] == [r for r in (branch.result,) if r is not None]
            checked += 1
    assert checked == len(seen) > 300
    assert any(branch.one_phase for one in truth.transactions for branch in one.branches)
    assert any(len(one.branches) == 2 for one in truth.transactions)
    assert {one.format for one in truth.transactions} == {42, 131077}


def test_a_branch_is_committed_only_if_every_branch_voted_for_it() -> None:
    for one in traffic().truth.transactions:
        if any(branch.decision == "commit" and not branch.one_phase for branch in one.branches):
            assert all(branch.vote in (0, 3) for branch in one.branches)
