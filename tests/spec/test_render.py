"""Rendered tables against the published ones: role names, types, sizes, codes and permissions.

The facts are in published_*.json. Every way in which ours differ is written down here, and in docs/conformance.md.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from wirelake.protocols import casual, ceda, dsa, mb
from wirelake.spec import Code, Frame, Message, Protocol, Size, be, declare, field, u8
from wirelake.spec.render import Table, as_markdown, as_text, tables
from wirelake.spec.resolve import layout

HERE = Path(__file__).parent
CASUAL = json.loads((HERE / "published_casual.json").read_text(encoding="utf-8"))
DSA = json.loads((HERE / "published_dsa.json").read_text(encoding="utf-8"))

PROTOCOLS = (casual.PROTOCOL, dsa.PROTOCOL, mb.PROTOCOL, ceda.PROTOCOL)


def titled(protocol: Protocol, start: str) -> Table:
    return next(table for table in tables(protocol) if table.title.startswith(start))


# --- casual

RENAMED = {
    "3200": {
        "service.name.timeout": "service.timeout",
        "parent.size": "parent.name.size",
        "parent.data": "parent.name.data",
    }
}
"""Slips of the published names, which other messages spell as we do."""


def ours(code: str, role: str) -> list[str]:
    """Our role names for a published one."""
    role = RENAMED.get(code, {}).get(role, role).replace(".element.address", ".element")
    if role.endswith("xid.payload"):
        return [role.replace("payload", "gtrid"), role.replace("payload", "bqual")]
    return [role]


def as_published(kind: str) -> str:
    """Our network type in the document's words: it knows no signed numbers, no booleans and no text."""
    kind = kind.split(" (", maxsplit=1)[0]
    return {"text": "dynamic array", "bool8": "uint8"}.get(kind, re.sub(r"^int", "uint", kind))


@pytest.mark.parametrize("code", CASUAL["messages"])
def test_casual_messages_have_the_published_rows_in_the_published_order(code: str):
    (table,) = tables(casual.PROTOCOL, code)
    rendered = [(role, as_published(kind), size) for role, kind, size, *_ in table.rows if role]
    wanted = [
        (name, kind, "dynamic" if size is None else str(size))
        for role, kind, size in CASUAL["messages"][code]["rows"]
        for name in ours(code, role)
    ]
    assert rendered == wanted


def test_casual_messages_name_what_they_are_published_as():
    published = {str(node.code): node.published for node in layout(casual.PROTOCOL).messages.values()}
    for code, message in CASUAL["messages"].items():
        assert published[code] == message["published"]


def test_casual_has_the_published_messages_and_the_four_later_ones():
    rendered = {row[0] for row in titled(casual.PROTOCOL, "Messages").rows}
    assert rendered == set(CASUAL["messages"]) | {"3210", "3211", "3212", "3213"}


def test_the_frame_of_casual_is_the_published_header():
    rendered = [(f"header.{role}", kind, int(size)) for role, kind, size, _ in titled(casual.PROTOCOL, "Frame").rows]
    assert rendered == [tuple(row) for row in CASUAL["header"]]


# --- dsa

METHODS = {"sub": (0x01, 0x81), "list": (0x02, 0x82), "invoke": (0x03, 0x83), "set": (0x04, 0x84)}
SPELLED = {"SequenceID": "Sequence ID", "Qos": "QoS"}
PREFLIGHT, PREFLIGHT_RESPONSE, REFUSALS = 0x07, 0x87, (0xF1, 0xF3)


def published_marks(direction: str, cells: list[str]) -> dict[int, str]:
    """Method -> x or always, as the published row says it."""
    marks: dict[int, str] = {}
    for (request, response), cell in zip(METHODS.values(), cells, strict=True):
        sides = {
            "no": (),
            "both": (request, response),
            "request": (request,),
            "response": (response,),
            "yes": (request, response) if direction == "both" else (request if direction == "request" else response,),
            "always": (request if direction == "request" else response,),
        }[cell]
        marks |= dict.fromkeys(sides, "always" if cell == "always" else "x")
    return marks


def our_marks(name: str, direction: str, marks: dict[int, str]) -> dict[int, str]:
    """What we make of it: Source Path is optional, preflight takes what every request takes, a refusal has a status."""
    if name == "Source Path":
        return dict.fromkeys(marks, "x")
    if direction == "request" and len(marks) == len(METHODS):
        return marks | {PREFLIGHT: next(iter(marks.values()))}
    if name == "Status":
        return marks | dict.fromkeys((PREFLIGHT_RESPONSE, *REFUSALS), "x")
    return marks


def test_the_headers_of_dsa_are_the_published_table():
    table = titled(dsa.PROTOCOL, "Dynamic headers")
    methods = [int(code, 16) for code in table.header[5:]]
    rendered = [
        (code, name, length, {m: mark for m, mark in zip(methods, marks, strict=True) if mark != "-"})
        for code, name, _, length, _, *marks in table.rows
    ]
    wanted = []
    for code, name, length, direction, *cells in DSA["rows"]:
        spelled = SPELLED.get(name, name)
        marks = our_marks(spelled, direction, published_marks(direction, cells))
        wanted.append((code, spelled, str(length), marks))
    assert rendered == wanted


def test_the_frame_of_dsa_is_the_published_fixed_structure():
    assert [row[:3] for row in titled(dsa.PROTOCOL, "Frame").rows] == [
        ("total_length", "uint32 le", "4"),
        ("header_length", "uint16 le", "2"),
        ("method", "uint8", "1"),
    ]


