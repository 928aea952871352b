"""docs/rules.md: it lists the rules of the source, all of them and no other, and every example breaks its rule."""

from __future__ import annotations

import ast
import json
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.capture.feeds import Feed, connection, play
from tests.docs.captured import told_by_capture
from tests.docs.connected import told_by_client
from wirelake import encode
from wirelake.capture.read import open_capture
from wirelake.capture.redact import REDACTED
from wirelake.capture.settings import ReadSettings
from wirelake.capture.tcp import Tracker
from wirelake.cli import cli
from wirelake.codec.content import read_cfield
from wirelake.errors import WireError
from wirelake.protocols import BUILT_IN, casual, ceda, dsa, load, mb
from wirelake.spec import Cell

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "rules.md"
SOURCE = sorted((ROOT / "src" / "wirelake").rglob("*.py"))

FAMILIES = {
    "_limit": ("text", "bytes", "cell"),
    "_fits": ("text", "bytes", "cell"),
    "_utf8": ("text", "cell"),
}
"""Rules whose names are put together: the ending as it stands in the source, and what may come before it."""


@dataclass(frozen=True)
class Row:
    rule: str
    verdict: str
    example: str


def rows() -> list[Row]:
    found = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 5 and cells[0].startswith("`"):
            found.append(Row(cells[0].strip("`"), cells[3], cells[4].strip("`")))
    return found


# --- the source says which rules there are


def _is_rule(name: str | None) -> bool:
    return name is not None and (name == "rule" or name.endswith("_rule"))


def _parameters(node: ast.AST) -> list[str]:
    """What a function or class of ours takes by position."""
    match node:
        case ast.FunctionDef(args=ast.arguments(args=args)):
            return [argument.arg for argument in args if argument.arg != "self"]
        case ast.ClassDef(body=body):
            for item in body:
                if isinstance(item, ast.FunctionDef) and item.name == "__init__":
                    return _parameters(item)
            return [item.target.id for item in body if _is_field(item)]
        case _:
            return []


def _is_field(item: ast.stmt) -> bool:
    return isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)


def _positions(trees: list[ast.Module]) -> dict[str, int]:
    """Where functions and classes of ours take a rule by position; ``__init__`` counts for its class."""
    nodes = (node for tree in trees for node in ast.walk(tree) if getattr(node, "name", "") != "__init__")
    return {node.name: names.index("rule") for node in nodes if "rule" in (names := _parameters(node))}


def _defaults(arguments: ast.arguments) -> Iterator[tuple[str, ast.expr]]:
    named = [*arguments.posonlyargs, *arguments.args]
    plain = named[len(named) - len(arguments.defaults) :]
    for argument, default in zip(plain, arguments.defaults, strict=True):
        yield argument.arg, default
    for argument, keyword_default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if keyword_default is not None:
            yield argument.arg, keyword_default


def _named(node: ast.AST, positions: dict[str, int]) -> Iterator[ast.expr]:
    """The expressions that give a rule its name."""
    match node:
        case ast.Call(func=func, args=args, keywords=keywords):
            yield from (keyword.value for keyword in keywords if _is_rule(keyword.arg))
            name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
            if len(args) > positions.get(name, len(args)):
                yield args[positions[name]]
            if name == "Padding" and len(args) > 1:
                yield args[1]
            if name == "_quarantine":
                yield from (argument.elts[0] for argument in args if isinstance(argument, ast.Tuple))
        case ast.ClassDef(keywords=keywords):
            yield from (keyword.value for keyword in keywords if _is_rule(keyword.arg))
        case ast.AnnAssign(target=ast.Name(id=name), value=value) if _is_rule(name) and value is not None:
            yield value
        case ast.Assign(targets=[ast.Name(id="about")], value=ast.Tuple(elts=[first, *_])):
            yield first
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_rule(name):
            yield value
        case ast.Assign(targets=[ast.Attribute(attr=name)], value=value) if _is_rule(name):
            yield value
        case ast.Assign(targets=[ast.Name(id="RULES")], value=ast.List(elts=names)):
            yield from names
        case ast.arguments():
            yield from (default for name, default in _defaults(node) if _is_rule(name))
        case _:
            pass


def rules_of_the_source() -> set[str]:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE]
    positions, constants = _positions(trees), _constants(trees)
    expressions = [e for tree in trees for node in ast.walk(tree) for e in _named(node, positions)]
    found = {rule for expression in expressions for rule in _rules(expression, constants)} | _notes_of_captures()
    return found - {""}


def _notes_of_captures() -> set[str]:
    """What messages are noted with when they were read in a second way, or not shown in full."""
    second = [load(name).captured.fallback.values() for name in BUILT_IN]
    return {REDACTED} | {str(value) for values in second for value in values}


