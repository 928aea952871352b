"""memcached text protocol."""

from __future__ import annotations

from wirelake import spec as s
from wirelake.spec.conduct import Conduct, Matching, Selection, Streams

KEY = s.word(r"[^\x00-\x20\x7f]{1,250}", "key")
NUMBER = s.number(r"([0-9]+)", "number", 0, 1 << 32)
NOREPLY = s.word("noreply", "noreply", optional=True)


class Store(s.Message):
    key: str = s.field(KEY, "which item", role="address")
    flags: int = s.field(NUMBER, "of the client")
    expires: int = s.field(NUMBER, "when")
    size: int = s.field(NUMBER, "of the data")
    noreply: str | None = s.optional(NOREPLY, "no reply wanted")
    data: bytes = s.field(s.blob("size", end=b"\r\n"), "the value", role="payload")


class Set(Store, code=1, word="set", kind="request", answer=("stored", "not_stored", "error"), sent_by="client"):
    """Stores it."""


class Get(s.Message, code=2, word="get", kind="request", answer=("value", "end", "error"), sent_by="client"):
    keys: str = s.field(s.word(r"[^\r\n]+", "keys", all=True), "which items", role="address")


class Delete(
    s.Message, code=3, word="delete", kind="request", answer=("deleted", "not_found", "error"), sent_by="client"
):
    key: str = s.field(KEY, "which item", role="address")
    noreply: str | None = s.optional(NOREPLY, "no reply wanted")


class Value(s.Message, code=4, word="VALUE", kind="response", sent_by="server"):
    key: str = s.field(KEY, "which item", role="address")
    flags: int = s.field(NUMBER, "of the client")
    size: int = s.field(NUMBER, "of the data")
    cas: int | None = s.optional(s.number(r"([0-9]+)", "cas", 0, 1 << 60, optional=True), "version")
    data: bytes = s.field(s.blob("size", end=b"\r\n"), "the value", role="payload")


End = s.message("End", code=5, word="END", kind="response", sent_by="server")
Stored = s.message("Stored", code=6, word="STORED", kind="response", sent_by="server")
NotStored = s.message("NotStored", code=7, word="NOT_STORED", kind="response", failure=True, sent_by="server")
Deleted = s.message("Deleted", code=8, word="DELETED", kind="response", sent_by="server")
NotFound = s.message("NotFound", code=9, word="NOT_FOUND", kind="response", failure=True, sent_by="server")
Error = s.message("Error", code=10, word="ERROR", kind="response", failure=True, sent_by="server")

PROTOCOL = s.declare(
    s.Protocol(
        name="memcached_text",
        title="memcached text",
        frame=s.Frame(
            (
                s.Line(b" ", b"\r\n", window=2048, fewest=1, most=None, code="command", code_rule="command", skip=True),
                s.Ends(1 << 20),
            )
        ),
        messages=s.messages_in(globals()),
        ports={"tcp": 11211},
        conduct=Conduct(
            matching=Matching(in_order=True),
            no_reply=(Selection(messages=("set", "delete"), when=s.When("noreply")),),
            streams=Streams(continues=(Selection(messages=("value",)),)),
        ),
    )
)
