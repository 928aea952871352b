"""Facts of ceda: who logs in, and how that went, lies in numbered cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ...spec.conduct import COMPLETE, ERROR, HANDSHAKE, REFUSED, Draft
from .conduct import LOGIN_RESULTS, LOGINS
from .messages import CONNECTION_ID, LOGIN_OK, RESULT, TEXT, USER, ControlCode

Cells = list[dict[str, Any]] | None


def complete(draft: Draft) -> None:
    asked, replied = draft.select(LOGINS), draft.select(LOGIN_RESULTS)
    if asked.any():
        rows = zip(*(_picked(draft, name, asked) for name in ("control_code", "record", "masked")), strict=True)
        draft.introduce(asked, [_login(*row) for row in rows])
    if replied.any():
        records = _picked(draft, "record", replied)
        draft.introduce(replied, [_result(cells) for cells in records])
        _results(draft, replied, records)


def _picked(draft: Draft, name: str, selected: Any) -> list[Any]:
    return list(draft.column(name).filter(pa.array(selected)).to_pylist())


def _login(control_code: int, cells: Cells, masked: bool | None) -> dict[str, Any]:
    named = control_code == ControlCode.LOGIN
    return {"user": _last(cells, USER, "text") if named else None, "masked": masked}


def _result(cells: Cells) -> dict[str, Any]:
    ok = _last(cells, RESULT, "long") == LOGIN_OK
    return {
        HANDSHAKE: COMPLETE if ok else REFUSED,
        "login_result": _last(cells, TEXT, "text"),
        "connection_id": _last(cells, CONNECTION_ID, "long") if ok else None,
    }


def _last(cells: Cells, fid: int, kind: str) -> Any:
    """The value of the last cell with this number."""
    return next((cell[kind] for cell in reversed(cells or ()) if cell["fid"] == fid), None)


def _results(draft: Draft, replied: Any, records: list[Cells]) -> None:
    rows = np.flatnonzero(replied)
    said = [_last(cells, RESULT, "long") for cells in records]
    texts = np.full(len(draft), None, object)
    texts[rows] = [None if value is None else str(value) for value in said]
    draft.result[rows[[value != LOGIN_OK for value in said]]] = ERROR
    draft.columns["status"] = pa.array(texts, pa.string())
