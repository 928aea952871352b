"""Progress on standard error: a moving line on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time

import click

UNITS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


class Bar:
    """``stage`` begins a stage, ``add`` adds to what is done of it.

    Large totals without ``unit`` are bytes; a total of 0 is unknown.
    """

    def __init__(self, indent: str = "") -> None:
        self.is_terminal = sys.stderr.isatty()
        self.indent = indent
        self.name = ""

    def stage(self, name: str, total: int, unit: str = "") -> None:
        self._end()
        self.name, self.total, self.unit, self.done = name, total, unit, 0
        self.began = self.shown = time.monotonic()
        self._show()

    def add(self, done: int) -> None:
        self.done += done
        now = time.monotonic()
        if now - self.shown >= (0.1 if self.is_terminal else 5):
            self.shown = now
            self._show()

    def close(self) -> None:
        self._end()
        self.name = ""

    def leave(self) -> None:
        """Leave the line as it is: the stage will not be finished."""
        if self.name and self.is_terminal:
            click.echo("", err=True)
        self.name = ""

    def _end(self) -> None:
        if self.name and self.is_terminal:
            self.done = self.total or self.done
            self._show()
            click.echo("", err=True)

    def _show(self) -> None:
        if not self.is_terminal and self.done == 0:
            return
        if not self.is_terminal:
            click.echo(f"{self.indent}{self.name}: {self._amount()}", err=True)
            return
        click.echo(f"\r\x1b[K{self.indent}{self.name:12} {self._filled()}{self._amount()}", nl=False, err=True)

    def _filled(self) -> str:
        if not self.total:
            return ""
        share = min(self.done / self.total, 1.0)
        return f"[{'#' * int(30 * share):.<30}] {100 * share:3.0f} %  "

    def _amount(self) -> str:
        if not self.total:
            return f"{self.done} {self.unit}"
        if self.unit or self.total <= 1 << 16:
            return f"{self.done} of {self.total} {self.unit}".rstrip()
        seconds = max(time.monotonic() - self.began, 1e-3)
        return f"{size(self.done)} of {size(self.total)}, {size(self.done / seconds)}/s"


def span(seconds: float, digits: int = 0) -> str:
    """Return a length of time in its largest unit of which there are two."""
    for name, unit in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if abs(seconds) >= 2 * unit:
            return f"{seconds / unit:,.0f} {name}"
    return f"{seconds:,.{digits}f} s"


def size(count: float) -> str:
    for unit, factor in UNITS:
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count:.0f} B"
