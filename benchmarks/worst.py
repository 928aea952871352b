"""``python -m benchmarks.worst``: what broken and hostile streams cost, against benign traffic of the same size.

Every stream has 100 KB. Benign ones are generated traffic. *Mutated* ones are the same with up to a hundred faults,
some of them stretches that look like frames over and over; a few are nothing but such a stretch. *Crafted* ones are
made to cost as much as possible: clean and broken frames in turn, each of which ends a search and begins another. Both
decoders of streams take each, and time is that of the processor, so that a busy machine matters less. Per byte, the
worst of the mutated should cost at most ten times as much as benign traffic, the worst of the crafted at most forty
times; ``--check`` fails where they cost more.
"""

from __future__ import annotations

import argparse
import random
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from wirelake import StreamDecoder, columnar, encode
from wirelake.codec.faults import faults_for
from wirelake.codec.stream import readings
from wirelake.generate import generate
from wirelake.protocols import dsa

STREAM_BYTES = 100_000
STREAMS = 1_000
MOST = {"mutated": 10.0, "crafted": 40.0}
CHUNK_BYTES = 1 << 16
MOST_FAULTS = 100
PROTOCOLS = ("casual", "dsa", "mb", "ceda")
OPTIONS: dict[str, dict[str, Any]] = {"mb": {"framing": "tcp"}}
HEADERS = {
    "casual": ("0000000000000c1c", "00000000000000000000000000000010", "0000000000000c1c" + "00" * 24),
    "dsa": ("10000000100001", "0010000010000100000000", "00ff00000f00010100000000000000", "0b0000000b0003"),
    "mb": ("000010007075626c6973683a", "000000207075626c6973683a", "7075626c6973683a613a312e302e300a"),
    "ceda": ("827e", "827e827e61", "827eff7f6100", "827e01026100", "8281", "82fe6161", "827e14141414", "827e7e7e6100"),
}
"""Beginnings of headers that a search must look at wherever they stand."""
LENGTHS = {"casual": (24, ">Q"), "dsa": (0, "<I"), "mb": (0, ">I"), "ceda": (2, "<H")}
"""Where a header says how long its frame is, and how."""
MOST_CLAIMED = {"casual": 50_000, "dsa": 50_000, "mb": 6_000, "ceda": 50_000}


@dataclass(frozen=True)
class Figures:
    """Nanoseconds per byte of one decoder."""

    protocol: str
    decoder: str
    family: str
    """``mutated`` or ``crafted``."""
    benign: float
    worst: float
    stream: str
    """Which stream was the worst."""

    @property
    def ratio(self) -> float:
        return self.worst / self.benign


def decode_records(protocol: str, data: bytes) -> None:
    decoder = StreamDecoder(protocol, **OPTIONS.get(protocol, {}))
    for start in range(0, len(data), CHUNK_BYTES):
        decoder.feed(data[start : start + CHUNK_BYTES])
    decoder.finish()


def decode_columns(protocol: str, data: bytes) -> None:
    columnar.decode(protocol, data, **OPTIONS.get(protocol, {}))


DECODERS: dict[str, Callable[[str, bytes], None]] = {"record": decode_records, "columnar": decode_columns}


def benign_stream(protocol: str, size: int, seed: int) -> bytes:
    """Generated traffic, both directions one after the other."""
    data = bytearray()
    for event in generate(protocol, messages=size, seed=seed):
        data += event.frame
        if len(data) >= size:
            break
    return bytes(data[:size])


