"""``spark.readStream.format("casual" | ... | "wire").load(directory)``: captures that grow and rotate, as a stream.

Spark keeps one reader beside the driver, which lists, limits and plans. Workers decode, and keep nothing.
Before PySpark 4.2 a stream has no limits: each batch takes all that there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from ..errors import OptionError
from .user_errors import USER_ERRORS, user_errors

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from .options import ReadOptions

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxFiles,
        SupportsTriggerAvailableNow,
    )

    HAS_LIMITS = True
except ImportError:  # before 4.2
    HAS_LIMITS = False


class UnlimitedStreamReader(DataSourceStreamReader):
    """For PySpark before 4.2, and what both kinds share."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        from .reading import Table
        from .stream_files import StreamPlanner

        self.table = Table.of(options, schema)
        self._planner: StreamPlanner | None = None
        self._target: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {"table": self.table, "_planner": None, "_target": None}

    @property
    def planner(self) -> Any:
        from .stream_files import StreamPlanner

        if self._planner is None:
            self._planner = StreamPlanner(self.table)
        return self._planner

    def initialOffset(self) -> dict[str, Any]:
        return {}

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        from .stream_files import advance

        with user_errors():
            latest = advance({}, self.planner.files.list())
            # How many captures were read is not known without the position that Spark has.
            return {sensor: {**position, "files": -1} for sensor, position in latest.items()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        with user_errors():
            return [InputPartition(share) for share in self.planner.plan(start, end)]

    def read(self, partition: InputPartition | None) -> Iterator[Any]:
        from ..ingest.warm_up import warm_up
        from .stream_shares import stream_rows

        if partition is None or partition.value is None:
            return
        with user_errors():
            warm_up()
            yield from stream_rows(self.table, partition.value)


if HAS_LIMITS:

    class StreamReader(UnlimitedStreamReader, SupportsTriggerAvailableNow):
        """With limits, finite runs, and the newest position for Spark's progress."""

        def getDefaultReadLimit(self) -> ReadLimit:
            stream = self.table.options.stream
            if stream.most_bytes is not None:
                return ReadMaxBytes(stream.most_bytes)
            return ReadMaxFiles(stream.most_files) if stream.most_files is not None else ReadAllAvailable()

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # type: ignore[override]
            from .stream_files import advance

            with user_errors():
                sensors = self._target if self._target is not None else self.planner.files.list()
                most_bytes = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
                most_files = limit.max_files if isinstance(limit, ReadMaxFiles) else None
                return advance(start, sensors, most_bytes, most_files)

        def prepareForTriggerAvailableNow(self) -> None:
            with user_errors():
                self._target = self.planner.files.list()

        def reportLatestOffset(self) -> dict[str, Any]:
            from .stream_files import advance

            with user_errors():
                return advance({}, self.planner.files.list())


class RefusedStreamReader(DataSourceStreamReader):
    """Raises why there is no reader when the query begins: PySpark loses what is raised while a reader is made."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def initialOffset(self) -> dict[str, Any]:
        with user_errors():
            raise self.error

    def latestOffset(self, *_: Any) -> dict[str, Any]:  # PySpark 4.0 calls it first
        return self.initialOffset()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        raise self.error


def stream_reader(read_options: Callable[[], ReadOptions], schema: StructType) -> DataSourceStreamReader:
    try:
        options = read_options()
        if HAS_LIMITS:
            return StreamReader(options, schema)
        stream = options.stream
        if stream.most_bytes is not None or stream.most_files is not None:
            raise OptionError(f"{options.what}: maxBytesPerTrigger and maxFilesPerTrigger need PySpark 4.2 or newer")
        return UnlimitedStreamReader(options, schema)
    except USER_ERRORS as error:
        return RefusedStreamReader(error)
