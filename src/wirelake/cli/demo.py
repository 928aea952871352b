"""demo: all of it, end to end."""

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
from .output import emit
from .progress import Bar, size
from .report import needs_report

if TYPE_CHECKING:
    from ..demo.run import Shown
    from ..spark.background import Background

MESSAGES = 10_000
REPORT = "wirelake-demo.html"
KEPT = ("capture", "lake")
SIGNALS = (signal.SIGINT, signal.SIGTERM)
MARK = '<meta name="generator" content="wirelake">'
"""What a report of ours has near its beginning."""
MARK_WITHIN = 1 << 13
WIDTH = 120
"""Of what people read."""


@click.command()
@click.option(
    "-n",
    "--messages",
    type=click.IntRange(1),
    default=MESSAGES,
    show_default=True,
    help="About how many messages. More are said faster, and a little longer.",
)
@click.option("--seed", default=1, show_default=True, help="The same seed, the same things said.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help=f"Where the report goes.  [default: {REPORT}, here; with --keep: report.html, there]",
)
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Keep capture and lake there too; otherwise only the report stays.",
)
@click.option("--serve", "is_served", is_flag=True, help="Serve the report in the end, on this machine, until Ctrl-C.")
def demo(messages: int, seed: int, output: Path | None, keep: Path | None, is_served: bool) -> None:
    """A hub with live traffic, recorded by a tap, made into tables by Spark, shown in a report: in a minute.

    Services of a shop (mb) and a market (ceda) talk through a tap to a hub, on free ports of this machine; generated
    conversations of casual and dsa join the capture. Not all goes well: a service becomes slow, another one fails,
    requests run into their limits, transactions are rolled back and one is left in doubt, and some break the
    protocol. The report shows where.

    \b
    wirelake demo
    wirelake demo --serve
    wirelake demo -n 100000 --keep demo-files

    Everything but the report is gone in the end, also after Ctrl-C. A report that is there already is replaced, any
    other file is not. On standard output, unless that is a terminal: one JSON object that says where the report is and
    what was found.
    """
    logging.getLogger("wirelake").addHandler(logging.NullHandler())
    report = output or (keep / "report.html" if keep else Path(REPORT))
    _check_places(report, keep)
    with _ended_by_signals() as stopping, needs_spark(), needs_report(), _scratch(stopping) as scratch:
        _check_plotly()
        from ..demo.run import run

        show = _Show()
        name = None if keep else "demo"  # where its lake was is of no use to anybody
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


# --- before anything is done


def _check_places(report: Path, keep: Path | None) -> None:
    """What would be in the way in the end is in the way now."""
    for name in KEPT:
        if keep is not None and (keep / name).exists():
            raise click.UsageError(f"{keep / name} exists already; name another folder")
    if report.exists() and not _is_ours(report):
        raise click.UsageError(f"{report} exists and is no report of wirelake; name another file with -o")
    if not _is_writable(report.parent):
        raise click.UsageError(f"{report} cannot be written; name another file with -o")
    if keep is not None and not _is_writable(keep):
        raise click.UsageError(f"{keep} cannot be written; name another folder")


def _is_writable(place: Path) -> bool:
    """Whether files can be made there, now or when it has been made."""
    place = next(known for known in (place, *place.absolute().parents) if known.exists())
    return place.is_dir() and os.access(place, os.W_OK | os.X_OK)


def _is_ours(report: Path) -> bool:
    try:
        with report.open(encoding="utf-8", errors="replace") as file:
            return MARK in file.read(MARK_WITHIN)
    except OSError:
        return False


def _check_plotly() -> None:
    """It is needed last, and should not be found missing then."""
    if importlib.util.find_spec("plotly") is None:
        raise click.ClickException("this needs plotly: pip install 'wirelake[report]'")


# --- the end, whenever it comes


class Interrupted(KeyboardInterrupt):
    """A signal said that it is enough."""


