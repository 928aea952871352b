"""What a newcomer should look at in a lake, in three sentences."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from ..lake import Lake
from ..report.lifelines import CLIENT_NAMES

FREQUENT = 20
"""Requests from which on a 95th percentile says more than the slowest one."""
VERBS = {"commit": "commit", "rollback": "roll back"}

Row = dict[str, Any]


def sentences(lake: Lake) -> tuple[str, str, str]:
    """Return a sentence on latency, on transactions and on violations."""
    names = _names(_rows(lake, "gold/sessions", "connection", "client", "facts"))
    return (
        latency(_rows(lake, "gold/exchanges", "protocol", "address", "latency_us", "outcome")),
        transactions(_rows(lake, "gold/transactions", "gtrid", "outcome", "branches")),
        violations(
            _rows(lake, "gold/violations", "connection", "direction", "protocol", "rule", "message", "state", "ts"),
            _rows(lake, "silver/quarantine", "connection", "direction", "protocol", "rule", "length", "ts"),
            names,
        ),
    )


def _rows(lake: Lake, table: str, *columns: str) -> list[Row]:
    return list(lake.dataset(table).to_table(columns=list(columns)).to_pylist()) if lake.files(table) else []


def _names(sessions: Iterable[Row]) -> dict[str, str]:
    """Return the name of the client of each connection."""
    named = {}
    for row in sessions:
        facts = dict(row["facts"] or ())
        named[row["connection"]] = next((facts[key] for key in CLIENT_NAMES if facts.get(key)), row["client"])
    return named


def latency(exchanges: Iterable[Row]) -> str:
    times: dict[tuple[str, str], list[int]] = defaultdict(list)
    late: Counter[tuple[str, str]] = Counter()
    failed: Counter[tuple[str, str]] = Counter()
    for row in exchanges:
        place = (row["address"] or "", row["protocol"])
        if not place[0]:
            continue
        late[place] += row["outcome"] == "timeout"
        failed[place] += row["outcome"] == "error"
        if row["latency_us"] is not None:
            times[place].append(row["latency_us"])
    often = {place: sorted(latencies) for place, latencies in times.items() if len(latencies) >= FREQUENT}
    if not often:
        return "Latency: no service was called often enough to say which is slow."
    slowest = max(often, key=lambda place: (rank(often[place], 0.95), place))
    text = f"Latency: {_place(slowest)} is the slowest frequently called service:"
    text += f" {_time(rank(often[slowest], 0.95))} at its 95th percentile"
    text += f" and {_time(rank(often[slowest], 0.5))} in the median"
    worst = max(failed, key=lambda place: (failed[place], place))
    if failed[worst]:
        text += f"; {_place(worst)} failed most often, {_times(failed[worst])}"
    worst = max(late, key=lambda place: (late[place], place))
    if late[worst]:
        text += f", and {_place(worst)} timed out {_times(late[worst])}"
    return f"{text}."


def rank(ordered: list[int], share: float) -> int:
    """Return the value at the nearest rank, as the tables do."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _place(place: tuple[str, str]) -> str:
    address, protocol = place
    return f"{address} ({protocol})"


def _time(us: int) -> str:
    return f"{us / 1e6:.1f} s" if us >= 1_000_000 else f"{us / 1e3:.0f} ms" if us >= 10_000 else f"{us / 1e3:.1f} ms"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def transactions(rows: Iterable[Row]) -> str:
    counted: Counter[str] = Counter()
    first: Row | None = None
    for row in rows:
        counted[row["outcome"]] += 1
        if row["outcome"] == "in_doubt" and (first is None or _doubt(row) < _doubt(first)):
            first = row
    back = _share(counted["rolled_back"], counted.total())
    if first is None:
        return (
            f"Transactions: none is in doubt, and {back} rolled back." if counted else "Transactions: there are none."
        )
    more = f" and {counted['in_doubt'] - 1} more" if counted["in_doubt"] > 1 else ""
    verb = "are" if more else "is"
    return f"Transactions: {first['gtrid']}{more} {verb} in doubt ({_why(first)}), and {back} rolled back."


def _share(part: int, whole: int) -> str:
    return f"{part or 'none'} of {whole} {'were' if part > 1 else 'was'}"


def _doubt(row: Row) -> tuple[int, str]:
    """Order the clearest case first: most branches that are prepared and wait."""
    return -_waiting(row), row["gtrid"]


def _waiting(row: Row) -> int:
    return sum(branch["vote"] == 0 and branch["decision"] is None for branch in row["branches"])


def _why(row: Row) -> str:
    """Return why its end is unknown."""
    waiting, branches = _waiting(row), len(row["branches"])
    if waiting:
        branch_names = f"{waiting} of its {branches} branches" if branches > 1 else "its only branch"
        return f"{branch_names} voted to commit and never received the decision"
    for branch in row["branches"]:
        if branch["decision"] and branch["result"] is None:
            return f"a branch was asked to {VERBS[branch['decision']]} and never confirmed it"
    return "its end is not in the capture"


def violations(broken: list[Row], quarantined: list[Row], names: Mapping[str, str]) -> str:
    parts = []
    if broken:
        row = min(broken, key=_interest)
        more = f", one of {len(broken)} messages out of sequence" if len(broken) > 1 else ""
        where = f" in state {row['state']}" if row["rule"] == "state" and row["state"] else ""
        said = f"{_a(row['message'])} of {row['protocol']}{where}"
        parts.append(f"{_sender(row, names)} sent {said} (rule {row['rule']}){more}")
    undecodable = [row for row in quarantined if row["rule"] != "gap"]
    if undecodable:
        row = min(undecodable, key=_interest)
        more = f", {sum(row['length'] for row in undecodable)} such bytes in all" if len(undecodable) > 1 else ""
        what = f"{row['length']} undecodable {'byte' if row['length'] == 1 else 'bytes'}"
        parts.append(f"{_sender(row, names)} sent {what} over {row['protocol']} (rule {row['rule']}){more}")
    return f"Violations: {', and '.join(parts)}." if parts else "Violations: none."


def _sender(row: Row, names: Mapping[str, str]) -> str:
    client = names.get(row["connection"], row["connection"])
    return f"the server of {client}" if row["direction"] == "to_client" else client


def _a(message: str) -> str:
    return f"an {message}" if message[0] in "aeiou" else f"a {message}"


def _interest(row: Row) -> tuple[bool, Any]:
    """Order breaches of the life cycle before others, then by time."""
    return row["rule"] != "state", row["ts"]
