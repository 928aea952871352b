"""ceda: traders at a server that publishes quotes.

Clients log in, subscribe patterns in batches, get the quotes that match, ask for prices and place orders by request and
reply, send large documents in pieces, and log out. In the deployed dialect every third client sits behind a WebSocket
and masks.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

from ...generate.simulation import Link, Process, Stage
from ...generate.truth import Direction, Exchange, opposite
from ...spec import Cell
from . import messages as p
from . import traffic_faults
from .conduct import LOGIN_LIMIT_US
from .messages import PIECE

CLIENT_LOOK_US, SERVER_QUIET_US = 15_000_000, 40_000_000
CALLER_WAITS_US = 5_000_000
"""How long is the caller's own affair: the wire does not show it."""
FX = tuple(f"FX.SPOT.{pair}" for pair in ("EURUSD", "USDJPY", "GBPUSD", "EURSEK", "USDCHF", "AUDUSD"))
RATES = tuple(f"RATES.{curve}.{tenor}" for curve in ("EUR", "USD") for tenor in ("2Y", "5Y", "10Y"))
NEWS = ("NEWS.FX", "NEWS.RATES")
PATTERNS = {"FX.SPOT.*": FX, "RATES.**": RATES, "RATES.EUR.*": RATES[:3], "NEWS.*": NEWS} | {one: (one,) for one in FX}
PATTERNS_OF_FIRST = ("FX.SPOT.*", "RATES.**")
NEWS_TEXTS = ("central bank keeps rates", "Euro zone prices rise", "日銀は金利を据え置く", "Riksbanken höjer räntan")


def _fits(text: str, charset: str) -> bool:
    return text.encode(charset, "ignore").decode(charset) == text


@dataclass
class Client:
    """A client's connection as the server knows it."""

    link: Link
    number: int
    masks: bool
    topics: set[str] = field(default_factory=set)
    counter: int = 0


def begin(stage: Stage) -> None:
    play = Play(stage)
    for number in range(stage.connections):
        stage.start(play.session(number), stage.pause(100_000))
    stage.start(play.quotes(), 300_000)


