"""serve: a hub in the foreground."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..live.records import LIVE
from .logs import ThreadedHandler, show_logs
from .options import usage_errors
from .output import announce

if TYPE_CHECKING:
    from ..live.hub.hub import HubSettings

F = TypeVar("F", bound=Callable[..., Any])
_ABOUT = {"tcp": "TCP", "tls": "TLS", "ws": "WebSocket", "wss": "WebSocket over TLS"}
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}


def _listener_options(command: F) -> F:
    for flag, name, transport in reversed(_flags()):
        about = f"Serve {name} over {_ABOUT[transport]} there."
        command = click.option(f"--{flag}", metavar="HOST:PORT", help=about)(command)
    return command


def _flags() -> list[tuple[str, str, str]]:
    """Return the flags that name listeners, each with its protocol and transport."""
    return [
        (name if transport == "tcp" else f"{name}-{transport}", name, transport)
        for name, live in LIVE.items()
        for transport in live.transports
    ]


_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.option("--config", type=_FILE, metavar="FILE", help="Settings in TOML; examples/hub.toml shows all of them.")
@_listener_options
@click.option("--cert", type=_FILE, metavar="FILE", help="Certificate for TLS, in PEM format, with its chain.")
@click.option("--key", type=_FILE, metavar="FILE", help="Its key.")
@click.option("--client-ca", type=_FILE, metavar="FILE", help="Clients must show a certificate of this authority.")
@click.option("--metrics", metavar="HOST:PORT", help="Serve /metrics for Prometheus and /health there.")
@click.option(
    "--tap",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Record all traffic as a capture there.",
)
@click.option(
    "--slow-reader",
    type=click.Choice(["drop", "slow"]),
    help="What to do with slow readers: drop them, or slow down their senders.",
)
@click.option("--log-level", type=click.Choice(list(LEVELS)), help="Least level to log.  [default: info]")
@click.option(
    "--log-format", type=click.Choice(["json", "text"]), help="Log format.  [default: text on a terminal, else json]"
)
def serve(**given: Any) -> None:
    """Serve protocols: an MB broker, a CEDA server, a DSA broker, a casual domain, or all of them, in one process.

    By default the hub serves MB, CEDA and DSA on loopback, at their usual ports: mb on TCP 3001 and WebSocket 3000,
    ceda on TCP 8088 and WebSocket 8089, dsa on TCP 4120 and WebSocket 4121; casual has no usual port. Flags that name
    listeners replace these and those of the file; nothing else is served then. Port 0 picks a free port; *:PORT listens
    on every address of this machine, a port alone on loopback.

    \b
    wirelake serve
    wirelake serve --mb 127.0.0.1:0 --mb-ws 127.0.0.1:0
    wirelake serve --mb-tls '*:8001' --cert server.pem --key server.key --client-ca clients.pem
    wirelake serve --casual 127.0.0.1:7771 --config domain.toml
    wirelake serve --config hub.toml --metrics 127.0.0.1:9464 --tap captures/

    Once ready, the hub prints where it listens, as one line on standard output:

    \b
    {"listening":{"mb":"127.0.0.1:3001","mb-ws":"127.0.0.1:3000"}}

    It logs to standard error, as JSON unless that is a terminal. SIGTERM or Ctrl-C delivers what is under way and ends;
    a second signal ends at once. SIGHUP reloads certificates and users. Any user may log in to CEDA unless the settings
    restrict it ([ceda] users, users_file or authenticator). Unknown DSA links are in quarantine unless the settings let
    them in ([dsa] allow_all, or a token).
    """
    from ..live.hub.hub import HubError, SettingsError
    from ..live.hub.hub import serve as run

    with usage_errors(HubError, SettingsError):
        settings = _settings(given)
        with closing(ThreadedHandler()) as handler:
            show_logs(handler, level=LEVELS[settings.log.level], form=settings.log.format)
            run(settings, lambda hub: announce({"listening": hub.listening}))


def _settings(given: dict[str, Any]) -> HubSettings:
    """Return the settings of the file, with those of the flags in their place."""
    from ..live.drive.tls import Certificate
    from ..live.hub.hub import default_settings, load_settings, with_listeners
    from ..live.hub.settings import LogSettings, MetricsSettings

    settings = default_settings() if given["config"] is None else load_settings(given["config"])
    files = {"certificate": given["cert"], "key": given["key"], "client_ca": given["client_ca"]}
    named: Any = {name: path for name, path in files.items() if path is not None}
    if named:
        try:
            tls = Certificate(**named) if settings.tls is None else replace(settings.tls, **named)
        except TypeError:
            raise click.UsageError(_what_is_missing(files)) from None
        settings = replace(settings, tls=tls)
    listeners = _listeners(given)
    if listeners:
        settings = with_listeners(settings, listeners)
    if given["metrics"] is not None:
        settings = replace(settings, metrics=MetricsSettings(listen=_address("metrics", given["metrics"])))
    elif listeners:
        settings = replace(settings, metrics=MetricsSettings())
    if given["tap"] is not None:
        settings = replace(settings, tap=replace(settings.tap, directory=given["tap"]))
    if given["slow_reader"] is not None:
        policy: Any = {"slow_reader": given["slow_reader"]}
        services = {name: replace(service, **policy) for name, service in settings.services.items()}
        settings = replace(settings, services=services)
    level, form = given["log_level"] or settings.log.level, given["log_format"] or settings.log.format
    return replace(settings, log=LogSettings(level=level, format=form))


def _what_is_missing(files: dict[str, Path | None]) -> str:
    missing = [flag for flag, name in (("--cert", "certificate"), ("--key", "key")) if files[name] is None]
    return f"{' and '.join(missing)} missing: a certificate and its key belong together"


def _listeners(given: dict[str, Any]) -> dict[str, dict[str, tuple[str, int]]]:
    listeners: dict[str, dict[str, tuple[str, int]]] = {}
    for flag, name, transport in _flags():
        value = given[flag.replace("-", "_")]
        if value is not None:
            listeners.setdefault(name, {})[transport] = _address(flag, value)
    return listeners


def _address(flag: str, value: str) -> tuple[str, int]:
    from ..live.core.address import parse_address

    with usage_errors(ValueError, about=f"--{flag}: "):
        return parse_address(value)
