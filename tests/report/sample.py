"""Reports that no lake gave: written by hand in the shape of ``collect``, for what real traffic seldom has.

``sample()`` has a little of everything, ``empty()`` nothing, ``hostile()`` the texts that somebody would send who wants
the page to run or to show something else.
"""

from __future__ import annotations

from typing import Any

START = 1_704_067_200_000_000
SECOND = 1_000_000

COLUMNS: dict[str, str] = {
    "overview": "messages connections bytes_in bytes_decoded bytes_quarantined bytes_pending bytes_missing requests ok "
    "errors timeouts unanswered no_reply_wanted open_requests transactions committed rolled_back read_only in_doubt "
    "open_transactions sessions open_sessions violations quarantined_ranges p50_us p95_us p99_us max_us first_us "
    "last_us",
    "protocols": "protocol connections messages bytes_decoded bytes_quarantined requests errors timeouts unanswered "
    "violations p50_us p95_us p99_us",
    "traffic": "bucket_us protocol count",
    "outcomes": "bucket_us ok errors timeouts unanswered no_reply_wanted",
    "quarantine_over_time": "bucket_us protocol bytes ranges",
    "latency": "bucket_us protocol requests p50_us p95_us p99_us",
    "heat": "bucket_us band_us count",
    "slow_addresses": "protocol address requests errors timeouts error_rate p50_us p95_us p99_us max_us",
    "busy_addresses": "protocol address messages bytes requests",
    "slow_exchanges": "request_us sensor protocol address message latency_us outcome status connection conversation",
    "failures": "protocol address outcome status count last_us conversation",
    "topology": "client server protocol connections messages_to_server messages_to_client bytes violations "
    "quarantined_bytes",
    "sessions": "sensor connection protocol client server handshake ended first_us duration_us messages_to_server "
    "messages_to_client bytes_to_server bytes_to_client violations quarantined_bytes facts conversation",
    "session_ends": "protocol handshake ended count",
    "transactions": "sensor gtrid outcome first_us duration_us calls branches prepare_us commit_us connections "
    "conversation",
    "transaction_outcomes": "outcome count",
    "rules": "source protocol rule count bytes",
    "violations": "source ts_us protocol rule message path state detail direction offset length sensor connection "
    "conversation event",
    "open": "kind protocol count oldest_us",
    "held": "why held of",
}


def empty() -> dict[str, Any]:
    """The report of a lake without rows: zeros where something is counted, nulls where something is measured."""
    names = COLUMNS["overview"].split()
    data = {name: _data(name, []) for name in COLUMNS}
    data["overview"] = _data("overview", [[None if name.endswith("_us") else 0 for name in names]])
    return {
        "about": {
            "lake": "lake",
            "made": "2024-01-02T03:04:05+00:00",
            "wirelake": "0.1.0",
            "commit": 0,
            "commit_at": None,
            "captures": 0,
            "sensors": [],
            "sensor_count": 0,
            "first_us": None,
            "last_us": None,
            "bucket_us": SECOND,
            "traffic_of": "requests",
        },
        "queries": {name: {"title": name.replace("_", " "), "sql": f"select *\nfrom {name}"} for name in COLUMNS},
        "data": data,
        "conversations": {},
        "held": [],
    }


def sample(address: str = "orders.place", name: str = "orders", detail: str = "is not UTF-8") -> dict[str, Any]:
    """A little of everything; the texts are where a peer decides what stands there."""
    report = empty()
    report["about"] |= {"lake": "captures/lake", "commit": 3, "commit_at": "2024-01-02T03:00:00+00:00", "captures": 2}
    report["about"] |= {"sensors": ["eth0"], "sensor_count": 1}
    report["about"] |= {"first_us": START, "last_us": START + 60 * SECOND}
    rows = _rows(address, name, detail)
    report["data"] |= {query: _data(query, listed) for query, listed in rows.items()}
    for one in (connection_talk(address, name, detail), transaction_talk(name)):
        report["conversations"][one["id"]] = one
    report["held"] = [{"why": "violation", "held": 1, "of": 1}]
    return report


