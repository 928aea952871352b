"""The command line: verbs that call the library and print what it returns. Each verb has a file of its name.

Data goes to stdout, diagnostics to stderr. Exit status: 0 success, 1 some input was not usable, 2 wrong usage."""

from __future__ import annotations

import os
import sys
from collections import UserDict
from importlib import import_module

import click

from .. import __version__

VERBS = (
    *(
        "decode",
        "encode",
        "inspect",
        "describe",
        "match",
        "generate",
        "package",
        "ingest",
        "stream",
        "lake",
        "report",
        "serve",
    ),
    *("publish", "subscribe", "request", "respond", "call", "enqueue", "dequeue", "discover", "queues", "transactions"),
    *("list", "get", "set", "invoke", "password", "tap", "export", "dissector", "demo", "completion"),
)


class _Verbs(UserDict[str, click.Command]):
    """The verbs by name; a file is imported when somebody asks for its verb."""

    def __getitem__(self, verb: str) -> click.Command:
        if verb not in self.data:
            raise KeyError(verb)
        command: click.Command = getattr(import_module(f".{verb}", __name__), verb)
        return command


@click.group(
    commands=_Verbs(dict.fromkeys(VERBS, click.Command(None))),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, prog_name="wirelake")
def cli() -> None:
    """Speak, inspect and analyse message-middleware protocols.

    Built in: casual (casual domain protocol 1000), dsa (DSA 2.0), mb (MB Server Node), ceda (CEDA4). Your own
    declaration works wherever these do: -p path/to/file.py:PROTOCOL.

    \b
    Inspect one frame      wirelake inspect -p ceda --hex 820101
    Decode a stream        wirelake decode -p casual capture.raw
    Decode a line of hex   echo 820101 | wirelake decode -p ceda --hex -
    Encode it again        wirelake decode -p mb --hex x | wirelake encode -p mb --hex -
    Describe a protocol    wirelake describe casual service_call_request
    Generate traffic       wirelake generate -p dsa -n 5000 -o traffic.pcap
    Captures to tables     wirelake ingest traffic.pcap lake
    Follow live captures   wirelake stream captures/ lake
    Look after the tables  wirelake lake status lake
    Tables to a report     wirelake report lake --open
    Serve protocols        wirelake serve --mb 127.0.0.1:3001 --ceda 127.0.0.1:8088
    Subscribe to a server  wirelake subscribe mb://localhost 'plant.#'
    Record a live server   wirelake tap 127.0.0.1:4001 127.0.0.1:3001 captures/
    Everything at once     wirelake demo
    """


EXTRAS = {
    "pyarrow": "columnar",
    "numpy": "columnar",
    "websockets": "net",
    "cryptography": "net",
    "prometheus_client": "net",
    "psutil": "net",
    "re2": "net",
    "deltalake": "delta",
    "duckdb": "report",
    "obstore": "s3",
    "plotly": "report",
}
"""Packages that may be missing, and the extra that installs them."""


def main() -> None:
    """Run the command line; treat a closed pipe (``wirelake ... | head``) as a normal end, and name a missing extra."""
    try:
        cli()
    except ModuleNotFoundError as error:
        extra = EXTRAS.get(error.name or "")
        if extra is None:
            raise
        click.echo(f"wirelake: this needs {error.name}: pip install 'wirelake[{extra}]'", err=True)
        sys.exit(2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
