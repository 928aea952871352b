"""What a broker tells about itself while it works: copies of all messages for auditors, and the records of its log."""

from __future__ import annotations

from typing import Any

from ...codec.content import read_json
from ...errors import DecodeError
from ...protocols.mb.conduct import AUDIT
from .wire import VERSION, Head, write_json

AUDIT_HEADER = f"publish:{AUDIT}:{VERSION}".encode()
LOG_HEADER = f"response:system.log:{VERSION}".encode()
_PLACE = b'"payload":null'


def received_copy(
    when: str,
    sender: str,
    head: Head,
    rid: bytes | None,
    parent: bytes | None,
    timeout: int | None,
    default_ms: int,
    payload: bytes,
) -> bytes:
    """The copy of a message that came."""
    header: dict[str, Any] = {"action": head.action, "topic": head.topic, "version": head.version}
    if rid is not None:
        header["requestId"] = rid.decode()
    if parent is not None:
        header["parentRequestId"] = parent.decode()
    if timeout is not None:
        header["timeout"] = timeout
    told = {"timestamp": when, "timeout": timeout if timeout is not None else default_ms, "from": sender}
    return _with_payload({**told, "message": {"header": header, "payload": None}}, payload)


def sent_copy(when: str, receiver: str, header: bytes, payload: bytes, masked: bytes | None) -> bytes:
    """The copy of a message that went out; ``masked`` is the id that its sender had used."""
    names = ("action", "topic", "version", "requestId")
    fields = dict(zip(names, header.decode().split(":"), strict=False))
    told: dict[str, Any] = {"timestamp": when, "to": receiver, "message": {"header": fields, "payload": None}}
    if masked is not None:
        told["maskedId"] = masked.decode()
    return _with_payload(told, payload)


def _with_payload(told: dict[str, Any], payload: bytes) -> bytes:
    """With the payload in its place: as it is if it is JSON, so that no number changes, else as text."""
    return write_json(told).replace(_PLACE, b'"payload":' + as_json(payload), 1)


def as_json(payload: bytes) -> bytes:
    text = payload.decode("utf-8", "replace")
    try:
        is_json = bool(text) and read_json(payload) is not None
    except DecodeError:
        return write_json(text)
    if not is_json:
        return b"null" if text else b'""'
    return text.replace("\n", " ").replace("\r", " ").strip().encode()