def _rules(expression: ast.expr, constants: dict[str, str]) -> Iterator[str]:
    """The names that an expression can stand for."""
    match expression:
        case ast.Constant(value=str(text)):
            yield text
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in constants:
            yield constants[name]
        case ast.IfExp(body=body, orelse=other):
            yield from _rules(body, constants)
            yield from _rules(other, constants)
        case ast.JoinedStr(values=[*_, ending]):
            assert isinstance(ending, ast.Constant), ast.unparse(expression)
            yield from (start + ending.value for start in FAMILIES[ending.value])
        case _:
            pass


def _constants(trees: list[ast.Module]) -> dict[str, str]:
    """Texts that modules give a name in capitals."""
    found: dict[str, str] = {}
    for node in (node for tree in trees for node in tree.body):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))) if name.isupper():
                found[name] = text
            case _:
                pass
    return found


def test_the_search_for_rules_finds_those_of_every_kind_of_place():
    assert {
        "magic",  # a keyword
        "header_fits",  # an assignment
        "xid_length",  # by position in a node
        "request_id_range",  # by position in a call
        "int_range",  # a default
        "ids_missing",  # a keyword of a class
        "frame_limit",  # the default of a node
        "pattern",  # by position in an exception
        "cell_utf8",  # put together
        "java_padding",  # a note
        "gap",  # a constant
        "encrypted",  # the first of what is told about a range
        "websocket",  # one of two
    } <= rules_of_the_source()


def test_every_rule_of_the_source_is_listed():
    assert rules_of_the_source() - {row.rule for row in rows()} == set()


def test_no_rule_is_listed_that_the_source_does_not_have():
    assert {row.rule for row in rows()} - rules_of_the_source() == set()


def test_no_table_lists_a_rule_twice():
    for section in PAGE.read_text(encoding="utf-8").split("\n## "):
        listed = re.findall(r"^\| `([a-z0-9_]+)` ", section, re.MULTILINE)
        assert len(listed) == len(set(listed))


# --- the examples break them


def expand(text: str) -> str:
    return re.sub(r"([0-9a-f]{2})×([0-9]+)", lambda found: found.group(1) * int(found.group(2)), text)


def run_cli(*arguments: str, given: str) -> dict[str, Any]:
    result = CliRunner().invoke(cli, list(arguments), input=given)
    assert result.exit_code in (0, 1), result.output
    shown: dict[str, Any] = json.loads(result.output)
    return shown


def told(example: str) -> tuple[str, str]:
    """The rule and the verdict that the example gives."""
    kind, _, rest = example.partition(" ")
    match kind:
        case "encode":
            protocol, _, given = rest.partition(" ")
            return run_cli("encode", "-p", protocol, "--hex", "-", given=given)["rule"], "encoding"
        case "python":
            names = {"casual": casual, "dsa": dsa, "mb": mb, "ceda": ceda, "Cell": Cell}
            with pytest.raises(WireError) as caught:
                encode(eval(rest, names))
            return caught.value.rule, "encoding"
        case "cfield":
            with pytest.raises(WireError) as caught:
                read_cfield(bytes.fromhex(expand(rest)))
            return caught.value.rule, "error"
        case "read":
            with tempfile.NamedTemporaryFile() as file, pytest.raises(WireError) as caught:
                Path(file.name).write_bytes(bytes.fromhex(rest))
                open_capture(file.name, Tracker())
            return caught.value.rule, "error"
        case "stream":
            protocol, *pieces = re.findall(r'"[^"]*"|[^ ]+', rest)
            return told_by_streams(protocol, pieces), "quarantine"
        case "captured":
            return told_by_capture(rest)
        case "live":
            return told_by_client(rest), "live"
        case "match":
            protocol, pattern, topic = rest.split()
            given = json.dumps({"pattern": pattern, "topic": topic})
            return run_cli("match", "-p", protocol, "-", given=given)["error"], '`"error"` of match'
        case _:
            return told_by_decode(kind, rest)


def told_by_streams(protocol: str, pieces: list[str]) -> str:
    """The rule of the last range that is quarantined."""
    feed, peer = Feed(), connection()
    for piece in pieces:
        if piece.startswith("-"):
            feed.add(peer, 0, None, int(piece[1:]))
        else:
            feed.add(peer, 0, json.loads(piece).encode() if piece.startswith('"') else bytes.fromhex(expand(piece)))
    rule: str = play(feed, ReadSettings(protocol=protocol)).quarantine[-1]["rule"]
    return rule


def told_by_decode(protocol: str, rest: str) -> tuple[str, str]:
    found = re.fullmatch(r"((?:--[a-z-]+ (?:[a-z][a-z0-9-]+ )?)*)(.*)", rest)
    assert found is not None
    options, frame = found.group(1).split(), found.group(2)
    digits = json.loads(frame).encode().hex() if frame.startswith('"') else expand(frame)
    shown = run_cli("decode", "-p", protocol, *options, "--hex", "-", given=digits)
    if shown["ok"]:
        return shown["notes"][0], "note"
    return shown["rule"], shown["verdict"]


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row.rule}-{row.example.split()[0]}")
def test_every_example_breaks_its_rule(row: Row):
    rule, verdict = told(row.example)
    assert rule == row.rule
    assert verdict in row.verdict
