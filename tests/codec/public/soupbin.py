"""SoupBinTCP 3.00 with OUCH 4.2 orders: packets of text and numbers of fixed sizes."""

from __future__ import annotations

from datetime import datetime

from wirelake import spec as s

ONE = s.text(1, pad=b" ")
SESSION, SEQUENCE = s.text(10, pad_before=b" "), s.digits(20, pad_before=b" ")
TOKEN, STOCK, FIRM = s.text(14, pad=b" "), s.text(8, pad=b" "), s.text(4, pad=b" ")
PRICE = s.fixed_point(s.be.u32, decimals=4)


def code(letters: str) -> tuple[int, ...]:
    return tuple(letters.encode())


class Debug(s.Message, code=code("+")):
    text: str = s.field(s.rest_text, "anything")


class LoginAccepted(s.Message, code=code("A"), kind="control", sent_by="server"):
    session: str = s.field(SESSION, "its name")
    sequence: int = s.field(SEQUENCE, "the next message")


class LoginRejected(s.Message, code=code("J"), kind="control", sent_by="server"):
    reason: str = s.field(ONE, "A not authorized, S no such session")


class ServerHeartbeat(s.Message, code=code("H"), kind="control", sent_by="server"): ...


class EndOfSession(s.Message, code=code("Z"), kind="control", sent_by="server"): ...


class LoginRequest(s.Message, code=code("L"), kind="control", sent_by="client"):
    user: str = s.field(s.text(6, pad=b" "), "who")
    password: str = s.field(s.text(10, pad=b" "), "a secret")
    session: str = s.field(SESSION, "empty: the current one")
    sequence: int = s.field(SEQUENCE, "where to go on; 0: behind the last")


class ClientHeartbeat(s.Message, code=code("R"), kind="control", sent_by="client"): ...


class Logout(s.Message, code=code("O"), kind="control", sent_by="client"): ...


class EnterOrder(s.Message, code=code("UO"), kind="request", answer=("accepted", "rejected"), sent_by="client"):
    token: str = s.field(TOKEN, "the client's name for it", role="correlation")
    side: str = s.field(ONE, "B buy, S sell")
    shares: int = s.field(s.be.u32, "how many")
    stock: str = s.field(STOCK, "of what", role="address")
    price: float = s.field(PRICE, "for how much")
    in_force: int = s.field(s.be.u32, "for so long", unit="s")
    firm: str = s.field(FIRM, "for whom")
    display: str = s.field(ONE, "who sees it")


class FromExchange(s.Message, sent_by="server"):
    time: datetime = s.field(s.timestamp(s.within(s.be.u64, 0, 10**17, "time"), "us"), "when")
    token: str = s.field(TOKEN, "the client's name for it", role="correlation")


class Accepted(FromExchange, code=code("SA"), kind="response"):
    side: str = s.field(ONE, "B buy, S sell")
    shares: int = s.field(s.be.u32, "how many")
    stock: str = s.field(STOCK, "of what")
    price: float = s.field(PRICE, "for how much")
    reference: int = s.field(s.be.u64, "the exchange's number for it")


class Rejected(FromExchange, code=code("SJ"), kind="response", failure=True):
    reason: str = s.field(ONE, "why")


class Executed(FromExchange, code=code("SE"), kind="event"):
    shares: int = s.field(s.be.u32, "how many")
    price: float = s.field(PRICE, "for how much")
    match: int = s.field(s.be.u64, "number of the trade")


PROTOCOL = s.declare(
    s.Protocol(
        name="soupbin",
        title="SoupBinTCP and OUCH",
        frame=s.Frame(
            (s.Size("length", s.be.u16, counts="after", least=1), s.Code("packet", s.u8), s.Code("type", s.u8))
        ),
        messages=s.messages_in(globals()),
        ports={"tcp": 9200},
    )
)
