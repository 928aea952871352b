"""Write the documents that are generated from the source: messages of protocols, tables, command line, Python names.

python scripts/generate_docs.py           writes them
python scripts/generate_docs.py --check   says which are not up to date, and fails if any is not
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pyarrow as pa

from wirelake.cli import cli
from wirelake.gold.tables import TABLES
from wirelake.protocols import BUILT_IN, load
from wirelake.spec.columns import ENVELOPE, Column, columns
from wirelake.spec.nodes import Field, Many, Nested, Protocol, Signature
from wirelake.spec.render import as_markdown, tables

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
DOCS = ROOT / "docs"
MADE = "<!-- made by scripts/generate_docs.py, do not edit -->\n"
HELP_WIDTH = 100


def documents() -> dict[Path, str]:
    """Return every generated document with its text."""
    if str(HERE.parent) not in sys.path:  # a script knows only its own directory
        sys.path.insert(0, str(HERE.parent))
    from scripts.python_reference import python_page
    from scripts.spec_reference import spec_page

    found = {DOCS / "protocols" / f"{name}.md": protocol_page(load(name)) for name in BUILT_IN}
    found[DOCS / "tables.md"] = tables_page()
    found[DOCS / "command-line.md"] = command_line_page()
    found[DOCS / "declaration.md"] = "\n".join([MADE, spec_page()])
    found[DOCS / "python.md"] = "\n".join([MADE, python_page()])
    return found


# --- protocols


def protocol_page(protocol: Protocol) -> str:
    return "\n".join([MADE, as_markdown(tables(protocol))])


# --- tables


TABLES_HEAD = """\
# Tables

What a lake holds, table by table and column by column. [The lake](lake.md) explains how these tables are made and how
to read them. The DataFrames of [the formats](spark.md) and the batches of `wirelake.columnar` have the same names and
types. Tables with a date have one more column, `date`, which is in the names of their directories.
"""

ROWS_OF = {
    "bronze/chunks": ("chunk of a stream, as the capture has it", "`ts`"),
    "silver/messages": ("message, of all protocols: the common view", "`ts`"),
    "silver/quarantine": ("undecodable range of a stream, or a gap", "`ts`"),
    "gold/exchanges": ("request, with its replies and its outcome", "`request_ts`"),
    "gold/sessions": ("connection that has ended", "`first_ts`"),
    "gold/transactions": ("distributed transaction that has ended", "`first_ts`"),
    "gold/addresses": ("topic, service, path or queue, and minute", "`minute`"),
    "gold/violations": ("valid message sent out of sequence", "`ts`"),
    "gold/open": ("undecided request, session or transaction; replaced by each commit", ""),
    "accounting": ("connection and direction: where its bytes went", ""),
}
"""What a row is, and which time decides its date."""

PROTOCOL_TABLES = """\
One table per protocol. The columns of the envelope come first and are the same everywhere; then comes one column per
distinct field of the protocol. Fields of the same name and type share a column; it is null in messages without that
field. Fields with dotted names are nested: `service.name` is the member `name` of the column `service`,
`services[].name` the member `name` of every element of the list `services`.

Integers are signed and wide enough for every value; an unsigned 64-bit integer is a decimal of 20 digits. A column
marked *JSON text* holds a free-form value: it is rendered only if you ask for the column by name, and a lake does not
have it. Text that is not UTF-8 is null in its column, and `raw_text` has its bytes.

