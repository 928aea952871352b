"""The documents as a site: it is built without a warning and without network, has every page, and loads nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urldefrag, urlsplit

import pytest
import yaml

from scripts import site_hooks
from tests.docs.pages import ROOT
from tests.needs import require

LOADED = {
    "script": "src", "link": "href", "img": "src", "source": "src", "video": "src", "audio": "src", "iframe": "src",
    "embed": "src", "object": "data", "use": "href", "image": "href",
}  # fmt: skip
"""Elements that make a browser fetch something, and the attribute that says what."""
NOT_FETCHED = {"canonical", "next", "prev", "alternate"}
"""Kinds of links that only tell."""
IN_STYLE = re.compile(r"""url\(\s*["']?([^)"']+)|@import\s+["']([^"']+)""")
BUILD = """
import socket, sys

def refuse(*_):
    raise AssertionError("building the site needs no network")

socket.socket.connect = socket.getaddrinfo = refuse
from mkdocs.__main__ import cli
cli(["build", "--strict", "--site-dir", sys.argv[1]])
"""


class Page(HTMLParser):
    """What a page loads, and where its links lead."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.images: list[dict[str, str | None]] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if given.get("id"):
            self.anchors.add(str(given["id"]))
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        if tag == "img":
            self.images.append(given)
        told = given.get(LOADED.get(tag, ""))
        if told and not NOT_FETCHED & set((given.get("rel") or "").split()):
            self.loads.append(told)
        self.loads += urls_in_style(given.get("style") or "")

    def handle_data(self, data: str) -> None:
        if self.lasttag == "style":
            self.loads += urls_in_style(data)


def urls_in_style(text: str) -> list[str]:
    return [one or other for one, other in IN_STYLE.findall(text)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as ``make docs`` builds it, in a process that cannot connect to anybody."""
    place = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(place)],
        cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return place


@pytest.fixture(scope="module")
def built(site: Path) -> dict[str, Page]:
    """Every page but the one for addresses that there are not: that does not know where it is."""
    found = sorted(set(site.rglob("*.html")) - {site / "404.html"})
    return {path.relative_to(site).as_posix(): Page(path) for path in found}


def nav_pages() -> list[str]:
    """The pages that the navigation names, in its order."""
    told = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    found: list[str] = []
    waiting = [told]
    while waiting:
        match waiting.pop(0):
            case str() as page:
                found.append(page)
            case list() as parts:
                waiting[:0] = parts
            case dict() as part:
                waiting[:0] = list(part.values())
    return found


def test_every_page_of_the_documents_is_in_the_navigation_once():
    there = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    brought = {*site_hooks.BROUGHT, site_hooks.EXAMPLES}
    assert sorted(nav_pages()) == sorted(there | brought)


def test_there_are_few_guides():
    told = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    (guides,) = [one["Guides"] for one in told if "Guides" in one]
    assert 5 <= len(guides) <= 8


def test_every_page_of_the_navigation_is_built(built: dict[str, Page]):
    for page in nav_pages():
        assert page.removesuffix(".md") + ".html" in built


def test_nothing_is_loaded_from_another_host(site: Path, built: dict[str, Page]):
    loads = [(name, load) for name, page in built.items() for load in page.loads]
    for style in site.rglob("*.css"):
        loads += [(style.name, load) for load in urls_in_style(style.read_text(encoding="utf-8"))]
    assert len(loads) > len(built)
    foreign = [one for one in loads if urlsplit(one[1]).netloc]
    assert foreign == []


def test_what_pages_load_is_there(site: Path, built: dict[str, Page]):
    for name, page in built.items():
        for load in page.loads:
            path = urldefrag(load).url
            assert path.startswith("data:") or (site / name).parent.joinpath(path).resolve().exists(), (name, load)


def test_links_lead_to_pages_and_places_that_are_there(site: Path, built: dict[str, Page]):
    for name, page in built.items():
        for link in page.links:
            if urlsplit(link).scheme:
                continue
            path, anchor = urldefrag(link)
            there = (site / name).parent.joinpath(path).resolve() if path else site / name
            key = there.relative_to(site).as_posix()
            assert there.exists(), (name, link)
            assert not anchor or anchor in built[key].anchors, (name, link)


def test_a_browser_shows_it_finds_words_and_asks_nobody_else(site: Path):
    require("chromium")
    from playwright.sync_api import sync_playwright

    asked: list[str] = []
    told: list[str] = []
    with served(site) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: told.append(message.text))
        page.goto(f"{address}/architecture.html")
        page.locator("img[src='pictures/flow.svg']").wait_for()
        page.locator(".md-search__input").click()
        page.get_by_text("Type to start searching").wait_for(state="attached")
        page.locator(".md-search__input").press_sequentially("quarantine")
        page.locator(".md-search-result__link").first.wait_for()
        browser.close()
    assert f"{address}/search/search_index.json" in asked
    assert [url for url in asked if not url.startswith(address)] == []
    assert told == []


@contextmanager
def served(site: Path) -> Iterator[str]:
    """The site over HTTP, on a free port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def test_every_picture_says_what_is_on_it(built: dict[str, Page]):
    pictures = [(name, image) for name, page in built.items() for image in page.images]
    assert pictures
    for name, image in pictures:
        assert len(image.get("alt") or "") > 20, (name, image)


def test_every_example_is_on_the_page_of_examples(built: dict[str, Page]):
    for path in (ROOT / "examples").rglob("*"):
        if path.suffix in site_hooks.LANGUAGES:
            name = path.relative_to(ROOT / "examples").as_posix()
            assert site_hooks.example_anchor(name) in built["examples.html"].anchors


def test_links_to_examples_and_to_the_repository_are_put_right():
    assert site_hooks.relinked("[a](../examples/hub.toml)", "live.md") == "[a](examples.md#hub-toml)"
    assert site_hooks.relinked("[a](../../examples/questions)", "protocols/mb.md") == "[a](../examples.md#questions)"
    assert site_hooks.relinked("[a](../CONTRIBUTING.md#tests)", "faq.md") == "[a](contributing.md#tests)"
    assert site_hooks.relinked("[a](docs/rules.md)", "changelog.md") == "[a](rules.md)"
    assert site_hooks.relinked("[a](https://host/b) [c](#d)", "faq.md") == "[a](https://host/b) [c](#d)"
