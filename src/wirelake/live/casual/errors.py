"""Errors of calls, queues and transactions, as applications get them."""

from __future__ import annotations

from ...protocols.casual.messages import XA_RETURN, XATMI_ERROR
from ..core.errors import AnswerError, LiveError
from .handlers import Reply


class ServiceFailed(AnswerError):
    """The service returned failure (TPESVCFAIL): ``reply`` is what it returned, ``value`` and ``user_code`` of it."""

    usual_rule = "service_failed"

    def __init__(self, service: str, reply: Reply) -> None:
        super().__init__("TPESVCFAIL", f"{service} returned failure, code {reply.code}")
        self.reply = reply
        self.value = reply.value
        self.user_code = reply.code


class NotEnqueued(LiveError):
    """The message is not in the queue."""

    usual_rule = "not_enqueued"


class RolledBack(LiveError):
    """The transaction was rolled back although it was to be committed."""

    usual_rule = "rolled_back"


class InDoubt(LiveError):
    """Domains disagree about the outcome of the transaction, or nobody knows it: ``codes`` by domain."""

    usual_rule = "in_doubt"

    def __init__(self, detail: str, codes: dict[str, int]) -> None:
        told = ", ".join(f"{name or 'here'}: {XA_RETURN.names.get(code, code)}" for name, code in codes.items())
        super().__init__(f"{detail} ({told})" if told else detail)
        self.codes = codes


def status_name(status: int) -> str:
    """Return the name of an XATMI error code."""
    return XATMI_ERROR.names.get(status, str(status))
