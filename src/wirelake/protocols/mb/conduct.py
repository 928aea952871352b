"""The conduct of mb: a broker that forwards under its own ids, and may invent ids for its errors."""

from __future__ import annotations

from ...spec.conduct import Conduct, Matching

CONDUCT = Conduct(matching=Matching(shared=True, inventing_side="server"), brokered=True)
