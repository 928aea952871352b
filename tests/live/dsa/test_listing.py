"""Lists that are merged, and tables that results make up: sections 5.2, 5.3 and 17.9."""

from __future__ import annotations

from typing import Any

import pytest

from wirelake.errors import LimitExceeded
from wirelake.live.dsa.events import ABSENT, Listed
from wirelake.live.dsa.listing import Listing, Table


def listed(*, refreshed: bool = False, status: int = 0, pub: str | None = None, **entries: Any) -> Listed:
    named = {key.replace("attribute_", "@").replace("meta_", "$"): value for key, value in entries.items()}
    return Listed(None, named, status, refreshed, status == 1, pub)  # type: ignore[arg-type]


def test_updates_overwrite_remove_and_refresh() -> None:
    listing = Listing("a")
    listing.apply(listed(refreshed=True, meta_is="unit", attribute_site="north", temp={}, old={}, pub="pub"))
    listing.apply(listed(temp={"$type": "number"}, old=ABSENT, attribute_site=ABSENT, nothing=ABSENT))
    assert (listing.metadata, listing.attributes) == ({"$is": "unit"}, {})
    assert listing.children == {"temp": {"$type": "number"}}
    listing.apply(listed(refreshed=True, new={}, status=0x0E))
    assert (listing.children, listing.metadata, listing.status, listing.pub_path) == ({"new": {}}, {}, 0x0E, "pub")


def test_a_list_has_a_limit() -> None:
    listing = Listing("a")
    with pytest.raises(LimitExceeded, match="update by update"):
        listing.apply(listed(**{f"n{number}": {} for number in range(11)}), most=10)


@pytest.mark.parametrize(
    ("profile", "pub", "path"),
    [("unit", "pub", "pub/unit"), ("2.0/node", "pub", None), ("unit", None, None), ("", "pub", None), (5, "pub", None)],
)
def test_a_profile_is_a_path_a_standard_or_a_label(profile: Any, pub: str | None, path: str | None) -> None:
    assert Listing("a", metadata={"$is": profile}, pub_path=pub).profile_path() == path


def test_rows_and_columns_are_appended_by_default() -> None:
    table = Table()
    table.apply({"columns": [{"name": "a"}], "rows": [[1]]})
    table.apply({"meta": {"mode": "append"}, "columns": [{"name": "b"}], "rows": [[2, 3]]})
    assert (table.columns, table.rows) == ([{"name": "a"}, {"name": "b"}], [[1], [2, 3]])


def test_refresh_clears_rows_and_columns_only_if_there_are_new_ones() -> None:
    table = Table([{"name": "a"}], [[1]])
    table.apply({"meta": {"mode": "refresh"}, "rows": [[2]]})
    assert (table.columns, table.rows) == ([{"name": "a"}], [[2]])
    table.apply({"meta": {"mode": "refresh"}, "columns": [{"name": "b"}], "rows": [[3]]})
    assert (table.columns, table.rows) == ([{"name": "b"}], [[3]])
    table.apply({"rows": [[4]]}, is_refreshed=True)
    assert (table.columns, table.rows) == ([], [[4]])


@pytest.mark.parametrize(
    ("modify", "rows"),
    [
        ("replace 1-2", [[0], ["x"], ["y"], [3]]),
        ("replace 1-1", [[0], ["x"], ["y"], [2], [3]]),
        ("replace 2", [[0], [1], ["x"], ["y"], [3]]),
        ("insert 0", [["x"], ["y"], [0], [1], [2], [3]]),
        ("insert 9", [[0], [1], [2], [3], ["x"], ["y"]]),
        ("nonsense", [[0], [1], [2], [3], ["x"], ["y"]]),
    ],
)
def test_modify_replaces_and_inserts_rows(modify: str, rows: list[Any]) -> None:
    table = Table(rows=[[0], [1], [2], [3]])
    table.apply({"meta": {"modify": modify}, "rows": [["x"], ["y"]]})
    assert table.rows == rows


def test_a_stream_forgets_old_rows_and_a_table_has_a_limit() -> None:
    table = Table(most=3)
    for number in range(5):
        table.apply({"meta": {"mode": "stream"}, "rows": [[number]]})
    assert table.rows == [[2], [3], [4]]
    with pytest.raises(LimitExceeded):
        table.apply({"rows": [[5]]})


@pytest.mark.parametrize("result", [5, None, "text", [1, 2], {"answer": 42}])
def test_what_is_no_table_is_one_row(result: Any) -> None:
    table = Table()
    table.apply(result)
    assert table.rows == [[result]]


@pytest.mark.parametrize(
    "result", [{"rows": 5}, {"columns": "x", "rows": None}, {"meta": 3, "rows": [[1]]}, {"meta": {"modify": 5}}]
)
def test_a_table_of_another_shape_does_no_harm(result: Any) -> None:
    Table().apply(result)
