"""The questions in examples/questions: each is asked of one lake whose content is known."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from wirelake import encode
from wirelake.capture.chunks import TO_CLIENT, TO_SERVER
from wirelake.capture.write.tap import TapWriter
from wirelake.generate import generate, write_pcap
from wirelake.generate.truth import Truth
from wirelake.lake import Lake
from wirelake.protocols import BUILT_IN, ceda
from wirelake.spark.pipeline import ingest
from wirelake.spark.views import views

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

DIRECTORY = Path(__file__).resolve().parents[2] / "examples" / "questions"
NAMES = sorted(path.stem for path in DIRECTORY.glob("*.sql"))
LATER_US = 1_704_153_600_000_000
"""When the taps begin: behind everything that is generated."""
Ask = Callable[[str], list["Row"]]


@pytest.fixture(scope="module")
def asking() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ask", DIRECTORY / "ask.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def known(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Truth]:
    """A lake of generated traffic, of a connection that was reset, and of one that is still open."""
    home = tmp_path_factory.mktemp("questions")
    traffic = generate(BUILT_IN, seed=9, messages=2500, connections=4, violations=0.05)
    write_pcap(traffic, home / "all.pcap")
    reset_connection(home / "reset.tap")
    open_connection(home / "open.tap")
    lake = home / "lake"
    ingest(spark, [str(home / "all.pcap"), str(home / "reset.tap")], str(lake), final=True)
    ingest(spark, [str(home / "open.tap")], str(lake))
    return str(lake), traffic.truth


def reset_connection(path: Path) -> None:
    """Two heartbeats, between them two bytes that are none, and a reset."""
    beat = encode(ceda.Heartbeat())
    with TapWriter(path) as tap:
        number = tap.open(("10.9.0.1", 50000), ("10.9.0.2", 8088), LATER_US, "ceda")
        tap.data(number, TO_SERVER, LATER_US + 1, beat + b"\x82\x00" + beat)
        tap.close(number, LATER_US + 2, "reset")


def open_connection(path: Path) -> None:
    """A request that waits, and two bytes of the next message."""
    from wirelake.protocols import mb

    asked = mb.Request(topic="orders.new", version="1.0.0", request_id="6f1c2f0a-3c3e-4c1e-9a51-0d5b7f3f8f11")
    frame = encode(asked, framing="tcp")
    with TapWriter(path) as tap:
        number = tap.open(("10.9.0.1", 50001), ("10.9.0.3", 3001), LATER_US, "mb")
        tap.data(number, TO_SERVER, LATER_US + 10, frame + frame[:2])
        tap.data(number, TO_CLIENT, LATER_US + 20, b"")


@pytest.fixture(scope="module")
def truth(known: tuple[str, Truth]) -> Truth:
    return known[1]


@pytest.fixture
def ask(spark: SparkSession, known: tuple[str, Truth], asking: ModuleType) -> Ask:
    views(spark, known[0])
    return lambda name: asking.answer(spark, name).collect()


@pytest.mark.parametrize("name", NAMES)
def test_every_question_has_words_and_an_answer(name: str, ask: Ask, asking: ModuleType) -> None:
    assert asking.question(name).endswith("?")
    assert ask(name)


def test_there_are_at_least_ten_questions() -> None:
    assert len(NAMES) >= 10


def test_errors_and_time_outs_are_those_that_happened(ask: Ask, truth: Truth) -> None:
    outcomes = Counter(one.outcome for one in truth.exchanges)
    errors = ask("errors_by_address")
    assert len(errors) == 20 or sum(row.errors for row in errors) == outcomes["error"]
    assert sum(row.time_outs for row in ask("time_outs")) == outcomes["timeout"] > 0


def test_the_transactions_in_doubt_are_named_with_all_their_branches(ask: Ask, truth: Truth) -> None:
    wanted = {one.gtrid.hex(): len(one.branches) for one in truth.transactions if one.outcome == "in_doubt"}
    found = ask("transactions_in_doubt")
    assert Counter(row.gtrid for row in found) == wanted
    assert all(row.server for row in found)


def test_the_bytes_that_are_no_message_are_shown(ask: Ask) -> None:
    (row,) = ask("quarantined_bytes")
    assert (row.protocol, row.rule, row.ranges, row.bytes, row.first_bytes) == ("ceda", "frame_limit", 1, 2, "8200")


def test_the_reset_connection_is_found(ask: Ask) -> None:
    first = ask("reset_sessions")[0]
    assert (first.ended, first.client, first.server) == ("reset", "10.9.0.1:50000", "10.9.0.2:8088")


def test_what_is_open_is_told_with_its_place(ask: Ask) -> None:
    found = {row.kind: row for row in ask("still_open")}
    assert found["request"].address == "orders.new"
    assert found["session"].address == "10.9.0.3:3001"


def test_every_byte_is_accounted_for(ask: Ask, truth: Truth) -> None:
    found = {row.protocol: row for row in ask("every_byte")}
    assert set(found) == set(BUILT_IN)
    assert all(row.adds_up for row in found.values())
    assert found["ceda"].quarantined == 2
    assert found["mb"].pending == 2
    sent = sum(one.bytes_to_server + one.bytes_to_client for one in truth.sessions if one.protocol == "casual")
    assert found["casual"].bytes_in == found["casual"].decoded == sent


def test_a_chain_of_calls_is_in_the_order_of_time_and_of_one_execution(ask: Ask) -> None:
    found = ask("call_chain")
    assert len(found) > 2
    assert len({row.execution for row in found}) == 1
    assert [row.request_ts for row in found] == sorted(row.request_ts for row in found)


def test_a_violation_is_among_the_messages_around_it(ask: Ask) -> None:
    found = ask("violations_in_context")
    assert {(row.connection, row.rule) for row in found if row.ms_from_there == 0} == {
        (row.connection, row.rule) for row in found
    }


def test_the_talkers_are_those_of_the_sessions(ask: Ask, truth: Truth) -> None:
    found = {(row.protocol, row.client_host, row.server): row.connections for row in ask("who_talks_to_whom")}
    wanted = Counter((one.protocol, one.client[0], f"{one.server[0]}:{one.server[1]}") for one in truth.sessions)
    assert wanted.items() <= found.items()


# --- the views


def test_the_views_have_the_rows_of_the_tables_and_their_dates(spark: SparkSession, known: tuple[str, Truth]) -> None:
    lake = Lake.open(known[0], create=False)
    views(spark, lake)
    for table in lake.tables():
        name = table.replace("/", "_")
        assert spark.table(name).count() == lake.dataset(table).count_rows()
    assert {str(row.date) for row in spark.sql("select distinct date from silver_messages").collect()} == {
        "2024-01-01",
        "2024-01-02",
    }


# --- the runner


def test_the_runner_says_which_questions_there_are(asking: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert asking.main(["lake", "nonsense"]) == 2
    assert "there is no question 'nonsense'; there are: call_chain, " in capsys.readouterr().out
    assert asking.main([]) == 2
    assert "examples/questions/ask.py LAKE" in capsys.readouterr().out


def test_the_example_of_a_report_tells_of_the_lake(
    known: tuple[str, Truth], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = importlib.util.spec_from_file_location("report_example", DIRECTORY.parent / "report.py")
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    lake, truth = known
    example.main(lake, str(tmp_path / "report.html"))
    told = capsys.readouterr().out.splitlines()
    assert (tmp_path / "report.html").stat().st_size < 10_000_000
    messages = Lake.open(lake).dataset("silver/messages").count_rows()
    violations = Lake.open(lake).dataset("gold/violations").count_rows()
    assert told[1].startswith(f"{messages} messages, ") and told[1].endswith(f" {violations} violations")
    counts = {tuple(line.split()[:2]): int(line.split()[2]) for line in told[2:]}
    assert counts == Counter((one.protocol, one.outcome) for one in truth.exchanges)
