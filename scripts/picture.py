"""Takes the pictures of a report that README and documents show, in light colours: the first screen, and a violation.

python scripts/picture.py REPORT.html [DIRECTORY]        writes report.png and violation.png; docs/pictures by default
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
WIDTH, HEIGHT = 1440, 1000
MOST_BYTES = 400_000
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
DRAWN = "() => document.querySelector('.js-plotly-plot .main-svg') !== null"
SETTLED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"


def first_screen(page: Page) -> None:
    page.wait_for_function(DRAWN)


def a_violation(page: Page) -> None:
    """Open the first violation about bytes: its conversation, with these bytes."""
    page.locator("#table-violations tbody tr", has_text="bytes").first.click()
    page.locator("dialog.conversation[open]").wait_for()


SHOWN: dict[str, Callable[[Page], None]] = {"report.png": first_screen, "violation.png": a_violation}


def take(report: Path, directory: Path) -> None:
    """Take each picture from a fresh page."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
        for name, show in SHOWN.items():
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
            page.goto(report.resolve().as_uri())
            show(page)
            page.evaluate(SETTLED)
            picture = page.screenshot()
            if len(picture) > MOST_BYTES:
                raise SystemExit(f"{name} has {len(picture)} bytes, which are too many for a README")
            (directory / name).write_bytes(picture)
            print(f"{directory / name}: {len(picture)} bytes")
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    take(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) == 3 else PICTURES)
