"""Lifelines: the ends of connections, by name where the peers gave one."""

from __future__ import annotations

from typing import Any

from tests.ingest.lakes import table
from wirelake.lake import Lake
from wirelake.report.lifelines import Lifelines, Peers


def test_lifelines_bear_the_names_that_peers_gave_themselves(report: dict[str, Any], lake: Lake) -> None:
    facts = {row["connection"]: dict(row["facts"]) for row in table(lake, "gold/sessions")}
    ends = {row["connection"]: row for row in table(lake, "gold/sessions")}
    for one in report["conversations"].values():
        if one["kind"] != "connection":
            continue
        (name,) = {event["connection"] for event in one["events"]}
        shown = {(line["name"], line["label"]) for line in one["lifelines"]}
        told = facts[name]
        label = told.get("client_domain") or told.get("name") or told.get("user") or told.get("path") or ""
        if label:
            assert (ends[name]["client"], label) in shown
        assert ends[name]["server"] in {line["name"] for line in one["lifelines"]}


def test_ends_of_one_host_and_name_share_a_lifeline() -> None:
    one, other = Peers("10.0.0.1:5000", "10.0.0.2:80", "shop", ""), Peers("10.0.0.1:5001", "10.0.0.2:80", "shop", "")
    stranger = Peers("10.0.0.1:5002", "10.0.0.2:80")
    lifelines = Lifelines({("s", "a"): one, ("s", "b"): other, ("s", "c"): stranger})
    assert lifelines.ends(("s", "a"), "to_server") == (0, 1)
    assert lifelines.ends(("s", "b"), "to_client") == (1, 0)
    assert lifelines.ends(("s", "c"), "to_server") == (2, 1)
    assert lifelines.shown() == [
        {"name": "10.0.0.1", "label": "shop"},
        {"name": "10.0.0.2:80", "label": ""},
        {"name": "10.0.0.1:5002", "label": ""},
    ]


def test_a_connection_that_nobody_knows_has_two_lifelines_of_its_own() -> None:
    lifelines = Lifelines({})
    assert lifelines.ends(("s", "a"), "to_client") == (1, 0) and lifelines.ends(("s", "b"), "to_server") == (2, 3)
    assert [line["name"] for line in lifelines.shown()][:2] == ["client of a", "server of a"]
