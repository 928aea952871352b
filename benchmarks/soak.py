"""``python -m benchmarks.soak``: memory is bounded by the batch, not by the stream.

Streams that are never in memory whole go through the decoders, a short one and a long one, each in a process of its
own. The long one may need at most a tenth more memory.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .memory import peak
from .traffic import OPTIONS, PROTOCOLS, make_frames

MIB = 1 << 20
CHUNK_BYTES = 1_000_003
"""Frames lie across the ends of chunks: no multiple of a frame's length, nor of a page."""
BASE_MESSAGES = 20_000
TOLERANCE = 1.10


@dataclass(frozen=True)
class Decoder:
    """A decoder of streams, and the sizes of the streams that are compared."""

    name: str
    short: int
    long: int


DECODERS = (Decoder("columnar", 128 * MIB, 2048 * MIB), Decoder("record", 32 * MIB, 256 * MIB))


@dataclass(frozen=True)
class Outcome:
    """One stream through one decoder."""

    stream_bytes: int
    messages: int
    peak_bytes: int
    seconds: float


def chunks(base: bytes, repeats: int) -> Iterator[bytes]:
    """A stream that repeats itself."""
    for _ in range(repeats):
        for start in range(0, len(base), CHUNK_BYTES):
            yield base[start : start + CHUNK_BYTES]


def run(decoder: str, protocol: str, stream_bytes: int, batch_bytes: int | None = None) -> Outcome:
    """Decodes a stream of at least that many bytes in this process."""
    frames = make_frames(protocol, BASE_MESSAGES)
    base = b"".join(frames)
    repeats = -(-stream_bytes // len(base))
    start = time.perf_counter()
    messages = _COUNT[decoder](protocol, chunks(base, repeats), batch_bytes)
    if messages != repeats * len(frames):
        raise AssertionError(f"{messages} messages of {repeats * len(frames)}")
    return Outcome(repeats * len(base), messages, peak(), time.perf_counter() - start)


def _count_columnar(protocol: str, stream: Iterator[bytes], batch_bytes: int | None) -> int:
    from wirelake import columnar

    size: dict[str, Any] = {} if batch_bytes is None else {"batch_bytes": batch_bytes}
    messages = 0
    for batch in columnar.decode_stream(protocol, stream, **size, **OPTIONS[protocol]):
        if batch.quarantined.num_rows:
            raise AssertionError(f"rejects: {batch.quarantined.to_pylist()[:3]}")
        messages += batch.records.num_rows
    return messages


def _count_records(protocol: str, stream: Iterator[bytes], batch_bytes: int | None) -> int:
    from wirelake import StreamDecoder

    decoder = StreamDecoder(protocol, **OPTIONS[protocol])
    messages = 0
    for chunk in stream:
        messages += len(decoder.feed(chunk))
    return messages + len(decoder.finish())


_COUNT: dict[str, Callable[[str, Iterator[bytes], int | None], int]] = {
    "columnar": _count_columnar,
    "record": _count_records,
}


def run_apart(decoder: str, protocol: str, stream_bytes: int, batch_bytes: int | None = None) -> Outcome:
    """``run`` in a process of its own."""
    asked = json.dumps([decoder, protocol, stream_bytes, batch_bytes])
    command = [sys.executable, "-m", f"{__package__}.soak", "--run", asked]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return Outcome(*json.loads(done.stdout))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description="Shows that memory is bounded.")
    parser.add_argument("--protocol", action="append", choices=PROTOCOLS, help="only this one; may be repeated")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.run:
        outcome = run(*json.loads(given.run))
        print(json.dumps([outcome.stream_bytes, outcome.messages, outcome.peak_bytes, outcome.seconds]))
        return 0
    print(f"{'':18}{'stream MiB':>12}{'messages':>13}{'peak MiB':>10}{'MB/s':>8}")
    missed = 0
    for decoder in DECODERS:
        for protocol in given.protocol or PROTOCOLS:
            missed += not _compare(decoder, protocol)
    return 1 if missed else 0


def _compare(decoder: Decoder, protocol: str) -> bool:
    short = run_apart(decoder.name, protocol, decoder.short)
    long = run_apart(decoder.name, protocol, decoder.long)
    for outcome in (short, long):
        rate = outcome.stream_bytes / outcome.seconds / 1e6
        print(
            f"{decoder.name:10}{protocol:8}{outcome.stream_bytes / MIB:12.0f}{outcome.messages:13,}"
            f"{outcome.peak_bytes / MIB:10.0f}{rate:8.0f}"
        )
    ratio = long.peak_bytes / short.peak_bytes
    is_bounded = ratio <= TOLERANCE
    mark = "ok" if is_bounded else "MISSED"
    print(f"{'':18}{ratio:.3f} x the memory, at most {TOLERANCE:g} x   {mark}", flush=True)
    return is_bounded


if __name__ == "__main__":
    sys.exit(main())
