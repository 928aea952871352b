"""casual: a bank with a ledger, two domains that share transactions.

Tellers look up balances and transfer money: each transfer books on an account of the bank and enqueues an entry for the
ledger, in one transaction of both domains. Transfers to blocked accounts are rolled back. The fraud check is slow, and
slower for a while. One statement can never be printed: it ends in the error queue. A teller disappears after both
domains have promised to commit. Some clients break the rules.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

from ...codec import encode
from ...live import AnswerError, RequestTimeout
from ...live.casual import Domain, Reply
from ...live.casual.api import CasualClient, ConversationEnd, RolledBack, ServiceFailed, connect
from ...live.hub.hub import Hub, read_settings
from ...protocols.casual import messages
from ..stage import Crowd, RawConnection, Scene, Stage, raw_connection, slowness

TELLERS = ("north", "south", "online")
ACCOUNTS = 40
BLOCKED_EVERY = 7
"""Every Nth transfer goes to a blocked account and is rolled back."""
BOOKINGS, ENTRIES, STATEMENTS = "bookings", "ledger.entries", "statements"
TRANSFER_MESSAGES, BALANCE_MESSAGES, PRINT_MESSAGES = 10.0, 2.0, 8.0
"""Messages on the wire for each."""
LARGEST = 900
"""Larger transfers fail: the account does not have so much."""
CHECK_SECONDS = 0.4
"""How long tellers wait for the fraud check."""
UNPRINTABLE = {"account": 13, "text": None}
PRINT_TRIES = 3
XID_FORMAT = 4711

domain = Domain()
"""The services of the bank, which the hub serves."""
_stages: list[Stage] = []


@domain.service("account.balance", transaction="none")
async def balance(asked: dict[str, Any]) -> Any:
    await _stages[-1].take_time(3)
    if asked["account"] >= ACCOUNTS:
        return Reply({"error": "no such account"}, code=404, failed=True)
    return {"account": asked["account"], "balance": 100 * asked["account"]}


@domain.service("account.book", transaction="join")
async def book(asked: dict[str, Any]) -> Any:
    """Book in the caller's transaction: what is enqueued here is there if that commits."""
    await _stages[-1].take_time(4)
    if asked["amount"] > LARGEST:
        return Reply({"error": "insufficient funds"}, code=402, failed=True)
    await domain.enqueue(BOOKINGS, asked)
    return {"booked": asked["amount"]}


@domain.service("fraud.check", transaction="none")
async def check(asked: dict[str, Any]) -> dict[str, Any]:
    stage = _stages[-1]
    await stage.take_time(15 * slowness(stage.at), 0.3)
    return {"suspicious": asked["amount"] % 97 == 0}


@domain.conversational("account.history")
async def history(talk: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """Send the bookings of an account one by one."""
    for number in range(asked["most"]):
        await talk.send({"booking": number, "amount": 10 * number})
    return {"bookings": asked["most"]}


class Bank:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.ledger = ""
        self.tellers: list[CasualClient] = []

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Bank]:
        """Serve the ledger, and connect all tellers to both domains."""
        async with AsyncExitStack() as stack:
            _stages.append(self.stage)
            stack.callback(_stages.remove, self.stage)
            tables = {"casual": {"name": "ledger", "tcp": "127.0.0.1:0", "queues": [{"name": ENTRIES}]}}
            ledger = await stack.enter_async_context(Hub(read_settings(tables, "demo", Path())))
            url = await self.stage.tap(ledger.listening["casual"])
            self.ledger = url.partition("://")[2]
            for name in TELLERS:
                opening = connect(self.stage.url, name=f"teller-{name}", peers=[url], reconnect=False)
                self.tellers.append(await stack.enter_async_context(opening))
            yield self


async def play(stage: Stage) -> None:
    async with Bank(stage).open() as bank, asyncio.TaskGroup() as group:
        crowd = Crowd(group)
        group.create_task(_transfers(bank, crowd))
        group.create_task(_balances(bank, crowd))
        group.create_task(_statements(bank))
        group.create_task(_histories(bank))
        group.create_task(_disappear(bank))


async def _transfers(bank: Bank, crowd: Crowd) -> None:
    chance = bank.stage.chance("transfers")
    count = max(2 * BLOCKED_EVERY, round(0.6 * bank.stage.messages / TRANSFER_MESSAGES))
    async for number in bank.stage.beats(count, chance):
        transfer = {"from": chance.randrange(ACCOUNTS), "to": chance.randrange(ACCOUNTS)}
        transfer["amount"] = chance.randint(1, 1000)
        await crowd.add(_transfer(bank, chance.choice(bank.tellers), transfer, number % BLOCKED_EVERY == 4))


async def _transfer(bank: Bank, teller: CasualClient, transfer: dict[str, int], is_blocked: bool) -> None:
    if transfer["amount"] % 3 == 0:
        with suppress(RequestTimeout):
            await teller.call("fraud.check", transfer, timeout=CHECK_SECONDS)
    with suppress(ServiceFailed, RolledBack, _Blocked):
        async with teller.transaction():
            await teller.call("account.book", transfer, timeout=5)
            await teller.enqueue(ENTRIES, transfer, peer=bank.ledger)
            if is_blocked:
                raise _Blocked


class _Blocked(Exception):
    """The transfer goes to a blocked account."""


