"""Facts that pages state in words: they are compared with the source."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from wirelake.capture.quarantine import KEPT_BYTES
from wirelake.cli import cli
from wirelake.cli.report import LISTEN
from wirelake.codec.content import MAX_DEPTH
from wirelake.codec.stream import MAX_QUARANTINE
from wirelake.errors import OptionError
from wirelake.gold.transactions import LINGER_US
from wirelake.ingest.run import BUCKETS
from wirelake.kernels.match_codes import EARLY_US, LATE_US, RECENT
from wirelake.live.records import LIVE
from wirelake.protocols import BUILT_IN, casual, load
from wirelake.report.annotated_bytes import MAX_HEX_BYTES
from wirelake.report.collect import TRAFFIC_BY_MINUTES_US
from wirelake.report.page_file import MAX_PAGE_BYTES
from wirelake.spark.options import read_options, write_options

ROOT = Path(__file__).resolve().parents[2]
INDEX = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
QUICKSTART = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
FIGURES = (ROOT / "docs" / "figures.md").read_text(encoding="utf-8")
REPORT = (ROOT / "docs" / "report.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
CONFORMANCE = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
LAKE = (ROOT / "docs" / "lake.md").read_text(encoding="utf-8")
SPARK = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
SOURCE = [path.read_text(encoding="utf-8") for path in (ROOT / "src" / "wirelake").rglob("*.py")]
MESSAGES = re.findall(
    r"^\| `([^`]+)`[^|]*\|[^|]*\|[^|]*\|$",
    (ROOT / "docs" / "operations.md").read_text(encoding="utf-8").partition("| message | means | do |")[2],
    re.MULTILINE,
)
MACHINE_PATH = re.compile(r"/work/|/root/|/tmp/|/home/", re.IGNORECASE)


def row(text: str, first: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(f"| {first} |"))
    return [cell.strip() for cell in line.split("|")[2:-1]]


def first_cells(text: str, header: str) -> list[str]:
    """The names in the first column of the table with this header."""
    lines = text[text.index(header) :].splitlines()[2:]
    found: list[str] = []
    for line in lines:
        if not line.startswith("|"):
            break
        found += re.findall(r"`([^`]+)`", line.split("|")[1])
    return found


def test_the_overview_counts_the_messages_of_each_protocol():
    assert row(INDEX, "messages") == [str(len(load(name).messages)) for name in BUILT_IN]


def test_the_overview_names_the_reading_options_of_each_protocol():
    told = [set(re.findall("`([^`]+)`", cell)) for cell in row(INDEX, "reading options")]
    assert told == [set(load(name).options) for name in BUILT_IN]


def test_the_overview_says_which_protocols_have_topics():
    assert [bool(cell) for cell in row(INDEX, "topic patterns")] == [load(name).topics is not None for name in BUILT_IN]


def test_the_overview_and_the_readme_say_which_protocols_are_live():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| \[`(\w+)`\].*\| yes \|$", readme, re.MULTILINE)
    assert sorted(told) == sorted(LIVE)
    assert [name for name, cell in zip(BUILT_IN, row(INDEX, "client and server"), strict=True) if cell] == told


def test_the_overview_and_the_readme_say_the_same_about_what_is_missing():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert _missing(readme).replace("docs/", "") == _missing(INDEX) != ""


def _missing(page: str) -> str:
    """The list of what it is not, in one line."""
    found = re.search(r"^## What it is not, yet\n\n((?:[- ] .*\n)+)", page, re.MULTILINE)
    assert found is not None
    return " ".join(found[1].split())


def test_the_overview_lists_every_verb():
    assert sorted(first_cells(INDEX, "| verb | does |")) == sorted(cli.commands)


def test_the_quickstart_lists_every_extra_with_what_it_adds():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {name: _packages(wanted) for name, wanted in project["optional-dependencies"].items()}
    assert sorted(first_cells(QUICKSTART, "| extra | adds | for |")) == sorted(extras)
    for name in ("columnar", "net", "report"):
        assert set(row(QUICKSTART, f"`{name}`")[0].split(", ")) == extras[name]


def _packages(wanted: list[str]) -> set[str]:
    return {re.split(r"[^\w.-]", one)[0] for one in wanted}


def test_the_page_of_the_report_knows_its_limits():
    assert f"below {MAX_PAGE_BYTES // 1_000_000} MB" in REPORT
    words = " ".join(REPORT.split())
    assert f"the first {MAX_HEX_BYTES} bytes" in words
    assert f"more than {TRAFFIC_BY_MINUTES_US // 60_000_000} minutes" in words
    assert f"http://{LISTEN}/" in REPORT


def test_the_page_of_the_report_lists_the_sections_of_the_page():
    script = (ROOT / "src" / "wirelake" / "report" / "page" / "sections.js").read_text(encoding="utf-8")
    titles = re.findall(r"\{id: '\w+', title: '(\w+)', ", script)
    titles.sort(key="Now".__ne__)  # it stands first where it is served
    lines = REPORT[REPORT.index("| section | shows |") :].splitlines()[2:]
    assert [line.split("|")[1].strip() for line in lines[: len(titles)]] == titles
    assert not lines[len(titles)].startswith("|")


def test_the_page_of_operations_names_metrics_that_there_are():
    operations = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    source = "".join(SOURCE)
    told = set(re.findall(r"`(wirelake_[a-z_]+)`", operations))
    assert len(told) > 6
    for name in told:
        assert f'"{name.partition("_")[2]}"' in source, name


@pytest.mark.parametrize("message", MESSAGES)
def test_the_messages_of_the_page_of_operations_are_those_of_the_source(message: str):
    """One of the pieces between the places where something is filled in stands in the source."""
    pieces = [piece.strip(" :;()") for piece in message.split("…")]
    assert any(len(piece) >= 8 and piece in text for piece in pieces for text in SOURCE)


@pytest.mark.parametrize("page", [ARCHITECTURE, CONTRIBUTING], ids=["architecture", "CONTRIBUTING"])
def test_the_rooms_are_those_of_the_source(page: str):
    source = ROOT / "src" / "wirelake"
    rooms = {path.parent.name for path in source.glob("*/__init__.py")} | {"errors"}
    assert set(first_cells(page, "| room in `src/wirelake` | holds |")) == rooms


def test_the_limits_that_are_told_are_those_of_the_source():
    assert casual.MAX_PAYLOAD == 256 * 1024 * 1024
    assert "at most 256 MiB" in CONFORMANCE
    assert f"deeper than {MAX_DEPTH}" in CONFORMANCE
    assert f"deeper than {MAX_DEPTH}" in FIGURES
    assert MAX_QUARANTINE == 1024 * 1024
    assert "pieces of 1 MiB" in CONFORMANCE


def test_the_page_of_the_lake_knows_when_things_are_decided():
    assert (LATE_US, LINGER_US) == (60_000_000, 60_000_000)
    assert "as long again, but at least a minute" in LAKE
    assert (EARLY_US, RECENT) == (5_000_000, 1024)
    assert "up to 5 s before its request" in LAKE and "the next 1024\n  replies of its connection" in LAKE
    assert "a minute after the last of its branches" in LAKE
    assert f"made in {BUCKETS} buckets" in LAKE
    assert f"only the first {KEPT_BYTES} bytes" in LAKE


def test_the_page_of_the_lake_names_the_declared_ports():
    told = re.search(r"ports that protocols declare: ([^;]*);", LAKE.replace("\n  ", ""))
    assert told is not None
    ports = {port for name in BUILT_IN for kind, port in load(name).ports.items() if kind in ("tcp", "ws")}
    assert set(map(int, re.findall(r"\d+", told[1]))) == ports


def test_the_page_of_the_lake_lists_every_question():
    there = {path.stem for path in (ROOT / "examples" / "questions").glob("*.sql")}
    assert set(re.findall(r"^\|[^|]*\| \[(\w+)\]", LAKE, re.MULTILINE)) == there


def test_the_page_of_spark_lists_every_option_of_the_formats():
    with pytest.raises(OptionError) as caught:
        read_options("wire", {"nonsense": "1"})
    known = set(str(caught.value).partition("it has: ")[2].split(", ")) - {"path", "paths"}
    told = [*first_cells(SPARK, "| option | default | meaning |"), *first_cells(SPARK, "| option | does | default |")]
    assert set(told) == known | {"profile", "dialect"}


def test_the_page_of_spark_lists_every_option_of_writing():
    with pytest.raises(OptionError) as caught:
        write_options("wire", {"path": "x", "protocol": "casual", "nonsense": "1"})
    known = set(str(caught.value).partition("it has: ")[2].split(", ")) - {"path"}
    assert set(first_cells(SPARK, "| when writing | default | meaning |")) == known | {"dialect"}


def test_the_commands_for_contributors_are_those_of_the_makefile():
    targets = re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    told = re.findall(r"^\| `make ([a-z]+)", CONTRIBUTING, re.MULTILINE)
    assert set(told) | {"setup", "help"} == set(targets)


def test_no_page_and_no_example_names_a_place_on_somebodys_machine():
    examples = [path for ending in ("py", "sql") for path in (ROOT / "examples").rglob(f"*.{ending}")]
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *examples):
        assert MACHINE_PATH.search(path.read_text(encoding="utf-8")) is None, path


# --- time limits

LIMITS = re.findall(r"^\| [^|]+ \| (\d+) s \| `([\w.]+)` \|$", LAKE.partition("## Time limits")[2], re.MULTILINE)
UNITS = {"SECOND_US", "MINUTE_US"}


@pytest.mark.parametrize(("seconds", "constant"), LIMITS)
def test_a_documented_time_limit_is_that_of_the_code(seconds: str, constant: str) -> None:
    module, _, name = constant.rpartition(".")
    assert getattr(import_module(f"wirelake.{module}"), name) == int(seconds) * 1_000_000


def test_every_time_limit_of_gold_and_of_a_protocol_is_documented() -> None:
    documented = {constant for _, constant in LIMITS}
    places = [ROOT / "src" / "wirelake" / "kernels" / name for name in ("match_codes.py", "piece_codes.py")]
    places += sorted((ROOT / "src" / "wirelake" / "gold").glob("*.py"))
    places += sorted((ROOT / "src" / "wirelake" / "protocols").glob("*/conduct.py"))
    for path in places:
        module = ".".join(path.relative_to(ROOT / "src" / "wirelake").with_suffix("").parts)
        declared = re.findall(r"^([A-Z][A-Z_]*_US) = ", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert {f"{module}.{name}" for name in declared if name not in UNITS} <= documented


def test_the_limits_that_protocols_declare_are_the_documented_ones() -> None:
    documented = {int(seconds) * 1_000_000 for seconds, constant in LIMITS if constant.startswith("protocols.")}
    declared = {limit.limit_us for name in BUILT_IN for limit in load(name).conduct.limits}
    assert declared - {0} == documented
