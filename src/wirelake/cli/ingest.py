"""ingest: captures into the tables of a lake, on Spark or in this process."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import click

from ..protocols import BUILT_IN, load
from .options import PROTOCOLS, ProtocolName, chosen_options, pairs, protocols_option, reading_options, usage_errors
from .output import emit
from .progress import Bar, size


class Named(ProtocolName):
    """A protocol that is checked here and kept as its name: workers load it themselves."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        super().convert(value, param, ctx)
        return str(value)


class Size(click.ParamType[int, Any]):
    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        text = str(value).strip().lower().removesuffix("b")
        factor = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}.get(text[-1:], 1)
        try:
            size = int(float(text.rstrip("kmg")) * factor)
        except ValueError:
            size = 0
        if size <= 0:
            self.fail(f"{value!r} is not a size; write 64m, 1g or a number of bytes", param, ctx)
        return size


@click.command()
@click.argument("inputs", nargs=-1, required=True, metavar="IN...")
@click.argument("lake", metavar="LAKE")
@protocols_option(f"Read only this protocol ({PROTOCOLS}). May be repeated.  [default: all built in]", type=Named())
@click.option(
    "--port", "ports", multiple=True, metavar="N=P", help="Read connections to port N as protocol P. May be repeated."
)
@click.option(
    "--kind",
    type=click.Choice(["pcap", "pcapng", "tap", "raw"]),
    help="The kind of the files, where their first bytes do not tell; raw: the bare bytes of one direction.",
)
@click.option(
    "--sensor",
    metavar="NAME",
    help="Where the captures were taken. Sensors are independent of each other.  [default: the directory of each"
    " capture; of a tap, its name]",
)
@click.option(
    "--late",
    type=click.Choice(["refuse", "rebuild", "separate"]),
    default="refuse",
    show_default=True,
    help="What to do with a capture that belongs before others that were read already: refuse it, rebuild what came"
    " behind it, or take it as a separate sensor.",
)
@click.option(
    "--final",
    is_flag=True,
    help="Nothing more comes from the sensors of these captures: decide what is open, leave nothing pending.",
)
@click.option("--keep-bytes", is_flag=True, help="Keep the bytes of chunks in bronze/chunks.")
@click.option(
    "--engine",
    type=click.Choice(["spark", "inline"]),
    help="Where tasks run: on Spark, or in this process.  [default: spark; inline if there is no Java or pyspark]",
)
@click.option("--master", metavar="URL", help="Spark master.  [default: local[*], or that of spark-submit]")
@click.option("--conf", multiple=True, metavar="NAME=VALUE", help="A Spark setting. May be repeated.")
@click.option(
    "--buckets",
    type=click.IntRange(1, 999),
    metavar="N",
    help="Into how many parts a new lake divides connections; as many tasks can work on them at once.  [default: 8]",
)
@click.option(
    "--partition-bytes", type=Size(), metavar="SIZE", help="Bytes of captures per task.  [default: 16m to 64m]"
)
@click.option("-v", "--verbose", is_flag=True, help="Also print the stages, with the seconds that they took.")
@click.option("--quiet", is_flag=True, help="Print no progress and no summary on standard error.")
@reading_options
def ingest(
    inputs: tuple[str, ...],
    lake: str,
    protocols: tuple[str, ...],
    ports: tuple[str, ...],
    kind: str | None,
    sensor: str | None,
    late: str,
    final: bool,
    keep_bytes: bool,
    engine: str | None,
    master: str | None,
    conf: tuple[str, ...],
    buckets: int | None,
    partition_bytes: int | None,
    verbose: bool,
    quiet: bool,
    **given: Any,
) -> None:
    """Turn captures into the tables of a lake: messages, exchanges, sessions, transactions, violations.

    IN are capture files (pcap, pcapng, tap; gzip, zstd and xz too), directories, patterns or URIs; LAKE is a directory
    or a URI. Captures that the lake already has are skipped, those that have grown are continued, and a connection may
    go on in the next file. The tables are Parquet: read them with Spark, DuckDB, pandas or anything else. One commit
    makes everything visible, or nothing.

    The captures of a sensor are read in the order of their first packets, as one. Sensors are independent: the column
    sensor of every table tells them apart. A capture that cannot be decoded is set aside by name, and the others are
    read.

    \b
    wirelake generate -p casual -p mb -n 20000 -o monday.pcap
    wirelake ingest monday.pcap lake
    wirelake ingest captures/ lake --port 9000=casual --final
    wirelake ingest /captures/eth0 /captures/eth1 lake --late rebuild
    wirelake ingest stream.bin lake --kind raw -p dsa

    Prints one JSON object on standard output that says what was done.
    """
    settings = dict(pairs(conf, "--conf"))
    bar = None if quiet else Bar()
    try:
        with one_line_errors():
            report = _chosen(engine, master, settings)(
                inputs,
                lake,
                reading=reading_settings(protocols, ports, given),
                kind=kind,
                sensor=sensor,
                late=late,
                final=final,
                keep_bytes=keep_bytes,
                buckets=buckets,
                partition_bytes=partition_bytes,
                progress=bar,
            )
    finally:
        if bar is not None:
            bar.close()
    if not quiet:
        _tell(report, lake, verbose)
    emit(report.to_json())


