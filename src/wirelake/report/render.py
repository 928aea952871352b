"""The dict of ``collect`` as one HTML page that needs nothing else: no network, no other file.

The parts of the page are in ``page/``. One pass over the template puts them together, so that no text of a lake
is ever taken for a placeholder. The page's Content-Security-Policy names its scripts by their hashes: a script that
came with the data would not run.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from functools import cache
from importlib.resources import files
from typing import Any

from .packing import packed

SCRIPTS = (
    "dom.js",
    "format.js",
    "report.js",
    "unpack.js",
    "cells.js",
    "panels.js",
    "tables.js",
    "figures.js",
    "theme.js",
    "axes.js",
    "plots.js",
    "charts.js",
    "topology.js",
    "bytes.js",
    "timeline.js",
    "diagram.js",
    "event.js",
    "conversation.js",
    "filters.js",
    "lists.js",
    "sections.js",
    "live.js",
    "app.js",
)
"""The page's own code, in order."""

START = b'<!doctype html>\n<html lang="en">\n<head>\n<meta name="generator" content="wirelake">\n'
"""The first bytes of every page: they tell a report of ours from other files."""
PLACEHOLDER = re.compile(r"\{\{([a-z]+)\}\}")
UNSAFE_IN_SCRIPT = re.compile("[<>&\u2028\u2029\ud800-\udfff]")


def render(report: dict[str, Any], live: bool = False) -> str:
    """Return the page of a report; a ``live`` one polls its server for a newer report."""
    early, library, own = _page("early.js"), _library(), _own_code()
    parts = {
        "policy": _policy([early, library, own], live),
        "title": html.escape(_whole_characters(f"{report['about']['lake']} · wirelake")),
        "style": _page("style.css"),
        "early": early,
        "settings": script_json({"live": live}),
        "report": script_json(packed(report)),
        "library": library,
        "own": own,
    }
    return PLACEHOLDER.sub(lambda place: parts[place[1]], _page("index.html"))


def script_json(value: object) -> str:
    """Return JSON for a script element: no character in it has a meaning in HTML or JavaScript.

    >>> print(script_json({"topic": "</script><script>alert(1)"}))
    {"topic":"\\u003c/script\\u003e\\u003cscript\\u003ealert(1)"}
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return UNSAFE_IN_SCRIPT.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _whole_characters(text: str) -> str:
    """Replace what is not text: a path may contain such bytes, a page may not."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _policy(scripts: list[str], live: bool) -> str:
    """Return a policy under which only these scripts run, and nothing but the page's own server is contacted."""
    hashes = " ".join(_hash(script) for script in scripts)
    connect = "'self'" if live else "'none'"
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        f"connect-src {connect}; base-uri 'none'; form-action 'none'"
    )


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


@cache
def _library() -> str:
    """Return Plotly, whole, with the licence in its first lines."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ImportError("the report needs plotly: pip install 'wirelake[report]'") from error
    return _inline(get_plotlyjs())


@cache
def _own_code() -> str:
    bodies = "\n".join(_page(name) for name in SCRIPTS)
    return _inline(f"(function () {{\n'use strict';\n\n{bodies}}})();\n")


@cache
def _page(name: str) -> str:
    return files(__package__).joinpath("page", name).read_text(encoding="utf-8")


def _inline(script: str) -> str:
    """Return a script as a browser sees it between script tags: its line ends, and nothing that would end it early."""
    script = script.replace("\r\n", "\n").replace("\r", "\n")
    if re.search(r"</script|<script|<!--", script, re.IGNORECASE):
        raise ValueError("a script of the page contains text that ends a script element")
    return script
