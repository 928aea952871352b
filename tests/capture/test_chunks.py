"""Connections have ids that show their server; chunks are columns of one length."""

from __future__ import annotations

import numpy as np

from wirelake.capture.chunks import SERVER_DIGITS, Chunks, connection_id, server_of


def test_ids_of_connections_with_one_server_begin_alike_and_go_on_differently() -> None:
    ids = [connection_id("10.0.0.2", f"10.0.0.{n}") for n in range(50)]
    assert len(set(ids)) == 50 and len({server_of(each) for each in ids}) == 1
    assert {len(each) for each in ids} == {SERVER_DIGITS + 16}
    assert server_of(connection_id("10.0.0.3", "10.0.0.1")) != server_of(ids[0])
    assert connection_id("10.0.0.2", "10.0.0.7") == ids[7], "an id is the same in every run"


def test_addresses_that_are_surely_of_one_machine_count_as_one_server() -> None:
    loopback = {server_of(connection_id(host, "x")) for host in ("127.0.0.1", "127.8.0.1", "::1", "localhost")}
    mapped = {server_of(connection_id(host, "x")) for host in ("10.0.0.2", "::ffff:10.0.0.2")}
    named = {server_of(connection_id(host, "x")) for host in ("Broker", "broker")}
    assert [len(found) for found in (loopback, mapped, named)] == [1, 1, 1]
    assert len(loopback | mapped | named) == 3


def test_the_columns_of_chunks_are_its_arrays_in_order() -> None:
    columns = np.arange(21).reshape(7, 3)
    chunks = Chunks(np.empty(0, np.uint8), [], *columns)
    assert len(chunks) == 3
    assert np.array_equal(chunks.columns(), columns)
    assert (chunks.connection[0], chunks.start[0], chunks.position[2]) == (0, 15, 20)