def hostile(text: str) -> dict[str, Any]:
    """One text in every place that a peer, a file name or a declaration of somebody decides."""
    report = sample(text, text, text)
    report["about"]["lake"] = text
    for query in report["data"].values():
        for row in query["rows"]:
            for at, column in enumerate(query["columns"]):
                if isinstance(row[at], str) and column not in (
                    "conversation",
                    "protocol",
                    "facts",
                    "outcome",
                    "kind",
                    "why",
                ):
                    row[at] = text
    report["data"]["protocols"]["rows"].append([text, *[0] * 9, None, None, None])
    report["data"]["traffic"]["rows"].append([START, text, 5])
    id_ = text.encode("utf-8", "replace").decode("utf-8")  # ids stand in addresses, which have no half characters
    report["conversations"][id_] = connection_talk(text, text, text) | {"id": id_}
    report["data"]["sessions"]["rows"][0][-1] = id_
    report["queries"]["overview"] = {"title": text, "sql": f"select '{text}'"}
    return report


def connection_talk(address: str, name: str, detail: str) -> dict[str, Any]:
    """A connection with a request, its answer, a gap, and bytes that break a rule."""
    request = bytes.fromhex("82106208") + b"ORDERS.A" + bytes.fromhex("01000002")
    events = [
        _event(
            0,
            1,
            "request",
            "request",
            START,
            address=address,
            fields={"topic": address, "nested": {"list": [1, None, name]}},
        ),
        _event(1, 0, "reply", "response", START + 1500, status="ok", correlation="1004.1.3"),
        _event(0, 1, "", "", START + 900_000, mark="gap", rule="gap", detail="40 bytes were never captured", length=40),
        _event(1, 0, "logout", "control", START + 901_000, mark="violation", rule="state", detail=detail),
        _event(0, 1, "", "", START + 902_000, mark="quarantine", rule="text_utf8", detail=detail, offset=120),
    ]
    events[4]["bytes"] = {
        "from": "quarantine",
        "base": 120,
        "total": len(request),
        "hex": request.hex(),
        "parts": [
            {"offset": 0, "length": 1, "path": "", "what": "magic", "value": "0x82"},
            {"offset": 1, "length": 1, "path": "", "what": "length", "value": "16"},
            {"offset": 2, "length": 1, "path": "", "what": "code", "value": "request"},
            {"offset": 3, "length": 9, "path": "topic", "what": "text_u8", "value": address},
            {"offset": 12, "length": 4, "path": "signal_id", "what": "text_u8", "value": name},
        ],
        "error": {"offset": 12, "path": "signal_id", "rule": "text_utf8", "detail": detail},
    }
    return {
        "id": "c:1",
        "kind": "connection",
        "title": f"{name} with the hub",
        "protocol": "ceda",
        "why": ["violation"],
        "lifelines": [{"name": "10.0.0.1:5000", "label": name}, {"name": "10.0.0.2:8088", "label": ""}],
        "left_out": {"before": 120, "between": 2, "after": 1},
        "events": events,
        "branches": [],
    }


def transaction_talk(name: str) -> dict[str, Any]:
    """A transaction of two branches, one of which never heard the decision."""
    bars = [("work", 0, 4000), ("prepare", 4200, 5000)]
    first = [_bar(*bar) for bar in [*bars, ("commit", 5200, 6400)]]
    second = [_bar(*bar) for bar in [*bars, ("commit", 5300, None)]]
    return {
        "id": "t:42:aed9",
        "kind": "transaction",
        "title": "Transaction aed9",
        "protocol": "casual",
        "why": ["in_doubt"],
        "lifelines": [
            {"name": f"10.0.0.{at}:7771", "label": label} for at, label in enumerate((name, "stock", "payments"))
        ],
        "left_out": {"before": 0, "between": 0, "after": 0},
        "events": [
            _event(0, 1, "prepare_request", "request", START + 4200, protocol="casual"),
            _event(1, 0, "prepare_reply", "response", START + 5000, protocol="casual", status="0"),
            _event(0, 2, "commit_request", "request", START + 5300, protocol="casual", mark="focus"),
        ],
        "branches": [
            {"branch": "4b64", "label": "stock", "outcome": "committed", "bars": first},
            {"branch": "5423", "label": "payments", "outcome": "in_doubt", "bars": second},
        ],
    }


def _data(name: str, rows: list[list[Any]]) -> dict[str, Any]:
    return {"columns": COLUMNS[name].split(), "rows": rows, "total": len(rows)}


def _bar(phase: str, start: int, end: int | None) -> dict[str, Any]:
    return {
        "phase": phase,
        "start": START + start,
        "end": None if end is None else START + end,
        "result": "" if end is None else "ok",
    }


