"""The served page in a real browser: it follows the lake, fetches what it does not hold, and asks nobody else."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.needs import require
from tests.report.test_server import Served
from tests.report.test_verb import commit_again
from wirelake.lake import Lake
from wirelake.report import selection as holding
from wirelake.report.refresh import LakeSource

MILLISECONDS = 30_000
SESSIONS = "[data-query=overview][data-column=sessions]"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    require("chromium")
    quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu", *quiet]
        )
        yield browser
        browser.close()


class Watched:
    """A page, and what it complained of and asked for."""

    def __init__(self, browser: Browser) -> None:
        self.page: Page = browser.new_page()
        self.page.set_default_timeout(MILLISECONDS)
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda said: self._complain(said.type, said.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def _complain(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(text)

    def open(self, url: str) -> None:
        self.page.goto(url)
        self.page.wait_for_selector("html[data-ready=true]")

    def wait_for_badge(self, text: str) -> None:
        expect(self.page.locator("#live-badge")).to_have_text(text, timeout=MILLISECONDS)

    def hosts(self) -> set[str]:
        return {urlsplit(url).netloc for url in self.asked if not url.startswith(("data:", "blob:"))}


@pytest.fixture
def watched(browser: Browser) -> Iterator[Watched]:
    made = Watched(browser)
    yield made
    made.page.close()


@pytest.fixture
def lake(report_lake: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(report_lake, tmp_path / "lake"))


@contextmanager
def served_lake(lake: Path, **options: Any) -> Iterator[Served]:
    served = Served(LakeSource(Lake.open(lake, create=False)), **options)
    try:
        yield served
    finally:
        served.end()
    assert served.told == []


def test_the_page_shows_a_new_commit_without_being_loaded_again(lake: Path, watched: Watched) -> None:
    with served_lake(lake) as served:
        watched.open(served.server.url)
        page = watched.page
        page.evaluate("window.isTheSame = true")
        before = int(page.locator(SESSIONS).first.get_attribute("data-value") or "")
        watched.wait_for_badge("live · commit 1")
        assert commit_again(lake) == 2
        watched.wait_for_badge("live · commit 2")
        shown = page.locator(SESSIONS).first
        assert int(shown.get_attribute("data-value") or "") == 2 * before > 0
        assert shown.inner_text().replace(",", "").replace("\u202f", "") == str(2 * before)
        assert page.evaluate("window.isTheSame") is True
        assert watched.hosts() == {urlsplit(served.server.url).netloc}
    assert watched.complaints == []


def test_the_last_minutes_move_while_the_whole_report_is_still_being_made(
    lake: Path, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served_lake(lake) as served:
        watched.open(served.server.url)
        page = watched.page
        messages = page.locator("#now [data-query=recent][data-column=messages]")
        before = int(messages.get_attribute("data-value") or "")
        assert before > 0 and page.locator("#now .main-svg").count() > 0
        may_go_on = threading.Event()
        report = served.source.report

        def slow_report(progress: Any) -> dict[str, Any]:
            assert may_go_on.wait(MILLISECONDS / 1000)
            return dict(report(progress))

        monkeypatch.setattr(served.source, "report", slow_report)
        assert commit_again(lake, "silver/messages") == 2
        expect(messages).to_have_attribute("data-value", str(2 * before), timeout=MILLISECONDS)
        watched.wait_for_badge("live · commit 1")
        may_go_on.set()
        watched.wait_for_badge("live · commit 2")
        expect(messages).to_have_attribute("data-value", str(2 * before))
    assert watched.complaints == []


def test_the_page_says_how_old_the_newest_traffic_is(lake: Path, watched: Watched) -> None:
    with served_lake(lake) as served:
        watched.open(served.server.url)
        expect(watched.page.locator("#lag")).to_have_text(
            re.compile(r"^newest traffic [\d,]+ d \d\d h ago$"), timeout=MILLISECONDS
        )
    assert watched.complaints == []


def test_a_conversation_that_the_page_does_not_hold_is_fetched_on_a_click(
    lake: Path, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "MAX_UNPACKED_BYTES", 100_000)
    with served_lake(lake) as served:
        watched.open(served.server.url)
        page = watched.page
        for more in page.locator("button.more").all():
            more.click()
        row = page.locator("tr.opens.elsewhere").first
        row.locator(".open").click()
        page.wait_for_selector("#conversation[open] svg")
        assert any("/conversation?id=" in url for url in watched.asked)
        assert "does not have this conversation" not in page.locator("#conversation").inner_text()
        assert commit_again(lake) == 2  # and it stays open when the report is made anew
        watched.wait_for_badge("live · commit 2")
        assert page.locator("#conversation[open] svg").count() > 0
    assert watched.complaints == []


def test_the_page_says_that_its_server_has_gone_and_comes_back_with_it(lake: Path, watched: Watched) -> None:
    with served_lake(lake) as served:
        watched.open(served.server.url)
    watched.wait_for_badge("connection lost")
    commit_again(lake)
    with served_lake(lake, port=served.server.port):
        watched.page.bring_to_front()
        watched.wait_for_badge("live · commit 2")


def test_a_lake_without_a_commit_fills_up_before_the_readers_eyes(
    report_lake: Path, tmp_path: Path, watched: Watched
) -> None:
    lake = Path(Lake.open(tmp_path / "lake").path)
    with served_lake(lake) as served:
        watched.open(served.server.url)
        watched.wait_for_badge("live · commit 0")
        for table in (
            "gold",
            "silver",
            "accounting",
            "bronze",
            "_tables",
            "_carry",
            "_commits",
        ):  # the record comes last
            shutil.copytree(report_lake / table, lake / table, dirs_exist_ok=True)
        watched.wait_for_badge("live · commit 1")
        assert int(watched.page.locator(SESSIONS).first.get_attribute("data-value") or "") > 0
    assert watched.complaints == []


def test_a_link_with_the_token_works_from_another_site_too(lake: Path, watched: Watched) -> None:
    with served_lake(lake, token="a-token-for-tests") as served:
        link = served.server.url_with_token.replace("127.0.0.1", "localhost")
        with another_site(f'<a href="{link}">the report</a>') as place:
            for _ in range(2):
                watched.page.goto(place)
                with watched.page.expect_navigation():
                    watched.page.click("a")
                watched.page.wait_for_selector("html[data-ready=true]")
                assert watched.page.url == link.partition("?")[0]
        watched.page.reload()
        watched.page.wait_for_selector("html[data-ready=true]")
        assert watched.page.evaluate("document.cookie") == ""
        commit_again(lake)
        watched.wait_for_badge("live · commit 2")
    assert watched.complaints == []


@contextmanager
def another_site(page: str) -> Iterator[str]:
    """127.0.0.1 and localhost are different sites."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()
