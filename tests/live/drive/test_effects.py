"""What sessions want of the world, on a real event loop with threads, files and sockets: the durable toy protocol."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.live.toy import Peer, run
from tests.live.toy_durable import LINES, FileStorage, ShelfServer
from tests.waiting import until
from wirelake.live.core.address import Address
from wirelake.live.core.effects import Call, Cancel, Cancelled, Done, Effect, Failed, Result, Store
from wirelake.live.core.session import Session
from wirelake.live.drive import effects as effects_module
from wirelake.live.drive import writer as writer_module
from wirelake.live.drive.effects import THREADS
from wirelake.live.drive.endpoint import Endpoint
from wirelake.live.drive.pipe import LINK
from wirelake.live.drive.server import Server
from wirelake.live.drive.writer import EXIT_STATUS, Writer

PASSWORD = "s3cret"
VARIABLE: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)


def turned(text: str) -> str:
    if text == "bad":
        raise ValueError(text)
    return text[::-1]


def knows(attempt: tuple[str, str]) -> bool:
    return attempt[1] == PASSWORD or attempt[0] == "node"


class GatedStorage(FileStorage):
    """Waits before each batch until the gate is open."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.gate = threading.Event()
        self.gate.set()

    def run(self, requests: Sequence[Any]) -> list[Done | Failed]:
        self.gate.wait(20)
        return super().run(requests)


class Guest(Peer):
    """A connection to a shelf."""

    @classmethod
    async def enter(cls, address: Address, user: str = "ann", password: str = PASSWORD) -> Guest:
        guest = cls(*await asyncio.open_connection(*address, limit=1 << 24))
        guest.say(f"login 0 {user} {password}".encode())
        return guest

    async def ask(self, line: str) -> str:
        self.say(line.encode())
        return (await self.line()).decode()


class Place:
    """A node on a real loop."""

    def __init__(self, server: Server, session: ShelfServer, address: Address, storage: GatedStorage) -> None:
        self.server, self.session, self.address, self.storage = server, session, address, storage

    async def guest(self) -> Guest:
        guest = await Guest.enter(self.address)
        assert await guest.line() == b"welcome 0"
        return guest


@asynccontextmanager
async def shelf(
    path: Path, work: Callable[[str], Any] = turned, authenticate: Callable[[Any], Any] | None = knows, **more: Any
) -> AsyncIterator[Place]:
    storage = GatedStorage(path / "shelf")
    session = ShelfServer(work, **more)
    server = Server("toy", session, LINES)
    writer = server.endpoint.effects.writer = Writer(storage)
    server.endpoint.effects.authenticate = authenticate
    server.endpoint.settle()
    address = await server.listen(("127.0.0.1", 0))
    try:
        yield Place(server, session, address, storage)
    finally:
        storage.gate.set()
        Peer.leave_all()
        await server.close(1.0)
        await writer.close()
        assert session.outstanding == 0


def test_what_is_acknowledged_is_there_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with shelf(tmp_path) as place:
            guest = await place.guest()
            assert await guest.ask("put 1 apple") == "ok 1"
            assert await guest.ask("subscribe 2") == "ok 2"
        async with shelf(tmp_path) as place:
            guest = await place.guest()
            assert place.session.subscribers == {"ann"}
            assert await guest.ask("take 1") == "item 1 apple"

    run(main)


def test_no_reply_comes_before_the_storage_is_done(tmp_path: Path) -> None:
    async def main() -> None:
        async with shelf(tmp_path) as place:
            guest = await place.guest()
            place.storage.gate.clear()
            guest.say(b"put 1 apple", b"work 2 abc")
            assert await guest.line() == b"ok 2 cba"
            assert "apple" not in place.storage.shelf.items
            place.storage.gate.set()
            assert await guest.line() == b"ok 1"

    run(main)


