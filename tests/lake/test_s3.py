"""A lake on S3: a server that speaks it runs on loopback, and writers are killed beside it."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow import fs

from tests.ingest.lakes import Content
from tests.lake.job import contents, opened, whole_job
from tests.lake.lakes import numbers, stage, tree
from wirelake.errors import LakeError, OptionError
from wirelake.generate import generate, write_pcap
from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.run import ingest
from wirelake.lake import Lake
from wirelake.lake.compaction import compact
from wirelake.lake.delta import drop, publish
from wirelake.lake.store import Store

ROOT = Path(__file__).resolve().parents[2]
INPUTS = 3


SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(*server.get_host_and_port(), flush=True)
sys.stdin.read()
"""
"""In a process of its own: some libraries hold Python's lock while they wait for an answer."""


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    """A server with one bucket, and the variables by which clients find it."""
    command = [sys.executable, "-c", SERVER]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, **streams) as server:  # type: ignore[call-overload]
        host, port = server.stdout.readline().split()
        keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
        yield {**keys, "AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_EC2_METADATA_DISABLED": "true"}
        server.communicate()


@pytest.fixture
def bucket(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    name = f"b{abs(hash(request.node.name)) % 10**9}"
    fs.S3FileSystem(
        endpoint_override=environment["AWS_ENDPOINT_URL"], region="us-east-1", allow_bucket_creation=True
    ).create_dir(name)
    return f"s3://{name}"


def test_commits_replacements_and_snapshots_work(bucket: str) -> None:
    lake = Lake.open(f"{bucket}/lake")
    with lake.writing() as run:
        run.commit([*stage(run, "silver/x", 1), *stage(run, "gold/open", 1)])
        before = lake.snapshot()
        dataset = before.dataset("gold/open")
        run.commit([*stage(run, "silver/x", 2), *stage(run, "gold/open", 2)], removed=lake.files("gold/open"))
    again = Lake.open(f"{bucket.replace('s3:', 's3a:')}/lake", create=False)
    assert (numbers(again, "silver/x"), numbers(again, "gold/open")) == ([1, 2], [2])
    assert dataset.to_table().column("n").to_pylist() == [1] and numbers(again.at(1), "gold/open") == [1]
    assert tree(again.store, "gold") == ["gold/open/date=1970-01-01/part-00000002-00000-0.parquet"]
    assert not tree(again.store, "_staging")


def test_of_two_writers_the_second_is_told_and_leaves_nothing(bucket: str) -> None:
    one, other = (Lake.open(f"{bucket}/lake") for _ in range(2))
    with one.writing() as first, other.writing() as second:
        mine, theirs = stage(first, "silver/x", 1), stage(second, "silver/x", 2)
        second.commit(theirs)
        with pytest.raises(LakeError, match=r"commit 1 was made by another run meanwhile; nothing of this one is in"):
            first.commit(mine)
        with pytest.raises(LakeError, match="commit 1 failed in this run; start another"):
            first.commit(mine)
    with one.writing() as run:
        run.commit(stage(run, "silver/x", 3))
    assert numbers(Lake.open(f"{bucket}/lake"), "silver/x") == [2, 3]
    assert not tree(one.store, "_staging")


def test_a_commit_whose_answer_was_lost_is_known_as_ones_own(bucket: str) -> None:
    """The client repeats a put without an answer; what it meets then is its own record."""
    from wirelake.lake.fence import create

    store = Lake.open(f"{bucket}/lake").store
    assert create(store, "_commits/00000001.json", b"mine")
    assert create(store, "_commits/00000001.json", b"mine")
    assert not create(store, "_commits/00000001.json", b"another's")
    assert store.read("_commits/00000001.json", 99) == b"mine"


def test_kills_change_nothing(bucket: str, environment: dict[str, str], tmp_path: Path) -> None:
    whole_job(tmp_path / "clean", INPUTS)
    place, source, killed = f"{bucket}/lake", random.Random(3), 0
    job = f"from tests.lake.job import whole_job; print('ready', flush=True); whole_job({place!r}, {INPUTS})"
    while killed < 6:
        with subprocess.Popen(
            [sys.executable, "-c", job], cwd=ROOT, env=os.environ | environment, stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout is not None and writer.stdout.readline() == b"ready\n"
            try:
                assert writer.wait(source.uniform(0.0, 0.4 + 0.2 * killed)) == 0
                break
            except subprocess.TimeoutExpired:
                writer.kill()
                killed += 1
    whole_job(place, INPUTS)
    found, expected = contents(opened(place)), contents(opened(tmp_path / "clean"))
    assert found == expected and killed > 0


def test_captures_and_lake_on_s3_give_the_lake_of_a_disk(bucket: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_pcap(generate(("casual", "mb"), seed=4, messages=200, connections=3), tmp_path / "in" / "a.pcap", files=2)
    fs.copy_files(str(tmp_path / "in"), f"{bucket}/in")
    report = ingest(InlineRunner(1), [f"{bucket.replace('s3:', 's3a:')}/in"], f"{bucket}/lake", final=True)
    ingest(InlineRunner(1), [f"file:{tmp_path}/in"], str(tmp_path / "lake"), final=True)
    there, here = Lake.open(f"{bucket}/lake", create=False), Lake.open(tmp_path / "lake", create=False)
    assert report.captures == 2 and ingest(InlineRunner(1), [f"{bucket}/in"], there).commit is None
    leave_out = {"capture", "sensor"}
    assert Content(there, leave_out).differences(Content(here, leave_out)) == []


def test_published_tables_are_those_of_the_lake_also_after_commits_that_remove_their_files(bucket: str) -> None:
    lake = Lake.open(f"{bucket}/lake", settings={"grace_seconds": 0.0})
    with lake.writing() as run:
        run.commit([*stage(run, "silver/x", 1), *stage(run, "gold/open", 1)])
        run.commit(stage(run, "silver/x", 2))
    done = publish(Lake.open(f"{bucket.replace('s3:', 's3a:')}/lake", create=False))
    assert done.tables["silver/x"] == {
        "place": f"{bucket}/lake/_tables/silver/x",
        "version": 0,
        "added": 2,
        "removed": 0,
    }
    with lake.writing() as run:
        run.commit(stage(run, "gold/open", 3), removed=lake.files("gold/open"))
        compact(run)
        files = {table: lake.files(table) for table in lake.tables()}
    assert (published(lake, "silver/x"), published(lake, "gold/open")) == ([1, 2], [1]), "until the next publication"
    assert [one["removed"] for one in publish(lake).tables.values()] == [1, 2]
    assert (published(lake, "silver/x"), published(lake, "gold/open")) == ([1, 2], [3])
    assert published(lake, "silver/x", version=0) == [1, 2]
    assert {table: (one["added"], one["removed"]) for table, one in publish(lake).tables.items()} == dict.fromkeys(
        files, (0, 0)
    )
    with lake.writing():
        assert len(tree(lake.store, "_tables/silver/x/date=1970-01-01")) == 1, (
            "what is replaced is swept, copies and all"
        )
    write_deltalake(
        place(lake, "silver/x"), pa.table({"n": [7]}), mode="append", schema_mode="merge", storage_options=OPTIONS
    )
    with pytest.raises(LakeError, match="has a transaction that wirelake did not write"):
        publish(lake)
    assert drop(lake) == ["gold/open", "silver/x"] and numbers(lake, "silver/x") == [1, 2]
    left = tree(lake.store, "_tables")
    assert [path for path in left if "/_delta_log/" in path or path.removeprefix("_tables/") in files] == []


OPTIONS = {"aws_allow_http": "true"}


def place(lake: Lake, table: str) -> str:
    return f"s3://{lake.store.root}/_tables/{table}"


def published(lake: Lake, table: str, **options: int) -> list[int]:
    rows = DeltaTable(place(lake, table), storage_options=OPTIONS, **options).to_pyarrow_table()  # type: ignore[arg-type]
    return sorted(rows.column("n").to_pylist())


def test_a_place_is_written_in_several_ways(tmp_path: Path) -> None:
    assert Store.at(f"file:{tmp_path}/my%20lake").root == f"{tmp_path}/my lake"
    assert Store.at(f"file://{tmp_path}/x").root == Store.at(tmp_path / "x").root
    with pytest.raises(
        LakeError, match=r"ftp://x/lake: cannot be opened: ftp: is not a kind of place: use a path, file:/"
    ):
        Lake.open("ftp://x/lake")
    with pytest.raises(OptionError, match=r"ftp://x/in cannot be read: ftp: is not a kind of place"):
        ingest(InlineRunner(1), ["ftp://x/in"], str(tmp_path / "lake"))