class Play:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.rng = stage.rng
        self.deployed = stage.layout.options["dialect"] == "ceda4-ws"
        self.clients: list[Client] = []
        self.prices = {topic: 1.0 + self.rng.random() for topic in FX + RATES}
        self.process = f"{self.rng.getrandbits(32):08x}"
        self.accepted = 0
        self.groups = 0
        self.news = [text for text in NEWS_TEXTS if _fits(text, stage.layout.options["charset"])]

    def _send(self, client: Client, direction: Direction, cls: Any, **fields: Any) -> int:
        return client.link.send(direction, self.make(client, direction, cls, **fields))

    def make(self, client: Client, direction: Direction, cls: Any, **fields: Any) -> Any:
        if client.masks and direction == "to_server":
            fields["mask_key"] = self.rng.randbytes(4)
        return cls(**fields)

    # --- connections

    def session(self, number: int) -> Process:
        stage = self.stage
        link = stage.connect(number)
        self.accepted += 1
        client = Client(link, 1000 + self.accepted, self.deployed and number % 3 == 2)
        yield stage.delay(600)
        if stage.breaks():
            traffic_faults.publish_too_early(self, client)
            yield stage.delay(600)
        user = f"trader{number + 1:02d}"
        if number % 5 == 4:
            yield from self._login(client, user, "wrong", ok=False)
            yield stage.delay(2_000_000)
        yield from self._login(client, user, "s3cret", ok=True)
        link.session.facts.update(
            user=user, connection_id=client.number, masked=client.masks, dialect=link.layout.options["dialect"]
        )
        yield stage.delay(3_000)
        quiet = number % 4 == 3
        self._subscribe(client, ("NEWS.*",) if quiet else PATTERNS_OF_FIRST if number == 0 else self._patterns())
        self.clients.append(client)
        stage.start(self._heartbeats(client, "to_server", CLIENT_LOOK_US), CLIENT_LOOK_US)
        stage.start(self._heartbeats(client, "to_client", SERVER_QUIET_US), SERVER_QUIET_US)
        while stage.more:
            yield stage.pause(40_000_000 if quiet else 400_000)
            if stage.more:
                link.start(self._activity(client))
        while link.busy:
            yield 20_000
        self.clients.remove(client)
        yield stage.delay(10_000)
        self._send(client, "to_server", p.Logout)
        yield stage.delay(500)
        link.close()

    def _login(self, client: Client, user: str, password: str, *, ok: bool) -> Process:
        record = (
            Cell(7, "STRING", f"py-{client.number}"),
            Cell(p.PASSWORD, "STRING", password),
            Cell(p.USER, "STRING", user),
        )
        link = client.link
        message = self.make(client, "to_server", p.Login, control_code=p.ControlCode.LOGIN, record=record)
        exchange = link.ask("to_server", message, "", "", limit_us=LOGIN_LIMIT_US)
        yield self.stage.delay(2_500)
        text = "Success" if ok else "Username or Password is error"
        result: tuple[Cell, ...] = (Cell(p.TEXT, "STRING", text), Cell(p.RESULT, "INT", p.LOGIN_OK if ok else 0))
        if ok:
            result = (Cell(p.CONNECTION_ID, "INT", client.number), *result)
        message = p.Login(control_code=p.ControlCode.LOGIN_RESULT, record=result)
        link.reply(exchange, message, "ok" if ok else "error", int(ok))

    def _patterns(self) -> tuple[str, ...]:
        return tuple(self.rng.sample(sorted(PATTERNS), 3))

    def _subscribe(self, client: Client, patterns: tuple[str, ...]) -> None:
        record = (Cell(3, "STRING", "|".join(patterns)),)
        self._send(client, "to_server", p.Subscribe, control_code=p.ControlCode.SUB_BATCH, record=record)
        client.topics.update(topic for pattern in patterns for topic in PATTERNS[pattern])
        client.link.session.facts["patterns"] = patterns

    def _heartbeats(self, client: Client, direction: Direction, every_us: int) -> Process:
        """Asks a peer that has been silent whether it is there. The server echoes; clients never do."""
        link = client.link
        while link.is_open and self.stage.more:
            if self.stage.now - link.last_us[opposite(direction)] >= every_us:
                self._send(client, direction, p.Heartbeat)
                if direction == "to_server":
                    yield self.stage.delay(400)
                    self._send(client, "to_client", p.Heartbeat)
            yield every_us

    # --- quotes

    def quotes(self) -> Process:
        """The server's publisher: a few topics tick together, and everyone who subscribed them gets them at once."""
        stage, rng = self.stage, self.rng
        topics = FX + RATES
        while stage.more:
            for _ in range(1 + int(rng.expovariate(1.2))):
                topic: str = stage.pick(topics)
                self._publish(topic, self._quote(topic))
            if stage.chance(0.003):
                news = stage.pick(NEWS)
                self._publish(news, (Cell(3, "STRING", stage.pick(self.news)), Cell(5, "INT", 0)))
            yield stage.pause(80_000)

    def _publish(self, topic: str, record: tuple[Cell, ...]) -> None:
        message = p.Publish(topic=topic, record=record)
        for client in self.clients:
            if topic in client.topics:
                client.link.send("to_client", message)

    def _quote(self, topic: str) -> tuple[Cell, ...]:
        price = self.prices[topic] = self.prices[topic] * (1 + self.rng.gauss(0, 0.0002))
        return (
            Cell(1, "DOUBLE", round(price, 5)),
            Cell(2, "DOUBLE", round(price + 0.0002, 5)),
            Cell(4, "INT", (1 + self.rng.getrandbits(5)) * 100_000),
            Cell(6, "LONG", self.stage.now // 1000),
        )

    # --- what clients do

    def _activity(self, client: Client) -> Process:
        if self.stage.breaks():
            yield from self.stage.break_rule(traffic_faults.FAULTS, self, client)
            return
        kind = self.rng.random()
        if kind < 0.75:
            yield from self._call(client)
        elif kind < 0.9:
            record = Cell(3, "STRING", f"hedge {self.rng.getrandbits(16)}"), Cell(4, "INT", 500_000)
            self._send(client, "to_server", p.Publish, topic=f"ORDERS.{client.number}", record=record)
        elif kind < 0.95:
            yield from self._message(client)
        elif kind < 0.985:
            self._change_topics(client)
        elif kind < 0.995:
            yield from self._upload(client)
        else:
            for message in self.document_pieces(20_000 + self.rng.getrandbits(16)):
                client.link.send("to_client", message)

    def _call(self, client: Client) -> Process:
        stage = self.stage
        topic, median = stage.pick((("QUOTE.GET", 900), ("ORDER.PLACE", 6_000), ("POSITION.GET", 15_000)))
        pair: str = stage.pick(FX)
        exchange, names = self.ask(client, topic, (Cell(1, "STRING", pair), Cell(4, "INT", self.rng.getrandbits(20))))
        if stage.chance(0.01):
            yield CALLER_WAITS_US
            return
        yield stage.delay(median)
        failed = stage.chance(0.03)
        text = "no such instrument" if failed else "ok"
        record = (
            Cell(1, "DOUBLE", round(self.prices[pair], 5)),
            Cell(3, "STRING", text),
            Cell(9, "SHORT", -1 if failed else 0),
        )
        client.link.reply(exchange, p.Reply(topic=exchange.correlation, record=record, **names))

    def ask(self, client: Client, topic: str, record: tuple[Cell, ...]) -> tuple[Exchange, dict[str, Any]]:
        """Sends a request; gives its exchange, and the fields that its reply repeats."""
        client.counter += 2
        names = {"connection_id": client.number, "server_id": "MQ", "signal_id": f"c{client.counter}"}
        back = f"{client.number}.1.{client.counter}"
        message = self.make(client, "to_server", p.Request, topic=topic, reply_topic=back, record=record, **names)
        return client.link.ask("to_server", message, topic, back), names

    def _message(self, client: Client) -> Process:
        """A message to one service, and one back on the same topic."""
        names = {"topic": "RISK.ALERT", "connection_id": client.number, "server_id": "RISK", "signal_id": ""}
        question = Cell(3, "STRING", "limit?"), Cell(2, "FLOAT", 0.5)
        self._send(client, "to_server", p.P2p, record=question, **names)
        yield self.stage.delay(3_000)
        reply = Cell(3, "STRING", "within limit"), Cell(8, "BYTES", b"\x01\x02")
        self._send(client, "to_client", p.P2p, record=reply, **names)

    def _change_topics(self, client: Client) -> None:
        pair = self.stage.pick(FX)
        cls: Any = p.Unsubscribe if pair in client.topics else p.Subscribe
        code = p.ControlCode.UNSUB_BATCH if pair in client.topics else p.ControlCode.SUB_BATCH
        client.topics ^= {pair}
        self._send(client, "to_server", cls, control_code=code, record=(Cell(3, "STRING", pair),))

    # --- split messages

    def _pieces(self, position: int, blob: bytes, others: tuple[Cell, ...]) -> list[tuple[Cell, ...]]:
        """The records of the messages that carry a blob; the other fields travel with the first piece."""
        parts = [blob[at : at + PIECE] for at in range(0, len(blob), PIECE)]
        records = []
        for index, part in enumerate(parts):
            if index == 0:
                signature = struct.pack("<bhhihi", 1, 0, len(parts), len(blob), position, len(part))
            else:
                signature = struct.pack("<bhi", 1, index, len(part))
            data = (Cell(position, "BYTES", part), Cell(0, "BYTES", signature))
            records.append(others + data if index == 0 else data)
        return records

    def _upload(self, client: Client) -> Process:
        """A request whose blob needs several messages, one directly after the other; one reply."""
        blob = self.rng.randbytes(PIECE + self.rng.getrandbits(15))
        first, *later = self._pieces(1, blob, (Cell(5, "STRING", "a.pdf"),))
        exchange, names = self.ask(client, "DOC.PUT", first)
        for record in later:
            fields = names | {"topic": "DOC.PUT", "signal_id": "", "reply_topic": exchange.correlation}
            self._send(client, "to_server", p.Request, record=record, **fields)
        yield self.stage.delay(20_000)
        client.link.reply(exchange, p.Reply(topic=exchange.correlation, record=(Cell(3, "STRING", "stored"),), **names))

    def document_pieces(self, size: int) -> list[p.GroupPub]:
        """A publish in pieces."""
        self.groups += 1
        names: dict[str, Any] = {"topic": "DOC.NEW", "connection_id": p.UNASSIGNED, "server_id": "", "signal_id": ""}
        if self.deployed:
            names["reply_topic"] = f"DOC.NEW.{self.process}.{self.groups}"
        records = self._pieces(2, self.rng.randbytes(size), (Cell(3, "STRING", "report"),))
        return [p.GroupPub(record=record, **names) for record in records]