def test_all_that_is_ready_is_stored_at_once_and_replied_to_in_order(tmp_path: Path) -> None:
    async def main() -> None:
        async with shelf(tmp_path) as place:
            guests = [await place.guest() for _ in range(3)]
            place.storage.gate.clear()
            guests[0].say(b"put 1 a")
            await until(lambda: place.session.outstanding == 1)
            for guest in guests:
                guest.say(*[b"put %d x%d" % (n, n) for n in range(2, 12)])
            await until(lambda: place.session.outstanding == 31)
            place.storage.gate.set()
            assert await guests[0].line() == b"ok 1"
            for guest in guests:
                assert [await guest.line() for _ in range(10)] == [b"ok %d" % n for n in range(2, 12)]
            assert place.storage.batches[-1] == 30

    run(main)


class Listed:
    """A storage that does what it is told, and can be held up."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.seen: list[Any] = []

    def run_at_once(self, requests: Sequence[Any]) -> None:
        """Whoever uses it waits in a thread."""

    def run(self, requests: Sequence[Any]) -> list[Done | Failed]:
        self.gate.wait(20)
        self.seen.append(list(requests))
        full = requests.index("full") if "full" in requests else len(requests)
        return [Done(request) if n < full else Failed(OSError(28, "full")) for n, request in enumerate(requests)]

    def close(self) -> None:
        self.seen.append("closed")


def test_stores_complete_in_the_order_of_submission_also_those_that_were_cancelled() -> None:
    async def main() -> None:
        storage, ended = Listed(), list[tuple[Effect, Result]]()
        writer, stores = Writer(storage), [Store(n) for n in range(5)]
        writer.submit(stores[:1], ended.extend)
        await asyncio.sleep(0)
        for store in stores[1:]:
            writer.submit([store], ended.extend)
        await until(lambda: not writer._waiting or len(writer._waiting) == 4)
        for store in (stores[0], stores[2], stores[4]):
            writer.cancel(store)
        storage.gate.set()
        await writer.close()
        results = [result for _, result in ended]
        assert [effect for effect, _ in ended] == stores
        assert results == [Done(0), Done(1), Cancelled(), Done(3), Cancelled()]
        assert storage.seen == [[0], [1, 3], "closed"]

    run(main)


def test_of_a_batch_that_fails_a_beginning_is_done() -> None:
    async def main() -> None:
        storage, ended = Listed(), list[tuple[Effect, Result]]()
        storage.gate.set()
        writer = Writer(storage)
        for request in ("a", "b", "full", "c"):
            writer.submit([Store(request)], ended.extend)
        await writer.close()
        assert [type(result) for _, result in ended] == [Done, Done, Failed, Failed]

    run(main)


def test_one_transaction_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "MOST_AT_ONCE", 10)

    async def main() -> None:
        storage, ended = Listed(), list[tuple[Effect, Result]]()
        storage.gate.set()
        writer = Writer(storage)
        for n in range(25):
            writer.submit([Store(n)], ended.extend)
        await writer.close()
        assert [len(batch) for batch in storage.seen[:-1]] == [10, 10, 5]
        assert [result for _, result in ended] == [Done(n) for n in range(25)]

    run(main)


ENDING = """
import asyncio, logging
from wirelake.live.core.effects import Store
from wirelake.live.drive.writer import Writer

class Broken:
    def run(self, requests):
        {what}
    def close(self):
        pass

async def main():
    logging.basicConfig()
    Writer(Broken()).submit([Store("x")], lambda ended: print("told"))
    await asyncio.sleep(20)

