"""Sessions on real sockets: one write per read, slow readers, ends of connections, mistakes."""

from __future__ import annotations

import asyncio
import logging

import pytest

from tests.live.faults import FaultyNetwork
from tests.live.toy import SECONDS, Peer, ToyServer, deaf_socket, run, serving
from tests.waiting import until
from wirelake.live.core.link import Link
from wirelake.live.drive import endpoint as endpoint_module
from wirelake.live.drive import pipe as pipe_module
from wirelake.live.drive.endpoint import TO_CLIENT, TO_SERVER, Address, Limits
from wirelake.live.drive.pipe import FIRST_SLICE, HIGH_WATER, LEAST_SLICE, REST, Pipe


def test_what_is_asked_is_answered() -> None:
    async def main() -> None:
        async with serving(ToyServer()) as (server, address):
            peer = await Peer.to(address)
            peer.say(b"echo one", b"echo two")
            assert [await peer.line(), await peer.line()] == [b"one", b"two"]
            peer.leave()
            await until(lambda: not server.endpoint.pipes)
            assert server.endpoint.accepted == 1
            assert (server.endpoint.received, server.endpoint.sent) == (18, 14)

    run(main)


def test_all_lines_of_one_read_are_one_call_and_one_write_per_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[int] = []
    put = Pipe._put

    def counted(pipe: Pipe, data: bytes) -> None:
        writes.append(pipe.link.number)
        put(pipe, data)

    monkeypatch.setattr(Pipe, "_put", counted)

    async def main() -> None:
        session = ToyServer()
        async with serving(session) as (_server, address):
            one, two = await Peer.to(address), await Peer.to(address)
            writes.clear()
            session.calls = 0
            one.say(*[b"all %d" % n for n in range(500)])
            for peer in (one, two):
                assert [int(await peer.line()) for _ in range(500)] == list(range(500))
            assert session.calls == 1
            assert sorted(writes) == [1, 2]

    run(main)


def test_bytes_may_come_one_at_a_time_and_late() -> None:
    async def main() -> None:
        session = ToyServer()
        async with serving(session) as (_server, address):
            async with FaultyNetwork(address, seed=3, longest=2, most_delay=0.001) as network:
                peer = await Peer.to(network.address)
                peer.say(*[b"echo %d" % n for n in range(50)])
                assert [int(await peer.line()) for _ in range(50)] == list(range(50))
            assert session.calls > 100

    run(main)


def test_connections_that_are_cut_are_forgotten() -> None:
    async def main() -> None:
        session = ToyServer()
        async with serving(session) as (server, address):
            async with FaultyNetwork(address, seed=5, longest=10, cut_after=100) as network:
                for _ in range(5):
                    peer = await Peer.to(network.address)
                    peer.say(*[b"echo %d" % n for n in range(50)])
                    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                        while True:
                            await peer.line()
                assert network.cuts == 5
            await until(lambda: not session.links and not server.endpoint.pipes)

    run(main)


def test_time_passes_for_the_session() -> None:
    async def main() -> None:
        async with serving(ToyServer()) as (_server, address):
            peer = await Peer.to(address)
            peer.say(b"later 0.15 b", b"later 0.05 a", b"echo now")
            assert [await peer.line() for _ in range(3)] == [b"now", b"a", b"b"]

    run(main)


def test_expensive_bytes_are_handled_in_smaller_slices_and_cheap_ones_in_larger_slices_again() -> None:
    async def main() -> None:
        async with serving(ToyServer()) as (server, address):
            peer, other = await Peer.to(address), await Peer.to(address)
            pipe, _ = server.endpoint.pipes.values()
            assert pipe.slice == FIRST_SLICE
            work = b"work 0.0005" + b" " * 240
            peer.say(*[work] * 800, b"echo done")
            await until(lambda: pipe.slice == LEAST_SLICE)
            other.say(b"echo between")
            assert await other.line() == b"between"
            assert server.session.counts["lines"] < 800, "others wait for a part of it, not for all of it"
            assert await peer.line() == b"done"
            peer.say(*[b"x" * 4_000] * 2_000)
            await until(lambda: pipe.slice > FIRST_SLICE)

    run(main)


def test_a_turn_ends_when_much_is_to_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """To write a message to many takes longer than to handle it."""
    monkeypatch.setattr(endpoint_module, "TURN_SECONDS", SECONDS)

    async def main() -> None:
        async with serving(ToyServer()) as (server, address):
            peers = [await Peer.to(address) for _ in range(40)]
            pipe = next(iter(server.endpoint.pipes.values()))
            lines = [b"all " + b"%02d" % n + bytes(16_000) for n in range(12)]
            server.endpoint.take(pipe, b"\n".join(lines) + b"\n")
            assert 0 < server.session.counts["lines"] < len(lines) and pipe.rest
            for peer in peers:
                assert [(await peer.line())[:2] for _ in lines] == [b"%02d" % n for n in range(12)]

    run(main)