class _Stopping:
    """The first signal ends the demonstration in good order, a second one at once: then ``at_once`` is done, the last
    of it first, and that is all.
    """

    def __init__(self) -> None:
        self.number = 0
        self.is_quiet = False
        """An end that was announced needs no line."""
        self.at_once: list[Callable[[], object]] = []

    def __call__(self, number: int, frame: Any) -> None:
        if self.number:
            self._end_at_once(number)
        if not self.is_quiet:
            start = b"\n" if sys.stderr.isatty() else b""
            with suppress(OSError):  # written past Python's buffer, which may be in use just now
                os.write(2, start + b"stopping; nothing is left behind (once more: at once)\n")
        # What fails from now on fails because of this; Spark's threads would tell at length.
        logging.disable()
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
        self.number = number
        raise Interrupted

    def _end_at_once(self, number: int) -> None:
        for one in SIGNALS:
            signal.signal(one, signal.SIG_IGN)
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
        sys.exit(128 + stopping.number)  # whatever it is: libraries make errors of their own of a signal
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _engine(stopping: _Stopping) -> Iterator[Background]:
    from ..spark.background import Background
    from ..spark.session import session

    engine = Background(lambda: session(default_master()))
    stopping.at_once.append(engine.kill)
    try:
        yield engine
    finally:
        engine.kill()


@contextmanager
def _scratch(stopping: _Stopping) -> Iterator[Path]:
    """A place for everything temporary, also that of Spark and its workers; it is gone afterwards."""
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
    """Directories that were made for a report which then was not are removed again."""
    missing = _missing(report.parent)
    stopping.at_once.append(lambda: _remove_empty(missing))
    try:
        yield
    finally:
        _remove_empty(missing)


def _missing(place: Path) -> list[Path]:
    """Directories that have to be made for it, the innermost first."""
    return [known for known in (place, *place.parents) if not known.exists()]


def _remove_empty(places: list[Path]) -> None:
    for place in places:
        with suppress(OSError):  # it is not empty, or was never made
            place.rmdir()


@contextmanager
def _kept(keep: Path | None, scratch: Path, stopping: _Stopping) -> Iterator[Path]:
    """Where capture and lake go. What is to be kept is removed too if somebody has stopped it halfway."""
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


# --- for people


class _Show:
    """Numbered steps, and how far each one is."""

    def __init__(self) -> None:
        from ..demo.run import STEPS

        self._steps = STEPS
        self._bar = Bar(indent="    ")

    def step(self, number: int, text: str) -> None:
        self._bar.close()
        click.echo(f"{number}/{self._steps} {text}", err=True)

    def stage(self, name: str, total: int, unit: str = "") -> None:
        self._bar.stage(name, total, unit)

    def add(self, done: int) -> None:
        self._bar.add(done)

    def leave(self) -> None:
        self._bar.leave()


def _tell(shown: Shown, keep: Path | None) -> None:
    lines = [
        "",
        f"The report is {shown.report}, {size(shown.report_bytes)}, after {shown.seconds:.0f} s:",
        f"  {shown.report.resolve().as_uri()}",
        "",
        "What to look at:",
        *(_wrapped(sentence) for sentence in shown.look_at),
        "",
        *totals(shown.ingested),
    ]
    if keep is not None:
        lines += ["", f"Kept: {shown.capture} and {shown.lake}; wirelake report {shown.lake} makes the report anew"]
    for line in lines:
        click.echo(line, err=True)


def _wrapped(sentence: str) -> str:
    """As wide as the terminal, but not wider than one likes to read; names stay whole."""
    width = min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns)
    return textwrap.fill(
        sentence, width, initial_indent="  ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def _emit(shown: Shown, keep: Path | None, **more: Any) -> None:
    """For machines: people have been told already."""
    if not sys.stdout.isatty():
        kept = {"capture": str(shown.capture), "lake": str(shown.lake)} if keep is not None else {}
        emit({**shown.to_json(), **kept, **more})
        sys.stdout.flush()


def _serve(shown: Shown, keep: Path | None, stopping: _Stopping) -> None:
    """Until Ctrl-C, which is then a good end."""
    from ..lake import Lake
    from ..report.follow import LakeSource
    from ..report.server import ReportServer

    source = LakeSource(Lake.open(shown.lake, create=False))
    with ReportServer(source, ("127.0.0.1", 0), tell=lambda line: click.echo(line, err=True)) as server:
        server.begin()
        click.echo(f"\nServed at {server.url} until Ctrl-C", err=True)
        _emit(shown, keep, listening=server.url)
        stopping.is_quiet = True
        with suppress(Interrupted):
            server.run()
