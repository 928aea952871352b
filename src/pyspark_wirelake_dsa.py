"""Found by Spark through its name: ``spark.read.format("dsa")``."""

from wirelake.spark.formats import Captures


class DefaultSource(Captures):
    @classmethod
    def name(cls) -> str:
        return "dsa"