def test_what_waits_for_its_turn_is_handled_when_the_peer_has_closed_or_others_hold_it_up() -> None:
    async def main() -> None:
        session = ToyServer()
        async with serving(session, limits=Limits(slow_reader="slow")) as (server, address):
            peer = await Peer.to(address)
            pipe = next(iter(server.endpoint.pipes.values()))
            peer.say(*[b"work 0.001" + b" " * 300] * 300, b"echo done")
            peer.writer.write_eof()
            await until(lambda: pipe.rest)
            pipe.stop("test")
            waiting = session.counts["lines"]
            for _ in range(20):
                await asyncio.sleep(0)
            assert session.counts["lines"] == waiting < 300
            pipe.go("test")
            assert await peer.line() == b"done"
            assert await peer.reader.read() == b""

    run(main)


def test_a_session_may_say_goodbye_before_its_links_are_closed() -> None:
    class Polite(ToyServer):
        def leaving(self, now: float) -> None:
            for link in self.links.values():
                link.say(b"goodbye")

    async def main() -> None:
        async with serving(Polite()) as (server, address):
            peer = await Peer.to(address)
            await server.close(1.0)
            assert await peer.line() == b"goodbye"

    run(main)


# --- slow readers


def test_a_reader_that_does_not_read_is_dropped_and_others_are_not_held_up() -> None:
    async def main() -> None:
        session = ToyServer(max_unsent=2 << 20)
        async with serving(session) as (server, address):
            deaf = deaf_socket(address)
            sender, listener = await Peer.to(address), await Peer.to(address)
            await until(lambda: len(session.links) == 3)
            most = 0
            line = b"all " + b"x" * 9_999
            for _ in range(100):
                sender.say(*[line] * 10)
                for peer in (sender, listener):
                    for _ in range(10):
                        await peer.line()
                most = max(most, server.endpoint.unsent)
                if session.counts["too_slow"]:
                    break
            assert session.counts["too_slow"] == 1
            assert HIGH_WATER < most <= (2 << 20) + HIGH_WATER
            await until(lambda: len(session.links) == 2)
            assert server.endpoint.unsent == 0 and server.endpoint.slow == 0
            deaf.close()

    run(main)


def test_messages_that_wait_for_many_slow_readers_are_kept_once() -> None:
    async def main() -> None:
        session = ToyServer(max_unsent=64 << 20)
        async with serving(session) as (server, address):
            deaf = [deaf_socket(address) for _ in range(5)]
            sender = await Peer.to(address)
            await until(lambda: len(session.links) == 6)
            for _ in range(1_500):
                sender.say(b"all " + b"y" * 9_999)
                await sender.line()
            slow = [pipe for pipe in server.endpoint.pipes.values() if pipe.is_paused]
            assert len(slow) == 5
            last = {id(pipe._queue[-1]) for pipe in slow}
            assert len(last) == 1
            for one in deaf:
                one.close()

    run(main)


def test_a_slow_reader_gets_everything_in_order_when_it_reads_at_last() -> None:
    async def main() -> None:
        session = ToyServer(max_unsent=64 << 20)
        async with serving(session) as (server, address):
            deaf = deaf_socket(address)
            sender = await Peer.to(address)
            await until(lambda: len(session.links) == 2)
            for n in range(1_500):
                sender.say(b"all %d " % n + b"z" * 9_999)
                await sender.line()
            assert server.endpoint.slow == 1
            deaf.setblocking(False)
            late = Peer(*await asyncio.open_connection(sock=deaf, limit=1 << 20))
            assert await late.line() == b"hello"
            for n in range(1_500):
                assert (await late.line()).startswith(b"%d " % n)
            await until(lambda: server.endpoint.slow == 0)
            assert server.endpoint.unsent == 0

    run(main)


