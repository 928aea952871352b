"""Found by Spark through its name: ``spark.read.format("wire")``."""

from wirelake.spark.formats import Captures


class DefaultSource(Captures):
    @classmethod
    def name(cls) -> str:
        return "wire"