# --- what a reader needs


def test_a_field_column_leads_from_the_published_name_to_ours():
    (table,) = tables(casual.PROTOCOL, "service_call_reply")
    named = {row[0]: row[3] for row in table.rows}
    assert named["transaction.trid.xid.format"] == "xid.format"
    assert named["buffer.type.data"] == "buffer.type"
    assert named["buffer.type.size"] == ""
    (table,) = tables(casual.PROTOCOL, "7301")
    assert "services[].name" in [row[3] for row in table.rows]


def test_frames_are_shown_once_per_reading_that_changes_them():
    assert [t.title for t in tables(mb.PROTOCOL) if t.title.startswith("Frame")] == [
        "Frame (framing message)",
        "Frame (profile strict, framing tcp)",
        "Frame (profile upstream, framing tcp)",
    ]
    assert [t.title for t in tables(casual.PROTOCOL) if t.title.startswith("Frame")] == ["Frame"]
    assert [t.title for t in tables(ceda.PROTOCOL) if t.title.startswith("Frame")] == [
        "Frame (dialect ceda4)",
        "Frame (dialect ceda4-ws)",
    ]


def test_a_word_that_a_message_may_not_have_is_not_in_its_table():
    (publish,), (request,) = tables(mb.PROTOCOL, "publish"), tables(mb.PROTOCOL, "request")
    assert "timeout" not in [row[0] for row in publish.rows]
    assert "timeout" in [row[0] for row in request.rows]


def test_fields_of_one_reading_say_so():
    (table,) = tables(ceda.PROTOCOL, "group_pub")
    (row,) = [row for row in table.rows if row[3] == "reply_topic"]
    assert "only with dialect ceda4-ws" in row[4]


def test_limits_are_told():
    (table,) = tables(dsa.PROTOCOL, "list_response")
    told = {row[3]: row[4] for row in table.rows}
    assert "1..2147483647" in told["request_id"]
    assert "1..32767 bytes" in told["entries[].key"]
    assert "at most 32767 bytes" in told["entries[].value"]


def test_values_computed_for_every_message_are_told_once():
    assert [row[0] for row in titled(ceda.PROTOCOL, "Computed").rows] == ["payload_length", "extended_length", "masked"]
    assert titled(ceda.PROTOCOL, "heartbeat").rows == ()
    (alone,) = tables(ceda.PROTOCOL, "heartbeat")
    assert [row[3] for row in alone.rows] == ["payload_length", "extended_length", "masked"]


def test_records_and_signatures_have_tables_of_their_own():
    assert [row[1] for row in titled(ceda.PROTOCOL, "Records").rows][:2] == ["NONE", "INT"]
    assert len(titled(ceda.PROTOCOL, "Signature of 15 bytes").rows) == 6


def test_the_life_cycle_lists_what_each_side_may_send():
    rows = titled(ceda.PROTOCOL, "Life cycle").rows
    assert ("open", "client", "login", "login_sent") in rows
    assert ("login_sent", "server", "login", "ready") in rows


def test_a_message_is_found_by_name_and_by_number_in_any_base():
    by_name, by_number, by_hex = (tables(dsa.PROTOCOL, given) for given in ("ping", "249", "0xF9"))
    assert by_name == by_number == by_hex


def test_an_unknown_message_is_refused_with_the_names_of_those_that_exist():
    with pytest.raises(ValueError, match="mb has no message 'subscribe'; it has: publish, request, response"):
        tables(mb.PROTOCOL, "subscribe")


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.name)
def test_every_message_and_every_table_is_in_both_outputs(protocol: Protocol):
    found = tables(protocol)
    text, markdown = as_text(found), as_markdown(found)
    for table in found:
        assert table.title in text
        assert f"{'#' * table.level} {table.title}\n" in markdown
    names = [cls.__message__["name"] for cls in protocol.messages]
    assert [row[1] for row in titled(protocol, "Messages").rows] == names


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.name)
def test_every_row_has_a_cell_for_every_column(protocol: Protocol):
    for table in tables(protocol):
        assert {len(row) for row in table.rows} <= {len(table.header)}


def test_a_bar_in_a_cell_does_not_break_a_markdown_table():
    class Note(Message, code=1):
        """One | two."""

        what: int = field(be.u16, "a | b")

    made = declare(Protocol("bars", "Bars", Frame((Size("size", u8, "after"), Code("type", u8))), (Note,)))
    lines = [line for line in as_markdown(tables(made)).splitlines() if line.startswith("|")]
    assert all(cells(line) == cells(header) for line, header in in_tables(lines))


def in_tables(lines: list[str]) -> list[tuple[str, str]]:
    """Each line of a table with the line that heads it."""
    found: list[tuple[str, str]] = []
    for i, line in enumerate(lines):
        headed = i + 1 < len(lines) and set(lines[i + 1]) <= set("|-")
        found.append((line, line if headed or not found else found[-1][1]))
    return found


def cells(line: str) -> int:
    return len(re.findall(r"(?<!\\)\|", line))


def types_of(protocol: Protocol) -> set[str]:
    found: set[Any] = set()
    for table in tables(protocol):
        if "network type" in table.header:
            found |= {row[table.header.index("network type")] for row in table.rows}
    return found


def test_little_endian_numbers_say_so_and_big_endian_ones_do_not():
    assert {"uint32 le", "float64 le"} <= types_of(dsa.PROTOCOL) | types_of(ceda.PROTOCOL)
    assert not any(kind.endswith(" le") for kind in types_of(casual.PROTOCOL))