`wirelake.columnar.decode` gives the columns of the envelope that belong to the bytes themselves: `offset`, `length`,
`message`, `code`, `notes`, `raw_text`.
"""


def tables_page() -> str:
    lines = [MADE, TABLES_HEAD, *_markdown_table(("table", "a row is a", "`date` is that of"), _overview()), ""]
    lines += [*_lake_table("bronze/chunks"), "## Protocols", "", PROTOCOL_TABLES, "### Envelope", ""]
    envelope = ((f"`{name}`", f"`{kind}`", doc) for name, kind, doc in ENVELOPE)
    lines += [*_markdown_table(("column", "type", "meaning"), envelope), ""]
    for name in BUILT_IN:
        protocol = load(name)
        lines += [f"### silver/{name}", "", f"{protocol.title}; see [its messages](protocols/{name}.md).", ""]
        lines += [*_markdown_table(("column", "type", "meaning", "messages"), column_rows(protocol)), ""]
    for table in TABLES:
        lines += _lake_table(table) if table != "bronze/chunks" else []
    return "\n".join(lines).rstrip("\n") + "\n"


def _overview() -> Iterator[tuple[str, ...]]:
    for table, (row, date) in ROWS_OF.items():
        yield f"[`{table}`](#{table.replace('/', '')})", row, date
        if table == "bronze/chunks":
            yield "[`silver/<protocol>`](#protocols)", "message of that protocol, with all its fields", "`ts`"


def _lake_table(table: str) -> list[str]:
    head = [f"## {table}", "", f"One row per {ROWS_OF[table][0]}.", ""]
    return [*head, *_markdown_table(("column", "type", "meaning"), _documented(TABLES[table])), ""]


def _documented(schema: pa.Schema) -> Iterator[tuple[str, ...]]:
    for field in schema:
        yield from _documented_field(field, field.name)


def _documented_field(field: pa.Field, path: str) -> Iterator[tuple[str, ...]]:
    """Yield a column and, if it is a list of structures, its members."""
    is_list = pa.types.is_list(field.type) and pa.types.is_struct(field.type.value_type)
    yield f"`{path}`", f"`{'list<struct>' if is_list else _arrow_kind(field.type)}`", field.metadata[b"doc"].decode()
    for inner in field.type.value_type if is_list else ():
        yield from _documented_field(inner, f"{path}[].{inner.name}")


def _arrow_kind(kind: pa.DataType) -> str:
    """Return a type in the words of the other tables."""
    if pa.types.is_list(kind):
        return f"list<{_arrow_kind(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{_arrow_kind(kind.key_type)}, {_arrow_kind(kind.item_type)}>"
    return TYPE_NAMES.get(str(kind), str(kind))


TYPE_NAMES = {"timestamp[us, tz=UTC]": "timestamp", "double": "float64"}


def column_rows(protocol: Protocol) -> Iterator[tuple[str, ...]]:
    said = meanings(protocol)
    for column in columns(protocol).values():
        owners = _owners(protocol, column)
        for path, part in _parts(column, column.name):
            free = ", JSON text" if part.free else ""
            meaning = "; ".join(said.get(path, ())) or part.doc
            yield f"`{path}`", f"`{_kind(part)}`{free}", meaning, owners
            owners = ""


def _parts(column: Column, path: str) -> Iterator[tuple[str, Column]]:
    """Yield a column and, if it is a structure or a list of structures, its members."""
    yield path, column
    if column.kind == "list":
        column, path = column.children["element"], f"{path}[]"
    for child in column.children.values():
        yield from _parts(child, f"{path}.{child.name}")


def _kind(column: Column) -> str:
    match column.kind:
        case "struct":
            return "struct"
        case "list" if column.children["element"].kind == "struct":
            return "list<struct>"
        case _:
            return column.shape().replace(",", ", ").replace(":", ": ")


def _owners(protocol: Protocol, column: Column) -> str:
    """Return which messages have the column."""
    names = [cls.__message__["name"] for cls in protocol.messages]
    if not column.messages or len(column.messages) == len(names):
        return "all"
    absent = [name for index, name in enumerate(names) if index not in column.messages]
    if len(absent) <= 2:
        return f"all but {' and '.join(absent)}"
    return ", ".join(name for index, name in enumerate(names) if index in column.messages)


def meanings(protocol: Protocol) -> dict[str, dict[str, None]]:
    """Return what the messages say about each column: a shared one can mean several things."""
    found: dict[str, dict[str, None]] = {}
    for cls in protocol.messages:
        for declared in cls.__wire_fields__:
            _collect(found, declared.column or declared.key, declared.wire, _said(declared))
    return found


def _said(declared: Field) -> str:
    return declared.doc + (f" [{declared.unit}]" if declared.unit else "")


def _collect(found: dict[str, dict[str, None]], path: str, wire: Any, doc: str) -> None:
    if doc:
        found.setdefault(path, {})[doc] = None
    match wire:
        case Nested(struct=cls):
            inner = cls.__wire_fields__
        case Many(element=Nested(struct=cls)):
            path, inner = f"{path}[]", cls.__wire_fields__
        case Signature(forms=forms):
            inner = [declared for form in forms for declared in form.struct.__wire_fields__]
        case _:
            inner = ()
    for declared in inner:
        _collect(found, f"{path}.{declared.column or declared.key}", declared.wire, _said(declared))


def _markdown_table(header: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> list[str]:
    cells = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return ["| " + " | ".join(header) + " |", "|" + "---|" * len(header), *cells]


# --- command line


COMMAND_LINE_HEAD = """\
# Command line

