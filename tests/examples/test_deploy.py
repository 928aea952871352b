"""The unit and the manifest can be read, and name what there is."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from wirelake.cli.stream import stream

DEPLOY = Path(__file__).resolve().parents[2] / "examples" / "deploy"


def unit() -> ConfigParser:
    parser = ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(DEPLOY / "wirelake-stream.service", encoding="utf-8")
    return parser


def container() -> dict[str, Any]:
    (manifest,) = yaml.safe_load_all((DEPLOY / "wirelake-stream.yaml").read_text(encoding="utf-8"))
    assert (manifest["kind"], manifest["spec"]["replicas"], manifest["spec"]["strategy"]["type"]) == (
        "Deployment", 1, "Recreate"
    )  # fmt: skip
    (one,) = manifest["spec"]["template"]["spec"]["containers"]
    return dict(one)


def parsed(arguments: list[str]) -> dict[str, Any]:
    """What the verb understands; an option that it does not have is an error."""
    return dict(stream.make_context("stream", list(arguments)).params)


def test_the_unit_runs_the_verb_with_options_that_it_has() -> None:
    program, verb, *arguments = shlex.split(unit()["Service"]["ExecStart"])
    found = parsed(arguments)
    assert (program, verb) == ("/usr/local/bin/wirelake", "stream") and found["stalled_after"] == 180.0


def test_the_unit_gives_a_step_time_to_end_and_begins_again_after_failures() -> None:
    service = unit()["Service"]
    assert service["KillSignal"] == "SIGTERM" and service["Restart"] == "on-failure"
    assert int(service["TimeoutStopSec"]) >= 60


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "wirelake-stream.service").read_text(encoding="utf-8")
    path = tmp_path / "wirelake-stream.service"
    path.write_text(text.replace("/usr/local/bin/wirelake", "/bin/true"), encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)], capture_output=True, text=True, check=False
    )
    told = [line for line in done.stderr.splitlines() if path.name in line]
    assert told == []


def test_the_manifest_runs_the_verb_with_options_that_it_has() -> None:
    one = container()
    found = parsed(one["args"])
    assert one["command"] == ["wirelake", "stream"] and found["inputs"] == ("/captures",)
    mounts = {mount["mountPath"] for mount in one["volumeMounts"]}
    assert {*found["inputs"], found["lake"]} <= mounts


def test_the_manifest_looks_where_the_metrics_are() -> None:
    one = container()
    assert one["ports"][0]["containerPort"] == parsed(one["args"])["metrics"][1]
    assert one["readinessProbe"]["httpGet"]["path"] == "/health"
    assert one["livenessProbe"]["httpGet"]["path"] == "/metrics"
