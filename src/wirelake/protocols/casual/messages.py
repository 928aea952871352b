"""casual domain protocol, version 1000: transaction middleware.

All integers are big endian. Every integer field is signed although the published document calls them unsigned: both
known implementations use signed types and negative numbers occur. Lengths and counts are signed on the wire too, and
a negative one is an error."""

from __future__ import annotations

from ...spec import (
    Labels,
    Message,
    Padding,
    Struct,
    SumLimit,
    When,
    be,
    blob,
    bool8,
    field,
    labelled,
    length,
    many,
    messages_in,
    nested,
    sized_by,
    text,
    uuid,
)

MAX_PAYLOAD = 256 * 1024 * 1024
NIL = bytes(16)

XATMI_FLAGS = Labels(
    "xatmi_flags",
    {
        0x0001: "TPNOBLOCK",
        0x0002: "TPSIGRSTRT",
        0x0004: "TPNOREPLY",
        0x0008: "TPNOTRAN",
        0x0010: "TPTRAN",
        0x0020: "TPNOTIME",
        0x0080: "TPGETANY",
        0x0100: "TPNOCHANGE",
        0x0400: "TPCONV",
        0x0800: "TPSENDONLY",
        0x1000: "TPRECVONLY",
    },
    bits=True,
)
XATMI_ERROR = Labels(
    "xatmi_error",
    {
        -1: "ABSENT",
        0: "OK",
        2: "TPEBADDESC",
        3: "TPEBLOCK",
        4: "TPEINVAL",
        5: "TPELIMIT",
        6: "TPENOENT",
        7: "TPEOS",
        9: "TPEPROTO",
        10: "TPESVCERR",
        11: "TPESVCFAIL",
        12: "TPESYSTEM",
        13: "TPETIME",
        14: "TPETRAN",
        15: "TPGOTSIG",
        17: "TPEITYPE",
        18: "TPEOTYPE",
        22: "TPEEVENT",
        23: "TPEMATCH",
    },
)
XATMI_EVENTS = Labels(
    "xatmi_events",
    {0x01: "TPEV_DISCONIMM", 0x02: "TPEV_SVCERR", 0x04: "TPEV_SVCFAIL", 0x08: "TPEV_SVCSUCC", 0x20: "TPEV_SENDONLY"},
    bits=True,
)
TRANSACTION_STATE = Labels(
    "transaction_state", {0: "active", 1: "timeout_rollback_only", 2: "rollback_only", 3: "error"}
)
SERVICE_TRANSACTION_MODE = Labels(
    "service_transaction_mode", {0: "auto", 1: "join", 2: "atomic", 3: "none", 4: "branch"}
)
XA_FLAGS = Labels(
    "xa_flags",
    {
        0x00100000: "TMMIGRATE",
        0x00200000: "TMJOIN",
        0x00400000: "TMMULTIPLE",
        0x00800000: "TMENDRSCAN",
        0x01000000: "TMSTARTRSCAN",
        0x02000000: "TMSUSPEND",
        0x04000000: "TMSUCCESS",
        0x08000000: "TMRESUME",
        0x10000000: "TMNOWAIT",
        0x20000000: "TMFAIL",
        0x40000000: "TMONEPHASE",
        0x80000000: "TMASYNC",
    },
    bits=True,
)
XA_RETURN = Labels(
    "xa_return",
    {
        0: "XA_OK",
        3: "XA_RDONLY",
        4: "XA_RETRY",
        5: "XA_HEURMIX",
        6: "XA_HEURRB",
        7: "XA_HEURCOM",
        8: "XA_HEURHAZ",
        9: "XA_NOMIGRATE",
        100: "XA_RBROLLBACK",
        101: "XA_RBCOMMFAIL",
        102: "XA_RBDEADLOCK",
        103: "XA_RBINTEGRITY",
        104: "XA_RBOTHER",
        105: "XA_RBPROTO",
        106: "XA_RBTIMEOUT",
        107: "XA_RBTRANSIENT",
        -2: "XAER_ASYNC",
        -3: "XAER_RMERR",
        -4: "XAER_NOTA",
        -5: "XAER_INVAL",
        -6: "XAER_PROTO",
        -7: "XAER_RMFAIL",
        -8: "XAER_DUPID",
        -9: "XAER_OUTSIDE",
    },
)
DUPLEX = Labels("duplex", {0: "send", 1: "receive", 2: "terminated"})

