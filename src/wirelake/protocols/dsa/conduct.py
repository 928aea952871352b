"""The conduct of dsa: streams that are repeated and closed, messages in pages."""

from __future__ import annotations

from ...spec import deferred
from ...spec.conduct import (
    CLOSE,
    COMPLETE,
    REFUSED,
    STATUS,
    Conduct,
    Introduction,
    Matching,
    Part,
    Pieces,
    Result,
    Selection,
    Streams,
    When,
)
from . import messages as m

INITIALIZING, CLOSED, INTERNAL_ERROR = map(m.STATUS.code, ("initializing", "closed", "internal_error"))
_FAILED = When(STATUS, least=m.CLOSED_FROM + 1)
_REFUSED, _ACCEPTED = When(STATUS, least=m.CLOSED_FROM), When(STATUS, most=m.CLOSED_FROM - 1)
_REPLIES = tuple(cls.__message__["name"] for cls in m.MESSAGES if issubclass(cls, m.Reply))


CONDUCT = Conduct(
    parts=(Part(CLOSE, messages=("close",)),),
    results=(Result("error", messages=_REPLIES, when=_FAILED),),
    streams=Streams(
        lanes=(frozenset({"subscribe_request", "subscribe_response"}),),
        continues=(
            Selection(
                messages=("subscribe_response", "list_response", "invoke_response"),
                when=When(STATUS, most=m.CLOSED_FROM - 1),
            ),
        ),
        partial=(Selection(messages=_REPLIES, when=When(STATUS, one_of=(INITIALIZING,))),),
        once=(Selection(when=When("headers.no_stream")),),
    ),
    heartbeats=(Selection(messages=("ping",)),),
    introductions=(
        Introduction(
            {"client_dsid": "handshake.dsid", "version": "handshake.version"}, messages=("handshake_f0",), separator="."
        ),
        Introduction({"server_dsid": "handshake.dsid"}, messages=("handshake_f1",), when=_ACCEPTED),
        Introduction({"is_responder": "handshake.is_responder"}, messages=("handshake_f2",)),
        Introduction({"path": "handshake.path"}, COMPLETE, messages=("handshake_f3",), when=_ACCEPTED),
        Introduction({"status": STATUS}, REFUSED, messages=("handshake_f1", "handshake_f3"), when=_REFUSED),
    ),
    matching=Matching(repeatable=frozenset({m.SUB, m.INVOKE}), closed_by_replier=frozenset({m.INVOKE_R, m.SET_R})),
    pieces=Pieces(
        "page_order", "page", per_stream=True, index="headers.page_id", signed=True, key="headers.sequence_id"
    ),
    facts=deferred(f"{__package__}.facts", "complete"),
    facts_read=("headers",),
)
