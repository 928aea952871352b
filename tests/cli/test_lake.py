"""lake: what operations teams ask of a lake."""

from __future__ import annotations

from pathlib import Path

from tests.cli.invoked import objects, run
from tests.lake.lakes import stage
from tests.report.made import account, message, write
from wirelake.lake import Input, Lake


def test_status_shows_tables_sensors_and_the_last_commit(tmp_path: Path) -> None:
    place = tmp_path / "lake"
    write(place, {"silver/messages": [message(0), message(10)], "accounting": [account(2)]})
    lake = Lake.open(place)
    with lake.writing() as writer:
        capture = Input("/captures/a.pcap", 100, 1, "h", 4, position=100, kind="pcap", first_us=5, sensor="s1")
        writer.commit(inputs=[capture], labels={"watermark_us": {"s1": 1_700_000_000_000_000}})
    result = run("lake", "status", str(place))
    assert result.exit_code == 0, result.output
    (found,) = objects(result)
    assert (found["commit"], found["rows"], found["captures"], found["open"]) == (2, 3, 1, {})
    assert found["tables"]["silver/messages"]["rows"] == 2
    sensor = found["sensors"]["s1"]
    assert (sensor["capture"], sensor["position"]) == ("/captures/a.pcap", 100)
    assert sensor["until"] == "2023-11-14T22:13:20.000+00:00" and sensor["lag_seconds"] > 0
    assert "silver/messages" in result.stderr and "sensor s1: 1 captures, read to 2023-11-14" in result.stderr
    assert run("lake", "status", str(place), "--quiet").stderr == ""
    (before,) = objects(run("lake", "status", str(place), "--as-of", "1"))
    assert (before["commit"], before["captures"]) == (1, 0)


def test_files_prints_the_exact_list_of_a_snapshot(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path)
    with lake.writing() as writer:
        writer.commit(stage(writer, "gold/open", 1))
        writer.commit(stage(writer, "gold/open", 2), removed=lake.files("gold/open"))
    now = run("lake", "files", str(tmp_path), "gold/open").stdout.splitlines()
    then = run("lake", "files", str(tmp_path), "gold/open", "--as-of", "1").stdout.splitlines()
    assert [Path(path).name for path in now] == ["part-00000002-00000-0.parquet"]
    assert [Path(path).name for path in then] == ["part-00000001-00000-0.parquet"]
    assert all(Path(path).is_file() for path in (*now, *then))
    assert run("lake", "files", str(tmp_path), "gold/exchanges").stdout == ""


def test_what_cannot_be_shown_is_one_line(tmp_path: Path) -> None:
    missing = run("lake", "status", str(tmp_path / "none"))
    assert missing.exit_code == 1 and "there is no lake" in missing.stderr
    Lake.open(tmp_path / "lake")
    assert run("lake", "files", str(tmp_path / "lake"), "../x").exit_code == 2
    wrong = run("lake", "files", str(tmp_path / "lake"), "gold/open", "--as-of", "noon")
    assert wrong.exit_code == 2 and "'noon' is neither the number of a commit nor a time" in wrong.stderr
    early = run("lake", "files", str(tmp_path / "lake"), "gold/open", "--as-of", "1")
    assert early.exit_code == 1 and "has no commit yet" in early.stderr