STRING = text(be.i64)
BYTES = blob(be.i64)
NODES = many(be.i64, be.i64)
SET = When("format", none_of=(-1, 0))
JAVA_PADDING = Padding(bytes(8), "java_padding")


class Xid(Struct, limits=(SumLimit(("gtrid", "bqual"), 128, "xid_length"),)):
    """A transaction id. Format -1 (what implementations write) and 0 (what the document says) are the null xid."""

    format: int = field(be.i64, "-1 or 0: null xid; 42: casual's own; others are foreign and opaque")
    gtrid_length = length(be.i64, of="gtrid", when=SET)
    bqual_length = length(be.i64, of="bqual", when=SET)
    gtrid: bytes = field(sized_by("gtrid_length"), "global transaction id", when=SET, default=b"")
    bqual: bytes = field(sized_by("bqual_length"), "branch qualifier", when=SET, default=b"")


NULL_XID = Xid(-1)
XID = nested(Xid, flat=False)


class Domain(Struct):
    id: bytes = field(uuid, "uuid of the domain, new at each start of it")
    name: str = field(STRING, "name of the domain")


class Offer(Struct):
    versions: tuple[int, ...] = field(many(be.i64, be.i64), "protocol versions the outbound speaks, any order")


class Chosen(Struct):
    version: int = field(be.i64, "the chosen protocol version, 0 = refused", role="status")


class Service(Struct):
    name: str = field(STRING, "name of the service", role="address")
    timeout: int = field(be.i64, "how long the caller waits, 0 = for ever", unit="us", role="timeout")


class LateService(Struct):
    name: str = field(STRING, "name of the service", role="address")
    timeout: int = field(be.i64, "how long the caller waits, 0 = for ever", unit="ns", role="timeout")


class Parent(Struct):
    name: str = field(STRING, "the calling service, empty if none")


class Buffer(Struct):
    type: str = field(STRING, "type/subtype of the payload, NULL = no buffer")
    payload: bytes = field(BYTES, "the payload", role="payload")


class Call(Struct):
    status: int = field(labelled(be.i32, XATMI_ERROR), "XATMI error code, 0 = ok", role="status")
    code: int = field(be.i64, "the service's own return code")


class TransactionState(Struct):
    state: int = field(labelled(be.u8, TRANSACTION_STATE), "anything but 0: the caller's transaction is rollback only")


class Resource(Struct):
    id: int = field(be.i32, "the requester's number for this resource, often negative")


class ResourceResult(Struct):
    id: int = field(be.i32, "the number of the request")
    state: int = field(labelled(be.i32, XA_RETURN), "XA return code", role="status")


class Enqueued(Struct):
    id: bytes = field(uuid, "nil = the queue makes one")
    properties: str = field(STRING, "free text, matched by the properties selector")
    reply: str = field(STRING, "queue for the reply, or empty")
    available: int = field(be.i64, "not before this time; 0, negative or past = at once", unit="us_since_epoch")
    type: str = field(STRING, "type/subtype of the payload")
    payload: bytes = field(BYTES, "the payload", role="payload")


class Dequeued(Struct):
    id: bytes = field(uuid, "id of the message")
    properties: str = field(STRING, "free text")
    reply: str = field(STRING, "queue for the reply, or empty")
    available: int = field(be.i64, "not before this time", unit="us_since_epoch")
    type: str = field(STRING, "type/subtype of the payload")
    payload: bytes = field(BYTES, "the payload")
    redelivered: int = field(be.i64, "how often a dequeue of it was rolled back")
    timestamp: int = field(be.i64, "when it was enqueued", unit="us_since_epoch")


class Selector(Struct):
    properties: str = field(STRING, "exact match, empty = not used")
    id: bytes = field(uuid, "nil = not used")


class OfferedService(Struct):
    name: str = field(STRING, "name of the service")
    category: str = field(STRING, "free text; .admin is reserved")
    transaction: int = field(labelled(be.u16, SERVICE_TRANSACTION_MODE), "how it takes part in transactions")
    timeout: int = field(be.i64, "0 = none", unit="us")
    hops: int = field(be.i64, "0 = it lives in the replying domain")


class OfferedQueue(Struct):
    name: str = field(STRING, "name of the queue", published="queues.element")
    retries: int = field(be.i64, "redelivery limit")


class Nodes(Struct):
    nodes: tuple[int, ...] = field(NODES, "opaque node addresses")


class Outcome(Struct):
    result: int = field(labelled(be.i32, XATMI_ERROR), "XATMI error code, -1 = not set", role="status")


