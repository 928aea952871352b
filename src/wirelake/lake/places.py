"""What a user writes for a place: a local path, ``file:/x``, ``s3://bucket/lake``, or another URI for pyarrow."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs")
_ALIASES = {"s3a": "s3", "s3n": "s3"}
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?=/)")


def plain_place(text: str) -> str:
    """Return a place as pyarrow knows it: ``file:`` as a path, ``s3a:`` as ``s3:``.

    Raise ValueError that says what is possible for a scheme that nobody here reads, or for nothing behind one.
    """
    match = _URI.match(text)
    if match is None:
        return text
    scheme = match[1].lower()
    if scheme == "file":
        return unquote(urlsplit(text).path)
    scheme = _ALIASES.get(scheme, scheme)
    if scheme not in SCHEMES:
        raise ValueError(f"{match[1]}: is not a kind of place: use a path, file:/path, {'://, '.join(SCHEMES[:3])}://…")
    if not text[match.end() :].strip("/"):
        raise ValueError("it names no bucket, host or directory")
    return f"{scheme}:{text[match.end() :]}"
