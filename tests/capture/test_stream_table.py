"""Slots of connections: used again, empty when they are."""

from __future__ import annotations

import numpy as np

from tests.capture.reloading import reloaded
from wirelake.capture.identify import Head, Identifier, Kind
from wirelake.capture.state import LooseChunk, StreamsState
from wirelake.capture.stream_table import NO_READER, StreamTable
from wirelake.codec.stream import torn


def test_a_slot_that_is_used_again_knows_nothing_of_its_last_connection() -> None:
    table = StreamTable()
    slots = [table.add(f"c{number}") for number in range(200)]
    assert slots == list(range(200))
    table.kind[7], table.reader[7], table.capture[7] = Kind.PLAIN, 1, 2
    table.pending[14], table.searches[15], table.identifiers[7] = b"rest", torn(), Identifier(True)
    table.numbers["bytes_in"][14] = 4
    assert table.bytes_pending(np.array([14, 15])).tolist() == [4, 0]
    table.remove(7)
    assert table.add("again") == 7
    assert (table.kind[7], table.reader[7], table.capture[7]) == (Kind.UNDECIDED, NO_READER, 0)
    assert (table.pending[14], table.searches, table.identifiers) == (b"", {}, {})
    assert (table.numbers["bytes_in"][14], table.numbers["proved"][14]) == (0, -1)


def test_a_state_goes_into_any_slot_of_another_table() -> None:
    table = StreamTable()
    table.add("other")
    slot = table.add("c1")
    table.numbers["bytes_in"][2 * slot + 1] = 3
    table.waiting[slot] = [LooseChunk(2 * slot + 1, b"abc", 3, 1, 2, 0)]
    table.searches[2 * slot] = torn()
    table.identifiers[slot] = Identifier(True, "mb")
    table.identifiers[slot].heads = (Head(True, bytearray(b"abc")), Head(True))
    state = reloaded(StreamsState(dict(table.states([])), {0: ""})).connections["c1"]
    again = StreamTable()
    assert again.restore("c1", state) == 0
    assert again.bytes_pending(np.array([0, 1])).tolist() == [0, 3]
    assert again.searches[0].error.rule == "frame_torn"
    assert again.identifiers[0] == table.identifiers[slot]
    again.identifiers[0].heads[0].head += b"d"
    assert state.identifier == table.identifiers[slot], "a state is not changed by what goes on from it"
