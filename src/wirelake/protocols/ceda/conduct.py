"""The conduct of ceda: a login and its result are one message, a refused login may be tried again, and messages come
in groups of pieces."""

from __future__ import annotations

from ...spec import deferred
from ...spec.conduct import REPLY, REQUEST, SECOND_US, Conduct, Limit, Part, Pieces, Selection, When
from . import messages as m

LOGIN_LIMIT_US = 15 * SECOND_US
LOGINS = Selection(messages=("login",), when=When("control_code", one_of=m.LOGIN_REQUESTS))
LOGIN_RESULTS = Selection(messages=("login",), when=When("control_code", one_of=(m.ControlCode.LOGIN_RESULT,)))


CONDUCT = Conduct(
    parts=(
        Part(REQUEST, reply="login", messages=LOGINS.messages, when=LOGINS.when),
        Part(REPLY, messages=LOGIN_RESULTS.messages, when=LOGIN_RESULTS.when),
    ),
    limits=(Limit(LOGIN_LIMIT_US, messages=("login",)),),
    no_reply=(Selection(messages=("request",), when=When("reply_topic", empty=True)),),
    heartbeats=(Selection(messages=("heartbeat",)),),
    after_refusal="open",
    pieces=Pieces(
        "group_order", "piece", index="group.index", count="group.count", key="topic", keys={"group_pub": "reply_topic"}
    ),
    facts=deferred(f"{__package__}.facts", "complete"),
    facts_read=("control_code", "record", "masked"),
)
