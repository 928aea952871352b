"""The tables of a domain's store, and how its things are written in them.

Texts of the wire are kept as bytes: they may hold a NUL, and bytes that are not UTF-8. Messages that are ready have an
index in the order of dequeues; those that are available later have one of their own, so that nobody has to step over
them.
"""

from __future__ import annotations

import json
import struct
from hashlib import blake2b
from typing import Any

from ....protocols.casual import Xid
from ...storage.database import Row, Schema
from ..store import BranchRecord, BranchState, PeerBranch, StoredMessage

READY, DELAYED, ADDED, TAKEN = range(4)
"""States of a message; added and taken ones belong to a branch."""
STATES: tuple[BranchState, ...] = ("preparing", "prepared", "committed", "rolled_back")
PREPARING, PREPARED, COMMITTED, ROLLED_BACK = range(4)

SCHEMA = Schema(
    "casual domains",
    "wirelake_casual",
    0x77_6C_63_64,
    2,
    (
        """CREATE TABLE queues (
            number {serial}, name {blob} NOT NULL UNIQUE, retries BIGINT NOT NULL, retry_delay BIGINT NOT NULL,
            capacity BIGINT NOT NULL, error BIGINT)""",
        """CREATE TABLE messages (
            seq {serial}, queue BIGINT NOT NULL, id {blob} NOT NULL UNIQUE, state SMALLINT NOT NULL DEFAULT 0,
            branch {blob}, owner BIGINT, timestamp BIGINT NOT NULL, available BIGINT NOT NULL DEFAULT 0,
            redelivered BIGINT NOT NULL DEFAULT 0, selector BIGINT NOT NULL DEFAULT 0,
            properties {blob} NOT NULL DEFAULT {empty}, reply {blob} NOT NULL DEFAULT {empty},
            type {blob} NOT NULL, payload {blob} NOT NULL)""",
        "CREATE INDEX messages_ready ON messages (queue, timestamp, available, seq) WHERE state = 0",
        """CREATE INDEX messages_selected ON messages (queue, selector, timestamp, available, seq)
            WHERE state = 0 AND selector <> 0""",
        "CREATE INDEX messages_delayed ON messages (queue, available) WHERE state = 1",
        "CREATE INDEX messages_branch ON messages (branch) WHERE branch IS NOT NULL",
        """CREATE TABLE branches (
            xid {blob} PRIMARY KEY, state SMALLINT NOT NULL, peers {blob} NOT NULL, until BIGINT NOT NULL,
            since BIGINT NOT NULL, by_hand SMALLINT NOT NULL, is_open SMALLINT NOT NULL, owner BIGINT NOT NULL)""",
        "CREATE INDEX branches_open ON branches (since) WHERE is_open = 1",
        "CREATE INDEX branches_finished ON branches (until) WHERE is_open = 0",
    ),
)

STORED = "id, properties, reply, available, type, payload, redelivered, timestamp"
RECORD = "xid, state, peers, until, since, by_hand"

_KEY = struct.Struct(">qB")


def pack_text(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def unpack_text(data: Any) -> str:
    return bytes(data).decode("utf-8", "surrogateescape")


def pack_xid(xid: Xid) -> bytes:
    return _KEY.pack(xid.format, len(xid.gtrid)) + xid.gtrid + xid.bqual


def unpack_xid(data: Any) -> Xid:
    format_, size = _KEY.unpack_from(data)
    rest = bytes(data)[_KEY.size :]
    return Xid(format_, rest[:size], rest[size:])


def selector_of(properties: bytes) -> int:
    """Return a number that stands for the properties in the index; 0 for none."""
    if not properties:
        return 0
    return int.from_bytes(blake2b(properties, digest_size=8).digest(), "big", signed=True) or 1


def pack_peers(peers: tuple[PeerBranch, ...]) -> bytes:
    if not peers:
        return b"[]"
    return json.dumps(
        [[one.peer, one.xid.format, one.xid.gtrid.hex(), one.xid.bqual.hex(), one.resource] for one in peers]
    ).encode()


def unpack_peers(data: Any) -> tuple[PeerBranch, ...]:
    if data == b"[]":
        return ()
    return tuple(
        PeerBranch(peer, Xid(format_, bytes.fromhex(gtrid), bytes.fromhex(bqual)), resource)
        for peer, format_, gtrid, bqual, resource in json.loads(bytes(data))
    )


def read_message(row: Row) -> StoredMessage:
    """Return the message of a row of ``STORED``."""
    id_, properties, reply, available, type_, payload, redelivered, timestamp = row
    return StoredMessage(
        bytes(id_),
        unpack_text(properties),
        unpack_text(reply),
        available,
        unpack_text(type_),
        bytes(payload),
        redelivered,
        timestamp,
    )


def read_record(row: Row) -> BranchRecord:
    """Return the record of a row of ``RECORD``."""
    xid, state, peers, until, since, by_hand = row
    return BranchRecord(unpack_xid(xid), STATES[state], unpack_peers(peers), until, since, bool(by_hand))
