"""Filters that Spark pushes down, applied to Arrow batches before they cross over to the JVM.

A filter that is accepted is applied exactly, because Spark does not check it again; all others go back. Floating point
is left to Spark, which compares NaN in its own way, and so are nested lists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import datasource as ds

Test = Callable[[pa.RecordBatch], pa.Array]

HAS_FILTERS = hasattr(ds, "Filter")  # since PySpark 4.1

_COMPARED: dict[type, Callable[[Any, Any], Any]] = {}
_TEXTS: dict[type, Callable[[Any, str], Any]] = {}
if HAS_FILTERS:
    _COMPARED = {
        ds.EqualTo: pc.equal,
        ds.LessThan: pc.less,
        ds.LessThanOrEqual: pc.less_equal,
        ds.GreaterThan: pc.greater,
        ds.GreaterThanOrEqual: pc.greater_equal,
    }
    _TEXTS = {
        ds.StringStartsWith: pc.starts_with,
        ds.StringEndsWith: pc.ends_with,
        ds.StringContains: pc.match_substring,
    }


class Filters:
    """The filters that were accepted, over rows of a schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.accepted: list[Any] = []

    def push(self, filters: Sequence[Any]) -> list[Any]:
        """Accept what can be applied exactly; return the rest."""
        rest: list[Any] = []
        for pushed in filters:
            (rest if self._test(pushed) is None else self.accepted).append(pushed)
        return rest

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for pushed in self.accepted:
            if test := self._test(pushed):
                batch = batch.filter(test(batch))
        return batch

    def accept(self, values: Mapping[str, pa.Scalar]) -> bool:
        """Return whether rows with these values in some columns can pass. Whole files are skipped by that."""
        if not values:
            return True
        row = pa.record_batch([pa.array([value], value.type) for value in values.values()], names=list(values))
        known = {(name,) for name in values}
        tests = [self._test(pushed) for pushed in self.accepted if _attribute(pushed) in known]
        return all(test(row)[0].as_py() is True for test in tests if test)

    def _test(self, pushed: Any) -> Test | None:
        if isinstance(pushed, ds.Not):
            inner = self._test(pushed.child)
            return None if inner is None else lambda batch: pc.invert(inner(batch))
        kind = self._kind(_attribute(pushed))
        return None if kind is None else _test_of(pushed, kind)

    def _kind(self, path: tuple[str, ...]) -> Any:
        """Return the type of a column or of a member of a struct; None if it cannot be compared."""
        if not path or path[0] not in self.schema.names:
            return None
        kind = self.schema.field(path[0]).type
        for name in path[1:]:
            if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
                return None
            kind = kind.field(name).type
        plain = (
            pa.types.is_string,
            pa.types.is_integer,
            pa.types.is_timestamp,
            pa.types.is_date,
            pa.types.is_boolean,
        )
        return kind if any(is_it(kind) for is_it in plain) else None


def _attribute(pushed: Any) -> tuple[str, ...]:
    inner = pushed.child if isinstance(pushed, ds.Not) else pushed
    return tuple(getattr(inner, "attribute", ()))


def _column(batch: pa.RecordBatch, path: tuple[str, ...]) -> pa.Array:
    column = batch.column(path[0])
    return pc.struct_field(column, list(path[1:])) if len(path) > 1 else column


def _test_of(pushed: Any, kind: Any) -> Test | None:
    path = _attribute(pushed)
    if isinstance(pushed, ds.IsNull):
        return lambda batch: pc.is_null(_column(batch, path))
    if isinstance(pushed, ds.IsNotNull):
        return lambda batch: pc.is_valid(_column(batch, path))
    if isinstance(pushed, ds.In):
        given = _values(pushed.value, kind)
        return None if given is None else lambda batch: _is_in(_column(batch, path), given)
    values = _values((pushed.value,), kind)
    if values is None:
        return None
    value = values[0]
    if isinstance(pushed, ds.EqualNullSafe):
        return lambda batch: pc.fill_null(pc.equal(_column(batch, path), value), False)
    if type(pushed) in _COMPARED:
        compare = _COMPARED[type(pushed)]
        return lambda batch: compare(_column(batch, path), value)
    if type(pushed) in _TEXTS and pa.types.is_string(kind):
        matches, text = _TEXTS[type(pushed)], value.as_py()
        return lambda batch: matches(_column(batch, path), text)
    return None


def _is_in(column: pa.Array, values: pa.Array) -> pa.Array:
    """Return null where the column is null: neither in the list nor not in it."""
    return pc.if_else(pc.is_valid(column), pc.is_in(column, values), None)


def _values(values: Sequence[Any], kind: Any) -> pa.Array | None:
    """Return the values to compare with; None if one of them is null or of another type."""
    if any(value is None for value in values):
        return None
    try:
        return pa.array(list(values), kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return None
