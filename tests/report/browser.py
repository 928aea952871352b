"""A page in a real browser, watched: what it complains of, what it asks the network for, what it pops up."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, Route, expect, sync_playwright

from tests.needs import require

MILLISECONDS = 60_000
QUIET = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]
SITE = "http://report.test/"
MARKS = ".main-svg .bars path, .main-svg .scatterlayer path, .main-svg .heatmaplayer image, .main-svg .sankey-link"


@contextmanager
def launched() -> Iterator[Browser]:
    """Chromium, without a window and without anything that it does for itself."""
    require("chromium")
    expect.set_options(timeout=MILLISECONDS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu", *QUIET]
        )
        yield browser
        browser.close()


class Watched:
    """A page of a file. Whatever it asks for beside that file is refused, and counted as a fault.

    With ``served`` it is a page of a site, which answers with what stands there by path; None is no answer at all.
    """

    def __init__(
        self, browser: Browser, file: Path, place: str = "", served: dict[str, Any] | None = None, **context: Any
    ) -> None:
        self.file, self.served = file, served
        self.url = file.as_uri() if served is None else SITE
        self.faults: list[str] = []
        self.context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **context})
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(MILLISECONDS)
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        self.page.on("dialog", self._on_dialog)
        self.page.on("popup", lambda popup: self.faults.append(f"popup: {popup.url}"))
        self.context.route("**/*", self._on_request)
        self.page.goto(self.url + place)
        self.page.wait_for_selector("html[data-ready=true]")

    def _on_console(self, said: Any) -> None:
        if said.type in ("error", "warning") and not self._is_refusal(said.text):
            self.faults.append(f"console: {said.text}")

    def _is_refusal(self, text: str) -> bool:
        """The browser itself tells of a server that does not answer."""
        return self.served is not None and "net::ERR_FAILED" in text

    def _on_dialog(self, dialog: Any) -> None:
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _on_request(self, route: Route) -> None:
        url = route.request.url.partition("#")[0]
        path = url.removeprefix(SITE)
        if url == self.url and self.served is None:
            route.continue_()
        elif url == self.url:
            route.fulfill(path=self.file, content_type="text/html; charset=utf-8")
        elif self.served is not None and path in self.served:
            answer = self.served[path]
            route.abort() if answer is None else route.fulfill(json=answer)
        else:
            self.faults.append(f"request: {route.request.url}")
            route.abort()

    def close(self) -> None:
        self.context.close()
        assert self.faults == []

    # --- things that many tests do

    def draw_everything(self) -> None:
        """Scrolls past every chart, until each is drawn or says why not."""
        for plot in self.page.locator(".plot").all():
            plot.scroll_into_view_if_needed()
            plot.locator(":is(.main-svg, .empty)").first.wait_for(state="attached")

    def show_everything(self) -> None:
        """Opens every table under a chart, and all rows of all tables."""
        self.page.evaluate("document.querySelectorAll('main details.as-table').forEach((one) => { one.open = true; })")
        self.page.wait_for_function("""() => [...document.querySelectorAll('main details.as-table')]
            .every((one) => one.childElementCount > 1)""")
        more = self.page.locator("main button.more", has_text="Show all")
        while more.count() > 0:
            more.first.click()

    def chosen(self) -> int:
        """Which message of the open conversation is chosen; waits until it is open."""
        step = self.page.locator("#conversation .step[aria-selected=true]")
        return int(step.get_attribute("data-event") or "")

    def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


@contextmanager
def opened(browser: Browser, file: Path, place: str = "", **context: Any) -> Iterator[Watched]:
    """A page that had nothing to complain of when it is left."""
    watched = Watched(browser, file, place, **context)
    try:
        yield watched
    finally:
        watched.close()
