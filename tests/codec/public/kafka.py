"""Kafka: sizes, keys, versions, correlations."""

from __future__ import annotations

from wirelake import spec as s
from wirelake.spec import When

STRING = s.text(s.be.i16, null=-1)
COMPACT = s.text(s.By(s.varint(5), plus=-1), null=-1)


class TaggedField(s.Struct):
    tag: int = s.field(s.varint(5), "which field")
    data: bytes = s.field(s.blob(s.varint(5)), "its value")


TAGGED = s.many(s.nested(TaggedField), s.varint(5))
FLEXIBLE = When("api_version", least=3)


class Request(s.Message, kind="request", answer="response", sent_by="client"):
    """What every request begins with."""

    api_version: int = s.field(s.be.i16, "layout of this request")
    correlation_id: int = s.field(s.be.i32, "ties the reply", role="correlation")
    client_id: str | None = s.field(STRING, "who asks")


class ApiVersions(Request, code=18):
    """Which versions of which requests are known."""

    header_tags: tuple[TaggedField, ...] | None = s.optional(TAGGED, "of the header", when=FLEXIBLE)
    software: str | None = s.optional(COMPACT, "name of the client", when=FLEXIBLE)
    software_version: str | None = s.optional(COMPACT, "its version", when=FLEXIBLE)
    tags: tuple[TaggedField, ...] | None = s.optional(TAGGED, "more", when=FLEXIBLE)


class Offset(s.Struct):
    partition: int = s.field(s.be.i32, "number")
    epoch: int | None = s.optional(s.be.i32, "of the leader", when=When("api_version", least=4))
    timestamp: int = s.field(s.be.i64, "-1 latest, -2 earliest")
    most: int | None = s.optional(s.be.i32, "offsets", when=When("api_version", most=0))


class OffsetTopic(s.Struct):
    name: str = s.field(s.text(s.be.i16), "the topic")
    offsets: tuple[Offset, ...] = s.field(s.many(s.nested(Offset), s.be.i32), "of its partitions")


class ListOffsets(Request, code=2):
    replica: int = s.field(s.be.i32, "-1: a client")
    isolation: int | None = s.optional(s.be.i8, "1: committed only", when=When("api_version", least=2))
    asked: tuple[OffsetTopic, ...] = s.field(s.many(s.nested(OffsetTopic), s.be.i32), "of which topics")


class Topic(s.Struct):
    name: str = s.field(s.text(s.be.i16), "the topic")
    partitions: tuple[int, ...] = s.field(s.many(s.be.i32, s.be.i32), "of it")


class Metadata(Request, code=3):
    topics: tuple[str, ...] | None = s.field(s.many(s.text(s.be.i16), s.be.i32, null=-1), "null: all", column="names")


class PartitionData(s.Struct):
    partition: int = s.field(s.be.i32, "number")
    records: bytes | None = s.field(s.blob(s.be.i32, null=-1), "a batch of records")


class TopicData(s.Struct):
    name: str = s.field(s.text(s.be.i16), "the topic")
    partitions: tuple[PartitionData, ...] = s.field(s.many(s.nested(PartitionData), s.be.i32), "of it")


class Produce(Request, code=0):
    transactional_id: str | None = s.optional(STRING, "of the producer", when=When("api_version", least=3))
    acks: int = s.field(s.be.i16, "-1 all, 0 none, 1 leader")
    timeout_ms: int = s.field(s.be.i32, "how long to wait", role="timeout", unit="ms")
    topics: tuple[TopicData, ...] = s.field(s.many(s.nested(TopicData), s.be.i32), "what is written")


class OtherRequest(Request, code=s.OTHER):
    api_key: int = s.field(s.be.i16, "which request")
    body: bytes = s.field(s.rest, "not declared")


class Response(s.Message, code=1000, frame="response", kind="response", sent_by="server"):
    """A reply; what it holds, its request says."""

    correlation_id: int = s.field(s.be.i32, "of the request", role="correlation")
    body: bytes = s.field(s.rest, "by api key and version of the request", role="payload")


PROTOCOL = s.declare(
    s.Protocol(
        name="kafka",
        title="Kafka",
        frame=s.Frame(
            (s.Size("size", s.be.i32, counts="after", most=1 << 26), s.Code("api_key", s.be.i16), s.Kept("api_version"))
        ),
        frames={"response": s.Frame((s.Size("size", s.be.i32, counts="after", most=1 << 26),))},
        messages=s.messages_in(globals()),
        ports={"tcp": 9092},
    )
)
