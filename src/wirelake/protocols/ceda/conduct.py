"""The conduct of ceda: a refused login may be tried again, messages come in groups of pieces."""

from __future__ import annotations

from ...spec.conduct import Conduct, Pieces

CONDUCT = Conduct(after_refusal="open", pieces=Pieces("group_order", "piece"))
