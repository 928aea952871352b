"""Build the archive that brings wirelake to the executors of a cluster. This needs no Spark.

The archive works wherever it is unpacked: it holds the modules with their byte code and the compiled kernels, so that
no worker compiles. Numba checks its cache against the kernel's source: older versions by time stamp, of which an
archive keeps whole seconds, newer ones by content. So every file gets the same whole second before the kernels are
compiled. It must be a ``.tar.gz``: Numba does not cache modules inside a zip.
"""

from __future__ import annotations

import gzip
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

FOLDER = "wirelake_package"
"""The folder into which executors unpack the archive, in their working directory."""
ENDINGS = (".tar.gz", ".tgz")
"""Spark decides by the ending how to unpack an archive."""
STAMP = 1_577_836_800
"""The time of every file, 2020-01-01: the same input gives the same archive."""
ZSTD = () if sys.version_info >= (3, 14) else ("backports.zstd",)
LIBRARIES = (*ZSTD, "click", "msgpack", "msgspec", "numba", "numpy", "pyarrow")
"""What executors need besides PySpark, which comes with Spark itself."""
CACHE = (".nbi", ".nbc")
ADDRESS = re.compile(rb"(?<= at 0x)[0-9a-f]+")
COMPRESSION = 1
"""Libraries are 400 MB: the next level takes twice the time to save a tenth of the size."""
LEFT_OUT = {"__pycache__", "tests", "include"}
"""Folders of libraries that executors do not import."""


@dataclass(frozen=True)
class Package:
    """An archive and what is in it."""

    path: Path
    files: int
    bytes: int
    kernels: int
    """How many compiled kernels it holds."""

    @property
    def suits(self) -> str:
        """The machines on which nothing needs compiling."""
        return f"Python {platform.python_version().rpartition('.')[0]}, {platform.machine()}"


class PackageError(Exception):
    """The archive cannot be built: why, in one line."""


def settings(archive: str | Path) -> dict[str, str]:
    """Return the settings by which executors take wirelake from the archive."""
    return {"spark.archives": f"{archive}#{FOLDER}", "spark.executorEnv.PYTHONPATH": FOLDER}


def submit_options(archive: str | Path) -> list[str]:
    """Return the same as options of spark-submit."""
    made = settings(archive)
    path = "spark.executorEnv.PYTHONPATH"
    return ["--archives", made["spark.archives"], "--conf", f"{path}={made[path]}"]


def build(output: str | Path, *, with_dependencies: bool = False) -> Package:
    """Write the archive: wirelake, the modules by which Spark discovers its formats, compiled kernels."""
    output = Path(output)
    if not output.name.endswith(ENDINGS):
        raise PackageError(f"{output}: the name must end in .tar.gz, otherwise Spark does not unpack it")
    if not output.absolute().parent.is_dir():
        raise PackageError(f"{output}: there is no directory {output.absolute().parent}")
    with tempfile.TemporaryDirectory(prefix="wirelake-package-") as place:
        stage = Path(place).resolve()
        _copy_modules(stage)
        if with_dependencies:
            for name in sorted(_closure(LIBRARIES)):
                _copy_library(name, stage)
        _write_byte_code(stage)
        for path in _files(stage):
            os.utime(path, (STAMP, STAMP))
        _compile_kernels(stage)
        files = _ordered(stage)
        _write(files, stage, output)
        kernels = sum(path.suffix == ".nbi" for path in files)
        return Package(output, len(files), output.stat().st_size, kernels)


# --- what goes in


def _copy_modules(stage: Path) -> None:
    """Copy the package, and the ``pyspark_wirelake_*`` modules beside it."""
    package = Path(__file__).resolve().parents[1]
    _copy_tree(package, stage / package.name, {"__pycache__"})
    for module in package.parent.glob("pyspark_wirelake*"):
        if module.is_dir():
            _copy_tree(module, stage / module.name, {"__pycache__"})
        elif module.suffix == ".py":
            shutil.copyfile(module, stage / module.name)


def _copy_tree(source: Path, target: Path, left_out: set[str]) -> None:
    shutil.copytree(source, target, ignore=lambda _, names: left_out & set(names), copy_function=shutil.copyfile)


def _closure(names: Iterable[str]) -> set[str]:
    """Return these distributions and all that they require here."""
    closure: set[str] = set()
    pending = list(names)
    while pending:
        name = pending.pop()
        if name in closure:
            continue
        try:
            needed = distribution(name).requires or ()
        except PackageNotFoundError:
            if name in LIBRARIES:
                raise PackageError(f"{name} is not installed: pip install 'wirelake[spark]'") from None
            continue  # needed on other machines only
        closure.add(name)
        pending += [re.split(r"[^\w.-]", need, maxsplit=1)[0] for need in needed if "extra ==" not in need]
    return closure


def _copy_library(name: str, stage: Path) -> None:
    for file in distribution(name).files or ():
        if file.parts[0] == ".." or LEFT_OUT & set(file.parts[:-1]):
            continue  # commands, byte code, tests
        target = stage / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(str(file.locate()), target)


def _write_byte_code(stage: Path) -> None:
    """Write byte code that Python uses without checking the source, so that it is the same in every archive."""
    options = ["-q", "-q", "-j", "0", "-s", str(stage), "--invalidation-mode", "unchecked-hash"]
    # Libraries contain example files that do not compile; whatever is imported has been compiled before.
    subprocess.run([sys.executable, "-m", "compileall", *options, str(stage)], capture_output=True, check=False)


# --- the kernels


def _compile_kernels(stage: Path) -> None:
    """Compile the kernels of the copy, in a process that imports the copy."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    environment |= {"PYTHONPATH": str(stage), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
    code = "from wirelake.ingest.compile_kernels import compile_kernels; compile_kernels()"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=stage, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2]
        raise PackageError(f"the kernels could not be compiled: {last or f'status {done.returncode}'}")
    _mask_places(stage)


def _mask_places(stage: Path) -> None:
    """Mask paths and addresses in Numba's cache: they differ every time, and are private."""
    for path in _files(stage):
        if path.suffix in CACHE:
            content = path.read_bytes()
            for place in (os.fsencode(stage), os.fsencode(sys.prefix)):
                content = content.replace(place, b"/".ljust(len(place), b"_"))
            path.write_bytes(ADDRESS.sub(lambda address: b"0" * len(address[0]), content))


# --- the archive


def _files(stage: Path) -> Iterator[Path]:
    return (path for path in stage.rglob("*") if path.is_file())


def _ordered(stage: Path) -> list[Path]:
    """Return the files by name, Numba's cache last: it must not look older than its source where times are lost."""
    return sorted(_files(stage), key=lambda path: (path.suffix in CACHE, path.relative_to(stage).as_posix()))


def _write(files: list[Path], stage: Path, output: Path) -> None:
    """Write beside the target, then rename, so that nobody sees half an archive."""
    partial = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        with (
            partial.open("wb") as raw,
            gzip.GzipFile(filename="", mode="wb", compresslevel=COMPRESSION, fileobj=raw, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive,
        ):
            for path in files:
                entry = tarfile.TarInfo(path.relative_to(stage).as_posix())
                entry.size, entry.mtime, entry.mode = path.stat().st_size, STAMP, 0o644
                with path.open("rb") as content:
                    archive.addfile(entry, content)
        partial.replace(output)
    except OSError as error:
        raise PackageError(f"cannot write {output}: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)
