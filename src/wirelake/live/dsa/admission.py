"""Who may connect: clients that are known, tokens, and what happens to everybody else."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from .desk import Desk, Then
from .handshake import HASH_CHARACTERS, HASHED_TOKEN, TOKEN_NAME, Claim, is_token
from .paths import is_name
from .peers import Client
from .permissions import DEFAULT
from .store import Put, Remove

CLIENT, TOKEN, SWITCH = "client", "token", "switch"
"""Kinds of facts that are kept."""
LEAST_NAME = 3
DENIED = 0x40


class NotAdmitted(Exception):
    """A client may not come in: why, without what it has sent."""


@dataclass(slots=True)
class Token:
    """``secret`` is the whole token. ``count`` is how many clients it may still bring, -1 any number."""

    secret: str = field(repr=False)
    role: str = DEFAULT
    start: float = -math.inf
    end: float = math.inf
    count: int = 1
    max_session: int = 1
    is_managed: bool = False
    """Whether its clients go with it."""

    @property
    def name(self) -> str:
        return self.secret[:TOKEN_NAME]

    @property
    def time_range(self) -> str:
        return "/".join("" if math.isinf(at) else _show_time(at) for at in (self.start, self.end)).strip("/")

    def is_good(self, claimed: str, dsid: str, time_of_day: float) -> bool:
        return is_token(claimed, dsid, self.secret) and self.count != 0 and self.start <= time_of_day <= self.end


def read_time_range(text: str) -> tuple[float, float]:
    """Return begin and end of ``BEGIN/END``, each in ISO 8601 or empty. ValueError says what is wrong."""
    if not text:
        return -math.inf, math.inf
    begin, slash, end = text.partition("/")
    if not slash:
        raise ValueError("a time range is BEGIN/END, such as 2024-01-01T00:00:00Z/2024-02-01T00:00:00Z")
    return _read_time(begin, -math.inf), _read_time(end, math.inf)


def _read_time(text: str, usual: float) -> float:
    if not text.strip():
        return usual
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError("a time is written in ISO 8601, such as 2024-01-01T00:00:00Z") from None
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()


def _show_time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


class Admission:
    """Knows clients and tokens, by dsId and by name, and keeps both."""

    def __init__(self, desk: Desk, *, allow_all: bool | None, quarantine: bool | None) -> None:
        self._desk = desk
        self._switches = {"allow-all": allow_all, "quarantine": quarantine}
        self._usual = {"allow-all": False, "quarantine": True}
        self.clients: dict[str, Client] = {}
        self.tokens: dict[str, Token] = {}
        self._names: dict[str, str] = {}

    @property
    def allows_all(self) -> bool:
        return self._is_on("allow-all")

    @property
    def has_quarantine(self) -> bool:
        return self._is_on("quarantine")

    def _is_on(self, name: str) -> bool:
        switch = self._switches[name]
        return self._usual[name] if switch is None else switch

    def switch(self, name: str, is_on: bool, then: Then | None) -> None:
        self._switches[name] = is_on
        self._desk.keep(Put(SWITCH, name, is_on), then)

    def restore(self, kind: str, key: str, fact: Any) -> None:
        """Take back a fact that was kept. What the settings say about a switch counts more."""
        match kind:
            case "client":
                client = self.clients[key] = Client(**fact)
                if client.name:
                    self._names[client.name] = key
            case "token":
                self.tokens[key] = Token(**fact)
            case "switch" if self._switches.get(key, False) is None:
                self._switches[key] = bool(fact)

    def admit(self, claim: Claim) -> Client | None:
        """Return the client that may come in; None if it goes into quarantine. NotAdmitted if it may not."""
        known = self.clients.get(claim.dsid)
        if known is not None:
            return known
        if claim.token:
            return self._admit_by_token(claim)
        if self.allows_all:
            return Client(claim.dsid)
        if self.has_quarantine:
            return None
        raise NotAdmitted("an unknown client without a token")

    def _admit_by_token(self, claim: Claim) -> Client:
        token = self.tokens.get(claim.token[:TOKEN_NAME])
        now = self._desk.epoch + self._desk.now
        if token is None or len(claim.token) != HASHED_TOKEN or not token.is_good(claim.token, claim.dsid, now):
            raise NotAdmitted("the token is wrong, used up, or out of its time")
        if token.count > 0:
            token.count -= 1
            self.keep_token(token, None)
        return Client(claim.dsid, token.role, "", token.max_session, token.name)

    def enter(self, client: Client, *, is_responder: bool, then: Then) -> None:
        """Keep a client, with a name if it is a responder; ``then`` is called when that is durable."""
        is_new = self.clients.get(client.dsid) is not client
        self.clients[client.dsid] = client
        if is_responder and not client.name:
            client.name = self._free_name(client.dsid)
            self._names[client.name] = client.dsid
            is_new = True
        if is_new:
            self.keep_client(client, then)
        else:
            then()

    def _free_name(self, dsid: str) -> str:
        """The prefix of the dsId, or more of it where that is taken or too short."""
        length = max(len(dsid[:-HASH_CHARACTERS].removesuffix("-")), LEAST_NAME)
        while length < len(dsid) and (dsid[:length] in self._names or not is_name(dsid[:length])):
            length += 1
        return dsid[:length]

    def name(self, client: Client) -> None:
        """Give a client of this process a name, for as long as it is here."""
        client.name = self._free_name(client.dsid)
        self._names[client.name] = client.dsid

    def unname(self, client: Client) -> None:
        self._names.pop(client.name, None)

    def keep_client(self, client: Client, then: Then | None) -> None:
        self._desk.keep(Put(CLIENT, client.dsid, asdict(client)), then)

    def keep_token(self, token: Token, then: Then | None) -> None:
        self.tokens[token.name] = token
        self._desk.keep(Put(TOKEN, token.name, asdict(token)), then)

    def remove_client(self, dsid: str, then: Then | None) -> None:
        client = self.clients.pop(dsid)
        self._names.pop(client.name, None)
        self._desk.keep(Remove(CLIENT, dsid), then)

    def remove_token(self, name: str, then: Then | None) -> Token:
        token = self.tokens.pop(name)
        self._desk.keep(Remove(TOKEN, name), then)
        return token