def test_with_the_policy_slow_senders_wait_for_slow_readers() -> None:
    async def main() -> None:
        session = ToyServer()
        async with serving(session, limits=Limits(slow_reader="slow", stall_seconds=SECONDS)) as (server, address):
            deaf = deaf_socket(address)
            sender = await Peer.to(address)
            await until(lambda: len(session.links) == 2)
            lines = 3_000
            sender.say(*[b"all " + b"x" * 9_999] * lines)

            async def take() -> None:
                for _ in range(lines):
                    await sender.line()

            taking = asyncio.create_task(take())
            await until(lambda: any(pipe.stopped_by - {REST} for pipe in server.endpoint.pipes.values()))
            handled = session.counts["lines"]
            await asyncio.sleep(0.1)
            assert session.counts["lines"] == handled < lines
            assert server.endpoint.unsent < 4 * HIGH_WATER
            deaf.setblocking(False)
            late = Peer(*await asyncio.open_connection(sock=deaf, limit=1 << 20))
            for _ in range(lines + 1):
                await late.line()
            await taking
            assert session.counts["lines"] == lines
            assert session.counts["too_slow"] == 0

    run(main)


def test_with_the_policy_slow_a_reader_that_stalls_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "WATCH_SECONDS", 0.05)

    async def main() -> None:
        session = ToyServer()
        async with serving(session, limits=Limits(slow_reader="slow", stall_seconds=0.3)) as (server, address):
            deaf = deaf_socket(address)
            sender = await Peer.to(address)
            await until(lambda: len(session.links) == 2)
            lines = 2_000
            sender.say(*[b"all " + b"x" * 9_999] * lines)
            for _ in range(lines):
                await sender.line()
            assert len(session.links) == 1
            assert server.endpoint.stalled == 1
            deaf.close()

    run(main)


def test_with_the_policy_slow_who_does_not_take_its_own_answers_is_not_read_from() -> None:
    async def main() -> None:
        session = ToyServer(max_unsent=1 << 30)
        async with serving(session, limits=Limits(slow_reader="slow", stall_seconds=SECONDS)) as (server, address):
            deaf = deaf_socket(address)
            deaf.setblocking(False)
            loop = asyncio.get_running_loop()
            sending = asyncio.create_task(loop.sock_sendall(deaf, b"say 100000\n" * 1_000))
            await until(lambda: server.endpoint.slow == 1)
            pipe = next(iter(server.endpoint.pipes.values()))
            await until(lambda: pipe in pipe.holds)
            await sending
            deaf.close()
            await until(lambda: True)

    run(main)


# --- ends


def test_a_peer_that_says_no_more_still_gets_its_answers() -> None:
    async def main() -> None:
        session = ToyServer()
        async with serving(session) as (_server, address):
            peer = await Peer.to(address)
            peer.say(b"say 3000000", b"echo last")
            peer.writer.write_eof()
            await asyncio.sleep(0.05)
            assert len(await peer.line()) == 3_000_000
            assert await peer.line() == b"last"
            assert await peer.reader.read() == b""
            await until(lambda: not session.links)

    run(main)


def test_what_is_said_before_a_close_arrives_although_the_peer_still_sends() -> None:
    async def main() -> None:
        async with serving(ToyServer()) as (_server, address):
            peer = await Peer.to(address)
            peer.say(b"echo before", b"close enough")
            for _ in range(50):
                peer.say(b"echo after" * 100)
            await peer.writer.drain()
            assert await peer.line() == b"before"
            assert await peer.reader.read() == b""

    run(main)


def test_a_peer_that_takes_nothing_more_is_cut_off_when_it_is_to_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipe_module, "LINGER_SECONDS", 0.1)

    async def main() -> None:
        session = ToyServer()
        async with serving(session) as (server, address):
            deaf = deaf_socket(address)
            deaf.sendall(b"say 5000000\nclose now\n")
            await until(lambda: server.endpoint.accepted == 1 and not session.links)
            deaf.close()

    run(main)


def test_a_peer_that_does_not_answer_a_close_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipe_module, "LINGER_SECONDS", 0.1)

    async def main() -> None:
        session = ToyServer()
        async with serving(session) as (_server, address):
            peer = await Peer.to(address)
            peer.say(b"close now")
            await until(lambda: not session.links)

    run(main)


def test_a_shutdown_lets_everybody_take_what_was_said() -> None:
    async def main() -> None:
        async with serving(ToyServer()) as (server, address):
            peers = [await Peer.to(address) for _ in range(10)]
            for peer in peers:
                peer.say(b"say 2000000", b"echo end")
            await until(lambda: server.session.counts["lines"] == 20)
            closing = asyncio.create_task(server.close(10.0))
            for peer in peers:
                assert len(await peer.line()) == 2_000_000
                assert await peer.line() == b"end"
                assert await peer.reader.read() == b""
                peer.leave()
            await closing
            assert not server.endpoint.pipes
            with pytest.raises(OSError):
                await asyncio.open_connection(*address)

    run(main)


