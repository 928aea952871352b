"""The page as text: what is in it, and that nothing of a lake can become a part of it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import subprocess
import sys
import zipfile
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from tests.report.sample import empty, hostile, sample
from wirelake.report.render import SCRIPTS, START, render, script_json

PAGE = files("wirelake.report").joinpath("page")
ROOT = Path(__file__).parents[2]


class Read(HTMLParser):
    """The elements of a page, as a parser of HTML sees them."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.title = ""
        self._open = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open = tag
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open == "script":
            attributes, text = self.scripts[-1]
            self.scripts[-1] = (attributes, text + data)
        elif self._open == "title":
            self.title += data

    def policy(self) -> dict[str, list[str]]:
        (policy,) = [a["content"] or "" for tag, a in self.tags if a.get("http-equiv") == "Content-Security-Policy"]
        return {words[0]: words[1:] for part in policy.split(";") if (words := part.split())}

    def block(self, id_: str) -> Any:
        (text,) = [text for attributes, text in self.scripts if attributes.get("id") == id_]
        return json.loads(text)


def unpacked(data: dict[str, Any]) -> dict[str, Any]:
    """The report of a page: its conversations lie in blocks, with a list of them beside."""
    blocks = data.pop("blocks")
    listed = [one["id"] for one in data["conversations"]]
    data["conversations"] = {}
    for block in blocks:
        opened = json.loads(gzip.decompress(base64.b64decode(block["gzip"])))
        data["conversations"] |= dict(zip(block["ids"], opened, strict=True))
    assert listed == list(data["conversations"])
    return data


def test_the_data_in_the_page_is_the_report() -> None:
    report = sample()
    assert unpacked(Read(render(report)).block("report")) == report


@pytest.mark.parametrize(
    "text",
    [
        "</script><script>alert(1)</script>",
        "<!-- <script>",
        "{{own}} {{report}} {{policy}}",
        "\\g<0> \\1 \\u003c",
        "a\u2028b\u2029c",
        "\x00\x01\r\n\x7f\u202e",
        "]]> & &lt; &#60;",
    ],
)
def test_a_text_of_a_lake_stays_the_same_text_wherever_it_stands(text: str) -> None:
    report = hostile(text)
    read, plain = Read(render(report)), Read(render(sample()))
    assert unpacked(read.block("report")) == report
    assert [tag for tag, _ in read.tags] == [tag for tag, _ in plain.tags]
    assert read.policy() == plain.policy()
    if text.isprintable():
        assert read.title == f"{text} · wirelake"


def test_half_a_character_does_not_keep_the_page_from_being_written() -> None:
    page = render(hostile("half \ud800"))
    assert unpacked(Read(page).block("report")) == hostile("half \ud800")
    assert page.encode("utf-8")


def test_a_number_that_json_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        script_json({"latency": float("nan")})


def test_the_policy_names_every_script_that_runs_and_nothing_else() -> None:
    read = Read(render(sample()))
    run = [text for attributes, text in read.scripts if "type" not in attributes]
    hashes = [f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in run]
    assert len(run) == 3
    assert sorted(read.policy()["script-src"]) == sorted(hashes)
    assert read.policy()["default-src"] == ["'none'"]
    assert read.policy()["base-uri"] == read.policy()["form-action"] == ["'none'"]
    assert all(not attributes.keys() & {"src", "onload"} for attributes, _ in read.scripts)


def test_only_a_page_that_is_served_may_ask_its_server() -> None:
    assert Read(render(empty())).policy()["connect-src"] == ["'none'"]
    live = Read(render(empty(), live=True))
    assert live.policy()["connect-src"] == ["'self'"]
    assert live.block("settings") == {"live": True}


def test_the_page_names_no_other_place() -> None:
    read = Read(render(sample()))
    links = [a[name] for _, a in read.tags for name in ("href", "src", "action", "srcset") if a.get(name) is not None]
    assert links == ["data:,", "#main"]


def test_the_licence_of_plotly_is_in_the_page() -> None:
    assert "plotly.js" in render(empty()) and "Licensed under the MIT license" in render(empty())


def test_every_script_of_the_page_is_put_together_once() -> None:
    there = {path.name for path in PAGE.iterdir() if path.name.endswith(".js")}
    assert there == {*SCRIPTS, "early.js"}
    assert len(SCRIPTS) == len(set(SCRIPTS))


@pytest.mark.parametrize("name", [*SCRIPTS, "early.js"])
def test_no_script_makes_markup_or_code_of_text(name: str) -> None:
    text = PAGE.joinpath(name).read_text(encoding="utf-8")
    markup = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|srcdoc|DOMParser"
    assert re.findall(rf"{markup}|\beval\b|new Function|setTimeout\(['\"`]", text) == []


def test_the_page_is_part_of_the_wheel(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
    assert {f"wirelake/report/page/{name}" for name in (*SCRIPTS, "early.js", "index.html", "style.css")} <= names


@pytest.mark.parametrize("live", [False, True])
def test_every_page_begins_with_what_tells_it_from_other_files(live: bool) -> None:
    for report in (sample(), empty()):
        assert render(report, live=live).encode().startswith(START)