asyncio.run(main())
"""


@pytest.mark.parametrize("what", ["raise OSError(5, 'fsync failed')", "return []"])
def test_a_storage_that_fails_as_a_whole_ends_the_process_and_nobody_is_told(what: str) -> None:
    command = [sys.executable, "-c", ENDING.format(what=what)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    assert ended.returncode == EXIT_STATUS
    assert "the process ends" in ended.stderr and "told" not in ended.stdout


# --- functions


def test_a_function_runs_in_a_thread_and_holds_up_nobody(tmp_path: Path) -> None:
    go_on = threading.Event()

    def slow(text: str) -> str:
        assert go_on.wait(20)
        return threading.current_thread().name.partition("_")[0]

    async def main() -> None:
        async with shelf(tmp_path, slow) as place:
            guest = await place.guest()
            guest.say(b"work 1 x", b"put 2 apple")
            assert await guest.line() == b"ok 2"
            go_on.set()
            assert await guest.line() == b"ok 1 wirelake-call"

    run(main)


def test_a_coroutine_function_runs_on_the_loop_as_does_what_a_plain_one_returns(tmp_path: Path) -> None:
    async def later(text: str) -> str:
        await asyncio.sleep(0)
        return turned(text)

    def indirect(text: str) -> Any:
        return later(text)

    async def main() -> None:
        for number, work in enumerate((later, indirect)):
            (tmp_path / str(number)).mkdir()
            async with shelf(tmp_path / str(number), work) as place:
                guest = await place.guest()
                assert await guest.ask("work 1 abc") == "ok 1 cba"
                assert await guest.ask("work 2 bad") == "failed 2 ValueError"

    run(main)


def test_what_a_function_raises_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        async with shelf(tmp_path) as place:
            guest = await place.guest()
            assert await guest.ask("work 1 bad") == "failed 1 ValueError"

    run(main)


def test_a_coroutine_can_be_cancelled_and_a_function_that_runs_cannot(tmp_path: Path) -> None:
    go_on = threading.Event()

    async def forever(text: str) -> str:
        await asyncio.Event().wait()
        return text

    def slow(text: str) -> str:
        assert go_on.wait(20)
        return text

    async def main() -> None:
        (tmp_path / "1").mkdir()
        async with shelf(tmp_path / "1", forever) as place:
            guest = await place.guest()
            assert await guest.ask("work 1 x\ncancel 2 1") == "failed 1 cancelled"
        async with shelf(tmp_path, slow) as place:
            guest = await place.guest()
            guest.say(*[b"work %d x" % n for n in range(THREADS + 1)], b"cancel 98 0", b"cancel 99 %d" % THREADS)
            assert await guest.line() == b"failed %d cancelled" % THREADS  # it waited for a thread
            go_on.set()
            assert {await guest.line() for _ in range(THREADS)} == {b"ok %d x" % n for n in range(THREADS)}

    run(main)


async def knows_later(attempt: tuple[str, str]) -> bool:
    await asyncio.sleep(0)
    return knows(attempt)


@pytest.mark.parametrize(
    ("authenticate", "good", "bad"),
    [
        (knows, b"welcome 0", b"refused 0"),
        (knows_later, b"welcome 0", b"refused 0"),
        (None, b"refused 0", b"refused 0"),
    ],
)
def test_a_login_is_decided_by_a_function(
    tmp_path: Path, authenticate: Callable[[Any], Any] | None, good: bytes, bad: bytes
) -> None:
    async def main() -> None:
        async with shelf(tmp_path, authenticate=authenticate) as place:
            assert await (await Guest.enter(place.address)).line() == good
            assert await (await Guest.enter(place.address, password="guess")).line() == bad

    run(main)


def test_functions_that_take_long_do_not_hold_up_logins(tmp_path: Path) -> None:
    go_on = threading.Event()

    def slow(text: str) -> str:
        assert go_on.wait(20)
        return text

    async def main() -> None:
        async with shelf(tmp_path, slow) as place:
            guest = await place.guest()
            guest.say(*[b"work %d x" % n for n in range(THREADS)])
            await until(lambda: place.session.outstanding == THREADS)
            await place.guest()
            go_on.set()

    run(main)


# --- connections


def test_a_connection_that_nobody_accepts_fails_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effects_module, "DIAL_SECONDS", 0.01)

    async def never(*_: Any, **__: Any) -> Any:
        await asyncio.Event().wait()

    async def main() -> None:
        async with shelf(tmp_path) as place:
            guest = await place.guest()
            monkeypatch.setattr(place.server.endpoint.loop, "create_connection", never)
            assert await guest.ask("send 1 there pear") == "failed 1 ConnectionFailed"

    run(main)


def test_a_session_calls_another_one_while_it_is_called_itself(tmp_path: Path) -> None:
    places: dict[str, Address] = {}

    async def main() -> None:
        for name in ("here", "there"):
            (tmp_path / name).mkdir()
        async with shelf(tmp_path / "there") as there, shelf(tmp_path / "here", find=places.__getitem__) as here:
            places["there"] = there.address
            guest = await here.guest()
            assert await guest.ask("send 1 there pear") == "ok 1"
            assert "pear" in there.storage.shelf.items
            await until(lambda: len(here.server.endpoint.pipes) == 1)
            assert here.server.connections == here.server.endpoint.accepted == 1

    run(main)


def test_a_connection_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        async with shelf(tmp_path, find=lambda node: ("127.0.0.1", int(node))) as place:
            free = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
            port = free.sockets[0].getsockname()[1]
            free.close()
            await free.wait_closed()
            guest = await place.guest()
            assert await guest.ask(f"send 1 {port} pear") == "failed 1 ConnectionFailed"

    run(main)


# --- links that die, links that want much


def test_an_effect_completes_after_its_link_died_and_what_is_said_then_is_counted(tmp_path: Path) -> None:
    async def main() -> None:
        async with shelf(tmp_path) as place:
            guest = await place.guest()
            place.storage.gate.clear()
            guest.say(b"put 1 apple", b"put 2 pear")
            await until(lambda: place.session.outstanding == 2)
            guest.leave()
            await until(lambda: not place.session.guests)
            assert place.session.counts["sends_dropped"] == 0
            place.storage.gate.set()
            await until(lambda: place.session.outstanding == 0)
            assert set(place.storage.shelf.items) == {"apple", "pear"}
            assert place.session.counts["sends_dropped"] == 2

    run(main)


def test_a_link_with_too_many_effects_is_not_read_from_and_others_are(tmp_path: Path) -> None:
    lines = 20_000

    async def main() -> None:
        async with shelf(tmp_path) as place:
            greedy, modest = await place.guest(), await place.guest()
            place.storage.gate.clear()
            greedy.say(*[b"put %d x%d" % (n, n) for n in range(lines)])
            pipe = min(place.server.endpoint.pipes.values(), key=lambda pipe: pipe.link.number)
            await until(lambda: LINK in pipe.stopped_by)
            outstanding = place.session.outstanding
            assert await modest.ask("work 1 abc") == "ok 1 cba"
            assert place.session.outstanding == outstanding < lines
            place.storage.gate.set()
            assert [await greedy.line() for _ in range(lines)] == [b"ok %d" % n for n in range(lines)]
            assert not pipe.stopped_by and not pipe.link.is_full

    run(main)


# --- the end


def test_at_the_end_stores_are_acknowledged_before_connections_are_closed(tmp_path: Path) -> None:
    async def main() -> None:
        async with shelf(tmp_path) as place:
            guest = await place.guest()
            place.storage.gate.clear()
            guest.say(b"put 1 apple")
            await until(lambda: place.session.outstanding == 1)
            closing = asyncio.create_task(place.server.close(10.0))
            await asyncio.sleep(0)
            place.storage.gate.set()
            assert await guest.line() == b"ok 1"
            guest.leave()
            await closing

    run(main)


def test_at_the_end_what_takes_too_long_is_cancelled_and_told(tmp_path: Path) -> None:
    go_on = threading.Event()
    ended: list[str] = []

    def slow(text: str) -> str:
        assert go_on.wait(20)
        return text

    async def forever(text: str) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(text)
        return text

    async def main() -> None:
        for name, work in (("slow", slow), ("forever", forever)):
            (tmp_path / name).mkdir()
            async with shelf(tmp_path / name, work) as place:
                guest = await place.guest()
                guest.say(b"work 1 x", b"work 2 y")
                await until(lambda place=place: place.session.outstanding == 2)  # type: ignore[misc]
                await place.server.close(0.05)
                assert place.session.outstanding == 0
        go_on.set()
        assert sorted(ended) == ["x", "y"]

    run(main)


# --- coroutines


class Running(Session):
    """Coroutines that a session wants to be called, and how they ended, in that order."""

    def __init__(self) -> None:
        super().__init__()
        self.ended: list[tuple[Effect, Result]] = []
        self.started: list[Effect] = []
        self._endpoint = Endpoint(self, LINES)

    def start(self, function: Callable[[object], Any]) -> Effect:
        self.started.append(self._wanted(Call(function, None)))
        return self.started[-1]

    def cancel(self, effect: Effect) -> None:
        self._wanted(Cancel(effect))

    def _wanted(self, effect: Effect) -> Effect:
        self.want(effect)
        self._endpoint.settle()
        return effect

    def completed(self, effect: Effect, result: Result, now: float) -> None:
        super().completed(effect, result, now)
        self.ended.append((effect, result))

    async def results(self, count: int) -> list[Result]:
        await until(lambda: len(self.ended) >= count)
        return [result for _, result in self.ended]


def running(test: Callable[[Running], Awaitable[None]]) -> None:
    async def inside() -> None:
        await test(Running())

    asyncio.run(inside())


def test_coroutines_that_do_not_wait_share_a_task_and_end_in_their_order() -> None:
    async def test(play: Running) -> None:
        async def one(number: object) -> Any:
            return number, id(asyncio.current_task())

        for _ in range(10):
            play.start(one)
        results = await play.results(10)
        assert len(set(results)) == 1 and isinstance(results[0], Done)
        assert [effect for effect, _ in play.ended] == play.started

    running(test)


def test_a_coroutine_that_waits_keeps_nobody_from_running_and_is_alone_in_its_task() -> None:
    async def test(play: Running) -> None:
        go_on = asyncio.Event()

        async def waits(_: object) -> Any:
            before = asyncio.current_task()
            await go_on.wait()
            assert asyncio.current_task() is before
            return id(before)

        async def quick(_: object) -> str:
            return "quick"

        effects = [play.start(function) for function in (waits, quick, waits, quick)]
        assert await play.results(2) == [Done("quick")] * 2
        go_on.set()
        await play.results(4)
        ended = dict(play.ended)
        assert ended[effects[0]] != ended[effects[2]], "two tasks"

    running(test)


def test_an_error_of_a_coroutine_is_its_own() -> None:
    async def test(play: Running) -> None:
        error = ValueError("no")

        async def fails(_: object) -> None:
            raise error

        async def fine(_: object) -> int:
            return 1

        for function in (fine, fails, fine):
            play.start(function)
        assert await play.results(3) == [Done(1), Failed(error), Done(1)]

    running(test)


def test_each_coroutine_has_a_context_of_its_own() -> None:
    async def test(play: Running) -> None:
        async def sets(_: object) -> int:
            VARIABLE.set(VARIABLE.get() + 1)
            await asyncio.sleep(0)
            VARIABLE.set(VARIABLE.get() + 1)
            return VARIABLE.get()

        for _ in range(3):
            play.start(sets)
        assert await play.results(3) == [Done(2)] * 3 and VARIABLE.get() == 0

    running(test)


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_coroutine_is_taken_back_and_no_other(has_begun: bool) -> None:
    async def test(play: Running) -> None:
        begun = asyncio.Event()

        async def waits(_: object) -> None:
            begun.set()
            await asyncio.Event().wait()

        async def later(_: object) -> str:
            await asyncio.sleep(0)
            return "later"

        effects = [play.start(waits), play.start(later)]
        if has_begun:
            await begun.wait()
        play.cancel(effects[0])
        await play.results(2)
        assert dict(play.ended) == {effects[0]: Cancelled(), effects[1]: Done("later")}

    running(test)


def test_a_cancel_of_a_coroutine_that_comes_too_late_does_not_reach_the_next() -> None:
    async def test(play: Running) -> None:
        effects: list[Effect] = []

        async def takes_itself_back(_: object) -> int:
            play.cancel(effects[0])
            return 1

        async def next_one(_: object) -> int:
            await asyncio.sleep(0)
            return 2

        effects += [play.start(takes_itself_back), play.start(next_one)]
        assert await play.results(2) == [Done(1), Done(2)]

    running(test)


def test_timeouts_inside_coroutines_work() -> None:
    async def test(play: Running) -> None:
        async def waits(_: object) -> str:
            try:
                async with asyncio.timeout(0.01):
                    await asyncio.Event().wait()
            except TimeoutError:
                return "too long"
            return "never"

        async def after(_: object) -> int:
            await asyncio.sleep(0)
            return 1

        for function in (waits, after, waits):
            play.start(function)
        results = await play.results(3)
        assert results.count(Done("too long")) == 2 and results.count(Done(1)) == 1

    running(test)