def _chosen(engine: str | None, master: str | None, settings: dict[str, str]) -> Callable[..., Any]:
    """The function that ingests, on Spark or in this process."""
    if runs_here(engine, master, settings):
        from ..ingest.inline_runner import InlineRunner
        from ..ingest.run import ingest as ingest_here

        return partial(ingest_here, InlineRunner())
    with needs_spark():
        from ..spark.pipeline import ingest
        from ..spark.session import context
    return partial(ingest, lambda: context(master or default_master(), **settings))


def runs_here(engine: str | None, master: str | None, settings: dict[str, str]) -> bool:
    """Whether tasks run in this process, which then gets ready for them; if there is no Spark, say so."""
    wants_spark = master is not None or bool(settings)
    if engine == "inline" and wants_spark:
        raise click.UsageError("--master and --conf are for --engine spark")
    missing = _missing_for_spark()
    if engine != "inline" and (engine is not None or not missing or wants_spark):
        return False
    if engine is None:
        click.echo(f"note: there is no {missing}, so the tasks run in this process, without Spark", err=True)
    from ..ingest.warm_up import warm_up

    warm_up()
    return True


def _missing_for_spark() -> str:
    """What Spark needs and this machine has not; empty if all is there, or if Spark has started us."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark"
    has_java = shutil.which("java") or os.path.exists(os.path.join(os.environ.get("JAVA_HOME", ""), "bin", "java"))
    return "" if has_java or {"PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"} & set(os.environ) else "Java"


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Show errors that users can meet as one line."""
    try:
        from ..errors import CaptureError, LakeError, OptionError
        from ..ingest.runner import IngestError
        from ..spark.session import SparkStartError
    except ModuleNotFoundError as error:
        if error.name != "numba":
            raise
        raise click.ClickException(f"this needs {error.name}: pip install 'wirelake[spark]'") from None
    try:
        yield
    except (CaptureError, LakeError, OptionError, IngestError, SparkStartError, OSError) as error:
        raise click.ClickException(str(error)) from None


@contextmanager
def needs_spark() -> Iterator[None]:
    """Without pyspark, say how to get it; errors that users can meet become one line."""
    if importlib.util.find_spec("pyspark") is None:  # it is loaded late, and should not be found missing then
        raise click.ClickException("this needs pyspark: pip install 'wirelake[spark]'")
    with one_line_errors():
        yield


def default_master() -> str | None:
    return None if "PYSPARK_GATEWAY_PORT" in os.environ else "local[*]"


