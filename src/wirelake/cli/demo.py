"""demo: everything, end to end."""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
import signal
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .ingest import default_master, needs_spark, totals
from .output import announce, emit
from .progress import Bar, size
from .report import needs_report

if TYPE_CHECKING:
    from ..demo.run import Shown
    from ..spark.start import SparkStart

MESSAGES = 10_000
REPORT = "wirelake-demo.html"
KEPT = ("capture", "lake")
SIGNALS = (signal.SIGINT, signal.SIGTERM)
WIDTH = 120
"""Columns of text for people."""


@click.command()
@click.option(
    "-n",
    "--messages",
    type=click.IntRange(1),
    default=MESSAGES,
    show_default=True,
    help="About how many messages. More take a little longer, at a higher rate.",
)
@click.option("--seed", default=1, show_default=True, help="The same seed sends the same messages.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help=f"Where to write the report.  [default: {REPORT}; with --keep: report.html in DIR]",
)
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Keep the capture and the lake in DIR too, not only the report.",
)
@click.option("--serve", "is_served", is_flag=True, help="Then serve the report on loopback until Ctrl-C.")
@click.option(
    "--live",
    "is_live",
    is_flag=True,
    help="Go on until Ctrl-C: traffic, a stream that keeps the tables current, and the served report that follows it.",
)
def demo(messages: int, seed: int, output: Path | None, keep: Path | None, is_served: bool, is_live: bool) -> None:
    """Run the whole system in a minute: a hub with live traffic, a tap, tables made by Spark, a report.

    A shop (mb), a market (ceda), a plant (dsa) and a bank (casual) talk to a hub through a tap, on free ports of this
    machine. Things go wrong: a service becomes slow, another fails, requests time out, transactions are rolled back,
    one is left in doubt, a message ends in an error queue, and some clients break the protocol. The report shows where.

    \b
    wirelake demo
    wirelake demo --serve
    wirelake demo --live
    wirelake demo -n 100000 --keep demo-files

    Only the report stays, also after Ctrl-C. An existing report is replaced; any other file is not. Unless standard
    output is a terminal, the demo prints one JSON object there: where the report is and what it found.

    With --live the traffic does not end: it is played in rounds, a stream brings it into the tables every second, and a
    served page shows the last minutes. It writes no file of the report; --keep keeps captures and lake.
    """
    logging.getLogger("wirelake").addHandler(logging.NullHandler())
    if is_live:
        if output is not None:
            raise click.UsageError("--live serves the report and writes no file: leave -o out")
        _run_live(messages, seed, keep)
        return
    report = output or (keep / "report.html" if keep else Path(REPORT))
    _check_places(report, keep)
    with _ended_by_signals() as stopping, needs_spark(), needs_report(), _scratch(stopping) as scratch:
        _check_plotly()
        from ..demo.run import run

        show = _Show(indent="    ")
        name = None if keep else "demo"  # the lake is gone by then, so its path would mislead
        with _nothing_empty(report, stopping), _kept(keep, scratch, stopping) as folder, _engine(stopping) as engine:
            try:
                shown = run(folder, report, name=name, messages=messages, seed=seed, engine=engine, show=show)
            finally:
                show.leave()
            _tell(shown, keep)
            if is_served:
                _serve(shown, keep, stopping)
            else:
                _emit(shown, keep)


def _run_live(messages: int, seed: int, keep: Path | None) -> None:
    """Play, stream and serve until Ctrl-C, which is then a normal end."""
    _check_keep(keep)
    with _ended_by_signals() as stopping, needs_spark(), needs_report(), _scratch(stopping) as scratch:
        _check_plotly()
        with _kept(keep, scratch, stopping) as folder, _engine(stopping) as engine:
            _follow(folder, messages, seed, engine, stopping)
            if keep is not None and not sys.stdout.isatty():
                emit({name: str(keep / name) for name in KEPT})


