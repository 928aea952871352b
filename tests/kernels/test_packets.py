"""The packet kernel's own parts."""

from __future__ import annotations

import numpy as np

from wirelake.kernels import layers, packets


def test_a_table_made_anew_finds_every_flow() -> None:
    """Segments of a thousand connections, both ways, before and after the table was made again."""
    frames = bytearray()
    for number in range(1000):
        ends = bytes([10, 0, number >> 8, number & 255]), bytes([10, 9, 9, 9])
        ports = (1000 + number).to_bytes(2, "big"), b"\x1e\x5b"
        for way in (1, -1):
            ip = b"\x45\0\0\x28" + bytes(4) + b"\x40\6\0\0" + b"".join(ends[::way])
            tcp = b"".join(ports[::way]) + bytes(8) + b"\x50\x10" + bytes(6)
            frames += bytes(8) + (40).to_bytes(4, "little") * 2 + ip + tcp
    data = np.frombuffer(bytes(frames) + bytes(16), np.uint8)
    keys = np.zeros(2000 * packets.KEY, np.uint64)
    counters = np.zeros(packets.COUNTERS, np.int64)
    places = np.zeros(layers.PLACES, np.int64)
    found = []
    for slots in (1 << 11, 1 << 13):
        segments = np.zeros(2000 * packets.SEGMENT, np.int64)
        table = np.full(slots, -1, np.int32)
        packets.fill_table(keys, counters[packets.FLOWS], table)
        counters[packets.SEGMENTS] = 0
        place, why = packets.walk_pcap(
            data, 0, len(frames), True, False, False, 101, 1000, keys, table, segments, places, counters
        )
        assert (place, why) == (len(frames), packets.SHORT)
        found.append(segments.reshape(-1, packets.SEGMENT)[:, packets.DIRECTION].tolist())
    assert found[0] == found[1] and counters[packets.FLOWS] == 1000
    assert [one // 2 for one in found[0]] == [number // 2 for number in range(2000)]
    assert all(a ^ b == 1 for a, b in zip(found[0][::2], found[0][1::2], strict=True))
