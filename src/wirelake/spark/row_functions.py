"""Column functions for PySpark 4.0, which has no ``arrow_udf``: the same conversions behind what it has.

Frames go through a pandas function, and its result goes back as Arrow. Structs would not survive pandas, where an
integer beside a null is a float; they are converted row by row.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

Convert = Callable[..., pa.Array]
_MEMBER = "value"


def decoding_of_columns(run: Convert, returns: StructType) -> Callable[..., Column]:
    """Return ``decoding_function`` for columns. Its structs are a member of others, where they may be null."""
    from pyspark.sql.types import StructType

    def wrap(*columns: pa.Array) -> pa.Array:
        return pa.StructArray.from_arrays([run(*columns)], [_MEMBER])

    wrap.__name__ = run.__name__
    made = decoding_function(wrap, StructType().add(_MEMBER, returns))
    return lambda *columns: made(*columns).getField(_MEMBER)


def decoding_function(run: Convert, returns: StructType) -> Any:
    """Return what turns columns of values into structs. A struct that is null in ``run`` becomes one of nulls."""
    from pyspark.sql.pandas.functions import pandas_udf

    def decode(*columns):  # type: ignore[no-untyped-def]  # PySpark would take hints for the kind of function
        return _frame(run(*map(_array, columns)))

    decode.__name__ = run.__name__
    return pandas_udf(decode, returns)  # type: ignore[call-overload]


def encoding_function(run: Convert) -> Any:
    """Return what turns structs, and the values beside them, into binary values."""
    from pyspark.sql import Row
    from pyspark.sql.functions import udf

    def encode(struct: Any, *beside: Any) -> bytes | None:
        if struct is None:
            return None
        given = _zoned(struct.asDict(recursive=True)) if isinstance(struct, Row) else struct
        result: bytes | None = run(pa.array([given]), *(_array([value]) for value in beside))[0].as_py()
        return result

    encode.__name__ = run.__name__
    return udf(encode, "binary", useArrow=False)


def _zoned(value: Any) -> Any:
    """Give times their zone: rows have them in that of the system, without saying so."""
    match value:
        case datetime():
            return value.astimezone(UTC)
        case dict():
            return {name: _zoned(inner) for name, inner in value.items()}
        case list():
            return list(map(_zoned, value))
        case _:
            return value


def _array(values: Any) -> pa.Array:
    """Return values as Spark would hand them to an ``arrow_udf``: dictionaries are the maps of options."""
    values = list(values)
    is_map = any(isinstance(value, dict) for value in values)
    return pa.array(values, pa.map_(pa.string(), pa.string()) if is_map else None)


def _frame(structs: pa.StructArray) -> Any:
    """Return the members of structs as a data frame whose columns stay Arrow.

    PySpark would take nested values apart one by one with ``apply``, to convert what pandas holds in its own way.
    """
    import pandas as pd  # type: ignore[import-untyped]

    class ArrowSeries(pd.Series):  # type: ignore[misc]
        def apply(self, *_: Any, **__: Any) -> ArrowSeries:
            return self

    class ArrowFrame(pd.DataFrame):  # type: ignore[misc]
        @property
        def _constructor_sliced(self) -> type[ArrowSeries]:
            return ArrowSeries

    members = zip(structs.type, structs.flatten(), strict=True)
    return ArrowFrame({field.name: pd.Series(array, dtype=pd.ArrowDtype(field.type)) for field, array in members})
