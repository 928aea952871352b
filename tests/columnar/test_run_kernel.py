"""Room for elements: it grows, and what cannot have enough is left to the record codec."""

from __future__ import annotations

import wirelake
from wirelake.columnar import decode, decode_frames
from wirelake.protocols.casual import Domain, DomainDiscoverRequest

ID = bytes(16)


def _request(names: int) -> bytes:
    return wirelake.encode(DomainDiscoverRequest(ID, ID, Domain(ID, "d"), ("n",) * names, ()))


def test_a_message_with_more_elements_than_there_can_be_room_for_is_still_decoded() -> None:
    counts = [1, 20_000, 2]
    batch = decode_frames("casual", [_request(count) for count in counts], ["service_names"])
    assert [len(names) for names in batch.records.column("service_names").to_pylist()] == counts
    assert list(batch.slow) == [1]
    assert not batch.quarantined.num_rows


def test_in_a_stream_such_a_message_keeps_its_place() -> None:
    counts = [3, 60_000, 1, 2]
    batch = decode("casual", b"".join(_request(count) for count in counts), ["offset", "service_names"])
    assert [len(names) for names in batch.records.column("service_names").to_pylist()] == counts
    offsets = batch.records.column("offset").to_pylist()
    assert offsets == [sum(len(_request(count)) for count in counts[:i]) for i in range(4)]
