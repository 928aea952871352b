"""Settings of the session that count for the formats where no option says otherwise.

Spark tells its settings to tasks, as they are when a query runs, but not to planners. What planners need is what
``register`` saw; tasks look whether that still holds.
"""

from __future__ import annotations

import logging
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING

from ..errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IGNORE_CORRUPT = "spark.sql.files.ignoreCorruptFiles"
IGNORE_MISSING = "spark.sql.files.ignoreMissingFiles"
PARTITION_BYTES = "spark.sql.files.maxPartitionBytes"
INFERENCE = "spark.sql.sources.partitionColumnTypeInference.enabled"
ZONE = "spark.sql.session.timeZone"
PLANNED = (PARTITION_BYTES, INFERENCE, ZONE)
"""What planners need."""

Settings = tuple[tuple[str, str], ...]
_log = logging.getLogger("wirelake")


def seen_in(spark: SparkSession) -> Settings:
    """Return the settings that planners need, as they are now."""
    return tuple((name, str(spark.conf.get(name))) for name in PLANNED)


def of_task(name: str) -> str | None:
    """Return a setting of the query whose task this is; None if nobody set it, or this is no task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(name)


def is_on(name: str, option: bool | None) -> bool:
    """Return whether an option, or else a setting of the query, says so."""
    return option if option is not None else (of_task(name) or "").lower() == "true"


def check(assumed: Settings) -> None:
    """Refuse a plan that depends on a zone other than that of the query; warn where another setting came too late."""
    for name, value in assumed:
        now = of_task(name)
        if now is None or now.lower() == value.lower():
            continue
        hint = "call wirelake.spark.register(spark) after the setting changes, or give the option"
        if name == ZONE:
            raise OptionError(f"times were read in the zone {value}, but {ZONE} is {now}: {hint} timeZone")
        _warn(f"{name}={now} came too late: the formats read with {value}; {hint} maxPartitionBytes")


@cache
def _warn(text: str) -> None:
    _log.warning("%s", text)


def parse_time(text: str, zone: str | None) -> float | None:
    """Return a time in seconds since 1970; None if it has no zone and none is known."""
    from zoneinfo import ZoneInfo

    when = datetime.fromisoformat(text)
    if when.tzinfo is None:
        if zone is None:
            return None
        is_offset = zone[:1] in ("+", "-")
        when = datetime.fromisoformat(f"{when.isoformat()}{zone}") if is_offset else when.replace(tzinfo=ZoneInfo(zone))
    return when.timestamp()
