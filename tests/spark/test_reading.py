"""Captures in partitions, without Spark: whatever the cut, the rows are those of one sequential pass."""

from __future__ import annotations

import gzip
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.captured import hostile_frames, read, rows_of, split_pcap, table_of, write_one_connection
from wirelake.columnar import decode
from wirelake.errors import CaptureError, DecodeError, OptionError
from wirelake.generate import generate, write_pcap
from wirelake.spark.options import read_options
from wirelake.spark.reading import Table, partitions

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four protocols, many connections, some frames damaged."""
    path = tmp_path_factory.mktemp("mixed") / "mixed.pcap"
    write_pcap(generate(("casual", "dsa", "mb", "ceda"), messages=1200, connections=6, seed=5, corrupt=0.02), path)
    return path


def without_capture(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return sorted(
        ({name: value for name, value in row.items() if name not in ("capture", "order")} for row in rows),
        key=lambda row: (row["connection"], row["direction"], row["offset"]),
    )


@pytest.mark.parametrize("name", ["casual", "dsa", "mb", "ceda", "wire"])
@pytest.mark.parametrize("size", ["5k", "20000", "64k"])
def test_a_capture_in_pieces_is_the_capture(mixed: Path, name: str, size: str) -> None:
    whole = read(name, mixed, columnNameOfCorruptRecord="bad")
    cut = table_of(name, mixed, maxPartitionBytes=size, columnNameOfCorruptRecord="bad")
    assert len(partitions(cut)) > 2
    assert repr(rows_of(cut)) == repr(whole)
    assert any(row["bad"] for row in whole)


@pytest.mark.parametrize("size", ["3k", "7777", "50k"])
def test_payloads_that_look_like_frames_do_not_mislead_a_partition(tmp_path: Path, size: str) -> None:
    frames = hostile_frames(300)
    write_one_connection(tmp_path / "one.pcap", frames)
    (tmp_path / "one.bin").write_bytes(b"".join(frames))
    for path in (tmp_path / "one.pcap", tmp_path / "one.bin"):
        table = table_of("casual", path, maxPartitionBytes=size)
        assert len(partitions(table)) > 2
        found = rows_of(table)
        assert [row["flags"] for row in found] == list(range(300))
        assert found == rows_of(table_of("casual", path))


def test_the_rows_are_those_of_the_columnar_decoder(tmp_path: Path) -> None:
    data = b"".join(hostile_frames(50))
    (tmp_path / "calls.bin").write_bytes(data)
    expected = decode("casual", data).records.to_pylist()
    found = read("casual", tmp_path / "calls.bin")
    assert [{name: row[name] for name in expected[0]} for row in found] == expected
    assert {(row["direction"], row["ts"], row["capture"]) for row in found} == {
        ("to_server", None, str(tmp_path / "calls.bin"))
    }


def test_partitions_are_small_whatever_they_stand_for(mixed: Path) -> None:
    table = table_of("casual", mixed, maxPartitionBytes="20000")
    assert max(len(pickle.dumps(share)) for share in partitions(table)) < 60_000


@pytest.mark.parametrize("size", ["4k", "128m"])
def test_rotated_files_are_one_capture(mixed: Path, tmp_path: Path, size: str) -> None:
    copy = Path(shutil.copy(mixed, tmp_path / "rotating.pcap"))
    split_pcap(copy, 5)
    copy.unlink()
    for name in ("casual", "wire"):
        together = read(name, tmp_path, rotated="true", maxPartitionBytes=size)
        assert without_capture(together) == without_capture(read(name, mixed))


def test_without_that_option_every_file_is_a_capture_of_its_own(tmp_path: Path) -> None:
    write_one_connection(tmp_path / "a.pcap", hostile_frames(30))
    shutil.copy(tmp_path / "a.pcap", tmp_path / "b.pcap")
    rows = read("casual", tmp_path)
    assert len(rows) == 60
    assert {row["capture"] for row in rows} == {str(tmp_path / "a.pcap"), str(tmp_path / "b.pcap")}


def test_small_files_share_tasks(tmp_path: Path) -> None:
    write_one_connection(tmp_path / "a.pcap", hostile_frames(5))
    for i in range(40):
        shutil.copy(tmp_path / "a.pcap", tmp_path / f"b{i}.pcap")
    shares = partitions(table_of("casual", tmp_path))
    assert len(shares) < 41
    assert sum(len(share) for share in shares) == 41


@pytest.mark.parametrize(("cores", "limit", "count"), [(2, "128m", 2), (2, "24m", 2), (2, "17m", 3), (8, "128m", 3)])
def test_a_large_file_is_cut_so_that_all_cores_are_busy_to_the_end(
    cores: int, limit: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    frames = b"".join(hostile_frames(300))
    (tmp_path / "large.bin").write_bytes(frames * ((40 << 20) // len(frames)))
    shares = partitions(table_of("casual", tmp_path / "large.bin", maxPartitionBytes=limit, indexCache="false"))
    sizes = [sum(piece.size for partition, _ in share for piece in partition.ranges) for share in shares]
    assert len(sizes) == count
    assert max(sizes) <= sum(sizes) / count * (1 + 2 / 32)


def test_a_compressed_file_is_only_cut_where_it_is_too_large_for_a_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wirelake.spark.reading.SMALLEST_SPLIT", 1 << 10)
    monkeypatch.setattr("wirelake.spark.reading.OPEN_COST_BYTES", 1 << 10)
    write_pcap(generate("casual", messages=300, seed=5), tmp_path / "a.pcap")
    assert len(partitions(table_of("casual", tmp_path / "a.pcap"))) > 1
    (tmp_path / "a.pcap.gz").write_bytes(gzip.compress((tmp_path / "a.pcap").read_bytes()))
    assert len(partitions(table_of("casual", tmp_path / "a.pcap.gz"))) == 1


# --- modes


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    frames = hostile_frames(20)
    path = tmp_path / "broken.bin"
    path.write_bytes(b"".join(frames[:10]) + b"\xff" * 33 + b"".join(frames[10:]))
    return path


def test_permissive_keeps_a_row_that_says_only_where(broken: Path) -> None:
    rows = read("casual", broken)
    bad = [row for row in rows if row["message"] is None]
    assert len(rows) == 21
    assert [(row["length"], row["flags"]) for row in bad] == [(33, None)]
    assert "_corrupt_record" not in rows[0]


def test_the_corrupt_column_says_why_and_keeps_the_bytes(broken: Path) -> None:
    """asks 2"""
    rows = read("casual", broken, columnNameOfCorruptRecord="why", columns="offset,why,capture,connection,direction")
    bad = [row for row in rows if row["why"]]
    assert [(row["why"]["bytes"], row["why"]["offset"]) for row in bad] == [(b"\xff" * 33, bad[0]["offset"])]
    assert bad[0]["why"]["rule"] and bad[0]["why"]["detail"]


def test_dropmalformed_has_only_messages(broken: Path) -> None:
    assert len(read("casual", broken, mode="dropMalformed")) == 20


def test_failfast_names_file_offset_and_rule(broken: Path) -> None:
    """asks 11"""
    with pytest.raises(DecodeError) as caught:
        read("casual", broken, mode="FAILFAST")
    assert str(broken) in str(caught.value)
    assert f"at byte {sum(map(len, hostile_frames(10)))}" in str(caught.value)
    assert caught.value.rule in str(caught.value)


def test_other_protocols_are_not_corrupt(mixed: Path) -> None:
    """What is not ours in a capture of everything is nobody's fault."""
    bad = [row["bad"]["rule"] for row in read("casual", mixed, columnNameOfCorruptRecord="bad") if row["bad"]]
    everything = read("wire", mixed, columnNameOfCorruptRecord="bad")
    assert 0 < len(bad) < sum(1 for row in everything if row["bad"])
    assert {row["protocol"] for row in everything} == {"casual", "dsa", "mb", "ceda"}


