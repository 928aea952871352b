"""The accounts of streams add up, or the program stops."""

from __future__ import annotations

import random

import pytest

from tests.capture.feeds import Feed, chunks_of, connection, generated, play
from wirelake.capture.accounts import AccountsError
from wirelake.capture.settings import ReadSettings
from wirelake.capture.streams import Streams
from wirelake.generate import generate


def test_bytes_that_do_not_add_up_are_said_loudly() -> None:
    feed = generated("casual", random.Random(1), messages=5, seed=4)
    streams = Streams(ReadSettings(protocol="casual"))
    streams._slot(feed.packets[0].connection)
    streams._table.numbers["bytes_decoded"][0] += 1
    with pytest.raises(AccountsError, match=r"the bytes of 0-.* to_server do not add up"):
        streams.feed(chunks_of(feed.packets), "one.pcap")


def test_what_is_not_ended_stays_pending_in_the_accounts() -> None:
    frame = next(event.frame for event in generate("casual", messages=5, seed=1))
    feed = Feed()
    feed.add(connection(), 0, frame + frame[:-1])
    account = play(feed, ReadSettings(protocol="casual"), finish=False).accounts["c0", "to_server"]
    assert (account["bytes_pending"], account["messages"]) == (len(frame) - 1, 1)


def test_a_pending_connection_that_turns_out_foreign_takes_its_account_back() -> None:
    streams = Streams(ReadSettings())
    feed = Feed()
    peer = connection(server_port=22)
    feed.add(peer, 0, b"\x00\x00")
    feed.add(peer, 0, b"\xff" * 200)
    feed.add(peer, 1, b"\xff" * 200)
    pending, *_, decided = (streams.feed(chunks, "one.pcap") for chunks in feed.windows([1]))
    assert [row["bytes_pending"] for row in pending.accounts.to_pylist()] == [2, 0]
    assert [row["bytes_in"] for row in decided.accounts.to_pylist()] == [0, 0]
    assert streams.accounts().num_rows == 0
