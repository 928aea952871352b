"""Modbus/TCP, after "MODBUS Messaging on TCP/IP Implementation Guide" V1.0b and "Application Protocol" V1.1b3.

A function code has another layout in each direction: a request and a response are two messages.
"""

from __future__ import annotations

from typing import Any

from wirelake import spec as s

REASONS = ("illegal_function", "illegal_address", "illegal_value", "failure", "acknowledge", "busy")
EXCEPTION = s.Labels("exception", dict(enumerate(REASONS, 1)))
COIL = s.labelled(s.be.u16, s.Labels("coil", {0: "off", 0xFF00: "on"}))
REGISTERS = s.sized(s.u8, s.many(s.be.u16, None))


class Adu(s.Message):
    transaction: int = s.field(s.be.u16, "chosen by the client", role="correlation")
    unit: int = s.field(s.u8, "which device behind the server", role="address")


class Range(Adu):
    address: int = s.field(s.be.u16, "the first coil or register")
    count: int = s.field(s.be.u16, "how many")


class One(Adu):
    address: int = s.field(s.be.u16, "which coil or register")


class Refusal(Adu):
    exception: int = s.field(s.labelled(s.u8, EXCEPTION), "why the server refuses", role="status")


def function(code: int, name: str, asks: Any, replies: Any, key: str, ask: Any, reply: Any = None) -> tuple[Any, ...]:
    """Return the request, the response and the exception of a function."""
    asked, replied = ({key: s.field(wire, "what is read or written")} if wire else {} for wire in (ask, reply))
    answer = (code, code | 0x80)
    served: dict[str, Any] = {"kind": "response", "sent_by": "server"}
    return (
        s.message(f"{name}Request", asks, code=code, kind="request", sent_by="client", answer=answer, **asked),
        s.message(f"{name}Response", replies, code=code, **served, **replied),
        s.message(f"{name}Exception", Refusal, code=code | 0x80, **served, failure=True),
    )


HEADER = (s.Kept("transaction"), s.Magic(b"\0\0", "protocol"))
LENGTH = s.Size("length", s.be.u16, counts="after", least=2, most=254)
PROTOCOL = s.declare(
    s.Protocol(
        name="modbus",
        title="Modbus/TCP",
        frame=s.Frame((*HEADER, LENGTH, s.Kept("unit"), s.Code("function", s.u8))),
        messages=(
            *function(0x01, "ReadCoils", Range, Adu, "coils", None, s.blob(s.u8)),
            *function(0x02, "ReadDiscreteInputs", Range, Adu, "coils", None, s.blob(s.u8)),
            *function(0x03, "ReadHoldingRegisters", Range, Adu, "registers", None, REGISTERS),
            *function(0x04, "ReadInputRegisters", Range, Adu, "registers", None, REGISTERS),
            *function(0x05, "WriteSingleCoil", One, One, "value", COIL, COIL),
            *function(0x06, "WriteSingleRegister", One, One, "value", s.be.u16, s.be.u16),
            *function(0x0F, "WriteMultipleCoils", Range, Range, "coils", s.blob(s.u8)),
            *function(0x10, "WriteMultipleRegisters", Range, Range, "registers", REGISTERS),
        ),
        labels=(EXCEPTION,),
        ports={"tcp": 502},
    )
)
