"""TLS of servers: certificates that can be read again, and handshakes that count as connections while they last."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.address import show_address
from .endpoint import Pipe

log = logging.getLogger("wirelake.live")


@dataclass(frozen=True, slots=True)
class Certificate:
    """Files of a TLS server. ``client_ca``: clients have to show a certificate of this authority."""

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def context(self) -> ssl.SSLContext:
        """What the files say now. OSError or ValueError, with the file's name, if they make no sense."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        for path in (self.certificate, self.key, self.client_ca):
            if path is not None:
                path.open("rb").close()
        try:
            context.load_cert_chain(self.certificate, self.key, password=_no_password)
        except ssl.SSLError as error:
            raise ValueError(f"{self.certificate}, {self.key}: {_explain(error)}") from None
        if self.client_ca is not None:
            try:
                context.load_verify_locations(self.client_ca)
            except ssl.SSLError as error:
                raise ValueError(f"{self.client_ca}: {_explain(error)}") from None
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def _no_password() -> str:
    """Without this OpenSSL would ask on the terminal."""
    raise ValueError("the key is encrypted, and nobody is there to be asked for its password")


def _explain(error: ssl.SSLError) -> str:
    known = {
        "KEY_VALUES_MISMATCH": "the key is not the key of the certificate",
        "NO_START_LINE": "no certificate or key in PEM form",
        "NO_CERTIFICATE_OR_CRL_FOUND": "no certificate in PEM form",
    }
    reason = str(error.reason or "NO_START_LINE")
    return known.get(reason, reason.replace("_", " ").lower())


class TlsDoor(asyncio.Protocol):
    """A connection until its TLS handshake is done. ``on_end`` is told how that went, once."""

    def __init__(
        self, context: ssl.SSLContext, make: Callable[[], Pipe], seconds: float, on_end: Callable[[TlsDoor, bool], None]
    ) -> None:
        self._context = context
        self._make = make
        self._seconds = seconds
        self._on_end = on_end
        self._transport: Any = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._transport.pause_reading()
        self._task = asyncio.get_running_loop().create_task(self._shake_hands())

    async def _shake_hands(self) -> None:
        early = _Early()
        is_done = False
        try:
            transport = await asyncio.get_running_loop().start_tls(
                self._transport,
                early,
                self._context,
                server_side=True,
                ssl_handshake_timeout=self._seconds,
                ssl_shutdown_timeout=self._seconds,
            )
            is_done = transport is not None
        except (OSError, asyncio.CancelledError) as error:
            peer = show_address(self._transport.get_extra_info("peername"))
            log.debug("no TLS handshake", extra={"fields": {"peer": peer, "reason": str(error)}})
        finally:
            self._on_end(self, is_done)
        if is_done:
            early.hand_over(transport, self._make)

    def cut(self) -> None:
        """Nobody waits for it any more."""
        self._transport.abort()
        if self._task is not None:
            self._task.cancel()


class _Early(asyncio.Protocol):
    """Takes what comes right behind the handshake, before the one whom it is for is there."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._is_eof = self._is_lost = False
        self._pipe: Pipe | None = None

    def data_received(self, data: bytes) -> None:
        self._data += data

    def eof_received(self) -> None:
        self._is_eof = True

    def connection_lost(self, error: Exception | None) -> None:
        self._is_lost = True
        if self._pipe is not None:
            self._pipe.connection_lost(error)

    def hand_over(self, transport: Any, make: Callable[[], Pipe]) -> None:
        if self._is_lost:
            return
        self._pipe = pipe = make()
        transport.set_protocol(pipe)
        pipe.connection_made(transport)
        if self._data:
            pipe.data_received(bytes(self._data))
        if self._is_eof:
            pipe.eof_received()
