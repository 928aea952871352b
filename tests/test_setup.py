"""Set-up: the lock, and what has to be installed besides Python packages."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SETUP = ROOT / "scripts" / "setup-system"

JAVA = """#!/bin/sh
case "$*" in *--add-modules*) {modules} ;; esac
echo 'openjdk version "{version}" 2025-04-15' >&2
"""


def check(name: str, **environment: str) -> tuple[int, str]:
    done = subprocess.run(
        [SETUP, "--check", name],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], **environment},
    )
    return done.returncode, done.stdout.strip() + done.stderr.strip()


def java_home(place: Path, version: str, modules: str = ":") -> str:
    program = place / "bin" / "java"
    program.parent.mkdir()
    program.write_text(JAVA.format(version=version, modules=modules))
    program.chmod(0o755)
    return str(place)


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.1"])
def test_a_java_of_17_or_newer_will_do(tmp_path: Path, version: str) -> None:
    assert check("java", JAVA_HOME=java_home(tmp_path, version)) == (0, "")


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_392", "nonsense"])
def test_an_older_java_is_refused_with_its_version(tmp_path: Path, version: str) -> None:
    status, said = check("java", JAVA_HOME=java_home(tmp_path, version))
    assert status == 1
    assert said.startswith("Java is too old") and "Spark needs 17 or newer" in said
    assert version.removeprefix("1.").split("_")[0] in said or "unknown version" in said


def test_a_java_without_the_modules_of_spark_is_refused(tmp_path: Path) -> None:
    modules = "echo 'java.lang.module.FindException: Module java.sql not found'; exit 1"
    status, said = check("java", JAVA_HOME=java_home(tmp_path, "17.0.1", modules))
    assert (status, said) == (1, f"Java cannot run Spark ({tmp_path}/bin/java: Module java.sql not found)")


def test_a_home_without_java_is_named(tmp_path: Path) -> None:
    assert check("java", JAVA_HOME=str(tmp_path)) == (1, f"Java is missing in JAVA_HOME ({tmp_path})")


@pytest.mark.parametrize("name", ["java", "tshark", "tcpdump", "chromium"])
def test_what_is_not_on_the_path_is_missing(tmp_path: Path, name: str) -> None:
    for tool in ("bash", "env", "sed", "head", "grep"):
        found = shutil.which(tool)
        assert found is not None
        (tmp_path / tool).symlink_to(found)
    status, said = check(name, PATH=str(tmp_path))
    assert status == 1
    assert said.lower() == f"{name} is missing"


def test_an_unknown_name_is_no_answer() -> None:
    status, said = check("nonsense")
    assert status == 2
    assert "no rule for nonsense" in said


# --- the lock


def locked() -> dict[str, list[str]]:
    """The names in the lock with their hashes."""
    found: dict[str, list[str]] = {}
    for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines():
        if start := re.match(r"([a-z0-9][\w.-]*)==", line):
            hashes = found.setdefault(start[1], [])
        elif part := re.match(r"    --hash=sha256:([0-9a-f]{64})", line):
            hashes.append(part[1])
        else:
            assert line.startswith("    #"), line
    return found


def test_everything_in_the_lock_has_hashes_and_no_line_names_a_host() -> None:
    packages = locked()
    assert {"pyspark", "grpcio", "pandas", "setuptools", "hatchling", "numba", "pytest"} <= set(packages)
    assert all(packages.values())


def test_only_pyspark_is_built_and_with_the_setuptools_of_the_lock() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.findall(r"--no-binary (\S+)", makefile) == ["pyspark"]
    (select,) = re.findall(r"awk '(.*)' requirements\.lock", makefile)
    chosen = subprocess.run(["awk", select, ROOT / "requirements.lock"], capture_output=True, text=True, check=True)
    assert re.findall(r"^(\S+)==", chosen.stdout, re.MULTILINE) == ["setuptools"]
    assert chosen.stdout.count("--hash") == len(locked()["setuptools"])
