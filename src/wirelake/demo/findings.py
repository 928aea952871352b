"""What a newcomer should look at in a lake, in three sentences."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from ..lake import Lake
from ..report.lifelines import CLIENT_NAMES
from .scenes import SCENES

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
    for one in sessions:
        facts = dict(one["facts"] or ())
        named[one["connection"]] = next((facts[key] for key in CLIENT_NAMES if facts.get(key)), one["client"])
    return named


# --- latency


def latency(exchanges: Iterable[Row]) -> str:
    times: dict[tuple[str, str], list[int]] = defaultdict(list)
    late: Counter[tuple[str, str]] = Counter()
    failed: Counter[tuple[str, str]] = Counter()
    for one in exchanges:
        place = (one["address"] or "", one["protocol"])
        if not place[0]:
            continue
        late[place] += one["outcome"] == "timeout"
        failed[place] += one["outcome"] == "error"
        if one["latency_us"] is not None:
            times[place].append(one["latency_us"])
    often = {place: sorted(found) for place, found in times.items() if len(found) >= FREQUENT}
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


# --- transactions


def transactions(found: Iterable[Row]) -> str:
    counted: Counter[str] = Counter()
    first: Row | None = None
    for one in found:
        counted[one["outcome"]] += 1
        if one["outcome"] == "in_doubt" and (first is None or _doubt(one) < _doubt(first)):
            first = one
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


def _doubt(one: Row) -> tuple[int, str]:
    """Order the clearest case first: most branches that are prepared and wait."""
    return -_waiting(one), one["gtrid"]


def _waiting(one: Row) -> int:
    return sum(branch["vote"] == 0 and branch["decision"] is None for branch in one["branches"])


def _why(one: Row) -> str:
    """Return why its end is unknown."""
    waiting, branches = _waiting(one), len(one["branches"])
    if waiting:
        branch_names = f"{waiting} of its {branches} branches" if branches > 1 else "its only branch"
        return f"{branch_names} voted to commit and never received the decision"
    for branch in one["branches"]:
        if branch["decision"] and branch["result"] is None:
            return f"a branch was asked to {VERBS[branch['decision']]} and never confirmed it"
    return "its end is not in the capture"


# --- violations


def violations(broken: list[Row], quarantined: list[Row], names: Mapping[str, str]) -> str:
    parts = []
    if broken:
        one = min(broken, key=_interest)
        more = f", one of {len(broken)} messages out of sequence" if len(broken) > 1 else ""
        where = f" in state {one['state']}" if one["rule"] == "state" and one["state"] else ""
        said = f"{_a(one['message'])} of {one['protocol']}{where}"
        parts.append(f"{_sender(one, names)} sent {said} (rule {one['rule']}){more}")
    undecodable = [one for one in quarantined if one["rule"] != "gap"]
    if undecodable:
        one = min(undecodable, key=_interest)
        more = f", {sum(row['length'] for row in undecodable)} such bytes in all" if len(undecodable) > 1 else ""
        what = f"{one['length']} undecodable {'byte' if one['length'] == 1 else 'bytes'}"
        parts.append(f"{_sender(one, names)} sent {what} over {one['protocol']} (rule {one['rule']}){more}")
    return f"Violations: {', and '.join(parts)}." if parts else "Violations: none."


def _sender(one: Row, names: Mapping[str, str]) -> str:
    client = names.get(one["connection"], one["connection"])
    return f"the server of {client}" if one["direction"] == "to_client" else client


def _a(message: str) -> str:
    return f"an {message}" if message[0] in "aeiou" else f"a {message}"


def _interest(one: Row) -> tuple[int, int, Any]:
    """Order live traffic first, breaches of the life cycle before others, then by time."""
    return one["protocol"] not in SCENES, one["rule"] != "state", one["ts"]
