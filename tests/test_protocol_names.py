"""Nobody knows a protocol by its name: what is special about it stands in its declaration."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from wirelake.protocols import BUILT_IN

SOURCE = Path(__file__).resolve().parents[1] / "src" / "wirelake"
OWN_ROOMS = ("protocols", "live/mb", "live/ceda", "live/casual", "live/dsa", "demo/scenes")
"""The protocols' own packages, and their live code."""
REGISTRIES = {
    "live/records.py": "the list of live protocols",
    "spark/functions.py": "the functions that users import, one set per built-in protocol",
}
OTHER_MEANINGS = {("spark/options.py", "mb"): "megabytes"}


def test_only_their_own_rooms_name_protocols() -> None:
    found = [
        f"{path.relative_to(SOURCE).as_posix()} line {line}: {name}"
        for path in sorted(SOURCE.rglob("*.py"))
        if not _is_exempt(path.relative_to(SOURCE).as_posix())
        for line, name in _names(path)
    ]
    assert found == []


def test_exemptions_are_needed() -> None:
    for path in REGISTRIES:
        assert list(_names(SOURCE / path)), path
    for path, name in OTHER_MEANINGS:
        assert repr(name).replace("'", '"') in (SOURCE / path).read_text(encoding="utf-8"), path


def _is_exempt(path: str) -> bool:
    return path in REGISTRIES or any(path.startswith(f"{room}/") for room in OWN_ROOMS)


def _names(path: Path) -> Iterator[tuple[int, str]]:
    """Names of built-in protocols in code: texts that may be compared, and imports of their packages."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    prose = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    here = path.relative_to(SOURCE).as_posix()
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if node not in prose and text in BUILT_IN:
                if (here, text) not in OTHER_MEANINGS:
                    yield node.lineno, text
            case ast.ImportFrom(module=module, names=names, lineno=line):
                for part in (*(module or "").split("."), *(alias.name for alias in names)):
                    if part in BUILT_IN:
                        yield line, part
            case ast.Import(names=names, lineno=line):
                yield from ((line, alias.name) for alias in names if set(alias.name.split(".")) & set(BUILT_IN))
            case _:
                pass
