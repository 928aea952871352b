"""report: a lake -> one HTML page, as a file or served."""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

import click
from click.core import ParameterSource

from ..errors import LakeError
from ..spec.nodes import Protocol
from .options import as_of_option, protocols_option, usage_errors
from .output import announce, emit
from .progress import size

if TYPE_CHECKING:
    from ..lake import Lake
    from ..report import Written
    from ..report.server import ReportServer

Say = Callable[[str], None]
SHOWN_EVERY_SECONDS = 5.0
END_SECONDS = 2.0
LISTEN = "127.0.0.1:8765"
WHY = {
    "violation": "{held:,} of {of:,} with violations",
    "in_doubt": "{held:,} of {of:,} in doubt",
    "open": "{held:,} of {of:,} undecided",
    "slow": "the {held:,} slowest of {of:,}",
    "failed": "{held:,} of {of:,} failed",
    "sample": "{held:,} of {of:,} as a sample",
}


@click.command()
@click.argument("lake", metavar="LAKE")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Where the page goes; - is standard output.  [default: the lake's name with .html, here]",
)
@protocols_option(
    "A protocol of yours in the lake, file.py:NAME, whose messages are shown byte by byte; may be repeated.", "declared"
)
@as_of_option
@click.option("--force", is_flag=True, help="Replace FILE even if it is not a report of wirelake, or is a link.")
@click.option("--serve", "is_served", is_flag=True, help="Serve the page instead, and renew it after each commit.")
@click.option("--listen", metavar="HOST:PORT", help=f"Where to serve it.  [default: {LISTEN}]")
@click.option(
    "--token",
    envvar="WIRELAKE_TOKEN",
    metavar="TEXT",
    help="What readers must present. Random by default if the address is not on loopback; "
    "WIRELAKE_TOKEN in the environment sets it too.",
)
@click.option("--open", "is_opened", is_flag=True, help="Open the page in a browser.")
@click.option("--quiet", is_flag=True, help="No progress and no summary on standard error.")
@click.pass_context
def report(
    context: click.Context,
    lake: str,
    output: str | None,
    declared: tuple[Protocol, ...],
    as_of: int | datetime | None,
    force: bool,
    is_served: bool,
    listen: str | None,
    token: str | None,
    is_opened: bool,
    quiet: bool,
) -> None:
    """Show a lake as one page for a browser: traffic, latencies, who talks to whom, sessions, transactions,
    violations with their bytes, and the conversations around them.

    LAKE is a directory or a URI, as `wirelake ingest` writes it. The page is one file that needs no network and stays
    below 10 MB, whatever the size of the lake. As far as there is room it has all conversations with violations or in
    doubt, the slowest, and a sample; it says which. A report that is there already is replaced, any other file is not.

    \b
    wirelake report lake
    wirelake report s3://traffic/lake -o monday.html
    wirelake report lake -o - | gzip > report.html.gz
    wirelake report lake --open
    wirelake report lake --as-of 2024-05-01T12:00 -o noon.html

    Prints one JSON object on standard output that says what was written.

    With --serve the page follows a lake that is being written, and fetches any other conversation of it on a click.
    Only this machine can read it unless --listen says otherwise; then readers need the token, and the connection is not
    encrypted: put a TLS proxy in front of it. Port 0 picks a free one, *:PORT is every address of this machine. It is
    read-only. Ctrl-C or SIGTERM ends it.

    \b
    wirelake report lake --serve --open
    wirelake report lake --serve --listen '*:8765'
    curl -H 'Authorization: Bearer TOKEN' http://host:8765/report.json

    When it is ready, it prints one line on standard output that says where it listens:

    \b
    {"listening":"http://127.0.0.1:8765/"}
    """
    _check(context, output, force, is_served, is_opened)
    if is_served and as_of is not None:
        raise click.UsageError("--serve follows the lake: leave --as-of out")
    if is_served:
        if not _serve(lake, listen or LISTEN, token or "", is_opened, quiet):
            _leave()
    else:
        _write(lake, as_of, output, force, is_opened, quiet)


def _check(context: click.Context, output: str | None, force: bool, is_served: bool, is_opened: bool) -> None:
    """Refuse options that contradict each other."""
    if is_served and (output is not None or force):
        raise click.UsageError("--serve writes no file: leave -o and --force out")
    for name in ("listen", "token"):
        if not is_served and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} goes with --serve")
    if output == "-" and is_opened:
        raise click.UsageError("--open needs a file: -o - is standard output")


@contextmanager
def needs_report() -> Iterator[None]:
    """Show errors that users can meet as one line."""
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    try:
        yield
    except ImportError as error:
        raise _missing(error) from None
    except (LakeError, duckdb.Error) as error:
        raise click.ClickException((str(error) or type(error).__name__).splitlines()[0]) from None


def _missing(error: ImportError) -> Exception:
    if "wirelake[report]" in str(error):
        return click.ClickException(str(error))
    if error.name is None or error.name.partition(".")[0] not in ("duckdb", "plotly", "pyarrow", "numpy"):
        return error
    return click.ClickException(f"this needs {error.name}: pip install 'wirelake[report]'")