# --- bad input


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    (tmp_path / "empty.pcap").touch()
    assert read("casual", tmp_path / "empty.pcap") == []


def test_a_file_that_is_no_capture_is_refused_with_what_was_found(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(CaptureError, match=r"notes\.txt: not a pcap, pcapng or tap file.*68 65 6c 6c.*ignoreCorrupt"):
        read("casual", tmp_path)


def test_a_directory_of_rubbish_gives_what_is_good_in_it(tmp_path: Path) -> None:
    write_one_connection(tmp_path / "a.pcap", hostile_frames(3))
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "empty").touch()
    (tmp_path / "_hidden").write_text("x")
    (tmp_path / "inner").mkdir()
    assert len(read("casual", tmp_path, ignoreCorruptFiles="true")) == 3


def test_a_file_that_is_gone_when_it_is_read_is_passed_over_if_that_is_wanted(tmp_path: Path) -> None:
    write_one_connection(tmp_path / "a.pcap", hostile_frames(3))
    for options, is_error in (({}, True), ({"ignoreMissingFiles": "true"}, False)):
        table = table_of("casual", tmp_path, **options)
        shares = partitions(table)
        (tmp_path / "a.pcap").rename(tmp_path / "moved")
        try:
            from wirelake.spark.reading import rows

            if is_error:
                with pytest.raises(CaptureError, match=r"a\.pcap: No such file"):
                    list(rows(table, shares[0]))
            else:
                assert list(rows(table, shares[0])) == []
        finally:
            (tmp_path / "moved").rename(tmp_path / "a.pcap")


@pytest.mark.parametrize("path", ["nowhere", "nowhere/*.pcap", "file:///nowhere/x.pcap"])
def test_a_path_that_leads_nowhere_is_named(path: str) -> None:
    shown = re.escape(path.removeprefix("file://"))
    with pytest.raises(OptionError, match=f"path does not exist: {shown}$"):
        partitions(table_of("casual", path))


# --- a protocol of the user's


def test_a_protocol_from_a_file_needs_no_file_where_it_is_read(tmp_path: Path) -> None:
    declaration = Path(shutil.copy(EXAMPLES / "bulletin.py", tmp_path / "bulletin.py"))
    write_pcap(generate(f"{declaration}:PROTOCOL", messages=50, seed=2), tmp_path / "notices.pcap")
    options = read_options("wire", {"path": str(tmp_path / "notices.pcap"), "protocol": f"{declaration}:PROTOCOL"})
    table = Table.of(options)
    work = pickle.dumps((table, partitions(table)))
    declaration.unlink()
    script = (
        "import pickle, sys\n"
        "from wirelake.spark.reading import rows\n"
        "table, shares = pickle.load(sys.stdin.buffer)\n"
        "print(sorted({b['message'] for s in shares for batch in rows(table, s) for b in batch.to_pylist()}))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], input=work, capture_output=True, check=False)
    assert done.stdout.decode().strip() == "['clear', 'post']", done.stderr.decode()