def reading_settings(protocols: tuple[str, ...], ports: tuple[str, ...], given: dict[str, Any]) -> Any:
    """Return how to read the captures; a reading option applies to the protocols that have it."""
    from ..capture.settings import ReadSettings

    names = protocols or BUILT_IN
    options: dict[str, dict[str, Any]] = {}
    for name, value in chosen_options(given).items():
        suited = [protocol for protocol in names if load(protocol).has_setting(name, value)]
        if not suited:
            raise click.UsageError(f"none of {', '.join(names)} has the reading option {name}={value}")
        for protocol in suited:
            options.setdefault(protocol, {})[name] = value
    given_ports = _ports(ports)
    with usage_errors(ValueError):
        reading = ReadSettings(protocols=tuple(names), options=options)
        return ReadSettings(protocols=tuple(names), options=options, ports={**reading.ports, **given_ports})


def _ports(given: tuple[str, ...]) -> dict[int, str]:
    ports = {}
    for number, name in pairs(given, "--port"):
        if not number.isdecimal() or not 0 < int(number) < 1 << 16:
            raise click.UsageError(f"--port takes NUMBER=PROTOCOL, and {number!r} is not a port")
        ports[int(number)] = name
    return ports


def _tell(report: Any, lake: str, verbose: bool) -> None:
    for note in report.notes:
        click.echo(f"note: {note}", err=True)
    for capture, reason in report.set_aside.items():
        click.echo(f"set aside: {reason}; the next ingest tries {capture} again", err=True)
    if report.commit is None:
        found = f"it already has these captures ({report.skipped})" if report.skipped else "there are no captures"
        click.echo(f"nothing new for {lake}: {found}", err=True)
        return
    sensors = f" of {report.sensors} sensors" if report.sensors > 1 else ""
    done = f"commit {report.commit}, {report.captures} captures{sensors} in {report.seconds:.1f} s"
    click.echo(f"{lake}: {done}", err=True)
    for line in (*totals(report), *_slowest(report), *(_stages(report) if verbose else ())):
        click.echo(line, err=True)


def _stages(report: Any) -> Iterator[str]:
    for name, times in report.stages.items():
        tasks, seconds, elapsed = times["tasks"], times["seconds"], times["elapsed"]
        yield f"  {name:13} {elapsed:.2f} s elapsed, {tasks} tasks of {seconds:.2f} s together"


def totals(report: Any) -> Iterator[str]:
    """Yield the totals of an ingest, for people."""
    yield f"  messages      {sum(report.messages.values()):,}  ({_counts(report.messages)})"
    yield f"  exchanges     {_counts(report.outcomes)}"
    if report.transactions:
        yield f"  transactions  {_counts(report.transactions)}"
    yield f"  violations    {report.violations:,}"
    parts = [f"{size(report.bytes_decoded)} decoded", f"{size(report.bytes_quarantined)} quarantined"]
    parts += [f"{size(report.bytes_pending)} pending"] if report.bytes_pending else []
    parts += [f"{size(report.bytes_missing)} missing"] if report.bytes_missing else []
    parts += [f"{size(report.bytes_foreign)} of other protocols"] if report.bytes_foreign else []
    yield "  bytes         " + ", ".join(parts)
    if report.not_read:
        yield f"  not read      {sum(report.not_read.values()):,} packets ({_counts(report.not_read)})"
    if report.holes:
        waits = f"{size(report.bytes_held)} held behind {report.holes:,} holes"
        yield f"  waiting       {waits}; add --final if nothing more comes"
    for sensor in report.rebuilt:
        yield f"  rebuilt       {sensor}"


def _slowest(report: Any) -> Iterator[str]:
    if report.slowest:
        yield "  slowest       address (protocol)                               p95 ms    p50 ms   requests"
    for row in report.slowest:
        name = f"{row['address']} ({row['protocol']})"
        slow, usual = row["p95_us"] / 1e3, row["p50_us"] / 1e3
        yield f"                {name:48.48} {slow:9.1f} {usual:9.1f} {row['requests']:10,}"


def _counts(counted: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counted.items())) or "none"
