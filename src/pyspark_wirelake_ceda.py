"""Found by Spark through its name: ``spark.read.format("ceda")``."""

from wirelake.spark.formats import Captures


class DefaultSource(Captures):
    @classmethod
    def name(cls) -> str:
        return "ceda"
