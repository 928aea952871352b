"""Requests that are answered in order, some with several replies, some with none: pairs are those of the traffic."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from click.testing import CliRunner

from wirelake.cli import cli
from wirelake.generate import generate, write_pcap
from wirelake.lake import Lake
from wirelake.protocols import load

MEMCACHED = f"{Path(__file__).parents[1] / 'codec' / 'public' / 'memcached_text.py'}:PROTOCOL"


def test_replies_in_order_and_in_parts_find_their_requests(tmp_path: Path) -> None:
    traffic = generate(load(MEMCACHED), seed=3, messages=400)
    capture, lake = tmp_path / "cache.pcap", tmp_path / "lake"
    write_pcap(traffic, capture)
    arguments = ["ingest", "-p", MEMCACHED, "--engine", "inline", "--final", str(capture), str(lake)]
    assert CliRunner().invoke(cli, arguments).exit_code == 0
    truth = Counter((x.message, x.reply_message or None, x.replies, x.outcome) for x in traffic.truth.exchanges)
    columns = ["message", "reply_message", "replies", "outcome"]
    table = Lake.open(lake).dataset("gold/exchanges").to_table(columns)
    assert Counter(tuple(row.values()) for row in table.to_pylist()) == truth
    assert truth["get", "value", 2, "ok"] > 10 and truth["set", None, 0, "no_reply_wanted"] > 10
    assert not list((lake / "gold" / "violations").rglob("*.parquet"))
