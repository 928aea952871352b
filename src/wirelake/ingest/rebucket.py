"""Change into how many buckets gold is divided, while nothing is open.

What is undecided lies in the carry of its bucket, and a bucket has all that its connections need of each other. So the
number can change only when every sensor is closed.
"""

from __future__ import annotations

from ..errors import LakeError
from ..lake import Run
from .carry import read
from .sensor_carry import SENSOR, SensorCarry

MOST_BUCKETS = 999


def rebucket(run: Run, buckets: int) -> int:
    """Commit another number of buckets; raise LakeError that names the sensors with something open.

    The carry for late captures is of the old buckets, so it goes: a rebuild begins with the first capture then.
    """
    lake = run.lake
    if not 1 <= buckets <= MOST_BUCKETS:
        raise LakeError(lake.path, f"cannot have {buckets} buckets: 1 to {MOST_BUCKETS} are possible")
    parts = [name.partition(".") for name in lake.carry()]
    open_keys = {key for key, _, name in parts if name != SENSOR}
    if open_keys:
        paths = {key: lake.carry().get(f"{key}.{SENSOR}") for key in open_keys}
        names = sorted(read(lake.store, path, SensorCarry).name if path else key for key, path in paths.items())
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        raise LakeError(
            lake.path,
            f"cannot be divided otherwise while something is open at {', '.join(names[:3])}{more}: "
            "close these sensors with `wirelake ingest --final`, or ingest the captures into a new lake",
        )
    return run.commit(settings={"buckets": buckets}, kept={key: [] for key in lake.kept()})