class OutcomeAndCode(Struct):
    result: int = field(labelled(be.i32, XATMI_ERROR), "XATMI error code, -1 = not set", role="status")
    user: int = field(be.i64, "the service's own return code")


class CasualMessage(Message):
    """What every message has: the correlation of the frame header and the execution it belongs to."""

    correlation: bytes = field(uuid, "ties a reply to its request", role="correlation", published="header.correlation")
    execution: bytes = field(uuid, "uuid of the whole chain of calls", role="execution")


class CasualRequest(CasualMessage, kind="request", sent_by="client"):
    """What the outbound domain asks."""


class CasualReply(CasualMessage, kind="response", sent_by="server"):
    """What the inbound domain replies."""


class DomainConnectRequest(
    CasualRequest,
    code=7200,
    kind="control",
    answer=7201,
    published="common::message::gateway::domain::connect::Request",
):
    """A domain asks to connect and offers the protocol versions it speaks."""

    domain: Domain = field(nested(Domain), "the outbound domain")
    protocol: Offer = field(nested(Offer))


class DomainConnectReply(
    CasualReply, code=7201, kind="control", published="common::message::gateway::domain::connect::Reply"
):
    """The inbound domain replies with the version it chose."""

    domain: Domain = field(nested(Domain), "the inbound domain")
    protocol: Chosen = field(nested(Chosen))


class DomainDiscoverRequest(
    CasualRequest, code=7300, answer=7301, published="message::gateway::domain::discover::Request"
):
    """Asks which of these services and queues the other domain offers."""

    domain: Domain = field(nested(Domain), "the asking domain")
    services: tuple[str, ...] = field(many(STRING, be.i64), "services asked for", column="service_names")
    queues: tuple[str, ...] = field(many(STRING, be.i64), "queues asked for", column="queue_names")


class DomainDiscoverReply(CasualReply, code=7301, published="message::gateway::domain::discover::Reply"):
    """The subset of the asked names that the domain offers now."""

    domain: Domain = field(nested(Domain), "the replying domain")
    services: tuple[OfferedService, ...] = field(many(nested(OfferedService), be.i64), "services offered")
    queues: tuple[OfferedQueue, ...] = field(many(nested(OfferedQueue), be.i64), "queues offered")


class ServiceCallRequest(
    CasualRequest, code=3100, answer=3101, padding=JAVA_PADDING, published="message::service::call::Request"
):
    """Calls a service."""

    service: Service = field(nested(Service))
    parent: Parent = field(nested(Parent))
    xid: Xid = field(XID, "transaction of the call", role="xid")
    flags: int = field(labelled(be.i64, XATMI_FLAGS), "TPNOREPLY, TPNOTRAN and TPNOTIME matter to the receiver")
    buffer: Buffer = field(nested(Buffer))


class ServiceCallReply(CasualReply, code=3101, published="message::service::call::Reply"):
    """The result of a call."""

    call: Call = field(nested(Call))
    xid: Xid = field(XID, "often null even if the request had one", role="xid", published="transaction.trid.xid")
    transaction: TransactionState = field(nested(TransactionState))
    buffer: Buffer = field(nested(Buffer))


class ResourceRequest(CasualRequest):
    xid: Xid = field(XID, "the branch", role="xid")
    resource: Resource = field(nested(Resource))
    flags: int = field(labelled(be.i64, XA_FLAGS), "XA flags")


class ResourceReply(CasualReply):
    xid: Xid = field(XID, "the branch", role="xid")
    resource: ResourceResult = field(nested(ResourceResult))


class ResourcePrepareRequest(
    ResourceRequest, code=5201, answer=5202, published="message::transaction::resource::prepare::Request"
):
    """First phase: can this branch be committed?"""


class ResourcePrepareReply(ResourceReply, code=5202, published="message::transaction::resource::prepare::Reply"):
    """The vote."""


class ResourceCommitRequest(
    ResourceRequest, code=5203, answer=5204, published="message::transaction::resource::commit::Request"
):
    """Second phase, or with TMONEPHASE both in one."""


class ResourceCommitReply(ResourceReply, code=5204, published="message::transaction::resource::commit::Reply"):
    """How the commit went."""


class ResourceRollbackRequest(
    ResourceRequest, code=5205, answer=5206, published="message::transaction::resource::rollback::Request"
):
    """Undo the branch."""


class ResourceRollbackReply(ResourceReply, code=5206, published="message::transaction::resource::rollback::Reply"):
    """How the rollback went."""


