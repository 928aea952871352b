"""The kinds of lives that there are, for the tests and for ``benchmarks.lives``."""

from __future__ import annotations

from collections.abc import Callable

from tests.live.ceda.life import CedaLife
from tests.live.dsa.life import DsaLife
from tests.live.lives import Life
from tests.live.mb.life import MbLife
from tests.live.toy_life import ToyLife

KINDS: dict[str, Callable[[int], Life]] = {"mb": MbLife, "ceda": CedaLife, "dsa": DsaLife, "toy": ToyLife}
