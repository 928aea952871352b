"""Cassandra native protocol v4."""

from __future__ import annotations

from wirelake import spec as s
from wirelake.spec import When

STRING, LONG, BYTES = s.text(s.be.u16), s.text(s.be.i32), s.blob(s.be.i32, null=-1)
CONSISTENCY = s.Labels("consistency", {0: "any", 1: "one", 4: "quorum", 6: "local_quorum", 10: "local_one"})
VALUES, NAMES, UNNAMED = When("with_values"), When("with_names"), When("with_names", empty=True)
FLAGS = s.Labels("flags", {1: "compression", 2: "tracing", 4: "custom_payload", 8: "warning"}, bits=True)


class Framed(s.Message):
    flags: int = s.field(s.labelled(s.u8, FLAGS), "of the frame")
    stream: int = s.field(s.be.i16, "ties the reply to the request", role="correlation")


class Pair(s.Struct):
    key: str = s.field(STRING, "name")
    value: str = s.field(STRING, "value")


class Startup(Framed, code=(4, 1), kind="request", answer="ready", sent_by="client"):
    options: tuple[Pair, ...] = s.field(s.many(s.nested(Pair), s.be.u16), "CQL_VERSION and more")


class Named(s.Struct):
    name: str = s.field(STRING, "of the value")
    value: bytes | None = s.field(BYTES, "the value", default=None)


class QueryParameters(s.Struct):
    consistency: int = s.field(s.labelled(s.be.u16, CONSISTENCY), "how many replicas")
    reserved: int = s.field(s.bits(s.u8, 7, 1), "0", default=0)
    with_names: int = s.field(s.bits(s.u8, 6, 1), "values have names")
    with_timestamp: int = s.field(s.bits(s.u8, 5, 1), "a default timestamp")
    with_serial: int = s.field(s.bits(s.u8, 4, 1), "serial consistency")
    with_paging: int = s.field(s.bits(s.u8, 3, 1), "paging state")
    with_page_size: int = s.field(s.bits(s.u8, 2, 1), "page size")
    skip_metadata: int = s.field(s.bits(s.u8, 1, 1), "no metadata in the result")
    with_values: int = s.field(s.bits(s.u8, 0, 1), "values")
    values: tuple[bytes | None, ...] | None = s.optional(s.many(BYTES, s.be.u16), "bound", when=(VALUES, UNNAMED))
    named: tuple[Named, ...] | None = s.optional(s.many(s.nested(Named), s.be.u16), "bound", when=(VALUES, NAMES))
    page_size: int | None = s.optional(s.be.i32, "rows in a page", when=When("with_page_size"))
    paging_state: bytes | None = s.optional(BYTES, "where to go on", when=When("with_paging"))
    serial: int | None = s.optional(s.be.u16, "serial consistency", when=When("with_serial"))
    timestamp: int | None = s.optional(s.be.i64, "us since epoch", when=When("with_timestamp"))


class Query(Framed, code=(4, 7), kind="request", answer=("result", "error"), sent_by="client"):
    sql: str = s.field(LONG, "the statement", role="address")
    parameters: QueryParameters = s.field(s.nested(QueryParameters), "how to run it")


class Error(Framed, code=(0x84, 0), kind="response", failure=True, sent_by="server"):
    error: int = s.field(s.be.i32, "its number", role="status")
    text: str = s.field(STRING, "what went wrong")
    more: bytes = s.field(s.rest, "depends on the number")


class Ready(Framed, code=(0x84, 2), kind="response", sent_by="server"):
    """Go on."""


class MapOf(s.Struct):
    key: s.Tagged = s.field(s.choice(s.be.u16, lambda: TYPES), "type of keys")
    value: s.Tagged = s.field(s.choice(s.be.u16, lambda: TYPES), "type of values")


TYPE = s.choice(s.be.u16, lambda: TYPES)
TYPES = {
    0: STRING,
    **dict.fromkeys(range(1, 0x15)),
    0x20: TYPE,
    0x21: s.nested(MapOf),
    0x22: TYPE,
    0x31: s.many(TYPE, s.be.u16),
}


class Column(s.Struct):
    name: str = s.field(STRING, "its name")
    type: s.Tagged = s.field(TYPE, "its type")


class Rows(s.Struct):
    flags: int = s.field(s.be.i32, "1 global table, 2 more pages, 4 no metadata")
    count: int = s.field(s.be.i32, "columns")
    paging_state: bytes | None = s.optional(BYTES, "where to go on", when=When("flags", bits=2))
    keyspace: str | None = s.optional(STRING, "of the table", when=When("flags", bits=1))
    table: str | None = s.optional(STRING, "the table", when=When("flags", bits=1))
    columns: tuple[Column, ...] = s.field(s.many(s.nested(Column), "count"), "their names")
    content: bytes = s.field(s.rest, "the rows")


class Result(Framed, code=(0x84, 8), kind="response", sent_by="server"):
    result: s.Tagged = s.field(s.choice(s.be.i32, {1: None, 2: s.nested(Rows), 3: STRING}), "what it is")


PROTOCOL = s.declare(
    s.Protocol(
        name="cql",
        title="CQL 4",
        frame=s.Frame(
            (
                s.Code("version", s.u8),
                s.Kept("flags"),
                s.Kept("stream"),
                s.Code("opcode", s.u8),
                s.Size("length", s.be.u32, counts="after", most=1 << 28),
            )
        ),
        messages=s.messages_in(globals()),
        labels=(CONSISTENCY, FLAGS),
        ports={"tcp": 9042},
    )
)