def test_a_shutdown_does_not_wait_for_who_never_reads() -> None:
    async def main() -> None:
        async with serving(ToyServer()) as (server, address):
            deaf = deaf_socket(address)
            deaf.sendall(b"say 5000000\n")
            await until(lambda: server.endpoint.slow == 1)
            start = asyncio.get_running_loop().time()
            await server.close(0.3)
            assert asyncio.get_running_loop().time() - start < 3
            assert not server.endpoint.pipes
            deaf.close()

    run(main)


# --- trouble


def test_a_mistake_of_ours_costs_one_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        session = ToyServer()
        async with serving(session) as (server, address):
            one, two = await Peer.to(address), await Peer.to(address)
            one.say(b"all first", b"break")
            assert await one.reader.read() in (b"", b"first\n")
            assert await two.line() == b"first"
            two.say(b"echo still here")
            assert await two.line() == b"still here"
            assert server.endpoint.errors == 1

    run(main)
    assert "ZeroDivisionError" in caplog.text


def test_what_a_session_notes_is_logged_but_a_flood_of_it_is_not(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with serving(ToyServer()) as (_server, address):
            peer = await Peer.to(address)
            peer.say(*[b"note this is odd"] * 5_000, b"echo done")
            assert await peer.line() == b"done"

    with caplog.at_level(logging.INFO, "wirelake.live"):
        run(main)
    records = [record for record in caplog.records if record.message == "this is odd"]
    assert 1 <= len(records) <= 3 * endpoint_module.NOTES_PER_SECOND
    fields = records[0].fields  # type: ignore[attr-defined]
    assert fields["protocol"] == "toy" and fields["peer"].startswith("127.0.0.1:")


class Kept:
    """A recorder in memory."""

    def __init__(self) -> None:
        self.streams: dict[tuple[int, int], bytes] = {}
        self.ends: dict[int, str] = {}
        self.opens: list[tuple[Address, Address, str | None]] = []

    def opened(self, client: Address, server: Address, protocol: str | None = None) -> int:
        self.opens.append((client, server, protocol))
        return len(self.opens) - 1

    def data(self, connection: int, direction: int, data: bytes) -> None:
        self.streams[connection, direction] = self.streams.get((connection, direction), b"") + data

    def closed(self, connection: int, how: str = "closed") -> None:
        self.ends[connection] = how


def test_a_recorder_gets_what_passes() -> None:
    kept = Kept()

    async def main() -> None:
        async with serving(ToyServer(), recorder=kept) as (server, address):
            peer = await Peer.to(address)
            ours = peer.writer.get_extra_info("sockname")
            peer.say(b"echo one", b"say 2000000")
            await peer.line()
            await peer.line()
            peer.leave()
            await until(lambda: not server.endpoint.pipes)
            assert kept.opens == [(ours, address, "toy")]

    run(main)
    assert kept.streams[0, TO_SERVER] == b"echo one\nsay 2000000\n"
    assert kept.streams[0, TO_CLIENT] == b"hello\none\n" + b"x" * 2_000_000 + b"\n"
    assert kept.ends == {0: "closed"}


class PatientServer(ToyServer):
    """``give N`` gives N long lines, each made when the connection has room for it."""

    def __init__(self) -> None:
        super().__init__()
        self.left: dict[Link, list[int]] = {}
        self.most_unsent = 0

    def _line(self, link: Link, line: bytes, now: float) -> None:
        self.left[link] = list(range(int(line.partition(b" ")[2])))
        self.writable(link, now)

    def writable(self, link: Link, now: float) -> None:
        left = self.left[link]
        while left and link.has_room:
            link.say(b"%d " % left.pop(0) + b"z" * 9_990)
            self.most_unsent = max(self.most_unsent, link.unsent)
        if left:
            link.ask_room()


@pytest.mark.parametrize("is_deaf", [False, True])
def test_a_session_that_holds_back_is_called_when_a_connection_has_room(is_deaf: bool) -> None:
    async def main() -> None:
        session = PatientServer()
        async with serving(session) as (_, address):
            if is_deaf:
                slow = deaf_socket(address)
                slow.sendall(b"give 1500\n")
                await until(lambda: session.left)
                assert len(next(iter(session.left.values()))) > 500
                slow.setblocking(False)
                peer = Peer(*await asyncio.open_connection(sock=slow, limit=1 << 20))
                assert await peer.line() == b"hello"
            else:
                peer = await Peer.to(address)
                peer.say(b"give 1500")
            for number in range(1_500):
                assert (await peer.line()).startswith(b"%d " % number)
            assert session.most_unsent <= HIGH_WATER + 10_000

    run(main)
