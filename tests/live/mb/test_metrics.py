"""The metrics (section 7.6)."""

from __future__ import annotations

from typing import Any

from tests.live.mb.play import Broker, Peer, R

GAUGES = {
    "connection.active",
    *(f"connection.{what}.total" for what in ("connected", "disconnected", "failed", "rejected")),
    *("router.message.count", "router.message.count.error"),
    *(f"router.publish.count{end}" for end in ("", ".dropped", ".error")),
    *(f"router.request.count{end}" for end in ("", ".dropped", ".error", ".timeout")),
    *(f"router.response.count{end}" for end in ("", ".error")),
    *("registry.count", "process.memory.bytes", "system.memory.bytes"),
}
RATES = {
    *(f"connection.{what}.rate" for what in ("connected", "disconnected", "failed", "rejected")),
    *("router.message.rate", "router.message.rate.error"),
    *(f"router.publish.rate{end}" for end in ("", ".dropped", ".error")),
    *(f"router.request.rate{end}" for end in ("", ".dropped", ".error", ".timeout")),
    *(f"router.response.rate{end}" for end in ("", ".error")),
    *(f"registry.{what}.rate" for what in ("discovery", "registration", "unregistration")),
}
OTHERS = {
    "router.message.size.avg": "average",
    "router.message.size.max": "maximum",
    "process.cpu.percent": "percent",
    "process.memory.percent": "percent",
    "process.uptime": "uptime",
    "system.cpu.percent": "percent",
    "system.memory.percent": "percent",
    "system.uptime": "uptime",
}


def metrics(peer: Peer, **args: Any) -> Any:
    return peer.system("system.metrics", args).json["metrics"]


def probe() -> dict[str, float]:
    return {
        "process.cpu.percent": 0.25,
        "process.memory.bytes": 1000.0,
        "system.uptime": 99.9,
        "system.cpu.{core:0}.percent": 0.5,
        "system.cpu.{core:1}.percent": 1,
    }


def test_the_names_and_types_are_those_that_peers_know() -> None:
    broker = Broker(probe=probe)
    peer = broker.join()
    service = f"registry.service.{{serviceid:{peer.id}}}"
    wanted = {
        **dict.fromkeys(GAUGES, "gauge"),
        **dict.fromkeys(RATES, "rate"),
        **OTHERS,
        f"{service}.uptime": "uptime",
        f"{service}.error.rate": "rate",
        "system.cpu.{core:0}.percent": "percent",
        "system.cpu.{core:1}.percent": "percent",
    }
    shown = metrics(peer, showAll=True)
    assert {name: entry["type"] for name, entry in shown.items()} == wanted
    assert all(entry.keys() == {"name", "type", "timestamp", "value"} for entry in shown.values())
    assert all(entry["name"] == name for name, entry in shown.items())
    assert shown["system.uptime"]["value"] == 99
    plain = metrics(peer)
    assert plain.keys() == wanted.keys()
    assert all(isinstance(value, int | float) for value in plain.values())
    assert plain["process.cpu.percent"] == 0.25


def test_messages_are_counted_by_kind_and_fate() -> None:
    broker = Broker()
    one, two = broker.join(), broker.join()
    one.subscribe("a").subscribe("q", "request")
    two.say("publish:a:1.0.0\n" + "x" * 84, "publish:none:1.0.0\n", "publish:system.x:1.0.0\n", "nonsense")
    two.say("request:none:1.0.0\n", f"request:q:1.0.0:{R}::1\n", f"request:q:1.0.0:{R}\n", "response:x:1.0.0\n")
    _, first, second = one.take()
    broker.pass_time(0.001)
    one.say(f"response:q:1.0.0:{second.rid}\nerror:{{}}", f"response:q:1.0.0:{first.rid}\n")
    one.take()
    shown = metrics(one)
    assert shown["router.message.count"] == 12
    assert shown["router.message.count.error"] == 4
    assert [shown[f"router.publish.count{end}"] for end in ("", ".dropped", ".error")] == [3, 1, 1]
    assert [shown[f"router.request.count{end}"] for end in ("", ".dropped", ".error", ".timeout")] == [6, 0, 1, 1]
    assert [shown[f"router.response.count{end}"] for end in ("", ".error")] == [3, 3]
    assert shown["connection.active"] == shown["registry.count"] == shown["connection.connected.total"] == 2
    assert shown["router.message.size.max"] >= 100


def test_a_rate_is_what_happened_in_the_last_full_second() -> None:
    broker = Broker()
    peer = broker.join().subscribe("a")
    broker.pass_time(1.5)
    peer.ask(*["publish:a:1.0.0\n"] * 7)
    assert metrics(peer)["router.publish.rate"] == 0
    broker.pass_time(1)
    shown = metrics(peer)
    assert (shown["router.publish.rate"], shown["router.request.rate"], shown["router.message.rate"]) == (7, 1, 8)
    broker.pass_time(1)
    assert metrics(peer)["router.publish.rate"] == 0
    broker.pass_time(7)
    assert metrics(peer)["router.message.rate"] == 0


def test_the_average_size_is_that_of_messages_without_framing() -> None:
    broker = Broker()
    peer = broker.join()
    peer.ask("publish:a:1.0.0\n" + "x" * 984)
    size = len(f"request:system.metrics:1.0.0:{R}\n{{}}")
    shown = metrics(peer)
    assert shown["router.message.size.max"] == 1000
    assert shown["router.message.size.avg"] == (1000 + size) / 2


def test_each_service_has_its_own_uptime_and_error_rate() -> None:
    broker = Broker()
    one = broker.join()
    broker.pass_time(2.5)
    two = broker.join()
    one.ask("request:system.nonsense:1.0.0\n", "publish:nobody:1.0.0\n")
    broker.pass_time(1)
    shown = metrics(two)
    first, second = (f"registry.service.{{serviceid:{peer.id}}}" for peer in (one, two))
    assert (shown[f"{first}.uptime"], shown[f"{second}.uptime"]) == (3, 1)
    assert (shown[f"{first}.error.rate"], shown[f"{second}.error.rate"]) == (1, 0)
    one.leave()
    assert f"{first}.uptime" not in metrics(two)


def test_a_filter_keeps_only_what_has_all_its_parameters() -> None:
    broker = Broker(probe=probe)
    one, two = broker.join(), broker.join()
    front = f"registry.service.{{serviceid:{two.id}}}"
    for key in ("serviceId", "serviceid", "SERVICEID"):
        assert metrics(one, paramFilter={key: two.id}).keys() == {f"{front}.uptime", f"{front}.error.rate"}
    assert metrics(one, paramFilter={"core": "1"}) == {"system.cpu.{core:1}.percent": 1}
    assert metrics(one, paramFilter={"nonsense": "1"}) == {}
    assert metrics(one, paramFilter={"core": "1", "serviceId": two.id}) == {}
    assert metrics(one, paramFilter={"core": ["1"]}) == {}
    assert len(metrics(one, paramFilter={})) == 6
    assert metrics(one, paramFilter={"core": "0"}, showAll=True)["system.cpu.{core:0}.percent"]["value"] == 0.5


def test_a_probe_that_fails_is_an_internal_error_and_no_more() -> None:
    def broken() -> dict[str, float]:
        raise OSError("no such file")

    peer = Broker(probe=broken).join()
    assert peer.system("system.metrics", {}).code == "INTERNAL_ERROR"
    assert peer.system("system.heartbeat").code is None