def _follow(folder: Path, messages: int, seed: int, engine: SparkStart, stopping: _Stopping) -> None:
    from ..demo.following import Following
    from ..demo.run import seconds_for
    from ..lake import Lake
    from ..report.refresh import LakeSource
    from ..report.server import ReportServer

    def say(line: str) -> None:
        click.echo(line, err=True)

    say("starting Spark and the traffic; the page is there in some seconds")
    engine.start()
    engine.wait_until_up()
    following = Following(folder, messages=messages, seconds=seconds_for(messages), seed=seed, engine=engine, say=say)
    try:
        following.start()
        source = LakeSource(Lake.open(following.lake, create=False))
        with ReportServer(source, ("127.0.0.1", 0), say=say) as server:
            following.when_failed(server.stop)
            server.begin()
            say(f"The report follows the traffic at {server.url} until Ctrl-C")
            announce({"listening": server.url})
            stopping.is_quiet = True
            with suppress(Interrupted):
                server.run()
    finally:
        following.end()
        engine.end()


def _check_places(report: Path, keep: Path | None) -> None:
    """Refuse now what would fail at the end."""
    _check_keep(keep)
    with needs_report():
        from ..report.page_file import check_replaceable
    try:
        check_replaceable(report)
    except OSError as error:
        raise click.UsageError(f"{report} cannot be replaced: {error.strerror}; name another file with -o") from None
    if not _is_writable(report.parent):
        raise click.UsageError(f"{report} cannot be written; name another file with -o")


def _check_keep(keep: Path | None) -> None:
    for name in KEPT:
        if keep is not None and (keep / name).exists():
            raise click.UsageError(f"{keep / name} exists already; name another folder")
    if keep is not None and not _is_writable(keep):
        raise click.UsageError(f"{keep} cannot be written; name another folder")


def _is_writable(place: Path) -> bool:
    """Return whether files can be created there, also if the directory does not exist yet."""
    place = next(known for known in (place, *place.absolute().parents) if known.exists())
    return place.is_dir() and os.access(place, os.W_OK | os.X_OK)


def _check_plotly() -> None:
    """Fail now, not after a minute, if plotly is missing."""
    if importlib.util.find_spec("plotly") is None:
        raise click.ClickException("this needs plotly: pip install 'wirelake[report]'")


class Interrupted(KeyboardInterrupt):
    """A signal asked to stop."""


class _Stopping:
    """The first signal ends the demonstration cleanly, a second one at once: it only runs ``at_once``, in reverse."""

    def __init__(self) -> None:
        self.number = 0
        self.is_quiet = False
        """Whether the user was told already that Ctrl-C ends it."""
        self.at_once: list[Callable[[], object]] = []

    def __call__(self, number: int, frame: Any) -> None:
        if self.number:
            self._end_at_once(number)
        if not self.is_quiet:
            start = b"\n" if sys.stderr.isatty() else b""
            with suppress(OSError):  # written past Python's buffer, which may be in use
                os.write(2, start + b"stopping and cleaning up; interrupt again to stop at once\n")
        # From now on errors are consequences of the signal, and Spark's threads would print many.
        logging.disable()
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
        self.number = number
        raise Interrupted

    def _end_at_once(self, number: int) -> None:
        for other in SIGNALS:
            signal.signal(other, signal.SIG_IGN)
        for call in reversed(self.at_once):
            with suppress(Exception):
                call()
        os._exit(128 + number)


@contextmanager
def _ended_by_signals() -> Iterator[_Stopping]:
    stopping = _Stopping()
    before = {number: signal.signal(number, stopping) for number in SIGNALS}
    try:
        yield stopping
    except BaseException:
        if not stopping.number:
            raise
        sys.exit(128 + stopping.number)  # libraries turn the signal into errors of their own
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _engine(stopping: _Stopping) -> Iterator[SparkStart]:
    from ..spark.session import context
    from ..spark.start import SparkStart

    engine = SparkStart(lambda: context(default_master()), warm=True)
    stopping.at_once.append(engine.kill)
    try:
        yield engine
    finally:
        engine.kill()


