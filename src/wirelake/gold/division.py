"""Divide what is undecided between another number of buckets.

A bucket has all that its connections need of each other, so each connection goes to its new bucket with everything that
is known of it. Connections and facts are numbered within a bucket: those that come together are numbered again, in
their old order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from . import arrays
from .arrays import Ints, integers
from .branch_events import BranchEventsCarry, part_of
from .broker_order import BrokerOrderCarry
from .exchanges import ExchangesCarry
from .matching import MatchingCarry
from .sessions import SessionsCarry
from .steps import GoldCarry
from .time_order import TimeOrderCarry
from .transactions import TransactionsCarry
from .violations import ViolationsCarry

Key = TypeVar("Key")
Value = TypeVar("Value")
Bucket = Callable[[str, str | None], int]
"""Returns the bucket of a connection that speaks this protocol."""
ServerBucket = Callable[[str], int]
"""Returns the bucket of a server, or of a connection, that speaks over a broker."""
Change = Callable[[Ints], Ints]


def divided(
    carries: Iterable[GoldCarry], buckets: int, bucket: Bucket, of_server: ServerBucket
) -> dict[int, GoldCarry]:
    """Return the carry of each new bucket, from that of all old ones, which are used up."""
    parts: dict[int, list[GoldCarry]] = defaultdict(list)
    for carry in carries:
        for number, part in _parts(carry, buckets, bucket, of_server):
            parts[number].append(part)
    return {number: _together(parts[number]) for number in sorted(parts)}


def divided_transactions(carries: Iterable[TransactionsCarry], parts: int) -> dict[int, TransactionsCarry]:
    """Return the same of transactions, which are divided by their ids."""
    made: dict[int, TransactionsCarry] = defaultdict(TransactionsCarry)
    for carry in carries:
        gtrids = pa.table({"gtrid": pa.array([one.gtrid for one in carry.known], pa.binary())})
        for one, part in zip(carry.known, part_of(gtrids, parts).tolist(), strict=True):
            made[part].known.append(one)
        for part, calls in _rows(carry.calls, part_of(carry.calls, parts)).items():
            made[part].calls = _concatenated([made[part].calls, calls])
    return dict(made)


def protocols_of(carry: GoldCarry) -> dict[str, str]:
    """Return which protocol each connection speaks, where that is known."""
    known = {name: one.protocol for name, one in carry.sessions.sessions.items()}
    known |= {name: watch.protocol for name, watch in carry.violations.watches.items()}
    tables = (carry.time_order.facts, carry.time_order.quarantined, carry.matching.early, carry.broker_order.rows)
    for table in (*tables, carry.exchanges.open, carry.exchanges.waiting, carry.violations.waiting):
        if table is not None and len(table):
            pairs = table.select(_PAIR.names).cast(_PAIR).group_by(_PAIR.names).aggregate([])
            found = zip(*(pairs[name].to_pylist() for name in _PAIR.names), strict=True)
            known |= {name: protocol for name, protocol in found if protocol is not None}
    return {name: protocol for name, protocol in known.items() if protocol is not None}


_PAIR = pa.schema([("connection", pa.string()), ("protocol", pa.string())])


# --- one old bucket, taken apart


def _parts(carry: GoldCarry, buckets: int, bucket: Bucket, of_server: ServerBucket) -> Iterator[tuple[int, GoldCarry]]:
    """Return what goes to each new bucket."""
    protocols = protocols_of(carry)
    order, matching, broker = carry.time_order, carry.matching, carry.broker_order
    exchanges, violations, sessions = carry.exchanges, carry.violations, carry.sessions

    def place(connection: str) -> int:
        return bucket(connection, protocols.get(connection))

    def named(table: pa.Table) -> dict[int, pa.Table]:
        return _rows(table, arrays.by_text(table["connection"], place) if len(table) else np.zeros(0, np.int64))

    followed = np.array([one.number for one in matching.connections.values()], np.int64)
    owners = np.array([*map(place, matching.connections), -1], np.int64)

    def numbered(table: pa.Table) -> dict[int, pa.Table]:
        """Of a connection that nobody follows any more, nothing is needed."""
        return _rows(table, owners[arrays.places(followed, integers(table["connection"]))])

    facts, early, rows, asked = map(named, (order.facts, matching.early, broker.rows, carry.branch_events.asked))
    requests, waiting = named(exchanges.open), named(exchanges.waiting)
    quarantined, undecided = (
        {} if table is None else named(table) for table in (order.quarantined, violations.waiting)
    )
    remembered, pieces = numbered(matching.remembered), numbered(matching.pieces)
    audits = _rows(exchanges.audits, arrays.by_text(exchanges.audits["server"], of_server))
    decided = _entries(order.decided, lambda stream: place(stream[0]))
    connections = _entries(matching.connections, place)
    ended, heard = _entries(broker.ended, place), _entries(broker.heard, place)
    limits = _entries(broker.limits, of_server)
    watches, unheard = _entries(violations.watches, place), _entries(violations.unheard, place)
    # Of a session that has its row, the protocol is forgotten.
    known, done, over_broker = (
        _entries(sessions.sessions, place),
        _entries(sessions.done, place),
        _entries(sessions.done, of_server),
    )
    for number in range(buckets):
        part = GoldCarry(
            TimeOrderCarry(facts[number], quarantined.get(number), decided[number]),
            MatchingCarry(connections[number], remembered[number], early[number], pieces[number]),
            BrokerOrderCarry(rows[number], ended[number], heard[number], limits[number]),
            ExchangesCarry(requests[number], waiting[number], audits[number]),
            ViolationsCarry(watches[number], unheard[number], undecided.get(number)),
            SessionsCarry(known[number], done[number] | over_broker[number]),
            BranchEventsCarry(asked[number]),
        )
        if _size(part):
            part.broker_order.now = broker.now
            yield number, part


def _rows(table: pa.Table, place: Ints) -> dict[int, pa.Table]:
    """Return the rows of each place, and none of any other."""
    found: dict[int, pa.Table] = defaultdict(lambda: arrays.empty(table.schema))
    return found | {number: arrays.where(table, place == number) for number in np.unique(place).tolist()}


def _entries(entries: dict[Key, Value], place: Callable[[Key], int]) -> dict[int, dict[Key, Value]]:
    found: dict[int, dict[Key, Value]] = defaultdict(dict)
    for key, value in entries.items():
        found[place(key)][key] = value
    return found


def _size(value: Any) -> int:
    """Return how many rows and entries a carry has."""
    if is_dataclass(value):
        return sum(_size(getattr(value, field.name)) for field in fields(value))
    return len(value) if isinstance(value, (pa.Table, dict)) else 0


# --- parts of old buckets, put together


def _together(parts: Sequence[GoldCarry]) -> GoldCarry:
    """Return one carry for connections that had their numbers in different buckets."""
    connections = facts = 0
    for part in parts:
        connections = _number_connections(part.matching, connections)
        facts = _number_facts(part, facts)
    return GoldCarry(
        TimeOrderCarry(
            _concatenated([part.time_order.facts for part in parts]),
            _concatenated_known(part.time_order.quarantined for part in parts),
            _merged(part.time_order.decided for part in parts),
        ),
        MatchingCarry(
            _merged(part.matching.connections for part in parts),
            _concatenated([part.matching.remembered for part in parts]),
            _concatenated([part.matching.early for part in parts]),
            _concatenated([part.matching.pieces for part in parts]),
            connections,
            facts,
        ),
        BrokerOrderCarry(
            _concatenated([part.broker_order.rows for part in parts]),
            _merged(part.broker_order.ended for part in parts),
            _merged(part.broker_order.heard for part in parts),
            _merged(part.broker_order.limits for part in parts),
            max(part.broker_order.now for part in parts),
        ),
        ExchangesCarry(
            _concatenated([part.exchanges.open for part in parts]),
            _concatenated([part.exchanges.waiting for part in parts]),
            _concatenated([part.exchanges.audits for part in parts]),
        ),
        ViolationsCarry(
            _merged(part.violations.watches for part in parts),
            _merged(part.violations.unheard for part in parts),
            _concatenated_known(part.violations.waiting for part in parts),
        ),
        SessionsCarry(_merged(part.sessions.sessions for part in parts), _merged(part.sessions.done for part in parts)),
        BranchEventsCarry(_concatenated([part.branch_events.asked for part in parts])),
    )


def _merged(mappings: Iterable[dict[Key, Value]]) -> dict[Key, Value]:
    return {key: value for mapping in mappings for key, value in mapping.items()}


def _concatenated(tables: Sequence[pa.Table]) -> pa.Table:
    """Tables may lack columns that have no value."""
    return pa.concat_tables(tables, promote_options="default").unify_dictionaries().combine_chunks()


def _concatenated_known(tables: Iterable[pa.Table | None]) -> pa.Table | None:
    known = [table for table in tables if table is not None]
    return _concatenated(known) if known else None


def _number_connections(matching: MatchingCarry, first: int) -> int:
    """Number connections from here on; return the number behind the last."""
    old = np.array(sorted(one.number for one in matching.connections.values()), np.int64)

    def changed(numbers: Ints) -> Ints:
        return first + np.searchsorted(old, numbers)

    for one in matching.connections.values():
        one.number = int(changed(np.array(one.number)))
    matching.remembered = _changed(matching.remembered, changed, "connection")
    matching.pieces = _changed(matching.pieces, changed, "connection")
    return first + len(old)


def _number_facts(carry: GoldCarry, first: int) -> int:
    """Number the facts that something remembers; return the number behind the last."""
    found: list[Ints] = [np.zeros(0, np.int64)]

    def noted(numbers: Ints) -> Ints:
        found.append(numbers)
        return numbers

    _each_number(carry, noted)
    old = np.unique(np.concatenate(found))
    old = old[old >= 0]
    _each_number(carry, lambda numbers: np.where(numbers < 0, numbers, first + np.searchsorted(old, numbers)))
    return first + len(old)


def _each_number(carry: GoldCarry, change: Change) -> None:
    """Put in the place of each number of a fact what ``change`` makes of it."""
    matching, exchanges, violations = carry.matching, carry.exchanges, carry.violations
    matching.remembered = _changed(matching.remembered, change, "number")
    matching.early = _changed(matching.early, change, "number", "request")
    carry.broker_order.rows = _changed(carry.broker_order.rows, change, "number", "request")
    exchanges.open, exchanges.waiting = (
        _changed(table, change, "number") for table in (exchanges.open, exchanges.waiting)
    )
    if violations.waiting is not None:
        violations.waiting = _changed(violations.waiting, change, "number")
    carry.branch_events.asked = _changed(carry.branch_events.asked, change, "number")
    for watch in violations.watches.values():
        kept = watch.state.kept
        numbers = change(np.array([message.number for message in kept], np.int64)).tolist()
        watch.state.kept = [message._replace(number=number) for message, number in zip(kept, numbers, strict=True)]


def _changed(table: pa.Table, change: Change, *names: str) -> pa.Table:
    if not len(table):
        return table
    kinds = {name: table.schema.field(name).type for name in names}
    return arrays.replaced(table, {name: pa.array(change(integers(table[name])), kinds[name]) for name in names})
