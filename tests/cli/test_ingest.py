"""What users get wrong, and what disks do: one clear line, the right status, and a lake as it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.ingest.lakes import table, tables
from tests.lake.lakes import tree
from tests.spark.processes import COMMAND
from wirelake.cli import cli
from wirelake.generate import generate, write_pcap, write_raw, write_tap
from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.run import ingest
from wirelake.ingest.runner import IngestError
from wirelake.lake import Lake

PNG = b"\x89PNG\r\n\x1a\n" + bytes(200)


@dataclass
class Outcome:
    status: int
    out: str
    err: str


def run(*arguments: object) -> Outcome:
    """The verb, in this process."""
    done = CliRunner().invoke(cli, ["ingest", "--engine", "inline", *map(str, arguments)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return Outcome(done.exit_code, done.stdout, done.stderr)


def refusal(*arguments: object, status: int = 1) -> str:
    """What is said when it is refused: one line, after the usage if that was wrong."""
    done = run(*arguments)
    assert_plain(done.err)
    assert (done.status, done.out) == (status, ""), done.err
    *usage, said = done.err.splitlines()
    assert usage[:1] == (["Usage: cli ingest [OPTIONS] IN... LAKE"] if status == 2 else [])
    assert said.startswith("Error: ")
    return said.removeprefix("Error: ")


def assert_plain(text: str) -> None:
    for word in ("Traceback", "Py4J", "py4j", "Exception in thread", "\tat org.apache"):
        assert word not in text, text


def on_disk(place: Path) -> dict[str, str]:
    """Every file of a lake; who holds or held its lock does not matter."""
    files = [path for path in place.rglob("*") if path.is_file() and path.name != "_lock"]
    return {str(path.relative_to(place)): blake2b(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two captures, one after the other; connections go on from the first to the second."""
    folder = tmp_path_factory.mktemp("good")
    write_pcap(generate("casual", seed=4, messages=600), folder / "good.pcap", files=2)
    return sorted(folder.iterdir())


