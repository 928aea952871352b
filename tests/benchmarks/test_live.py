"""The benchmark of the live side: a small run of it, and how it judges."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from benchmarks import live, live_compare, live_load
from benchmarks.live_load import PAYLOAD, RUNS, Ceda, Echo, Mb


def test_a_small_contest_has_a_figure_for_everything(capsys: pytest.CaptureFixture[str]):
    assert live.main(["--rounds", "1", "--seconds", "0.2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[:16].strip() for line in lines[1:]] == [
        f"{protocol} {live.SHOWN[run]}"
        for protocol in ("echo", *live.LIVE)
        for run in RUNS
        if run not in live.LEFT_OUT.get(protocol, ())
    ]
    assert all(int(line[16:30].replace(",", "")) > 0 for line in lines[1:])


def test_two_hubs_are_compared_in_what_the_load_of_a_protocol_can_do(capsys: pytest.CaptureFixture[str]):
    """Also where a broker lets nobody in by default."""
    checkout = str(Path(__file__).parents[2])
    runs = ("--run", "window-1", "--run", "window-100", "--protocol", "mb", "--protocol", "dsa")
    assert live_compare.main([checkout, "--rounds", "1", "--seconds", "0.2", *runs]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[:16].strip() for line in lines] == ["mb window 1", "mb window 100", "dsa window 1"]


def figures(*rates: float) -> dict[str, list[dict[str, float]]]:
    """One for each round."""
    made = {run: [{"messages": 1.0, "seconds": 1.0, "rate": rate, "core": 20 / rate} for rate in rates] for run in RUNS}
    made["1-10"] = [one | {"deliveries": 10 * one["rate"]} for one in made["1-10"]]
    return made


def test_a_round_is_compared_with_itself():
    """A machine that was busy in one round was so for both."""
    rows = live.judged({"echo": figures(100, 10, 90), "mb": figures(60, 6, 9)})
    assert {row["run"]: row["of_echo"] for row in rows if "of_echo" in row}["window-1"] == 0.6


def test_half_of_the_echo_is_enough_and_less_is_not():
    echo = figures(100)
    del echo["1-10"]
    good = {row["run"]: row for row in live.judged({"echo": echo, "mb": figures(50)}) if row["protocol"] == "mb"}
    assert all(row["passed"] for row in good.values())
    assert (good["1-1"]["of_echo"], good["1-10"]["of_echo"]) == (0.5, 5.0)
    bad = {row["run"]: row["passed"] for row in live.judged({"echo": echo, "mb": figures(49)}) if "passed" in row}
    assert bad == {
        "1-1": False,
        "1-10": True,
        "window-1": False,
        "window-100": True,
        "window-256": True,
        "paced": False,
    }
    shown = live.table(list(live.judged({"echo": echo, "mb": figures(49)})))
    assert shown.count("MISSED") == 3


@pytest.mark.parametrize("protocol", [Mb, Ceda])
def test_what_a_service_answers_has_the_size_that_is_counted(
    protocol: type[live_load.Protocol], monkeypatch: pytest.MonkeyPatch
):
    """Frames of equal size: counting bytes counts messages."""
    monkeypatch.setattr(protocol, "_open", lambda self: None)
    monkeypatch.setattr(protocol, "_subscribe", lambda self, *_: None)
    roles = protocol(0).requests()
    assert roles.answer is not None
    once, twice = roles.answer(roles.frame), roles.answer(roles.frame * 2)
    assert twice == once * 2
    assert len(once) == roles.received_size
    assert PAYLOAD in once
    assert roles.request_size == len(roles.frame)


def test_a_server_that_closes_the_connection_is_not_measured():
    listener = socket.create_server(("127.0.0.1", 0))

    def hang_up() -> None:
        end, _ = listener.accept()
        end.recv(1)
        end.close()

    thread = threading.Thread(target=hang_up)
    thread.start()
    roles = Echo(listener.getsockname()[1]).requests()
    with pytest.raises(ConnectionError):
        live_load.measure_one_by_one(roles, 5)
    roles.sender.close()
    thread.join()
    listener.close()
