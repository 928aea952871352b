"""Limits of a broker, and how it treats peers that are known to differ from the document."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.settings import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOptions:
    """``detail_headers``: send Error Detail and Audit Log to every link; the deployed C++ links close on them, so links
    that never sent one get none. ``preflight``: paths of links that understand Preflight; requests with a permission
    token reach only those.
    """

    detail_headers: bool = False
    refusal_status: bool = False
    """Tell refused clients why, in an F3; the deployed C++ client aborts on that."""
    preflight: tuple[str, ...] = ()
    max_aliases: int = setting(16, least=1)
    max_streams: int = setting(100_000, least=1)
    """Streams that one link may have open; further requests are refused as busy."""
    max_unsent: int = setting(16 << 20, least=1 << 16)
    """Bytes that may wait for one link besides the queues of its subscriptions."""
    max_list_entries: int = setting(2_000_000, least=1)
    """Children, attributes and metadata of one node of a link."""
    session_seconds: float = setting(300.0, least=0.0)
    """How long the session of a link that is gone is kept."""
    resume_seconds: float = setting(60.0, least=0.0)
    """How long a durable queue waits for its subscription once its link is back."""
