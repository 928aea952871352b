"""``wirelake report``: the file that it writes, the server that it is, and what is wrong said in one line."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import webbrowser
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner, Result

from tests.report.processes import ANY, COMMAND, SECONDS, Start, starting
from tests.waiting import wait_until
from wirelake.cli import cli
from wirelake.cli.report import name_of
from wirelake.lake import Lake


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["report", *arguments])


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A lake without a commit."""
    return Path(Lake.open(tmp_path / "small").path)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


# --- a file


def test_without_a_name_it_is_that_of_the_lake(small: Path, here: Path) -> None:
    for place in (str(small), f"{small}/", small.as_uri()):
        result = run(place, "--quiet")
        assert result.exit_code == 0 and result.stderr == ""
        assert json.loads(result.stdout)["report"] == "small.html"
        (here / "small.html").unlink()
    assert list(small.glob("*.html")) == []


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("lake", "lake"),
        ("a/b/", "b"),
        ("/", "lake"),
        ("s3://bucket/x/lake/", "lake"),
        ("s3://b/lake?region=eu", "lake"),
    ],
)
def test_what_a_lake_is_called(place: str, name: str) -> None:
    assert name_of(place) == name


def test_the_lake_may_be_here(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(small)
    assert name_of(".") == "small"


def test_the_page_on_standard_output(small: Path, here: Path) -> None:
    result = run(str(small), "-o", "-")
    assert result.exit_code == 0
    assert result.stdout.lower().startswith("<!doctype html>") and result.stdout.rstrip().lower().endswith("</html>")
    assert list(here.iterdir()) == []


def test_a_page_is_replaced_as_a_whole_or_not_at_all(small: Path, here: Path) -> None:
    (here / "out.html").write_text("old")
    assert run(str(small), "-o", "out.html", "--force").exit_code == 0
    assert run(str(small), "-o", "out.html").exit_code == 0
    new = (here / "out.html").read_bytes()
    assert new != b"old" and len(list(here.iterdir())) == 1
    (small / "_lake.json").write_text("{")
    assert run(str(small), "-o", "out.html").exit_code == 1
    assert (here / "out.html").read_bytes() == new and len(list(here.iterdir())) == 1


@pytest.mark.parametrize("output", [(), ("-o", "small.html")])
def test_a_file_that_is_not_a_report_is_replaced_only_by_force(
    small: Path, here: Path, output: tuple[str, ...]
) -> None:
    (here / "real.txt").write_text("mine")
    (here / "small.html").symlink_to("real.txt")
    for _ in range(2):
        said = "cannot write small.html: it exists and is not a report of wirelake; --force replaces it"
        assert refused(1, str(small), *output) == said
        (here / "small.html").unlink()
        (here / "small.html").write_text("mine")
    assert run(str(small), *output, "--force").exit_code == 0
    assert (here / "small.html").read_bytes().startswith(b"<!doctype") and (here / "real.txt").read_text() == "mine"


def test_a_pipe_is_written_to(small: Path, here: Path) -> None:
    os.mkfifo(here / "pipe")
    with subprocess.Popen(["head", "-c", "9", here / "pipe"], stdout=subprocess.PIPE) as reader:
        done = subprocess.run([*COMMAND, str(small), "-o", "pipe"], capture_output=True, timeout=SECONDS, check=False)
        assert reader.communicate()[0].lower() == b"<!doctype"
    assert (here / "pipe").is_fifo() and b"Traceback" not in done.stderr


def test_the_browser_is_opened(small: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) is not None)  # type: ignore[func-returns-value]
    result = run(str(small), "-o", "my report.html", "--open")
    assert result.exit_code == 0 and opened == [(here / "my report.html").as_uri()]
    assert f"there is no browser to open; it is at {opened[0]}" in result.stderr


# --- what is wrong