def _event(origin: int, to: int, message: str, kind: str, ts: int | None, **more: Any) -> dict[str, Any]:
    event = {
        "ts": ts,
        "from": origin,
        "to": to,
        "protocol": "ceda",
        "message": message,
        "kind": kind,
        "address": None,
        "status": None,
        "correlation": None,
        "length": 16,
        "direction": "to_server" if origin == 0 else "to_client",
        "offset": 0,
        "sensor": "eth0",
        "connection": "1",
        "mark": "",
        "rule": None,
        "detail": None,
        "fields": None,
        "bytes": None,
    }
    return event | more


def _rows(address: str, name: str, detail: str) -> dict[str, list[list[Any]]]:
    return {
        "overview": [[9_007_199_254_740_991, 2, 12_345_678, 12_345_000, 678, 0, 40, 1200, 1180, 12, 5, 3, 0, 0, 2, 1, 0,
                      0, 1, 0, 2, 0, 2, 1, 850, 17_300, 1_250_000, 75_000_000, START, START + 60 * SECOND]],
        "protocols": [
            ["casual", 1, 700, 400_000, 0, 600, 2, 0, 0, 0, 850, 9_000, 20_000],
            ["ceda", 1, 500, 100_000, 678, 600, 10, 5, 3, 2, 700, 17_300, 1_250_000],
        ],
        "traffic": [[START + at * SECOND, name, 10 + at] for at in range(0, 60, 5) for name in ("casual", "ceda")],
        "outcomes": [[START + at * SECOND, 20, at % 3, 1, 0, 2] for at in range(0, 60, 5)],
        "quarantine_over_time": [[START + 5 * SECOND, "ceda", 678, 1]],
        "latency": [
            [START + at * SECOND, protocol, 20, 800, 9000 + 50 * at, 30_000]
            for at in range(0, 60, 5) for protocol in ("all", "casual", "ceda")
        ],
        "heat": [[START + at * SECOND, band, 3] for at in range(0, 60, 5) for band in (500, 1000, 2000, 10_000)],
        "slow_addresses": [["ceda", address, 600, 10, 5, 0.025, 700, 17_300, 1_250_000, 75_000_000],
                           ["casual", "customer.get", 600, 2, 0, 0.0033, 850, 9_000, 20_000, 21_000]],
        "busy_addresses": [["ceda", address, 500, 100_000, 600]],
        "slow_exchanges": [[START + 7, "eth0", "ceda", address, "request", 75_000_000, "error", "busy", "1", "c:1"],
                           [START + 9, "eth0", "casual", "customer.get", "service_call", 21_000, "ok", None, "2",
                            "x:2:s:1"]],
        "failures": [["ceda", address, "timeout", None, 5, START + 9, "x:1:s:7"]],
        "topology": [[name, "10.0.0.2:8088", "ceda", 1, 300, 200, 100_000, 2, 678],
                     ["stock", "10.0.0.3:7771", "casual", 1, 350, 350, 400_000, 0, 0]],
        "sessions": [["eth0", "1", "ceda", "10.0.0.1:5000", "10.0.0.2:8088", "complete", "reset", START,
                      60 * SECOND, 300, 200, 60_000, 40_000, 2, 678, '{"user": "orders", "masked": "false"}', "c:1"]],
        "session_ends": [["ceda", "complete", "reset", 1], ["casual", "complete", "closed", 1]],
        "transactions": [["eth0", "aed97ae490bb4ac2bca477700fd4e0", "in_doubt", START, None, 4, 2, 800, None, 2,
                          "t:42:aed9"],
                         ["eth0", "4d57dabb7c2043a492d02fdcdd", "committed", START, 40_857, 4, 2, 1964, 4607, 2,
                          "t:42:4d57"]],
        "transaction_outcomes": [["committed", 1], ["in_doubt", 1]],
        "rules": [["bytes", "ceda", "text_utf8", 1, 678], ["state", "ceda", "state", 1, 16]],
        "violations": [
            ["bytes", START + 902_000, "ceda", "text_utf8", None, "signal_id", None, detail, "to_server", 120, 16,
             "eth0", "1", "c:1", 4],
            ["state", START + 901_000, "ceda", "state", "logout", None, "ready", detail, "to_client", 0, 16,
             "eth0", "1", "c:1", 3],
        ],
        "open": [["request", "ceda", 1, START]],
        "held": [["violation", 1, 2], ["sample", 1, 2]],
    }  # fmt: skip
