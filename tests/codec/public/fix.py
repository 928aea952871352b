"""FIX 4.4: tag=value fields."""

from __future__ import annotations

from wirelake import spec as s
from wirelake.spec import When


class Tag(s.Struct):
    tag: int = s.field(s.digits(b"=", 1, 99999), "which field")
    value: str = s.field(s.text(b"\x01", most=4096), "its value")


class Any(s.Message):
    fields: tuple[Tag, ...] = s.field(s.many(s.nested(Tag), None, until=When("tag", one_of=(10,))), "all that follows")


class Order(Any):
    cl_ord_id: str | None = s.derived(s.Lookup("fields", 11), "ClOrdID", role="correlation")
    symbol: str | None = s.derived(s.Lookup("fields", 55), "what is traded", role="address")


class Logon(Any, code="A", kind="control"):
    """Opens a session."""


class Heartbeat(Any, code="0", kind="control"):
    """Still here."""


class NewOrder(Order, code="D", kind="request", answer="execution_report"):
    """Buys or sells."""


class ExecutionReport(Order, code="8", kind="response"):
    """What became of it."""


PROTOCOL = s.declare(
    s.Protocol(
        name="fix_orders",
        title="FIX 4.4",
        frame=s.Frame(
            (
                s.Magic(b"8=FIX.4.4\x019="),
                s.Size("length", s.digits(b"\x01", 0, 99999), counts="after", plus=7),
                s.Magic(b"35=", name="type_tag"),
                s.Code("type", s.text(b"\x01", most=3)),
            )
        ),
        messages=s.messages_in(globals()),
        ports={"tcp": 9878},
    )
)
