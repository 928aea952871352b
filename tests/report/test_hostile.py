"""Texts that somebody sends who wants the page to run something, or to show something else than what was sent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.report.browser import Watched, launched, opened
from tests.report.sample import hostile, sample
from wirelake.report.render import render

HACK = "window.hacked = 1; alert(1)"
TEXTS = {
    "markup": f"""<script>{HACK}</script><img src=x onerror="{HACK}"><svg/onload="{HACK}">"'><iframe src=//a.test>""",
    "end of the script": f"</script><script>{HACK}</script><!-- <script> --> ]]>",
    "links": f"javascript:{HACK}//<a href='javascript:{HACK}'>click</a>",
    "texts of charts": f"<b>b</b><br><a href='javascript:{HACK}'>x</a> %{{x}} %{{customdata}} $\\alpha$ &lt;i&gt;",
    "names of objects": "__proto__",
    "other names of objects": "constructor",
    "template": "{{own}}{{report}}${window.hacked = 1}%(own)s",
    "code": f"';{HACK};//\";{HACK};//`;{HACK};//",
    "10,000 characters": "long" * 2500,
    "one word in RTL": "\u202egnp.exe \u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \u2066x",
    "characters that are not seen": "a\x00b\x1b[31mc\u200bd\u2028e\ud800f\x7f\x85",
}
TAGS = "[...new Set([...document.querySelectorAll('*')].map((one) => one.tagName.toLowerCase()))]"
SUSPECTS = """() => [...document.querySelectorAll('*')].flatMap((one) => [...one.attributes]
    .filter(({name, value}) => /^on/i.test(name) || /^(src|srcdoc|action|formaction)$/i.test(name) && value !== ''
        || /^(href|xlink:href)$/i.test(name) && !/^(#|data:(,$|image[/]png;base64,))/.test(value))
    .map(({name, value}) => `${one.tagName} ${name}=${value.slice(0, 60)}`))"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


def written(folder: Path, report: dict[str, Any]) -> Path:
    (folder / "report.html").write_text(render(report), encoding="utf-8")
    return folder / "report.html"


def use_everything(watched: Watched) -> set[str]:
    """Draws, opens, points at and clicks what the page has; the tags that it then had."""
    page = watched.page
    watched.draw_everything()
    watched.show_everything()
    page.locator(".sankey-link").first.hover(force=True)
    page.locator(".bars .point").first.hover(force=True)
    tags = set(page.evaluate(TAGS))
    page.locator("main .sql-button[data-sql=overview]").first.click()
    page.keyboard.press("Escape")
    for query in ("violations", "transactions", "sessions"):
        page.locator(f"#table-{query} tbody tr .open").first.click()
        expect(page.locator("#conversation .step[aria-selected=true]")).to_be_attached()
        page.evaluate("document.querySelectorAll('#conversation details').forEach((one) => { one.open = true; })")
        for _ in range(5):
            page.keyboard.press("ArrowDown")
        page.keyboard.press("Home")
        tags |= set(page.evaluate(TAGS))
        assert page.evaluate(SUSPECTS) == []
        page.keyboard.press("Escape")
        expect(page.locator("#conversation")).to_be_hidden()
    return tags


@pytest.fixture(scope="module")
def usual_tags(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    with opened(browser, written(tmp_path_factory.mktemp("usual"), sample())) as watched:
        return use_everything(watched)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_a_text_is_shown_and_nothing_else_happens(
    browser: Browser, usual_tags: set[str], tmp_path: Path, text: str
) -> None:
    with opened(browser, written(tmp_path, hostile(text)), viewport={"width": 800, "height": 900}) as watched:
        page = watched.page
        assert use_everything(watched) <= {*usual_tags, "details", "summary"}
        assert page.evaluate(SUSPECTS) == []
        assert page.evaluate("window.hacked") is None
        assert page.evaluate("({}).hacked") is None
        assert page.locator("script").count() == 5
        assert watched.overflow() == 0
        assert page.url.partition("#")[0] == watched.url


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<b>bold</b> & &lt;", "<b>bold</b> & &lt;"),
        ("a\x00b\nc\x7f", "a␀b␊c␡"),
        ("\u202egnp.exe", "‹U+202E›gnp.exe"),
        ("a\u200bb\ud800\x85", "a‹U+200B›b‹U+D800›‹U+0085›"),
        ("a\u00adb\u3164\U000e0041", "a‹U+00AD›b‹U+3164›‹U+E0041›"),
        ("  ", "␠␠"),
        ("שלום", "שלום"),
    ],
)
def test_a_reader_sees_the_text_that_was_sent(browser: Browser, tmp_path: Path, text: str, shown: str) -> None:
    with opened(browser, written(tmp_path, hostile(text))) as watched:
        page = watched.page
        assert page.locator("#table-slow_addresses tbody th").first.inner_text() == shown
        assert page.locator("h1").inner_text() == shown
        watched.draw_everything()
        assert shown in page.locator(".sankey .node-label").all_text_contents()


def test_all_of_a_long_name_can_be_reached_by_keyboard(browser: Browser, tmp_path: Path) -> None:
    text = "x" * 9_999 + "!"
    with opened(browser, written(tmp_path, hostile(text))) as watched:
        cell = watched.page.locator("#table-slow_addresses tbody th").first
        assert len(cell.inner_text()) < 200
        cell.locator("summary").focus()
        watched.page.keyboard.press("Enter")
        expect(cell.locator(".whole")).to_be_visible()
        assert cell.locator(".whole").inner_text() == text