def _write(
    place: str, as_of: int | datetime | None, output: str | None, force: bool, is_opened: bool, quiet: bool
) -> None:
    began = time.monotonic()
    path = Path(output if output is not None else f"{name_of(place)}.html")
    with needs_report(), _steps(quiet) as say:
        lake = _open(place) if as_of is None else _open(place).at(as_of)
        if output == "-":
            _write_stream(lake, sys.stdout.buffer, say)
            return
        written = _write_file(lake, path, force, say)
    if not quiet:
        click.echo(f"{path}: {size(written.bytes)}, {_held(written)}", err=True)
    shown = {"report": str(path), "bytes": written.bytes, "conversations": written.conversations, "held": written.held}
    emit({**shown, "seconds": round(time.monotonic() - began, 3)})
    if is_opened:
        _show(path.resolve().as_uri(), quiet)


def _open(place: str) -> Lake:
    from ..lake import Lake

    return Lake.open(place, create=False)


def name_of(place: str) -> str:
    """Return the last part of a path or URI: what a lake is called."""
    if "://" not in place:
        place = os.path.abspath(place)
    return place.partition("?")[0].rstrip("/").rpartition("/")[2] or "lake"


def _write_file(lake: Lake, path: Path, force: bool, say: Say) -> Written:
    from ..report import write_report

    try:
        if path.is_fifo() or path.is_char_device():  # written to, not replaced
            with path.open("wb") as stream:
                return _write_stream(lake, stream, say)
        return write_report(lake, path, force=force, progress=say)
    except FileExistsError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}; --force replaces it") from None
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror or error}") from None


def _write_stream(lake: Lake, stream: BinaryIO, say: Say) -> Written:
    from ..report import write_report

    with tempfile.TemporaryDirectory() as scratch:
        written = write_report(lake, Path(scratch, "report.html"), progress=say)
        stream.write(written.path.read_bytes())
    stream.flush()
    return written


def _held(written: Written) -> str:
    """Say how much of the conversations the page holds, for people."""
    parts = [WHY[share["why"]].format(**share) for share in written.held if share["of"] and share["why"] in WHY]
    return f"{written.conversations:,} conversations: {', '.join(parts)}" if parts else "no conversations"


@contextmanager
def _steps(quiet: bool) -> Iterator[Say]:
    """Show what is done next: on a terminal as a line that changes, else as a line now and then."""
    shown = time.monotonic()

    def say(step: str) -> None:
        nonlocal shown
        if is_terminal:
            click.echo(f"\r\x1b[K{step}", nl=False, err=True)
        elif time.monotonic() - shown >= SHOWN_EVERY_SECONDS:
            shown = time.monotonic()
            click.echo(f"{step} ...", err=True)

    is_terminal = sys.stderr.isatty()
    try:
        yield (lambda step: None) if quiet else say
    finally:
        if is_terminal and not quiet:
            click.echo("\r\x1b[K", nl=False, err=True)


def _serve(place: str, listen: str, token: str, is_opened: bool, quiet: bool) -> bool:
    """Serve the report of a lake until Ctrl-C or SIGTERM. False: a query still runs, see ``_leave``."""
    from ..live.core.address import parse_address

    with usage_errors(ValueError, about="--listen: "):
        address = parse_address(listen)
    with needs_report():
        from ..report.access import check_token
        from ..report.refresh import LakeSource

        with usage_errors(ValueError, about="--token: "):
            token = token and check_token(token)
        server = _listening(LakeSource(_open(place)), address, listen, token)
        try:
            with _steps(quiet) as say:
                server.begin(say)
            _run(server, place, is_opened, quiet)
        finally:
            is_ended = server.close(END_SECONDS)
    return is_ended


def _leave() -> NoReturn:
    """End the process though a query still runs in it: waiting for its thread could take long, or end in a crash."""
    sys.stdout.flush()
    os._exit(0)


def _listening(source: Any, address: tuple[str, int], listen: str, token: str) -> ReportServer:
    from ..report.server import ReportServer

    try:
        return ReportServer(source, address, token, _complain)
    except OSError as error:
        hint = "; --listen 127.0.0.1:0 picks a free port" if error.errno == errno.EADDRINUSE else ""
        raise click.UsageError(f"cannot listen on {listen}: {_reason(error)}{hint}") from None


def _run(server: ReportServer, place: str, is_opened: bool, quiet: bool) -> None:
    with _stopped_by_signals(server.stop):
        if not quiet:
            click.echo(f"the report of {place} is at {server.url_with_token}", err=True)
            if server.token:
                click.echo("whoever has this address can read it, also on the way: it is not encrypted", err=True)
            click.echo("Ctrl-C ends it", err=True)
        elif server.token:
            click.echo(server.url_with_token, err=True)
        announce({"listening": server.url})
        if is_opened:  # beside it: a browser in the terminal comes back only when it is closed
            threading.Thread(target=_show, args=(server.url_with_token, quiet), daemon=True).start()
        server.run()


@contextmanager
def _stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Stop in order on the first SIGINT or SIGTERM, at once on the second."""

    def end(number: int, frame: Any) -> None:
        for known in before:
            signal.signal(known, signal.SIG_DFL)
        stop()

    before = {known: signal.signal(known, end) for known in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _complain(line: str) -> None:
    with suppress(OSError):
        click.echo(f"wirelake: {line}", err=True)


def _reason(error: OSError) -> str:
    if isinstance(error, socket.gaierror) or not error.errno:
        return error.strerror or str(error)
    return os.strerror(error.errno).lower()


def _show(url: str, quiet: bool) -> None:
    """Open the page in whatever browser there is."""
    import webbrowser

    if not webbrowser.open(url) and not quiet:
        click.echo(f"there is no browser to open; it is at {url}", err=True)