async def _balances(bank: Bank, crowd: Crowd) -> None:
    chance = bank.stage.chance("balances")
    async for number in bank.stage.beats(round(0.3 * bank.stage.messages / BALANCE_MESSAGES), chance):
        account = chance.randrange(ACCOUNTS + 2)
        service = "account.close" if number % 40 == 20 else "account.balance"
        await crowd.add(_ask(chance.choice(bank.tellers), service, {"account": account}))


async def _ask(teller: CasualClient, service: str, value: dict[str, Any]) -> None:
    """Call, and ignore how it ends."""
    with suppress(AnswerError, ServiceFailed, RequestTimeout):
        await teller.call(service, value, timeout=2)


async def _statements(bank: Bank) -> None:
    """Enqueue statements and print them, each in a transaction; the one that cannot be printed is rolled back until the
    queue sets it aside.
    """
    chance = bank.stage.chance("statements")
    teller, printer = bank.tellers[0], bank.tellers[1]
    await teller.enqueue(STATEMENTS, UNPRINTABLE)
    async for number in bank.stage.beats(
        max(PRINT_TRIES + 1, round(0.1 * bank.stage.messages / PRINT_MESSAGES)), chance
    ):
        await teller.enqueue(STATEMENTS, {"account": number, "text": "as of today"}, properties=f"account={number}")
        with suppress(_Blocked):
            async with printer.transaction():
                statement = await printer.dequeue(STATEMENTS)
                if statement is not None and statement.value["text"] is None:
                    raise _Blocked


async def _histories(bank: Bank) -> None:
    for at in (0.3, 0.7):
        await bank.stage.until(at)
        async with await bank.tellers[2].conversation(
            "account.history", {"account": 7, "most": 5}, receive=True
        ) as talk:
            with suppress(ConversationEnd):
                while True:
                    await talk.receive()


async def _disappear(bank: Bank) -> None:
    """A coordinator dies after the bank has promised to commit: the transaction stays in doubt."""
    chance = bank.stage.chance("doubt")
    await bank.stage.until(0.5)
    async with raw_connection(bank.stage) as connection:
        await _agree(chance, connection, "teller-lost")
        xid = messages.Xid(XID_FORMAT, chance.randbytes(16), chance.randbytes(16))
        entry = messages.Enqueued(bytes(16), "", "", 0, ".json/", b'{"amount":250}')
        await _say(connection, messages.QueueEnqueueRequest(**_ids(chance), name=BOOKINGS, xid=xid, message=entry))
        await _say(
            connection,
            messages.ResourcePrepareRequest(**_ids(chance), xid=xid, resource=messages.Resource(-1), flags=0),
        )


def _ids(chance: Random) -> dict[str, bytes]:
    return {"correlation": chance.randbytes(16), "execution": chance.randbytes(16)}


async def _say(connection: RawConnection, message: messages.CasualMessage) -> None:
    await connection.send(encode(message))
    await connection.receive()


async def _agree(chance: Random, connection: RawConnection, name: str) -> None:
    us = messages.Domain(chance.randbytes(16), name)
    await _say(connection, messages.DomainConnectRequest(**_ids(chance), domain=us, protocol=messages.Offer((1000,))))


async def break_rules(stage: Stage) -> None:
    chance = stage.chance("misdeeds")
    for at, misdeed in ((0.18, _too_early), (0.42, _garbage), (0.66, _unsolicited_reply), (0.88, _torn)):
        await stage.until(at)
        async with raw_connection(stage) as connection:
            await misdeed(chance, connection)


def _question(chance: Random) -> messages.ServiceCallRequest:
    return messages.ServiceCallRequest(
        **_ids(chance),
        service=messages.Service("account.balance", 1_000_000),
        parent=messages.Parent(""),
        xid=messages.NULL_XID,
        flags=0,
        buffer=messages.Buffer(".json/", b'{"account":1}'),
    )


async def _too_early(chance: Random, connection: RawConnection) -> None:
    """Call before the domains have agreed on a version."""
    await _say(connection, _question(chance))


async def _garbage(chance: Random, connection: RawConnection) -> None:
    await _agree(chance, connection, "scanner")
    await connection.send(b"GET / HTTP/1.1\r\nHost: bank\r\n\r\n" + chance.randbytes(8))
    await connection.receive()


async def _unsolicited_reply(chance: Random, connection: RawConnection) -> None:
    """Reply to a call that nobody made, as only a server may reply at all."""
    await _agree(chance, connection, "impostor")
    reply = messages.ServiceCallReply(
        **_ids(chance),
        call=messages.Call(0, 0),
        xid=messages.NULL_XID,
        transaction=messages.TransactionState(0),
        buffer=messages.Buffer(".json/", b'{"balance":1000000}'),
    )
    await _say(connection, reply)


async def _torn(chance: Random, connection: RawConnection) -> None:
    """Close the connection in the middle of a message."""
    await _agree(chance, connection, "weak-link")
    whole = encode(_question(chance))
    await connection.send(whole[: len(whole) // 2])


SCENE = Scene(
    parts=(play, break_rules),
    hub_settings={
        "name": "bank",
        "services": f"{__name__}:domain",
        "queues": [{"name": BOOKINGS}, {"name": STATEMENTS, "retries": PRINT_TRIES - 1}],
    },
)
