"""What the site has besides docs/, for mkdocs.yml: the examples on one page, the changelog, the rules for contributors.

Pages link to these as they lie in the repository (``../examples/hub.toml``), so that links work where code is hosted,
and are rewritten here to where they lie in the site.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
BROUGHT = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
"""Pages of the site that lie elsewhere in the repository."""
EXAMPLES = "examples.md"
EXAMPLES_HEAD = """\
---
search:
  boost: 0.5
---

# Examples

The files of the directory `examples`, as they are. Tests run every one of them.
"""
LANGUAGES = {".py": "python", ".sql": "sql", ".toml": "toml", ".service": "ini", ".yaml": "yaml"}
TITLES = {
    ".": "Programs",
    "protocols": "Public protocols",
    "domain": "A casual domain",
    "deploy": "A stream for weeks",
    "questions": "Questions",
    "spark": "Spark",
    "cluster": "Cluster",
}
"""The directories of examples, in the order of the site."""
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for page, source in BROUGHT.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    files.append(File.generated(config, EXAMPLES, content=examples_page()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the text with its links as they are in the site; code is left alone."""
    here = page.file.src_uri
    pieces = []
    end = 0
    for fence in FENCE.finditer(markdown):
        pieces += [relinked(markdown[end : fence.start()], here), fence.group()]
        end = fence.end()
    return "".join([*pieces, relinked(markdown[end:], here)])


def relinked(text: str, here: str) -> str:
    """``here`` is a page of the site, such as ``protocols/mb.md``."""
    origin = BROUGHT.get(here, f"docs/{here}")

    def put(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(origin), found[1]))
        place = place_in_site(target, found[2] or "")
        return f"]({_relative(place, here)})" if place else found[0]

    return LINK.sub(put, text)


def place_in_site(path: str, anchor: str) -> str:
    """Return where a file of the repository lies in the site; empty if it is not there."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/") + anchor
    for page, source in BROUGHT.items():
        if path == source:
            return page + anchor
    if path == "examples":
        return EXAMPLES
    if path.startswith("examples/"):
        return f"{EXAMPLES}#{example_anchor(path.removeprefix('examples/'))}"
    return ""


def _relative(place: str, here: str) -> str:
    path, hash_sign, anchor = place.partition("#")
    return posixpath.relpath(path, posixpath.dirname(here) or ".") + hash_sign + anchor


# --- examples


def examples_page() -> str:
    lines = [EXAMPLES_HEAD]
    for directory, title in TITLES.items():
        lines += [f"## {title} {{ #{example_anchor(directory)} }}", ""]
        for path in sorted((ROOT / "examples" / directory).iterdir()):
            if path.suffix in LANGUAGES:
                lines += _example(path)
    return "\n".join(lines)


def _example(path: Path) -> Iterator[str]:
    name = path.relative_to(ROOT / "examples").as_posix()
    yield f"### {name} {{ #{example_anchor(name)} }}"
    yield ""
    yield f"```{LANGUAGES[path.suffix]}"
    yield path.read_text(encoding="utf-8").rstrip("\n")
    yield "```"
    yield ""


def example_anchor(name: str) -> str:
    """Return the anchor of a file or directory below examples/: ``questions/ask.py`` is ``questions-ask-py``."""
    return re.sub(r"[^a-z0-9_]+", "-", name.lower()).strip("-") or "programs"
