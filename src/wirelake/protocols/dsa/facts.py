"""Facts of dsa: an absent status is 0, and a close may say why."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...spec.conduct import CLOSE, ERROR, REPLY, Draft
from .conduct import CLOSED, INTERNAL_ERROR


def complete(draft: Draft) -> None:
    status = pc.fill_null(draft.column("headers.status").cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    closes = draft.part == CLOSE
    if closes.any():
        explained = pc.is_valid(draft.column("headers.error_detail")).to_numpy(zero_copy_only=False)
        status = np.where(closes & (status < CLOSED), np.where(explained, INTERNAL_ERROR, CLOSED), status)
        draft.result[closes & (status > CLOSED)] = ERROR
    is_said = closes | (draft.part == REPLY)
    draft.columns["status"] = pa.array(status, mask=~is_said).cast(pa.string())
