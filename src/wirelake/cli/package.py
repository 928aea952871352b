"""package: build the archive that brings wirelake to the executors of a Spark cluster."""

from __future__ import annotations

import shlex
from pathlib import Path

import click


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("wirelake.tar.gz"),
    show_default=True,
    help="The archive; its name ends in .tar.gz.",
)
@click.option(
    "--with-dependencies",
    is_flag=True,
    help="Include the libraries that wirelake needs (NumPy, Numba, PyArrow, ...), for executors that lack them.",
)
def package(output: Path, with_dependencies: bool) -> None:
    """Build the archive that brings wirelake to the executors of a Spark cluster.

    It holds wirelake and its kernels, compiled for the processor of this machine: executors of the same kind, with the
    same Python, need to install and compile nothing. Prints the options for spark-submit on standard output.

    \b
    spark-submit $(wirelake package -o wirelake.tar.gz) job.py
    wirelake package --with-dependencies -o all.tar.gz
    """
    from ..spark.package import PackageError, build, submit_options

    try:
        made = build(output, with_dependencies=with_dependencies)
    except PackageError as error:
        raise click.ClickException(str(error)) from None
    size = f"{made.bytes / 1e6:.1f} MB"
    click.echo(f"wrote {output}: {made.files} files, {size}, {made.kernels} compiled kernels ({made.suits})", err=True)
    words = submit_options(output)
    click.echo(shlex.join(words) if any(" " in word for word in words) else " ".join(words))
