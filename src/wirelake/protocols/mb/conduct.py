"""The conduct of mb: a broker that forwards under its own ids, and may invent ids for its errors."""

from __future__ import annotations

from ...spec import deferred
from ...spec.conduct import NO_PART, REQUEST, SECOND_US, Conduct, Limit, Matching, Part, Selection, When

DEFAULT_LIMIT_US = 5 * SECOND_US
"""How long a requester waits that does not say how long."""
SYSTEM = "system."
HEARTBEAT, AUDIT, REGISTER, INITIALIZE = (
    f"{SYSTEM}{name}" for name in ("heartbeat", "message", "service.register", "initialize")
)

NAMED, NAMELESS = When("request_id"), When("request_id", empty=True)
ON_SYSTEM_TOPICS = Selection(when=When("topic", prefix=SYSTEM))


CONDUCT = Conduct(
    parts=(
        # The broker replies to a publish with an id; what it publishes itself has an id too, and no reply.
        Part(REQUEST, reply="response", messages=("publish",), when=(NAMED, When("direction", one_of=("to_server",)))),
        Part(NO_PART, kind="control", when=(When("topic", one_of=(HEARTBEAT,)), NAMELESS)),
    ),
    limits=(Limit(DEFAULT_LIMIT_US, messages=("request",)),),
    no_reply=(Selection(messages=("request",), when=NAMELESS),),
    heartbeats=(Selection(when=When("topic", one_of=(HEARTBEAT,))),),
    matching=Matching(shared=True, inventing_side="server", invented=(ON_SYSTEM_TOPICS,)),
    brokered=True,
    not_forwarded=(ON_SYSTEM_TOPICS,),
    facts=deferred(f"{__package__}.facts", "complete"),
    facts_read=("topic", "version", "request_id", "payload"),
)
