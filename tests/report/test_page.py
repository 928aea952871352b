"""The page in a real browser: what is drawn, clicked, typed, filtered, printed, and read aloud."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.report.browser import MARKS, launched, opened
from tests.report.sample import COLUMNS, START, empty, sample
from wirelake.report.render import render

VIOLATION = "#table-violations tbody tr:nth-child(1)"
ACTIVE = "document.activeElement"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


def written(folder: Path, report: dict[str, Any], name: str = "report.html") -> Path:
    (folder / name).write_text(render(report), encoding="utf-8")
    return folder / name


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("page"), sample())


def press_until(page: Page, key: str, selector: str, most: int = 400) -> None:
    """Presses a key until an element has the focus."""
    for _ in range(most):
        if page.evaluate(f"{ACTIVE}.matches({json.dumps(selector)})"):
            return
        page.keyboard.press(key)
    raise AssertionError(f"{selector} was not reached with {key}")


# --- what is drawn


def test_every_chart_is_drawn_and_has_words_and_a_table(browser: Browser, file: Path) -> None:
    with opened(browser, file) as watched:
        watched.draw_everything()
        watched.show_everything()
        plots = watched.page.locator(".plot")
        assert plots.count() == 6
        for plot in plots.all():
            assert plot.get_attribute("role") == "img"
            assert len(plot.get_attribute("aria-label") or "") > 30
            assert plot.locator(MARKS).count() > 0
            assert plot.locator("xpath=..").locator("details.as-table tbody tr").count() > 0


def test_charts_have_a_mark_for_each_row(browser: Browser, file: Path) -> None:
    data = sample()["data"]
    with opened(browser, file) as watched:
        watched.draw_everything()
        marks = {
            "Requests by protocol": (".bars .point", len(data["traffic"]["rows"])),
            "Quarantined bytes": (".bars .point", len(data["quarantine_over_time"]["rows"])),
            "Latency percentiles": (".scatterlayer .trace", 3),
            "Latency heat map": (".heatmaplayer image", 1),
            "Who talks to whom": (".sankey-link", len(data["topology"]["rows"])),
        }
        for title, (mark, count) in marks.items():
            assert watched.page.locator("article.chart", has_text=title).first.locator(mark).count() == count, title


def test_the_tiles_show_the_overview(browser: Browser, file: Path) -> None:
    with opened(browser, file) as watched:
        tile = watched.page.locator("[data-tile=messages]")
        assert tile.locator(".tile-figure").inner_text() == "9,007,199,254,740,991"
        assert watched.page.locator("[data-tile=p95_us] .tile-figure").inner_text() == "17.3 ms"
        assert "bad" in (watched.page.locator("[data-tile=in_doubt]").get_attribute("class") or "")


# --- from a violation to its bytes


def test_a_click_on_a_violation_shows_its_bytes(browser: Browser, file: Path) -> None:
    with opened(browser, file) as watched:
        page = watched.page
        page.locator(VIOLATION).click()
        assert watched.chosen() == 4
        assert "quarantined: text_utf8 in signal_id at byte 12" in page.locator(".fault").inner_text()
        assert page.locator(".byte.wrong").all_inner_texts() == ["01", "00", "00", "02"]
        wrong = page.locator(".part-row.wrong")
        assert wrong.locator("th").inner_text() == "12"
        assert "signal_id" in wrong.inner_text() and "breaks text_utf8" in wrong.inner_text()
        page.locator("#conversation-close").click()
        expect(page.locator("#conversation")).to_be_hidden()


def test_the_keyboard_alone_goes_the_same_way_and_back(browser: Browser, file: Path) -> None:
    with opened(browser, file) as watched:
        page = watched.page
        press_until(page, "Tab", "a[href='#violations']")
        page.keyboard.press("Enter")
        press_until(page, "Tab", f"{VIOLATION} .open")
        page.keyboard.press("ArrowDown")
        assert page.evaluate(f"{ACTIVE}.closest('tr').dataset.row") == "1"
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Enter")
        assert watched.chosen() == 4
        assert page.evaluate(f"{ACTIVE}.getAttribute('role')") == "listbox"
        assert page.evaluate(f"{ACTIVE}.getAttribute('aria-activedescendant')") == "event-4"
        page.keyboard.press("ArrowUp")
        assert "violation: state" in page.locator(".fault").inner_text()
        page.keyboard.press("ArrowDown")
        press_until(page, "Tab", ".part-row[data-part='3']")
        assert page.locator(".byte.lit").count() == 9
        page.keyboard.press("Escape")
        expect(page.locator("#conversation")).to_be_hidden()
        assert page.evaluate(f"{ACTIVE}.closest('#table-violations tr').dataset.row") == "0"
        page.keyboard.press("Space")
        expect(page.locator("#conversation")).to_be_visible()


@pytest.mark.parametrize("names", [["eth0"], ["eth0", "eth1"]])
def test_sensors_are_named_if_there_are_several(browser: Browser, tmp_path: Path, names: list[str]) -> None:
    report = sample()
    report["about"] |= {"sensors": names, "sensor_count": len(names)}
    with opened(browser, written(tmp_path, report)) as watched:
        page = watched.page
        shown = len(names) - 1
        assert page.locator("#lake-facts", has_text="2: eth0, eth1").count() == shown
        for table in ("sessions", "transactions", "violations", "slow_exchanges"):
            assert page.locator(f"#table-{table} thead [data-column=sensor]").count() == shown, table
        page.locator(VIOLATION).click()
        expect(page.locator(".event-facts")).to_contain_text("connection")
        assert page.locator(".event-facts dt", has_text="sensor").count() == shown


def test_a_part_and_its_bytes_point_at_each_other(browser: Browser, file: Path) -> None:
    with opened(browser, file, "#conversation=c:1&event=4") as watched:
        watched.page.locator(".part-row[data-part='4']").hover()
        assert watched.page.locator(".byte.lit").all_inner_texts() == ["01", "00", "00", "02"]
        watched.page.locator(".byte[data-at='5']").hover()
        assert watched.page.locator(".part-row.lit th").inner_text() == "3"


def test_a_long_dump_is_shown_where_the_rule_was_broken_and_follows_the_focus(browser: Browser, tmp_path: Path) -> None:
    report = sample()
    event = report["conversations"]["c:1"]["events"][4]
    part = {"offset": 0, "length": 4, "path": "begin", "what": "", "value": "0"}
    event["bytes"] |= {
        "hex": "00" * 1024,
        "total": 1024,
        "parts": [part, part | {"offset": 900, "path": "end"}],
        "error": {"rule": "text_utf8", "path": "end", "offset": 900, "detail": ""},
    }
    with opened(browser, written(tmp_path, report), "#conversation=c:1&event=4") as watched:
        page = watched.page
        expect(page.locator(".byte[data-at='900']")).to_be_in_viewport()
        page.locator(".part-row").first.focus()
        expect(page.locator(".byte[data-at='0']")).to_be_in_viewport()


def test_a_link_opens_its_message_and_back_closes_it(browser: Browser, file: Path) -> None:
    with opened(browser, file, "#conversation=c%3A1&event=3") as watched:
        page = watched.page
        assert watched.chosen() == 3
        page.keyboard.press("Escape")
        expect(page.locator("#conversation")).to_be_hidden()
        assert "#" not in page.url
        page.locator(VIOLATION).click()
        assert watched.chosen() == 4
        assert "conversation=c%3A1&event=4" in page.url
        page.keyboard.press("Home")
        assert "event=0" in page.url
        page.go_back()
        expect(page.locator("#conversation")).to_be_hidden()
        page.go_forward()
        expect(page.locator(".step[aria-selected=true]")).to_have_attribute("data-event", "0")


def test_a_diagram_marks_by_shape_and_text_and_tells_what_is_left_out(browser: Browser, file: Path) -> None:
    with opened(browser, file, "#conversation=c:1") as watched:
        page = watched.page
        assert watched.chosen() == 2
        assert page.locator(".step.gap .break").count() == 1
        assert page.locator(".step.quarantine .cross").count() == 1
        assert page.locator(".step .mark").all_text_contents() == [
            "never captured: 40 bytes",
            "violation: state",
            "quarantined: text_utf8",
        ]
        assert page.locator(".left-out").all_text_contents() == [
            "120 earlier messages not shown",
            "1 later message not shown",
        ]
        assert "2 messages in between not shown" in page.locator(".sequence .why").inner_text()
        assert page.locator(".pause").all_text_contents() == ["899 ms later"]
        heads = page.locator(".heads-box").evaluate("(one) => getComputedStyle(one).position")
        assert heads == "sticky"
        labels = page.locator(".step").evaluate_all("(all) => all.map((one) => one.getAttribute('aria-label'))")
        assert labels[0] == "request, from orders to 10.0.0.2:8088, orders.place"


def test_a_transaction_shows_its_two_phases_and_what_never_ended(browser: Browser, file: Path) -> None:
    with opened(browser, file) as watched:
        page = watched.page
        page.locator("#table-transactions tbody tr").first.click()
        assert watched.chosen() == 2
        assert page.locator(".timeline .bar").count() == 6
        assert page.locator(".timeline .bar.unended").count() == 1
        assert "payments: work 4.00 ms" in (page.locator(".timeline").get_attribute("aria-label") or "")
        assert "commit never ended" in (page.locator(".timeline").get_attribute("aria-label") or "")


def test_a_conversation_that_the_page_does_not_hold_says_so(browser: Browser, file: Path) -> None:
    with opened(browser, file) as watched:
        watched.page.locator("#table-failures tbody tr").first.click()
        text = watched.page.locator("#conversation .not-here").inner_text()
        assert "This conversation is not in the page" in text and "wirelake report LAKE --serve" in text


# --- filter, sort, search, SQL


def test_the_search_filters_all_tables_and_says_how_much_is_left(browser: Browser, file: Path) -> None:
    with opened(browser, file) as watched:
        page = watched.page
        page.keyboard.press("/")
        page.keyboard.type("customer")
        expect(page.locator("#matches")).to_have_text("2 of 20 rows match")
        assert page.locator("#table-slow_addresses tbody th").all_inner_texts() == ["customer.get"]
        assert page.locator("#table-slow_addresses .rows").inner_text() == "1 of 2 rows match"
        assert "No row matches the filter" in page.locator("#table-failures").inner_text()
        page.locator("#clear").click()
        expect(page.locator("#matches")).to_have_text("")
        assert page.locator("#table-slow_addresses tbody tr").count() == 2
        page.locator("#search").fill("in doubt")
        expect(page.locator("#table-transactions tbody tr")).to_have_count(1)


def test_protocols_filter_tables_and_charts(browser: Browser, file: Path) -> None:
    with opened(browser, file) as watched:
        page = watched.page
        watched.draw_everything()
        page.locator("[data-chip=casual]").click()
        assert page.locator("[data-chip=casual]").get_attribute("aria-pressed") == "true"
        assert page.locator("#table-slow_addresses tbody th").all_inner_texts() == ["customer.get"]
        traffic = page.locator("article.chart", has_text="Requests by protocol")
        expect(traffic.locator(".bars .point")).to_have_count(12)
        expect(page.locator(".sankey-link")).to_have_count(1)
        expect(page.locator("article.chart", has_text="Outcomes of requests").locator(".rows")).to_have_text(
            "all protocols"
        )
        page.locator("[data-chip=ceda]").click()
        latency = page.locator("article.chart", has_text="Latency percentiles")
        assert latency.locator(".legend li").all_inner_texts() == ["casual p95", "ceda p95"]


def test_headers_sort_there_and_back_and_back_to_the_query(browser: Browser, file: Path) -> None:
    with opened(browser, file) as watched:
        page = watched.page
        column = page.locator("#table-slow_addresses th:has([data-sort=requests])")
        errors = page.locator("#table-slow_addresses [data-sort=errors]")
        shown = page.locator("#table-slow_addresses tbody [data-column=errors]")
        orders = []
        for _ in range(3):
            errors.click()
            orders.append(shown.all_inner_texts())
        assert orders == [["10", "2"], ["2", "10"], ["10", "2"]]
        assert column.get_attribute("aria-sort") == "none"
        duration = page.locator("#table-transactions [data-sort=duration_us]")
        for _ in range(2):  # what has no value comes last, whichever way
            duration.click()
            assert page.locator("#table-transactions tbody [data-column=duration_us]").all_inner_texts() == [
                "40.9 ms",
                "–",
            ]


def test_each_table_and_chart_shows_its_sql(browser: Browser, file: Path) -> None:
    with opened(browser, file) as watched:
        page = watched.page
        named = page.locator("main article .sql-button[data-sql]").evaluate_all(
            "(all) => all.map((one) => one.dataset.sql)"
        )
        assert set(COLUMNS) <= set(named)
        button = page.locator("#table-rules .sql-button")
        button.click()
        assert page.locator("#sql-text").inner_text() == sample()["queries"]["rules"]["sql"]
        page.locator("#sql-copy").click()
        expect(page.locator("#sql-note")).to_contain_text(re.compile("Copied|Selected"))
        page.keyboard.press("Escape")
        expect(page.locator("#sql-dialog")).to_be_hidden()
        assert page.evaluate(f"{ACTIVE}.dataset.sql") == "rules"


# --- how it looks


def background(page: Page) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def test_dark_and_light_follow_the_system_and_the_button_and_are_remembered(browser: Browser, file: Path) -> None:
    with opened(browser, file, color_scheme="dark") as watched:
        page = watched.page
        tick = page.locator("article.chart .xtick text").first
        tick.wait_for()
        dark, dark_text = background(page), tick.evaluate("(one) => one.style.fill")
        page.locator("#theme").click()
        light, light_text = background(page), tick.evaluate("(one) => one.style.fill")
        assert dark != light and dark_text != light_text
        page.reload()
        page.wait_for_selector("html[data-ready=true]")
        assert background(page) == light
        page.emulate_media(color_scheme="light")
        assert background(page) == light
    with opened(browser, file, color_scheme="light") as watched:
        assert background(watched.page) == light


@pytest.mark.parametrize("width", [320, 360, 390, 768, 1024])
def test_nothing_is_wider_than_the_window(browser: Browser, file: Path, width: int) -> None:
    with opened(browser, file, viewport={"width": width, "height": 800}) as watched:
        watched.draw_everything()
        watched.show_everything()
        assert watched.overflow() == 0
        for place in ("conversation=c:1&event=4", "conversation=t:42:aed9"):
            watched.page.evaluate("(place) => { location.hash = place; }", place)
            expect(watched.page.locator("#conversation .step[aria-selected=true]")).to_be_visible()
            box = watched.page.locator("#conversation").bounding_box()
            assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= width
            assert watched.page.locator(".event-view").evaluate("(one) => one.scrollWidth - one.clientWidth") == 0


def test_paper_is_light_and_has_no_controls(browser: Browser, file: Path) -> None:
    with opened(browser, file, color_scheme="dark", viewport={"width": 690, "height": 900}) as watched:
        page = watched.page
        page.emulate_media(media="print")
        expect(page.locator("html")).to_have_class("printing")
        controls = page.locator(":is(button, summary, nav, #search):visible:not(.sort, .open, .conversation-item)")
        assert controls.count() == 0
        assert (
            page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--text')").strip() == "#18212c"
        )
        assert watched.overflow() == 0
        assert page.locator(".plot .main-svg").count() > 0
        page.emulate_media(media="screen")
        expect(page.locator("#search")).to_be_visible()


def test_all_charts_are_on_paper_also_those_that_were_not_looked_at(
    browser: Browser, file: Path, tmp_path: Path
) -> None:
    with opened(browser, file) as watched:
        watched.page.wait_for_selector(".plot .main-svg")
        watched.page.pdf(path=tmp_path / "report.pdf", format="A4")
        assert watched.page.locator(".plot:has(.main-svg)").count() == watched.page.locator(".plot").count()
        assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")


# --- read aloud


def test_landmarks_headings_tables_and_names_are_there(browser: Browser, file: Path) -> None:
    with opened(browser, file) as watched:
        page = watched.page
        watched.show_everything()
        for role in ("banner", "navigation", "main", "search"):
            assert page.get_by_role(role).count() == 1, role  # type: ignore[arg-type]
        assert page.locator("h1").count() == 1
        levels = page.locator("main :is(h2, h3, h4)").evaluate_all("(all) => all.map((one) => Number(one.tagName[1]))")
        assert all(after - before <= 1 for before, after in zip([1, *levels], levels, strict=False))
        faults = page.evaluate(
            """() => {
              const faults = [];
              for (const table of document.querySelectorAll('table')) {
                if (!table.caption?.textContent) faults.push('table without a caption');
                for (const head of table.querySelectorAll('th')) if (!head.scope) faults.push('head without a scope');
              }
              for (const dialog of document.querySelectorAll('dialog')) {
                const name = document.getElementById(dialog.getAttribute('aria-labelledby'));
                if (!name) faults.push('dialog without a name');
              }
              for (const one of document.querySelectorAll('button, a, input, summary, [tabindex="0"]')) {
                const label = one.labels?.[0]?.textContent;
                const name = one.getAttribute('aria-label') || one.textContent.trim() || label;
                if (!name) faults.push(`without a name: ${one.outerHTML.slice(0, 80)}`);
              }
              const ids = [...document.querySelectorAll('[id]')].map((one) => one.id);
              if (new Set(ids).size !== ids.length) faults.push('an id is there twice');
              return faults;
            }"""
        )
        assert faults == []


def test_the_first_stop_skips_to_the_report_and_focus_is_seen(browser: Browser, file: Path) -> None:
    with opened(browser, file) as watched:
        page = watched.page
        page.keyboard.press("Tab")
        assert page.evaluate(f"{ACTIVE}.textContent") == "Skip to the report"
        expect(page.locator(".skip")).to_be_in_viewport()
        assert page.evaluate(f"getComputedStyle({ACTIVE}).outlineStyle") == "solid"
        page.keyboard.press("Enter")
        assert page.evaluate(f"{ACTIVE}.id") == "main"


# --- lakes that are not like others


def test_an_empty_lake_shows_a_clean_page(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, written(tmp_path, empty())) as watched:
        page = watched.page
        watched.draw_everything()
        watched.show_everything()
        assert page.locator(".main-svg").count() == 0
        text = page.locator("main").inner_text()
        assert "No traffic with times in this lake." in text and "Everything is decided." in text
        assert "undefined" not in text and "NaN" not in text and "null" not in text
        assert page.locator("[data-tile=p95_us] .tile-figure").inner_text() == "–"


def test_a_lake_with_only_violations_and_no_times_shows_them(browser: Browser, tmp_path: Path) -> None:
    report, full = empty(), sample()
    for name in ("violations", "rules"):
        report["data"][name] = full["data"][name]
    for row in report["data"]["violations"]["rows"]:
        row[1] = None
    report["conversations"] = {"c:1": full["conversations"]["c:1"]}
    for event in report["conversations"]["c:1"]["events"]:
        event["ts"] = None
    with opened(browser, written(tmp_path, report)) as watched:
        watched.page.locator(VIOLATION).click()
        expect(watched.page.locator(".byte.wrong")).to_have_count(4)
        assert "NaN" not in watched.page.locator("#conversation").inner_text()


def test_nulls_are_shown_as_nothing(browser: Browser, tmp_path: Path) -> None:
    report = sample()
    for query in report["data"].values():
        query["rows"] = [[None] * len(query["columns"]) for _ in query["rows"]]
    with opened(browser, written(tmp_path, report)) as watched:
        watched.draw_everything()
        watched.show_everything()
        text = watched.page.locator("main").inner_text()
        assert "undefined" not in text and "NaN" not in text and "null" not in text


def test_what_is_missing_in_a_report_is_left_out(browser: Browser, tmp_path: Path) -> None:
    report = sample()
    for name in ("heat", "held", "topology"):
        del report["data"][name], report["queries"][name]
    report["conversations"]["c:1"].pop("branches")
    with opened(browser, written(tmp_path, report), "#conversation=c:1") as watched:
        expect(watched.page.locator(".step")).to_have_count(5)
        watched.page.keyboard.press("Escape")
        watched.draw_everything()


def test_columns_and_queries_that_the_page_does_not_know_are_shown(browser: Browser, tmp_path: Path) -> None:
    report = sample()
    report["data"]["rules"]["columns"].append("worst_us")
    for row in report["data"]["rules"]["rows"]:
        row.append(1500)
    with opened(browser, written(tmp_path, report)) as watched:
        head = watched.page.locator("#table-rules thead th").last
        assert head.inner_text() == "worst"
        assert watched.page.locator("#table-rules tbody [data-column=worst_us]").first.inner_text() == "1.50 ms"


def test_a_long_conversation_is_drawn_whole_and_scrolls_to_its_message(browser: Browser, tmp_path: Path) -> None:
    report = sample()
    talk = report["conversations"]["c:1"]
    talk["events"] = [talk["events"][0] | {"ts": START + 1000 * at} for at in range(600)]
    with opened(browser, written(tmp_path, report), "#conversation=c:1&event=570") as watched:
        expect(watched.page.locator(".step[aria-selected=true]")).to_be_in_viewport()
        expect(watched.page.locator(".heads")).to_be_in_viewport()
        watched.page.keyboard.press("End")
        assert watched.chosen() == 599


def test_conversations_are_opened_from_whichever_block_they_lie_in(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wirelake.report.packing.BLOCK_BYTES", 100)
    report = sample()
    for at in range(5):
        report["conversations"][f"c:9{at}"] = report["conversations"]["c:1"] | {
            "id": f"c:9{at}",
            "title": f"number {at}",
        }
    with opened(browser, written(tmp_path, report)) as watched:
        for at in (4, 0, 2, 4):
            watched.page.locator(".conversation-item", has_text=f"number {at}").click()
            expect(watched.page.locator("#conversation-title")).to_have_text(f"number {at}")
            assert watched.chosen() == 2
            watched.page.keyboard.press("Escape")
            expect(watched.page.locator("#conversation")).to_be_hidden()


def test_a_browser_that_cannot_open_them_says_so(browser: Browser, file: Path) -> None:
    with opened(browser, file) as watched:
        watched.page.evaluate("delete window.DecompressionStream")
        watched.page.locator(VIOLATION).click()
        expect(watched.page.locator("#conversation .not-here")).to_contain_text("too old to unpack the conversation")


# --- a page that is served


def test_a_new_commit_is_taken_over_without_losing_what_is_looked_at(browser: Browser, tmp_path: Path) -> None:
    older, newer = sample(), sample()
    newer["about"]["commit"] = 4
    newer["data"]["overview"]["rows"][0][7] = 1201
    talk = newer["conversations"]["c:1"]
    talk["events"].append(talk["events"][0] | {"message": "one_more"})
    file = tmp_path / "live.html"
    file.write_text(render(older, live=True), encoding="utf-8")
    served: dict[str, Any] = {"state": {"commit": 3, "made": ""}, "report.json": newer}
    with opened(browser, file, served=served) as watched:
        page = watched.page
        expect(page.locator("#live-badge")).to_have_text("live · commit 3")
        page.locator("#search").fill("utf8")
        page.locator("[data-chip=ceda]").click()
        page.locator(VIOLATION).click()
        assert watched.chosen() == 4
        page.keyboard.press("ArrowUp")
        place = page.evaluate("scrollY")
        served["state"] = {"commit": 4, "made": ""}
        expect(page.locator("#live-badge")).to_have_text("live · commit 4")
        assert page.locator("[data-tile=requests] .tile-figure").inner_text() == "1,201"
        expect(page.locator("#conversation .step")).to_have_count(6)
        assert watched.chosen() == 3
        assert page.evaluate("scrollY") == place
        page.keyboard.press("Escape")
        assert page.locator("#search").input_value() == "utf8"
        assert page.locator("#table-violations tbody tr").count() == 1
        assert page.locator("[data-chip=ceda]").get_attribute("aria-pressed") == "true"


@pytest.mark.parametrize(
    "place", [".tile-label[href='#latency']", "#table-rules .sort", ".conversation-item", "#about li .sql-button"]
)
def test_a_new_commit_leaves_the_focus_where_it_is(browser: Browser, tmp_path: Path, place: str) -> None:
    newer = sample()
    newer["about"]["commit"] = 4
    file = tmp_path / "live.html"
    file.write_text(render(sample(), live=True), encoding="utf-8")
    served: dict[str, Any] = {"state": {"commit": 3, "made": ""}, "report.json": newer}
    with opened(browser, file, served=served) as watched:
        page = watched.page
        page.locator(place).first.focus()
        before = page.evaluate(f"{ACTIVE}.outerHTML")
        served["state"] = {"commit": 4, "made": ""}
        expect(page.locator("#live-badge")).to_have_text("live · commit 4")
        assert page.evaluate(f"{ACTIVE}.outerHTML") == before


def test_a_page_that_lost_its_server_says_so_and_comes_back(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "live.html"
    file.write_text(render(sample(), live=True), encoding="utf-8")
    served: dict[str, Any] = {"state": None}
    with opened(browser, file, served=served) as watched:
        badge = watched.page.locator("#live-badge")
        expect(badge).to_have_text("connection lost")
        served["state"] = {"commit": 3, "made": ""}
        expect(badge).to_have_text("live · commit 3")


def test_a_served_page_fetches_the_conversations_that_it_does_not_hold(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "live.html"
    file.write_text(render(sample(), live=True), encoding="utf-8")
    other = sample()["conversations"]["c:1"] | {"id": "x:1:s:7", "title": "fetched just now"}
    served = {"state": {"commit": 3, "made": ""}, "conversation?id=x%3A1%3As%3A7": other}
    with opened(browser, file, served=served) as watched:
        watched.page.locator("#table-failures tbody tr").first.click()
        expect(watched.page.locator("#conversation-title")).to_have_text("fetched just now")
        expect(watched.page.locator(".step")).to_have_count(5)