def refused(status: int, *arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == status and result.stdout == "", result.output
    assert isinstance(result.exception, SystemExit)
    return result.stderr.splitlines()[-1].removeprefix("Error: ")


def test_what_is_no_lake_is_refused_and_none_is_made(tmp_path: Path, here: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    for more in ([], ["--serve", "--listen", ANY]):
        assert refused(1, str(tmp_path / "none"), *more) == f"{tmp_path / 'none'}: there is no lake"
        assert refused(1, str(tmp_path / "empty"), *more) == f"{tmp_path / 'empty'}: there is no lake"
        assert refused(1, str(tmp_path / "file"), *more) == f"{tmp_path / 'file'}: is a file, not a lake"
        assert "is not empty and not a lake" in refused(1, str(tmp_path), *more)
        assert "nonsense://x: cannot be opened: " in refused(1, "nonsense://x", *more)
    assert not (tmp_path / "none").exists() and list((tmp_path / "empty").iterdir()) == [] == list(here.iterdir())


def test_where_it_cannot_be_written(small: Path, here: Path) -> None:
    assert refused(1, str(small), "-o", "none/x.html") == "cannot write none/x.html: No such file or directory"
    (here / "directory").mkdir()
    assert refused(1, str(small), "-o", "directory") == "cannot write directory: Is a directory"
    assert list((here / "directory").iterdir()) == []


def test_options_that_do_not_go_together(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = str(small)
    assert refused(2, place, "--serve", "-o", "x") == "--serve writes no file: leave -o and --force out"
    assert refused(2, place, "--listen", ANY) == "--listen goes with --serve"
    assert refused(2, place, "--token", "x" * 8) == "--token goes with --serve"
    assert refused(2, place, "-o", "-", "--open") == "--open needs a file: -o - is standard output"
    assert refused(2, place, "--serve", "--listen", "here").startswith("--listen: 'here' is no address")
    assert refused(2, place, "--serve", "--token", "short") == "--token: a token has at least 8 characters"
    assert refused(2, place, "--serve", "--token", "with a space").startswith("--token: a token has visible")
    assert "cannot listen on nobody.invalid:1: " in refused(2, place, "--serve", "--listen", "nobody.invalid:1")
    monkeypatch.setenv("WIRELAKE_TOKEN", "short")
    assert refused(2, place, "--serve") == "--token: a token has at least 8 characters"
    assert run(place, "-o", "-").exit_code == 0


def test_a_port_that_is_in_use_is_named(small: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        told = refused(2, str(small), "--serve", "--listen", address)
        assert told == f"cannot listen on {address}: address already in use; --listen 127.0.0.1:0 picks a free port"


@pytest.mark.parametrize("name", ["duckdb", "plotly", "pyarrow"])
def test_what_is_not_installed_is_named(small: Path, name: str) -> None:
    script = f"import sys; sys.modules[{name!r}] = None; from wirelake.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, "report", str(small), "-o", "-"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode in (1, 2) and "Traceback" not in done.stderr
    assert f"needs {name}: " in done.stderr.splitlines()[-1] and "pip install 'wirelake[report]'" in done.stderr


def test_the_help_teaches() -> None:
    result = run("--help")
    assert result.exit_code == 0
    for text in ("--serve", "wirelake report lake -o -", "127.0.0.1:8765", "Bearer", '{"listening":"http:', "10 MB"):
        assert text in result.stdout
    assert "wirelake report lake" in CliRunner().invoke(cli, ["--help"]).stdout


# --- served


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with starting(tmp_path) as begin:
        yield begin


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_told_to_end(start: Start, small: Path, number: int) -> None:
    served = start(str(small), "--listen", ANY)
    assert served.line == f'{{"listening":"{served.url}"}}\n' and served.url.startswith("http://127.0.0.1:")
    assert served.ask("/")[0] == 200
    status, state = served.ask("/state")
    assert (status, state["commit"], state["made"]) == (200, 0, served.ask("/report.json")[1]["about"]["made"])
    assert {"recent", "lag_seconds", "behind"} <= state.keys()
    assert f"the report of {small} is at {served.url}\n" in served.told and "token" not in served.told
    with socket.create_connection(("127.0.0.1", urlsplit(served.url).port or 0)):
        assert served.end(number) == 0
    assert "Traceback" not in served.told


def test_readers_elsewhere_need_the_token(start: Start, small: Path) -> None:
    served = start(str(small), "--listen", "0.0.0.0:0")
    (line,) = [line for line in served.told.splitlines() if "token=" in line]
    token = line.rpartition("token=")[2]
    assert len(token) >= 32 and token not in served.line
    assert line == f"the report of {small} is at {served.url}?token={token}"
    assert served.ask("/")[0] == 401
    assert served.ask("/state", Authorization=f"Bearer {token}")[0] == 200
    assert served.end() == 0
    again = start(str(small), "--listen", "0.0.0.0:0", "--quiet", WIRELAKE_TOKEN="said-before")
    assert again.told == f"{again.url}?token=said-before\n"
    assert again.ask("/state", Authorization="Bearer said-before")[0] == 200
    assert again.end() == 0


def test_who_started_it_may_be_gone(small: Path, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with (tmp_path / "errors").open("wb") as errors:
        process = subprocess.Popen([*COMMAND, str(small), "--serve", "--listen", ANY], stdout=writing, stderr=errors)
    os.close(writing)
    try:
        wait_until(lambda: "Ctrl-C" in (tmp_path / "errors").read_text(), SECONDS)
        url = (tmp_path / "errors").read_text().split(" is at ")[1].split()[0]
        client = HTTPConnection("127.0.0.1", urlsplit(url).port, timeout=SECONDS)
        client.request("GET", "/state")
        assert client.getresponse().status == 200
        client.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
