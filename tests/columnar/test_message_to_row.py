"""A message as a row of its table."""

from __future__ import annotations

from wirelake.codec import decode, encode
from wirelake.columnar.message_to_row import row_of
from wirelake.protocols import casual, ceda
from wirelake.spec import Cell


def publish(*cells: Cell) -> dict[str, object]:
    return row_of(decode("ceda", encode(ceda.Publish(topic="T", record=cells), dialect="ceda4"), dialect="ceda4"))


def test_a_row_has_the_envelope_and_the_fields_by_column() -> None:
    row = publish(Cell(1, "INT", 5))
    assert (row["message"], row["code"], row["topic"]) == ("publish", ceda.Publish.__message__["code"], "T")
    assert row["notes"] is None and row["raw_text"] is None


def test_a_cell_has_its_value_in_the_column_of_its_kind() -> None:
    cells = publish(Cell(1, "INT", 5), Cell(2, "DOUBLE", 1.5), Cell(3, "STRING", "x"), Cell(4, "NONE"))["record"]
    assert cells == [
        {"fid": 1, "type": "INT", "long": 5},
        {"fid": 2, "type": "DOUBLE", "double": 1.5},
        {"fid": 3, "type": "STRING", "text": "x"},
        {"fid": 4, "type": "NONE"},
    ]


def test_a_text_that_is_not_utf_8_is_null_and_its_bytes_are_kept() -> None:
    request = casual.DomainDiscoverRequest(
        correlation=bytes(16),
        execution=bytes(16),
        domain=casual.Domain(bytes(16), "\udcff"),
        services=("a",),
        queues=(),
    )
    row = row_of(decode("casual", encode(request)))
    assert row["domain"]["name"] is None
    assert row["raw_text"] == [("domain.name", b"\xff")]


def test_only_wanted_columns_are_filled() -> None:
    message = decode("ceda", encode(ceda.Publish(topic="T"), dialect="ceda4"), dialect="ceda4")
    row = row_of(message, frozenset({"topic"}))
    assert row["topic"] == "T" and "record" not in row
