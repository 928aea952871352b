"""Beanstalk: lines with words, and jobs by size."""

from __future__ import annotations

from wirelake import spec as s
from wirelake.spec.conduct import Conduct, Matching

NUMBER = s.number("([0-9]{1,10})", "number", 0, (1 << 32) - 1)
SIZE = s.number("([0-9]{1,5})", "size", 0, 65535)
NAME = s.word(r"[A-Za-z0-9+/;.$_()][A-Za-z0-9+/;.$_()-]*", "tube", most=200)


class Command(s.Message, kind="request", sent_by="client"): ...


class Put(Command, code=1, word="put", answer=("inserted", "buried", "draining")):
    priority: int = s.field(NUMBER, "0 is most urgent")
    delay: int = s.field(NUMBER, "before it is ready", unit="s")
    time_to_run: int = s.field(NUMBER, "for a worker", unit="s")
    size: int = s.field(SIZE, "bytes of the job")
    job: bytes = s.field(s.blob("size", end=b"\r\n"), "what to do", role="payload")


class Use(Command, code=2, word="use", answer="using"):
    tube: str = s.field(NAME, "where jobs go", role="address")


class Reserve(Command, code=3, word="reserve", answer=("reserved", "deadline_soon", "timed_out")): ...


class Delete(Command, code=4, word="delete", answer=("deleted", "not_found")):
    job_id: int = s.field(NUMBER, "which")


class Watch(Command, code=5, word="watch", answer="watching"):
    tube: str = s.field(NAME, "where jobs come from", role="address")


class Stats(Command, code=6, word="stats", answer="ok"): ...


class Inserted(s.Message, code=20, word="INSERTED", kind="response", sent_by="server"):
    job_id: int = s.field(NUMBER, "which")


class Reserved(s.Message, code=21, word="RESERVED", kind="response", sent_by="server"):
    job_id: int = s.field(NUMBER, "which")
    size: int = s.field(SIZE, "bytes of the job")
    job: bytes = s.field(s.blob("size", end=b"\r\n"), "what to do", role="payload")


class Using(s.Message, code=22, word="USING", kind="response", sent_by="server"):
    tube: str = s.field(NAME, "which", role="address")


class Watching(s.Message, code=23, word="WATCHING", kind="response", sent_by="server"):
    count: int = s.field(NUMBER, "tubes that are watched")


class Ok(s.Message, code=24, word="OK", kind="response", sent_by="server"):
    size: int = s.field(SIZE, "bytes of the list")
    data: str = s.field(s.text("size", end=b"\r\n"), "YAML")


def reply(name: str, code: int, **said: object) -> type[s.Message]:
    word = s.message(name, code=code).__message__["name"].upper()
    made: type[s.Message] = s.message(name, code=code, word=word, kind="response", sent_by="server", **said)
    return made


Buried, Draining = reply("Buried", 25), reply("Draining", 26, failure=True)
DeadlineSoon, TimedOut = reply("DeadlineSoon", 27), reply("TimedOut", 28, failure=True)
Deleted, NotFound = reply("Deleted", 29), reply("NotFound", 30, failure=True)

LINE = s.Line(b" ", b"\r\n", window=300, fewest=1, most=None, code="word", code_rule="word", skip=True)
PROTOCOL = s.declare(
    s.Protocol(
        "beanstalk",
        "Beanstalk",
        s.Frame((LINE, s.Ends(1 << 17))),
        s.messages_in(globals()),
        ports={"tcp": 11300},
        conduct=Conduct(matching=Matching(in_order=True)),
    )
)
