"""Who logs in to a CEDA server, and how."""

from __future__ import annotations

from dataclasses import dataclass, field

from . import wire
from .records import Record, write_record

MAX_CHARACTERS = 127


@dataclass(frozen=True, slots=True)
class CedaLogin:
    """Who wants to log in: by name and password, or with a ``session_id``, or with a ``record`` of the application's
    own.
    """

    user: str = ""
    password: str = field(default="", repr=False)
    client_id: str = ""
    session_id: str = field(default="", repr=False)
    record: Record | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if sum((bool(self.user), bool(self.session_id), self.record is not None)) > 1:
            raise ValueError("user, session_id and record exclude each other: one of them logs in")
        for name in ("user", "password", "client_id"):
            if len(getattr(self, name)) > MAX_CHARACTERS:
                raise ValueError(f"{name} has more than {MAX_CHARACTERS} characters")

    def payload(self, charset: str) -> bytes:
        if self.session_id:
            return bytes((wire.LOGIN, wire.Do.LOGIN_SID)) + write_record({3: self.session_id}, charset)
        if self.record is not None:
            return bytes((wire.LOGIN, wire.Do.LOGIN_VS)) + write_record(self.record, charset)
        return bytes((wire.LOGIN, wire.Do.LOGIN)) + write_record(
            {7: self.client_id, 5: self.password, 4: self.user}, charset
        )
