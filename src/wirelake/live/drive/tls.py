"""TLS of servers: certificates that can be read again, and handshakes that count as connections while they last."""

from __future__ import annotations

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.address import show_address
from ..core.log import log
from .pipe import Pipe


@dataclass(frozen=True, slots=True)
class Certificate:
    """Files of a TLS server, in PEM form. ``client_ca``: clients have to show a certificate of this authority."""

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


class TlsDoor(SSLProtocol):
    """TLS of one connection. ``make`` makes its pipe when the handshake is done; ``on_end`` is told once how that went.

    The one of asyncio reserves a quarter of a megabyte for each connection, and a handshake that fails leaves it in a
    cycle, which this process looks for rarely.
    """

    max_size = 1 << 15

    def __init__(
        self, context: ssl.SSLContext, make: Callable[[], Pipe], seconds: float, on_end: Callable[[TlsDoor, bool], None]
    ) -> None:
        super().__init__(
            asyncio.get_running_loop(),
            asyncio.Protocol(),
            context,
            None,  # type: ignore[arg-type]
            server_side=True,
            ssl_handshake_timeout=seconds,  # type: ignore[arg-type]
            ssl_shutdown_timeout=seconds,
        )
        self._make = make
        self._on_end: Callable[[TlsDoor, bool], None] | None = on_end

    def _on_handshake_complete(self, handshake_exc: Any) -> None:
        if handshake_exc is None:
            self._end(True)
            self._set_app_protocol(self._make())
        super()._on_handshake_complete(handshake_exc)
        if isinstance(handshake_exc, BaseException):  # it may be a class
            handshake_exc.__traceback__ = None  # its frames refer to it, and to us

    def connection_lost(self, error: BaseException | None) -> None:
        if self._on_end is not None and self._transport is not None:
            peer = show_address(self._transport.get_extra_info("peername"))
            log.debug("no TLS handshake", peer=peer, reason=str(error or "cut off"))
            self._end(False)
        super().connection_lost(error)

    def _end(self, is_done: bool) -> None:
        tell, self._on_end = self._on_end, None
        if tell is not None:
            tell(self, is_done)

    def cut(self) -> None:
        transport: Any = self._transport
        transport.abort()