What each verb prints for `--help`. Data goes to standard output, diagnostics to standard error. Exit status: 0 success,
1 some input could not be processed or something failed, 2 wrong usage.

## What decode prints

With `decode --hex` each line is one frame; without it the input is a byte stream, and every object has its `offset`. A
message is `"ok": true` with `message`, `code`, `length`, `fields`, and `notes` for tolerated oddities. Undecodable
bytes are `"ok": false` with `verdict` (`incomplete`: more bytes could help; `error`: none could), `rule`, `path`,
`offset` and `detail`; see [the rules](rules.md). Integers are numbers, bytes are hex, text that is not UTF-8 is
`{"hex": ...}`, absent fields are left out. `encode` takes the same objects; [the cookbook](cookbook.md#encode) has
examples. [The live guide](live.md#clients-on-the-command-line) describes what the verbs that connect to servers read
and write.
"""


def command_line_page() -> str:
    lines = [MADE, COMMAND_LINE_HEAD]
    for name, command in _commands():
        lines += [f"## wirelake {name}".rstrip(), "", "```text", help_text(command, name), "```", ""]
    return "\n".join(lines)


def _commands() -> Iterator[tuple[str, click.Command]]:
    """Yield all verbs, and behind a verb that has some its own."""
    yield "", cli
    for name, command in sorted(cli.commands.items()):
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {below}", one) for below, one in command.commands.items())


def help_text(command: click.Command, name: str) -> str:
    settings: dict[str, object] = dict(cli.context_settings) | {"terminal_width": HELP_WIDTH}
    parent = click.Context(cli, info_name="wirelake", **settings)  # type: ignore[arg-type]
    context = click.Context(command, info_name=name, parent=parent, **settings) if name else parent  # type: ignore[arg-type]
    return command.get_help(context)


# --- writing and comparing


def stale() -> Iterator[str]:
    """Yield the differences between the documents and what they should be."""
    for path, wanted in documents().items():
        there = path.read_text(encoding="utf-8") if path.exists() else ""
        name = str(path.relative_to(ROOT))
        yield from difflib.unified_diff(
            there.splitlines(), wanted.splitlines(), name, f"{name} (made now)", lineterm=""
        )
    known = set(documents())
    for page in sorted((DOCS / "protocols").glob("*.md")):
        if page not in known:
            yield f"{page.relative_to(ROOT)}: no such protocol"


def check() -> int:
    differences = list(stale())
    for line in differences[:60]:
        print(line)
    if differences:
        print("the documents are not up to date: run scripts/generate_docs.py", file=sys.stderr)
    return 1 if differences else 0


def write() -> int:
    for path, text in documents().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(ROOT))
    return 0


def main(arguments: list[str]) -> int:
    actions: dict[tuple[str, ...], Callable[[], int]] = {(): write, ("--check",): check}
    action = actions.get(tuple(arguments))
    if action is None:
        print(__doc__, file=sys.stderr)
        return 2
    return action()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