@pytest.fixture(scope="module")
def clean(parts: list[Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    place = tmp_path_factory.mktemp("clean") / "lake"
    for part in parts:
        ingest(InlineRunner(), [str(part)], str(place))
    return tables(place)


@pytest.fixture
def begun(parts: list[Path], tmp_path: Path) -> Path:
    """A lake that has the first capture."""
    place = tmp_path / "begun"
    ingest(InlineRunner(), [str(parts[0])], str(place))
    return place


def assert_goes_on(place: Path, parts: list[Path], clean: dict[str, Any]) -> None:
    """Nothing is wrong with the lake: the second capture is ingested as if nothing had happened."""
    done = run(parts[1], place)
    assert done.status == 0, done.err
    assert tables(place) == clean
    assert tree(Lake.open(place, create=False).store, "_staging") == []


# --- captures


def test_a_file_that_is_no_capture_is_refused_by_name_and_first_bytes(tmp_path: Path) -> None:
    for name, content, said in (
        ("empty.pcap", b"", "not a pcap, pcapng or tap file: it is empty"),
        ("notes.pcap", b"hello, world", "not a pcap, pcapng or tap file: it begins with 68 65 6c 6c 6f 2c 20 77"),
        ("picture.png", PNG, "not a pcap, pcapng or tap file: it begins with 89 50 4e 47 0d 0a 1a 0a"),
    ):
        (tmp_path / name).write_bytes(content)
        assert refusal(tmp_path / name, tmp_path / "lake").startswith(f"{tmp_path / name}: {said}")
    assert not (tmp_path / "lake").exists()


def test_a_path_that_leads_nowhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop.pcap").symlink_to(tmp_path / "loop.pcap")
    for path in (tmp_path / "nowhere.pcap", tmp_path / "no*.pcap", tmp_path / "loop.pcap"):
        assert refusal(path, tmp_path / "lake") == f"path does not exist: {path}"
    assert not (tmp_path / "lake").exists()
    assert "nonsense: is not a kind of place: use a path" in refusal("nonsense://a/b", tmp_path / "lake")


def test_what_is_not_a_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.pcap")
    assert refusal(tmp_path / "pipe.pcap", tmp_path / "lake").startswith(f"{tmp_path}/pipe.pcap: it is not a file")


def test_of_a_directory_with_rubbish_the_captures_are_read_and_the_rest_is_noted(
    parts: list[Path], clean: dict[str, Any], tmp_path: Path
) -> None:
    folder = tmp_path / "mixed"
    (folder / "deeper" / "deep").mkdir(parents=True)
    for number, part in enumerate(parts):
        (folder / "deeper" / f"part-{number}").write_bytes(part.read_bytes())
    rubbish = {"a.png": PNG, "notes.txt": b"hello", "empty.pcap": b"", "deeper/deep/x.gz": b"\x1f\x8bnot really"}
    for name, content in rubbish.items():
        (folder / name).write_bytes(content)
    (folder / ".hidden.pcap").write_bytes(b"hidden")
    (folder / "_unfinished.pcap").write_bytes(b"unfinished")
    os.mkfifo(folder / "pipe")
    done = run(folder, tmp_path / "lake")
    assert_plain(done.err)
    report = json.loads(done.out)
    assert (done.status, report["commit"], report["captures"]) == (0, 1, 2)
    assert len(report["notes"]) == len(rubbish) + 1
    for name in (*rubbish, "pipe"):
        assert f"note: {folder / name}: " in done.err
    assert "hidden" not in done.err and "unfinished" not in done.err
    assert {name: sum(rows.values()) for name, rows in tables(tmp_path / "lake").items()} == {
        name: sum(rows.values()) for name, rows in clean.items()
    }


def test_a_directory_without_any_capture_gives_no_commit(tmp_path: Path) -> None:
    (tmp_path / "rubbish").mkdir()
    (tmp_path / "rubbish" / "notes.txt").write_text("hello")
    done = run(tmp_path / "rubbish", tmp_path / "lake")
    assert (done.status, json.loads(done.out)["commit"]) == (0, None)
    assert "notes.txt: not a pcap, pcapng or tap file" in done.err
    assert "lake: there are no captures\n" in done.err
    assert Lake.open(tmp_path / "lake", create=False).number() == 0


def test_names_that_are_not_utf_8_are_left_out_and_those_around_them_read(parts: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "captures"
    folder.mkdir()
    (folder / "a b\nü#%41?.pcap").symlink_to(parts[0])
    odd = os.fsencode(folder) + b"/\xff.pcap"
    os.symlink(os.fsencode(parts[1]), odd)
    done = run(folder, tmp_path / "lake")
    assert_plain(done.err)
    assert (done.status, json.loads(done.out)["captures"]) == (0, 1)
    assert f"note: {folder}/\\xff.pcap: it is not a file, or its name is not UTF-8" in done.err
    assert (
        refusal(os.fsdecode(odd), tmp_path / "lake")
        == f"{folder}/\\xff.pcap cannot be read: its name is not UTF-8; rename it"
    )


def test_a_sensor_without_a_name_is_refused(parts: list[Path], tmp_path: Path) -> None:
    assert refusal(parts[0], tmp_path / "lake", "--sensor", "") == "the name of a sensor cannot be empty"
    assert not (tmp_path / "lake").exists()


def test_a_lake_among_the_captures_is_left_out_without_a_word(parts: list[Path], tmp_path: Path) -> None:
    (tmp_path / "one.pcap").symlink_to(parts[0])
    for _ in range(2):
        done = run(tmp_path, tmp_path / "lake")
        assert (done.status, json.loads(done.out)["notes"]) == (0, []), done.err


def test_a_capture_that_vanishes_before_it_is_read_is_named_and_the_lake_stays_as_it_was(
    begun: Path, parts: list[Path], clean: dict[str, Any], tmp_path: Path
) -> None:
    gone = tmp_path / "gone.pcap"
    before = on_disk(begun)

    class Vanishing(InlineRunner):
        def start(self) -> None:
            gone.unlink()

    gone.write_bytes(parts[1].read_bytes())
    with pytest.raises(IngestError) as caught:
        ingest(Vanishing(), [str(gone)], str(begun))
    assert str(caught.value).startswith(f"{gone}: No such file or directory")
    assert on_disk(begun) == before
    assert_goes_on(begun, parts, clean)


def test_a_capture_that_is_read_as_raw_bytes_loses_none(parts: list[Path], tmp_path: Path) -> None:
    done = run(parts[0], tmp_path / "lake", "--kind", "raw", "-p", "dsa", "--final")
    report = json.loads(done.out)
    assert report["bytes_decoded"] + report["bytes_quarantined"] == parts[0].stat().st_size
    assert report["bytes_quarantined"] > 0.9 * parts[0].stat().st_size
    kept = [
        row["bytes"] for row in sorted(table(tmp_path / "lake", "silver/quarantine"), key=lambda row: row["offset"])
    ]
    assert b"".join(kept)[:24] == parts[0].read_bytes()[:24]


def test_a_raw_stream_needs_to_be_called_so(tmp_path: Path) -> None:
    write_raw(generate("dsa", messages=20), tmp_path / "stream.dump")
    assert "not a pcap, pcapng or tap file" in refusal(tmp_path / "stream.dump", tmp_path / "lake")
    assert "not a pcapng file" in refusal(tmp_path / "stream.dump", tmp_path / "lake", "--kind", "pcapng")


# --- options


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-p", "nonsense"], "unknown protocol 'nonsense': one of casual, dsa, mb, ceda, or path/to/file.py:NAME"),
        (["-p", "nowhere.py:NAME"], "no such file: nowhere.py"),
        (["--port", "x=mb"], "--port takes NUMBER=PROTOCOL, and 'x' is not a port"),
        (["--port", "70000=mb"], "--port takes NUMBER=PROTOCOL, and '70000' is not a port"),
        (["--port", "80"], "--port takes"),
        (["--port", "80=nonsense"], "nonsense is not among the protocols that are read: casual, dsa, mb, ceda"),
        (["-p", "mb", "--port", "80=casual"], "casual is not among the protocols that are read: mb"),
        (["--conf", "spark.master"], "--conf takes NAME=VALUE, not 'spark.master'"),
        (["--partition-bytes", "many"], "'many' is not a size; write 64m, 1g or a number of bytes"),
        (["--kind", "zip"], "'zip' is not one of 'pcap', 'pcapng', 'tap', 'raw'"),
        (["--dialect", "nonsense"], "none of casual, dsa, mb, ceda has the reading option dialect=nonsense"),
        (["-p", "mb", "--dialect", "ceda4"], "none of mb has the reading option dialect=ceda4"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_options_are_refused_before_anything_is_made(
    options: list[str], said: str, parts: list[Path], tmp_path: Path
) -> None:
    assert said in refusal(parts[0], tmp_path / "lake", *options, status=2)
    assert not (tmp_path / "lake").exists()


# --- lakes


def test_a_place_that_is_no_lake_is_refused_and_left_alone(parts: list[Path], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").write_text("mine")
    assert refusal(parts[0], tmp_path / "file") == f"{tmp_path / 'file'}: is a file, not a lake"
    assert "is not empty and not a lake (it has 'letter.txt'" in refusal(parts[0], tmp_path / "home")
    assert (tmp_path / "file").read_text() == "mine"
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["letter.txt"]


def test_a_lake_of_a_newer_version_is_refused_and_left_alone(begun: Path, parts: list[Path]) -> None:
    about = begun / "_lake.json"
    kept = about.read_text()
    about.write_text(json.dumps(json.loads(kept) | {"format": 99, "wirelake": "9.0"}))
    before = on_disk(begun)
    assert "has format 99, of a newer wirelake (9.0)" in refusal(parts[1], begun)
    assert on_disk(begun) == before


def test_a_lake_with_a_damaged_record_is_refused_and_left_alone(
    begun: Path, parts: list[Path], clean: dict[str, Any]
) -> None:
    record = begun / "_commits" / "00000001.json"
    kept = record.read_bytes()
    for content, said in (
        (kept[:100], "is not a commit record"),
        (b'{"format": 9, "wirelake": "7.0"}', "has the format of a newer wirelake (7.0)"),
    ):
        record.write_bytes(content)
        before = on_disk(begun)
        assert said in refusal(parts[1], begun)
        assert on_disk(begun) == before
    record.write_bytes(kept)
    assert_goes_on(begun, parts, clean)


@pytest.mark.parametrize("name", ["state", "sensor", "gold", "transactions"])
def test_a_lake_with_damaged_carry_is_refused_and_left_alone(
    name: str, begun: Path, parts: list[Path], clean: dict[str, Any]
) -> None:
    place = next(path for path in sorted((begun / "_carry").iterdir()) if name in path.name)
    kept = place.read_bytes()
    for content in (kept[: len(kept) // 2], b"nonsense", b""):
        place.write_bytes(content)
        before = on_disk(begun)
        assert f"{place}: is " in (said := refusal(parts[1], begun)) and said.endswith(
            "ingest the captures into a new lake"
        )
        assert on_disk(begun) == before
    place.write_bytes(kept)
    assert_goes_on(begun, parts, clean)


HOLD = """
import sys
from wirelake.lake import Lake
with Lake.open(sys.argv[1]).writing():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_lake_that_another_process_writes_to_is_refused(
    begun: Path, parts: list[Path], clean: dict[str, Any]
) -> None:
    command = [sys.executable, "-c", HOLD, str(begun)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        before = on_disk(begun)
        said = refusal(parts[1], begun)
        assert f"another run (pid {other.pid} on " in said and said.endswith("is writing to this lake")
        assert on_disk(begun) == before
        other.communicate("", timeout=60)
    assert_goes_on(begun, parts, clean)


# --- disks


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own; the test may make it larger."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small disk can be mounted by root only")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_is_said_and_the_lake_stays_as_it_was(
    small_disk: Path, parts: list[Path], clean: dict[str, Any]
) -> None:
    lake = small_disk / "lake"
    assert run(parts[0], lake).status == 0
    before, kept = on_disk(lake), tables(lake)
    filler = small_disk / "filler"
    free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
    for left in (1 << 12, 1 << 14, 1 << 16):
        filler.write_bytes(bytes(free - left))
        assert "No space left on device" in refusal(parts[1], lake)
        assert (on_disk(lake), tables(lake)) == (before, kept)
    filler.unlink()
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    assert_goes_on(lake, parts, clean)


def test_files_that_may_not_grow_are_an_error_like_a_full_disk(parts: list[Path], tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    limited = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (15000, 15000)); "
    command = [sys.executable, "-c", limited + COMMAND[2], "ingest", str(parts[0]), str(lake), "--keep-bytes"]
    command += ["--engine", "inline"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert_plain(done.stderr)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].startswith("Error: ") and "File too large" in done.stderr
    assert Lake.open(lake, create=False).number() == 0
    assert tree(Lake.open(lake, create=False).store, "_staging") == []
    assert run(parts[0], lake, "--keep-bytes").status == 0


# --- where tasks run


def ingest_without(program: str, *arguments: object, path: str = "") -> subprocess.CompletedProcess[str]:
    """The verb in a process that does not have this program or package."""
    hide = f"import sys; sys.modules[{program!r}] = None; " if program == "pyspark" else ""
    environment = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_REMOTE")}
    command = [sys.executable, "-c", hide + COMMAND[2], "ingest", *map(str, arguments)]
    return subprocess.run(
        command, env=environment | {"PATH": path}, capture_output=True, text=True, check=False, timeout=600
    )


def test_without_java_tasks_run_in_this_process_and_one_line_says_so(
    parts: list[Path], clean: dict[str, Any], tmp_path: Path
) -> None:
    for part in parts:
        done = ingest_without("java", part, tmp_path / "lake", "--quiet")
        assert done.returncode == 0, done.stderr
        assert done.stderr == "note: there is no Java, so the tasks run in this process, without Spark\n"
    assert tables(tmp_path / "lake") == clean


def test_without_pyspark_too(parts: list[Path], tmp_path: Path) -> None:
    done = ingest_without("pyspark", parts[0], tmp_path / "lake", "--quiet", path=os.environ["PATH"])
    assert done.returncode == 0, done.stderr
    assert done.stderr == "note: there is no pyspark, so the tasks run in this process, without Spark\n"


def test_who_asks_for_spark_gets_spark_or_an_error(parts: list[Path], tmp_path: Path) -> None:
    for options in (["--engine", "spark"], ["--master", "local[1]"], ["--conf", "a=b"]):
        done = ingest_without("pyspark", parts[0], tmp_path / "lake", *options)
        assert (done.returncode, done.stderr) == (1, "Error: this needs pyspark: pip install 'wirelake[spark]'\n")
    said = refusal(parts[0], tmp_path / "lake", "--master", "local[1]", status=2)
    assert said == "--master and --conf are for --engine spark"
    assert not (tmp_path / "lake").exists()


def test_a_tap_of_a_protocol_that_is_not_read_is_told(tmp_path: Path) -> None:
    declared = "examples/sensor.py:PROTOCOL"
    write_tap(generate(declared, messages=20), tmp_path / "a.tap")
    done = run("--final", tmp_path / "a.tap", tmp_path / "lake")
    wanted = "connections are marked as sensor, which is not read: name it with -p path/to/file.py:NAME"
    assert (done.status, done.err.count(wanted)) == (0, 1)
    assert wanted not in run("-p", declared, "--final", tmp_path / "a.tap", tmp_path / "other").err