class QueueEnqueueRequest(CasualRequest, code=6100, answer=6101, published="message::queue::enqueue::Request"):
    """Stores a message in a queue."""

    name: str = field(STRING, "queue name", role="address")
    xid: Xid = field(XID, "transaction of the enqueue", role="xid", published="transaction.trid.xid")
    message: Enqueued = field(nested(Enqueued), column="enqueued")


class QueueEnqueueReply(CasualReply, code=6101, published="message::queue::enqueue::Reply"):
    """Proof that the message is stored."""

    id: bytes = field(uuid, "id of the stored message; nil = the enqueue failed")


class QueueDequeueRequest(CasualRequest, code=6200, answer=6201, published="message::queue::dequeue::Request"):
    """Asks for the next matching message of a queue."""

    name: str = field(STRING, "queue name", role="address")
    xid: Xid = field(XID, "transaction of the dequeue", role="xid", published="transaction.trid.xid")
    selector: Selector = field(nested(Selector))
    block: bool = field(bool8, "wait until there is a message")


class QueueDequeueReply(CasualReply, code=6201, published="message::queue::dequeue::Reply"):
    """No message, or one (more are readable)."""

    message: tuple[Dequeued, ...] = field(many(nested(Dequeued), be.i64), "the messages", column="dequeued")


class ConversationConnectRequest(
    CasualRequest, code=3200, answer=3201, published="message::conversation::connect::Request"
):
    """Opens a conversation with a service."""

    service: Service = field(nested(Service))
    parent: Parent = field(nested(Parent))
    xid: Xid = field(XID, "transaction of the conversation", role="xid", published="transaction.trid.xid")
    flags: int = field(labelled(be.i64, XATMI_FLAGS), "exactly one of TPSENDONLY, TPRECVONLY")
    recording: Nodes = field(nested(Nodes), "path travelled so far")
    buffer: Buffer = field(nested(Buffer))


class ConversationConnectReply(CasualReply, code=3201, published="message::conversation::connect::Reply"):
    """Connected, or refused by its status."""

    route: Nodes = field(nested(Nodes), "path back to the initiator")
    recording: Nodes = field(nested(Nodes), "path recorded by the reply")
    status: int = field(labelled(be.i32, XATMI_ERROR), "0 = connected", role="status")


class ConversationSend(CasualMessage, code=3202, kind="event", published="message::conversation::Send"):
    """Data of a conversation; its events pass control or end it."""

    route: Nodes = field(nested(Nodes), "path still to go")
    events: int = field(labelled(be.i64, XATMI_EVENTS), "conversation events")
    status: int = field(labelled(be.i32, XATMI_ERROR), "XATMI error code", role="status")
    buffer: Buffer = field(nested(Buffer))


class ConversationDisconnect(CasualMessage, code=3203, kind="event", published="message::conversation::Disconnect"):
    """The initiator ends the conversation at once."""

    route: Nodes = field(nested(Nodes), "path still to go")
    events: int = field(labelled(be.i64, XATMI_EVENTS), "TPEV_DISCONIMM")


class ConversationConnectRequestLate(
    CasualRequest, code=3210, answer=3211, padding=JAVA_PADDING, published="conversation_connect_request_v2"
):
    """Opens a conversation, as peers since 2021 do."""

    service: LateService = field(nested(LateService))
    parent: Parent = field(nested(Parent))
    xid: Xid = field(XID, "transaction of the conversation", role="xid")
    duplex: int = field(labelled(be.u16, DUPLEX), "what the receiver may do next")
    buffer: Buffer = field(nested(Buffer))


class ConversationConnectReplyLate(CasualReply, code=3211, published="conversation_connect_reply"):
    """Connected, or refused by its result."""

    code: Outcome = field(nested(Outcome), column="codes")


class ConversationSendLate(CasualMessage, code=3212, kind="event", published="conversation_send"):
    """Data of a conversation, as peers since 2021 send it."""

    duplex: int = field(labelled(be.u16, DUPLEX), "what the receiver may do next")
    code: OutcomeAndCode = field(nested(OutcomeAndCode), column="codes")
    buffer: Buffer = field(nested(Buffer))


class ConversationDisconnectLate(
    CasualMessage, code=3213, kind="event", padding=JAVA_PADDING, published="conversation_disconnect"
):
    """The initiator ends the conversation, as peers since 2021 do."""


MESSAGES = messages_in(globals())
