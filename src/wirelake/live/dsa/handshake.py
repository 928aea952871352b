"""Who is who: keys, dsIds, tokens, and the four handshake messages of both sides.

The two handshakes are given bodies and return bodies; whoever has the link frames them. What a peer does wrong raises
``HandshakeRefused``. No text here, and no ``repr``, has a key, a proof or a token.
"""

from __future__ import annotations

import hashlib
import hmac
import random
import re
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from ...errors import DecodeError
from ...protocols import dsa as p
from ..core.errors import Refused
from .wire import Received, plain_status, read_body, status_name, write_body

HASH_CHARACTERS = 43
"""A dsId ends with so many characters of the hash of its key; shorter ids are names of users."""
MAX_DSID = 127
KEY_BYTES, SALT_BYTES = 32, 32
TOKEN_CHARACTERS, TOKEN_NAME = 48, 16
"""Of a token, and of its public part."""
HASHED_TOKEN = TOKEN_NAME + HASH_CHARACTERS
DENIED, INVALID, WRONG_AUTH = 0x40, 0x41, 0xC9
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Of P-256: private keys are from 1 up to below it."""
_is_dsid = re.compile(r"(?:[A-Za-z0-9._~-]|%[0-9A-Fa-f]{2})*").fullmatch


class HandshakeRefused(Refused):
    """A handshake ends here. ``status`` is what the peer would be told, if it is told anything."""

    def __init__(self, detail: str, status: int = INVALID) -> None:
        super().__init__(detail)
        self.status = status


def key_hash(public_key: bytes) -> str:
    return _base64(hashlib.sha256(public_key).digest())


def dsid_of(prefix: str, public_key: bytes) -> str:
    return prefix + key_hash(public_key)


def identity_part(dsid: str) -> str:
    """Return what two dsIds of the same key share: their prefixes may differ."""
    return dsid[-HASH_CHARACTERS:]


def check_dsid(dsid: str, public_key: bytes) -> None:
    """Refuse a dsId that is not well formed, or not that of this key."""
    if not HASH_CHARACTERS <= len(dsid) <= MAX_DSID or _is_dsid(dsid) is None:
        raise HandshakeRefused("the dsId is not well formed")
    if not hmac.compare_digest(identity_part(dsid).encode(), key_hash(public_key).encode()):
        raise HandshakeRefused("the dsId does not belong to the public key")


def proof(secret: bytes, salt: bytes) -> bytes:
    """Return what shows the owner of this salt that we know the secret."""
    return hmac.digest(secret, salt, "sha256")


def make_token(chance: random.Random) -> str:
    """Return a new token. Its first 16 characters are its name, the rest is secret."""
    return "".join(chance.choices(_ALPHABET, k=TOKEN_CHARACTERS))


def hash_token(dsid: str, token: str) -> str:
    """Return what travels for a token; one that has no secret part does not travel."""
    if len(token) <= TOKEN_NAME:
        return ""
    return token[:TOKEN_NAME] + _base64(hashlib.sha256((dsid + token).encode()).digest())


def is_token(claimed: str, dsid: str, token: str) -> bool:
    """Whether this is what a client with this dsId sends for the token; takes equally long either way."""
    return hmac.compare_digest(claimed.encode("utf-8", "surrogateescape"), hash_token(dsid, token).encode())


class Identity:
    """A permanent key, and the dsId that belongs to it."""

    __slots__ = ("_key", "dsid", "public_key")

    def __init__(self, private_key: bytes, prefix: str = "") -> None:
        number = int.from_bytes(private_key, "big")
        if len(private_key) != KEY_BYTES or not 0 < number < _ORDER:
            raise ValueError(f"a private key of P-256 has {KEY_BYTES} bytes, and is neither 0 nor too large")
        self._key = ec.derive_private_key(number, ec.SECP256R1())
        self.public_key = self._key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        self.dsid = dsid_of(prefix, self.public_key)
        if len(self.dsid) > MAX_DSID or _is_dsid(self.dsid) is None:
            raise ValueError(
                f"the name {prefix!r} cannot be part of a dsId: use at most {MAX_DSID - HASH_CHARACTERS} of A-Z a-z "
                "0-9 - _ . ~, and % with two hex digits"
            )

    def __repr__(self) -> str:
        return f"<identity {self.dsid}>"

    @classmethod
    def make(cls, chance: random.Random, prefix: str = "") -> Identity:
        """Return a new identity; ``chance`` must be unpredictable where it matters."""
        return cls(new_key(chance), prefix)

    def share(self, public_key: bytes) -> bytes:
        """Return the secret that we share with the owner of a public key."""
        if hmac.compare_digest(public_key, self.public_key):
            # Whoever shows us our own key could let us make the proof that we then ask for.
            raise HandshakeRefused("the peer shows our own public key")
        try:
            key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), public_key)
            if public_key[:1] != b"\x04":
                raise ValueError
            return self._key.exchange(ec.ECDH(), key)
        except ValueError:
            raise HandshakeRefused("the public key is not a point of P-256") from None


@dataclass(frozen=True, slots=True)
class Claim:
    """What a client has proved (its dsId), and what it asks for."""

    dsid: str
    public_key: bytes = field(repr=False)
    token: str = field(repr=False)
    is_responder: bool
    path: str


@dataclass(frozen=True, slots=True)
class Welcome:
    """What a server has proved (its dsId), and what it grants. ``allow_requester`` is not reliable."""

    dsid: str
    allow_requester: bool
    path: str


class ClientHandshake:
    """Our side as a client: ``hello``, then ``answer`` to F1, then ``finish`` with F3."""

    __slots__ = ("_identity", "_is_responder", "_path", "_salt", "_secret", "_server", "_token")

    def __init__(
        self, identity: Identity, salt: bytes, *, token: str = "", is_responder: bool = True, path: str = ""
    ) -> None:
        self._identity = identity
        self._salt = salt
        self._token = hash_token(identity.dsid, token)
        self._is_responder = is_responder
        self._path = path
        self._secret = b""
        self._server = ""

    def hello(self) -> bytes:
        """Return the body of F0."""
        us = self._identity
        return write_body(p.HandshakeF0(version=(2, 0), dsid=us.dsid, public_key=us.public_key, salt=self._salt))

    def answer(self, message: Received) -> bytes:
        """Return the body of F2, given F1."""
        them = _read(message, p.F1)
        check_dsid(them.dsid, them.public_key)
        if them.salt == self._salt:
            raise HandshakeRefused("the server sent our own salt back")
        self._secret = self._identity.share(them.public_key)
        self._server = them.dsid
        auth = proof(self._secret, them.salt)
        return write_body(p.HandshakeF2(token=self._token, is_responder=self._is_responder, path=self._path, auth=auth))

    def finish(self, message: Received) -> Welcome:
        """Return what the server grants, given F3."""
        them = _read(message, p.F3)
        if not hmac.compare_digest(them.auth, proof(self._secret, self._salt)):
            raise HandshakeRefused("the server could not prove that it has its key", WRONG_AUTH)
        return Welcome(self._server, them.allow_requester, them.path)


class ServerHandshake:
    """Our side as a server: ``hello`` answers F0, ``check`` takes F2, ``welcome`` ends it."""

    __slots__ = ("_client", "_identity", "_salt", "_secret")

    def __init__(self, identity: Identity, salt: bytes) -> None:
        self._identity = identity
        self._salt = salt
        self._secret = b""
        self._client: p.HandshakeF0

    @property
    def salt(self) -> bytes:
        return self._salt

    def hello(self, message: Received) -> bytes:
        """Return the body of F1, given F0."""
        them = self._client = _read(message, p.F0)
        if them.version[0] != 2:
            raise HandshakeRefused(f"version {them.version[0]}.{them.version[1]} of the protocol; only 2 is spoken")
        check_dsid(them.dsid, them.public_key)
        self._secret = self._identity.share(them.public_key)
        us = self._identity
        return write_body(p.HandshakeF1(dsid=us.dsid, public_key=us.public_key, salt=self._salt))

    def check(self, message: Received) -> Claim:
        """Return what the client claims, given F2 with a good proof."""
        them = _read(message, p.F2)
        if not hmac.compare_digest(them.auth, proof(self._secret, self._salt)):
            raise HandshakeRefused("the client could not prove that it has its key", WRONG_AUTH)
        client = self._client
        return Claim(client.dsid, client.public_key, them.token, them.is_responder, them.path)

    def welcome(self, path: str, *, allow_requester: bool = True) -> bytes:
        """Return the body of F3."""
        auth = proof(self._secret, self._client.salt)
        return write_body(p.HandshakeF3(allow_requester=allow_requester, path=path, auth=auth))


def _read(message: Received, method: int) -> Any:
    """Return the body of a handshake message, of the one that is due."""
    if message.method != method:
        raise HandshakeRefused(f"a message of method 0x{message.method:02x} where 0x{method:02x} is due")
    status = message.status
    if status >= p.CLOSED_FROM and not message.body:
        status = WRONG_AUTH if status == 0xF9 else plain_status(status)
        raise HandshakeRefused(f"the server refused: {status_name(status)}", status)
    try:
        return read_body(message)
    except DecodeError as error:
        raise HandshakeRefused(f"a handshake that cannot be read: {error.rule}") from None


def new_key(chance: random.Random) -> bytes:
    """Return a private key."""
    return chance.randrange(1, _ORDER).to_bytes(KEY_BYTES, "big")


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
