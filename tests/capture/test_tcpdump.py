"""What real programs say to each other over real sockets, captured by tcpdump, is decoded message by message."""

from __future__ import annotations

import socket
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.capture.test_tcp import MARKER, received, tcpdump
from tests.needs import require
from wirelake.capture.decode import CaptureDecoder, CaptureRange
from wirelake.capture.settings import ReadSettings
from wirelake.generate import Event, generate
from wirelake.protocols import BUILT_IN


def conversation(protocol: str) -> list[Event]:
    """What the busiest connection carries, in the order of time."""
    events = [item for item in generate(protocol, seed=8, messages=400).timeline() if isinstance(item, Event)]
    (busiest, _), *_ = Counter(event.connection.number for event in events).most_common()
    return [event for event in events if event.connection.number == busiest]


def speak(server: socket.socket, events: list[Event]) -> int:
    """Plays both sides over a connection of its own; gives the client's port."""
    with socket.create_connection(server.getsockname(), timeout=30) as client:
        peer, _ = server.accept()
        with peer:
            peer.settimeout(30)
            for event in events:
                sender, receiver = (client, peer) if event.direction == "to_server" else (peer, client)
                sender.sendall(event.frame)
                assert received(receiver, len(event.frame)) == event.frame
        port: int = client.getsockname()[1]
        return port


@pytest.mark.parametrize("kind", ["detected", "by port"])
def test_what_tcpdump_captures_of_real_sockets_is_decoded(kind: str, tmp_path: Path) -> None:
    require("tcpdump")
    path = tmp_path / "lo.pcap"
    spoken = {}
    protocols = BUILT_IN if kind == "detected" else ("mb",)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        port = server.getsockname()[1]
        with tcpdump(path, port):
            for protocol in protocols:
                events = conversation(protocol)
                spoken[speak(server, events)] = (protocol, events)
            with socket.create_connection(server.getsockname(), timeout=30) as last:
                last.sendall(MARKER)
    machine = CaptureDecoder(ReadSettings(ports={} if kind == "detected" else {port: "mb"}))
    rows = defaultdict(list)
    ports: dict[str, int] = {}
    for seen in [*machine.run(CaptureRange(str(path), path.name)), *machine.finish()]:
        ports.update({one.id: one.client_port for one in seen.chunks.connections})
        for protocol, batches in seen.output.messages.items():
            for row in (row for batch in batches for row in batch.to_pylist()):
                rows[ports[row["connection"]], protocol].append((row["direction"], row["message"], row["length"]))
                assert row["ts"] is not None
        assert not [row for row in seen.output.quarantine.to_pylist() if ports[row["connection"]] in spoken]
    wanted = {
        (client_port, protocol): [
            (event.direction, event.message.__message__["name"], len(event.frame)) for event in events
        ]
        for client_port, (protocol, events) in spoken.items()
    }
    assert {key: sorted(found) for key, found in rows.items()} == {key: sorted(all_) for key, all_ in wanted.items()}
    assert all(len(all_) > 30 for all_ in wanted.values())