def mutated_streams(protocol: str, size: int, count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Yield ``count`` broken streams, each with a name."""
    rng = random.Random(f"{protocol} {seed}")
    benign = [benign_stream(protocol, size, seed + i) for i in range(4)]
    runs = list(_runs(protocol, size))[:count]
    yield from runs
    for number in range(len(runs), count):
        data, faults = bytearray(rng.choice(benign)), rng.randint(1, MOST_FAULTS)
        for _ in range(faults):
            _damage(data, protocol, rng)
        yield f"mutated {number}, {faults} faults", bytes(data[:size])


def _runs(protocol: str, size: int) -> Iterator[tuple[str, bytes]]:
    for header in HEADERS[protocol]:
        yield f"runs of {header}", _repeated(bytes.fromhex(header), size)
    yield "zeros", bytes(size)
    yield "noise", random.Random(1).randbytes(size)
    if protocol == "dsa":
        yield "maps with colliding keys", _repeated(colliding_map(size // 2), size)


def crafted_streams(protocol: str, size: int, _count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Yield streams that are made to be expensive."""
    benign = benign_stream(protocol, size, seed)
    for length in (2, 3, 4, 6, 8, 12, 16, 24, 32, 40, 64, 100, 200):
        yield f"runs of the first {length} bytes", _repeated(benign[:length], size)
    clean, short, long = _frames(protocol, benign)
    for header in HEADERS[protocol]:
        yield f"a clean frame and {header}", _repeated(clean + bytes.fromhex(header), size)
    for cut in (1, len(long) // 2):
        yield f"a clean frame and a long one without {cut} bytes", _repeated(clean + long[:-cut], size)
    yield "a clean frame and a long broken one", _repeated(clean + long[:-1] + b"\xc1", size)
    yield "a clean frame and long claims that differ", _claims(protocol, clean, long, size)
    yield "a short frame and half of it", _repeated(short + short[: len(short) // 2], size)


FAMILIES = {"mutated": mutated_streams, "crafted": crafted_streams}


def _claims(protocol: str, clean: bytes, long: bytes, size: int) -> bytes:
    """A clean frame and the beginning of one that says it is very long, in turn; each says another length."""
    data = bytearray()
    while len(data) < size:
        at, form = LENGTHS[protocol]
        claim = bytearray(long[:40])
        if protocol == "ceda":
            claim[1:2] = b"\x7e\0\0"
        struct.pack_into(form, claim, at, 10_000 + 37 * len(data) % 50_000 % MOST_CLAIMED[protocol])
        data += clean + claim
    return bytes(data[:size])


def _frames(protocol: str, benign: bytes) -> tuple[bytes, bytes, bytes]:
    """Return the first frame, and the shortest and the longest of the next ones."""
    events = StreamDecoder(protocol, **OPTIONS.get(protocol, {})).feed(benign)
    first, *others = [benign[event.offset : event.offset + event.length] for event in events[:100]]
    return first, min(others, key=len), max(others, key=len)


def _repeated(piece: bytes, size: int) -> bytes:
    return (piece * (size // len(piece) + 1))[:size]


def _damage(data: bytearray, protocol: str, rng: random.Random) -> None:
    at, kind = rng.randrange(len(data)), rng.random()
    if kind < 0.5:
        data[at] ^= 1 << rng.randrange(8)
    elif kind < 0.7:
        del data[at : at + rng.randrange(1, 9)]
    elif kind < 0.9:
        data[at:at] = rng.randbytes(rng.randrange(1, 9))
    else:
        data[at:at] = _repeated(bytes.fromhex(rng.choice(HEADERS[protocol])), rng.randrange(1, 200))


# --- keys that collide

_PRIME_1, _PRIME_2, _PRIME_5 = 11400714785074694791, 14029467366897019727, 2870177450012600261
_WORD = 1 << 64


def colliding_map(size: int) -> bytes:
    """A DSA message whose value is a map of time stamps that Python would hash alike, were they pairs of numbers."""
    count = size // 16
    items = b"".join(
        b"\xc7\x0c\xff" + struct.pack(">Iq", nanoseconds, seconds) + b"\xc0"
        for nanoseconds, seconds in _colliding_pairs(count)
    )
    value = b"\xdf" + struct.pack(">I", count) + items
    empty = encode(dsa.SubscribeResponse(request_id=1, ack_id=0, headers=dsa.Headers(status=0), body=b"\0\0"))
    return struct.pack("<I", len(empty) + len(value)) + empty[4:] + value


def _colliding_pairs(count: int) -> Iterator[tuple[int, int]]:
    """Pairs ``(nanoseconds, seconds)`` whose tuple ``(seconds, nanoseconds)`` has one hash."""
    inverse_1, inverse_2 = pow(_PRIME_1, -1, _WORD), pow(_PRIME_2, -1, _WORD)
    target = 0x1234_5678_9ABC_DEF0
    nanoseconds = 0
    while count:
        nanoseconds += 1
        between = (_rotated(target * inverse_1 % _WORD, 33) - nanoseconds * _PRIME_2) % _WORD
        seconds = (_rotated(between * inverse_1 % _WORD, 33) - _PRIME_5) * inverse_2 % _WORD
        if seconds < (1 << 61) - 1:
            yield nanoseconds, seconds
            count -= 1


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 64 - bits) % _WORD


# --- figures


def cost(decode: Callable[[str, bytes], None], protocol: str, data: bytes, rounds: int) -> float:
    """Return nanoseconds of processor time per byte, the best of ``rounds``; each round starts without known faults."""
    best = float("inf")
    for _ in range(rounds):
        _forget(protocol)
        start = time.process_time_ns()
        decode(protocol, data)
        best = min(best, time.process_time_ns() - start)
    return best / len(data)


def _forget(protocol: str) -> None:
    reading = readings(protocol, OPTIONS.get(protocol, {}))
    for layout in (*reading.choices, reading.fallback):
        faults_for(layout).known.clear()


def compare(
    protocol: str, decoder: str, size: int, count: int, seed: int, family: str = "mutated", rounds: int = 2
) -> Figures:
    """Return the cost of benign traffic and of the worst of a family."""
    decode = DECODERS[decoder]
    benign = max(cost(decode, protocol, benign_stream(protocol, size, seed + i), 5) for i in range(4))
    worst, name = 0.0, ""
    for stream, data in FAMILIES[family](protocol, size, count, seed):
        found = cost(decode, protocol, data, 1)
        if found > worst:
            # It counts only if it was not chance.
            found = cost(decode, protocol, data, rounds)
        if found > worst:
            worst, name = found, stream
    return Figures(protocol, decoder, family, benign, worst, name)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.worst", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--protocol", action="append", choices=PROTOCOLS, help="only this one; may be repeated")
    parser.add_argument("--streams", type=int, default=STREAMS, help="mutated streams of each protocol (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="other streams (%(default)s)")
    limits = " or ".join(f"{most:g} x ({family})" for family, most in MOST.items())
    parser.add_argument("--check", action="store_true", help=f"fail if the worst is above {limits}")
    given = parser.parse_args(arguments)
    missed = False
    print(f"{'ns/byte':28}{'benign':>10}{'worst':>10}{'ratio':>9}   worst stream")
    for protocol, decoder, family in product(given.protocol or PROTOCOLS, DECODERS, FAMILIES):
        found = compare(protocol, decoder, STREAM_BYTES, given.streams, given.seed, family)
        missed |= found.ratio > MOST[family]
        print(
            f"{protocol + ' ' + decoder + ' ' + family:28}{found.benign:10.1f}{found.worst:10.1f}{found.ratio:7.1f} x"
            f"   {found.stream}",
            flush=True,
        )
    return 1 if missed and given.check else 0


if __name__ == "__main__":
    sys.exit(main())
