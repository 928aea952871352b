"""Change into how many buckets gold is divided, also while requests, sessions and transactions are open.

What is undecided lies in the carry of its bucket. One commit puts it into the carry of the new ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from ..errors import LakeError
from ..gold.declarations import Declarations
from ..gold.division import divided, divided_transactions, protocols_of
from ..gold.steps import GoldCarry
from ..gold.transactions import TransactionsCarry
from ..lake import Run, StagedFile
from ..spec.nodes import Protocol
from .carry import pack, read
from .tasks.decode import bucket_of
from .tasks.gold import carry_name as gold_name
from .tasks.transactions import carry_name as transactions_name

MOST_BUCKETS = 999
_GOLD, _TRANSACTIONS = (name(0).rpartition("-")[0] for name in (gold_name, transactions_name))

T = TypeVar("T")


def rebucket(run: Run, buckets: int, protocols: Iterable[Protocol] = ()) -> int:
    """Commit another number of buckets; return the number of the commit, or of the last one if nothing changes.

    ``protocols`` are those of users: connections over a broker are divided in another way, and only their declarations
    say which these are. The carry for late captures is of the old buckets, so it goes: a rebuild begins with the first
    capture then.
    """
    lake = run.lake
    if not 1 <= buckets <= MOST_BUCKETS:
        raise LakeError(lake.path, f"cannot have {buckets} buckets: 1 to {MOST_BUCKETS} are possible")
    if buckets == lake.settings["buckets"]:
        return lake.number()
    declarations = Declarations({protocol.name: protocol for protocol in protocols})
    carry: dict[str, StagedFile | None] = {}
    for key in sorted({name.partition(".")[0] for name in lake.carry()}):
        try:
            carry |= _Sensor(run, key).divided(buckets, declarations)
        except (ValueError, LookupError, pa.ArrowException) as error:
            raise LakeError(lake.path, f"has carry that wirelake did not write: {error}") from None
    return run.commit(settings={"buckets": buckets}, carry=carry, kept={key: [] for key in lake.kept()})


class _Sensor:
    """The carry of one sensor, by the names that it has in the lake."""

    def __init__(self, run: Run, key: str) -> None:
        self._run, self._key = run, key
        self._known = {name: path for name, path in run.lake.carry().items() if name.startswith(f"{key}.")}

    def divided(self, buckets: int, declarations: Declarations) -> dict[str, StagedFile | None]:
        gold, transactions = self._read(_GOLD, GoldCarry), self._read(_TRANSACTIONS, TransactionsCarry)
        self._check(gold.values(), declarations)

        def bucket(connection: str, protocol: str | None) -> int:
            return bucket_of(connection, declarations.conduct(protocol).brokered, buckets)

        of_server = partial(bucket_of, brokered=True, buckets=buckets)
        made: dict[str, Any] = {}
        for number, part in divided(gold.values(), buckets, bucket, of_server).items():
            made[gold_name(number)] = part
        for number, known in divided_transactions(transactions.values(), buckets).items():
            made[transactions_name(number)] = known
        staged = {f"{self._key}.{name}": self._stage(name, value) for name, value in made.items()}
        return dict.fromkeys((*gold, *transactions)) | staged

    def _read(self, kind: str, carry: type[T]) -> dict[str, T]:
        start = f"{self._key}.{kind}-"
        paths = {name: path for name, path in sorted(self._known.items()) if name.startswith(start)}
        return {name: read(self._run.lake.store, path, carry) for name, path in paths.items()}

    def _stage(self, name: str, value: Any) -> StagedFile:
        return self._run.staging.stage_bytes(f"{self._key}.{name}", name, pack(value))

    def _check(self, carries: Iterable[GoldCarry], declarations: Declarations) -> None:
        names = {name for carry in carries for name in protocols_of(carry).values()}
        unknown = sorted(name for name in names if declarations.protocol(name) is None)
        if unknown:
            raise LakeError(
                self._run.lake.path,
                f"has open connections of the protocol {unknown[0]!r}, which decides how they are divided: name its "
                "declaration with -p",
            )
