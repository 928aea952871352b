"""stream: follow captures while they grow, and keep a lake current."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from queue import SimpleQueue
from threading import Event, Thread
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from .ingest import Named, Size, default_master, needs_spark, one_line_errors, reading_settings, runs_here
from .options import PROTOCOLS, pairs, protocols_option, reading_options
from .output import emit
from .progress import size, span
from .tap import Address, AddressType

if TYPE_CHECKING:
    from ..ingest.follow import Batch, Followed, FollowSettings, Watcher


class _Seconds(click.ParamType[float, Any]):
    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        text = str(value).strip().lower()
        unit = next((unit for unit in ("ms", "s", "m") if text.endswith(unit)), "")
        try:
            seconds = float(text.removesuffix(unit)) * {"ms": 1e-3, "m": 60.0}.get(unit, 1.0)
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds <= 86_400:
            self.fail(f"{value!r} is not a time; write 500ms, 1s, 5m or a number of seconds", param, ctx)
        return seconds


@click.command()
@click.argument("inputs", nargs=-1, required=True, metavar="IN...")
@click.argument("lake", metavar="LAKE")
@click.option(
    "--trigger",
    type=_Seconds(),
    default="1s",
    show_default=True,
    metavar="TIME",
    help="From the beginning of a round to that of the next. While there is more to read, rounds follow at once.",
)
@click.option("--available-now", is_flag=True, help="Read all that is there, in bounded steps, and end.")
@click.option(
    "--final",
    is_flag=True,
    help="With --available-now: nothing more comes from these sensors, so decide what is open at the end.",
)
@click.option(
    "--max-bytes",
    type=Size(),
    default="64m",
    show_default=True,
    metavar="SIZE",
    help="About how many bytes of captures one step reads; it bounds memory, and how long a stop takes.",
)
@click.option(
    "--max-failures",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    metavar="N",
    help="End with exit status 1 after so many failed rounds in a row; before that, wait longer each time.",
)
@click.option(
    "--stalled-after",
    type=_Seconds(),
    metavar="TIME",
    help="Say so on standard error, in the metrics and as /health when nothing was written to an input for so long. A "
    "tap that lives writes about once a minute, from its first connection on.",
)
@click.option(
    "--metrics",
    type=AddressType(),
    metavar="HOST:PORT",
    help="Serve /metrics for Prometheus, and /health, here. Port 0 picks a free port.",
)
@click.option(
    "--metrics-host",
    "metrics_hosts",
    multiple=True,
    metavar="NAME",
    help="A further name of this machine that requests for the metrics may use. May be repeated.",
)
@click.option("--no-compaction", is_flag=True, help="Leave small files alone: `wirelake lake compact` merges them.")
@protocols_option(f"Read only this protocol ({PROTOCOLS}). May be repeated.  [default: all built in]", type=Named())
@click.option(
    "--port", "ports", multiple=True, metavar="N=P", help="Read connections to port N as protocol P. May be repeated."
)
@click.option(
    "--sensor",
    metavar="NAME",
    help="Where the captures were taken.  [default: the directory of each; of a tap, its name]",
)
@click.option(
    "--late",
    type=click.Choice(["refuse", "rebuild", "separate"]),
    default="refuse",
    show_default=True,
    help="What to do with a capture that belongs before others that were read already; see ingest.",
)
@click.option("--keep-bytes", is_flag=True, help="Keep the bytes of chunks in bronze/chunks.")
@click.option(
    "--engine",
    type=click.Choice(["spark", "inline"]),
    help="Where tasks run: on Spark, or in this process.  [default: spark; inline if there is no Java or pyspark]",
)
@click.option("--master", metavar="URL", help="Spark master.  [default: local[*], or that of spark-submit]")
@click.option("--conf", multiple=True, metavar="NAME=VALUE", help="A Spark setting. May be repeated.")
@click.option("--buckets", type=click.IntRange(1, 999), metavar="N", help="Of a new lake; see ingest.  [default: 2]")
@click.option("--quiet", is_flag=True, help="Print no line per batch on standard error.")
@reading_options
def stream(
    inputs: tuple[str, ...],
    lake: str,
    trigger: float,
    available_now: bool,
    final: bool,
    max_bytes: int,
    max_failures: int,
    stalled_after: float | None,
    metrics: Address | None,
    metrics_hosts: tuple[str, ...],
    no_compaction: bool,
    protocols: tuple[str, ...],
    ports: tuple[str, ...],
    sensor: str | None,
    late: Any,
    keep_bytes: bool,
    engine: str | None,
    master: str | None,
    conf: tuple[str, ...],
    buckets: int | None,
    quiet: bool,
    **given: Any,
) -> None:
    """Follow captures while they grow, and keep the tables of a lake current.

    IN are directories, files or patterns, as for `wirelake ingest`: taps and pcap files that grow and rotate, also
    finished ones that are compressed meanwhile. Each round reads what is new, up to --max-bytes, and makes one commit.
    The tables are those of one ingest of the same captures.

    The lake itself says how far each capture was read; there is no other checkpoint. Kill this at any moment and start
    it again: no row is lost, and none comes twice. SIGTERM and Ctrl-C end it after the step that runs; a second one
    gives that step up. While it runs it is the lake's only writer, and merges small files itself.

    \b
    wirelake tap 127.0.0.1:4001 127.0.0.1:3001 captures/ &
    wirelake stream captures/ lake
    wirelake stream /captures/eth0 /captures/eth1 lake --trigger 5s
    wirelake stream captures/ lake --available-now --final
    wirelake stream captures/ lake --metrics 127.0.0.1:9464 --stalled-after 3m

    Prints one line per batch on standard error, and at the end one JSON object on standard output.
    """
    if final and not available_now:
        raise click.UsageError("--final needs --available-now: while captures are followed, more may always come")
    conf_settings = dict(pairs(conf, "--conf"))
    _use_frugal_allocator()
    with one_line_errors():
        from ..ingest.follow import FollowSettings

        settings = FollowSettings(
            reading=reading_settings(protocols, ports, given),
            sensor=sensor,
            late=late,
            final=final,
            keep_bytes=keep_bytes,
            buckets=buckets,
            max_bytes=max_bytes,
            trigger_seconds=trigger,
            available_now=available_now,
            max_failures=max_failures,
            stalled_seconds=stalled_after,
            compacts=not no_compaction,
        )
        with _watching(quiet, metrics, metrics_hosts) as watcher:
            total = _follow(inputs, lake, settings, engine, master, conf_settings, watcher)
    emit(total.to_json())


def _follow(
    inputs: tuple[str, ...],
    lake: str,
    settings: FollowSettings,
    engine: str | None,
    master: str | None,
    conf: dict[str, str],
    watcher: Watcher,
) -> Followed:
    if runs_here(engine, master, conf):
        from ..ingest.follow import follow
        from ..ingest.inline_runner import InlineRunner

        with _stopping() as stop:
            return follow(InlineRunner(), inputs, lake, settings, stop=stop, watcher=watcher)
    with needs_spark():
        from ..spark.pipeline import follow as follow_on_spark
        from ..spark.session import context
    with _stopping() as stop:
        return follow_on_spark(
            lambda: context(master or default_master(), **conf),
            inputs,
            lake,
            settings,
            stop=stop,
            watcher=watcher,
        )


def _use_frugal_allocator() -> None:
    """Let Arrow use the allocator that gives back what a merge of files has used. It looks when it is loaded."""
    if sys.platform == "linux":
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "jemalloc")


@contextmanager
def _stopping() -> Iterator[Event]:
    """Set an event at the first signal; the second one interrupts.

    A thread sets it: the signal may come while this one has the lock of the event, and would wait for itself for ever.
    """
    stop = Event()
    asked: SimpleQueue[bool] = SimpleQueue()
    count = 0

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal count
        count += 1
        if count > 1:
            raise KeyboardInterrupt
        asked.put(True)

    def wait() -> None:
        if asked.get():
            stop.set()

    Thread(target=wait, name="stop", daemon=True).start()
    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        asked.put(False)


@contextmanager
def _watching(quiet: bool, metrics: Address | None, hosts: tuple[str, ...]) -> Iterator[Watcher]:
    """Yield a watcher that prints, and serves what it knows if that is wanted."""
    if metrics is None:
        yield _lines(quiet)
        return
    from ..ingest.figures import Figures
    from ..ingest.follow import Watchers
    from ..live.core.address import show_address
    from ..live.drive.http import pages_beside
    from ..web.http import Response, prepare
    from ..web.metrics import METRICS_TYPE, show_metrics

    figures = Figures()

    def health() -> Response:
        is_well, found = figures.health()
        return Response(200 if is_well else 503, prepare("application/json", json.dumps(found).encode() + b"\n"))

    def shown() -> Response:
        return Response(200, prepare(METRICS_TYPE, show_metrics(figures.families())))

    with ExitStack() as stack:
        try:
            address = stack.enter_context(pages_beside({"/metrics": shown, "/health": health}, metrics, hosts))
        except OSError as error:
            raise click.ClickException(f"--metrics {show_address(metrics)}: {error.strerror or error}") from None
        click.echo(f"metrics: http://{show_address(address)}/metrics", err=True)
        yield Watchers(_lines(quiet), figures)


def _lines(quiet: bool) -> Any:
    """Return a watcher that prints a line per batch; failures and notes are printed in any case."""
    from ..ingest.follow import Watcher

    class Lines(Watcher):
        def batch(self, batch: Batch) -> None:
            if not quiet:
                click.echo(_line(batch), err=True)

        def failed(self, error: Exception, in_a_row: int, pause: float) -> None:
            then = f"next try in {pause:.{0 if pause >= 10 else 1}f} s" if pause else "gave up"
            click.echo(f"failed ({in_a_row} in a row): {error}; {then}", err=True)

        def note(self, text: str) -> None:
            click.echo(f"note: {text}", err=True)

        def stalled(self, text: str) -> None:
            click.echo(text, err=True)

    return Lines()


def _line(batch: Batch) -> str:
    report = batch.report
    parts = [
        f"batch {batch.number}: commit {report.commit}",
        f"{sum(report.messages.values()):,} messages",
        f"{size(report.bytes_decoded)}",
        f"{batch.seconds:.2f} s",
    ]
    parts += [f"{span(batch.lag_seconds, 1)} behind"] if batch.lag_seconds is not None else []
    parts += [f"{size(batch.lag_bytes)} to read"] if batch.lag_bytes else []
    return ", ".join([*parts, f"carry {size(batch.carry_bytes)}"])