@contextmanager
def _scratch(stopping: _Stopping) -> Iterator[Path]:
    """Make a directory for everything temporary, also for Spark and its workers; remove it afterwards."""
    scratch = Path(tempfile.mkdtemp(prefix="wirelake-"))
    stopping.at_once.append(lambda: shutil.rmtree(scratch, ignore_errors=True))
    before = tempfile.tempdir, os.environ.get("TMPDIR")
    tempfile.tempdir = os.environ["TMPDIR"] = str(scratch)
    try:
        yield scratch
    finally:
        handlers = {number: signal.signal(number, signal.SIG_IGN) for number in SIGNALS}
        shutil.rmtree(scratch, ignore_errors=True)
        tempfile.tempdir, place = before
        os.environ.pop("TMPDIR")
        if place is not None:
            os.environ["TMPDIR"] = place
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextmanager
def _nothing_empty(report: Path, stopping: _Stopping) -> Iterator[None]:
    """Remove directories that were created for a report that was not written."""
    missing = _missing(report.parent)
    stopping.at_once.append(lambda: _remove_empty(missing))
    try:
        yield
    finally:
        _remove_empty(missing)


def _missing(place: Path) -> list[Path]:
    """Return the directories that must be created, the innermost first."""
    return [known for known in (place, *place.parents) if not known.exists()]


def _remove_empty(places: list[Path]) -> None:
    for place in places:
        with suppress(OSError):  # not empty, or never created
            place.rmdir()


@contextmanager
def _kept(keep: Path | None, scratch: Path, stopping: _Stopping) -> Iterator[Path]:
    """Return where capture and lake go. A run that is stopped halfway keeps nothing."""
    if keep is None:
        yield scratch
        return
    missing = _missing(keep)

    def remove() -> None:
        for name in KEPT:
            shutil.rmtree(keep / name, ignore_errors=True)
        _remove_empty(missing)

    stopping.at_once.append(remove)
    keep.mkdir(parents=True, exist_ok=True)
    try:
        yield keep
    except BaseException:
        if stopping.number:
            remove()
        raise


class _Show(Bar):
    """Numbered steps with their progress."""

    def step(self, number: int, text: str) -> None:
        from ..demo.run import STEPS

        self.close()
        click.echo(f"{number}/{STEPS} {text}", err=True)


def _tell(shown: Shown, keep: Path | None) -> None:
    lines = [
        "",
        f"The report is {shown.report} ({size(shown.report_bytes)}), done in {shown.seconds:.0f} s:",
        f"  {shown.report.resolve().as_uri()}",
        "",
        "What to look at:",
        *(_wrapped(sentence) for sentence in shown.look_at),
        "",
        *totals(shown.ingested),
    ]
    if keep is not None:
        lines += ["", f"Kept: {shown.capture} and {shown.lake}; wirelake report {shown.lake} writes the report again"]
    for line in lines:
        click.echo(line, err=True)


def _wrapped(sentence: str) -> str:
    """Wrap to the terminal, but not wider than is pleasant to read; keep names whole."""
    width = min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns)
    return textwrap.fill(
        sentence, width, initial_indent="  ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def _emit(shown: Shown, keep: Path | None, **more: Any) -> None:
    """Print the result for programs; people have read it already."""
    if not sys.stdout.isatty():
        kept = {"capture": str(shown.capture), "lake": str(shown.lake)} if keep is not None else {}
        emit({**shown.to_json(), **kept, **more})
        sys.stdout.flush()


def _serve(shown: Shown, keep: Path | None, stopping: _Stopping) -> None:
    """Serve the report until Ctrl-C, which is then a normal end."""
    from ..lake import Lake
    from ..report.refresh import LakeSource
    from ..report.server import ReportServer

    source = LakeSource(Lake.open(shown.lake, create=False))
    with ReportServer(source, ("127.0.0.1", 0), say=lambda line: click.echo(line, err=True)) as server:
        server.begin()
        click.echo(f"\nServed at {server.url} until Ctrl-C", err=True)
        _emit(shown, keep, listening=server.url)
        stopping.is_quiet = True
        with suppress(Interrupted):
            server.run()
