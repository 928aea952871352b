"""Compress captures as tools do: whole, or in several members with padding between them."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable
from itertools import pairwise

try:
    from compression import zstd
except ImportError:
    from backports import zstd

SKIPPABLE = b"\x5a\x2a\x4d\x18" + (12).to_bytes(4, "little") + b"not for zstd"
_AS_THE_TOOL = {zstd.CompressionParameter.compression_level: 1, zstd.CompressionParameter.checksum_flag: 1}

PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": lambda content: gzip.compress(content, 1, mtime=0),
    ".zst": lambda content: bytes(zstd.compress(content, options=_AS_THE_TOOL)),
    ".xz": lambda content: lzma.compress(content, preset=0),
}
"""By the suffix of the file."""

PADDING = {".gz": bytes(512), ".zst": SKIPPABLE, ".xz": bytes(8)}
"""What may lie between two members."""


def in_members(suffix: str, content: bytes, *cuts: int) -> bytes:
    """Compress the parts of the content between these places each as a member, with padding between them."""
    places = [0, *cuts, len(content)]
    parts = [content[begin:end] for begin, end in pairwise(places)]
    return PADDING[suffix].join(PACK[suffix](part) for part in parts) + PADDING[suffix]
