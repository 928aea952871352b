"""Modbus/TCP, after "MODBUS Messaging on TCP/IP Implementation Guide" V1.0b and "Application Protocol" V1.1b3.

A function code has another layout in each direction where the standard says so; what differs is in ``data``.
"""

from __future__ import annotations

from wirelake import spec as s

REASONS = ("illegal_function", "illegal_address", "illegal_value", "failure", "acknowledge", "busy")
EXCEPTION = s.Labels("exception", dict(enumerate(REASONS, 1)))
COIL = s.labelled(s.be.u16, s.Labels("coil", {0: "off", 0xFF00: "on"}))


class Adu(s.Message):
    transaction: int = s.field(s.be.u16, "chosen by the client", role="correlation")
    unit: int = s.field(s.u8, "which device behind the server", role="address")


class Read(Adu):
    data: bytes = s.field(s.rest, "address and count; or the number of bytes, and what was read")


class WriteOne(Adu):
    address: int = s.field(s.be.u16, "which coil or register")


class WriteSeveral(Adu):
    address: int = s.field(s.be.u16, "the first coil or register")
    count: int = s.field(s.be.u16, "how many")


class Refusal(Adu, kind="response", sent_by="server", failure=True):
    exception: int = s.field(s.labelled(s.u8, EXCEPTION), "why the server refuses", role="status")


class ReadCoils(Read, code=0x01, answer=(0x01, 0x81)): ...


class ReadDiscreteInputs(Read, code=0x02, answer=(0x02, 0x82)): ...


class ReadHoldingRegisters(Read, code=0x03, answer=(0x03, 0x83)): ...


class ReadInputRegisters(Read, code=0x04, answer=(0x04, 0x84)): ...


class WriteSingleCoil(WriteOne, code=0x05, answer=(0x05, 0x85)):
    value: int = s.field(COIL, "on or off")


class WriteSingleRegister(WriteOne, code=0x06, answer=(0x06, 0x86)):
    value: int = s.field(s.be.u16, "what it becomes")


class WriteMultipleCoils(WriteSeveral, code=0x0F, answer=(0x0F, 0x8F)):
    coils: bytes | None = s.optional(s.blob(s.u8), "in requests: the bits", when=s.IfLeft())


class WriteMultipleRegisters(WriteSeveral, code=0x10, answer=(0x10, 0x90)):
    registers: tuple[int, ...] | None = s.optional(
        s.sized(s.u8, s.many(s.be.u16, None)), "in requests: what they become", when=s.IfLeft()
    )


class ReadCoilsException(Refusal, code=0x81): ...


class ReadDiscreteInputsException(Refusal, code=0x82): ...


class ReadHoldingRegistersException(Refusal, code=0x83): ...


class ReadInputRegistersException(Refusal, code=0x84): ...


class WriteSingleCoilException(Refusal, code=0x85): ...


class WriteSingleRegisterException(Refusal, code=0x86): ...


class WriteMultipleCoilsException(Refusal, code=0x8F): ...


class WriteMultipleRegistersException(Refusal, code=0x90): ...


HEADER = (s.Kept("transaction"), s.Magic(b"\0\0", "protocol"))
LENGTH = s.Size("length", s.be.u16, counts="after", least=2, most=254)
PROTOCOL = s.declare(
    s.Protocol(
        name="modbus",
        title="Modbus/TCP",
        frame=s.Frame((*HEADER, LENGTH, s.Kept("unit"), s.Code("function", s.u8))),
        messages=s.messages_in(globals()),
        labels=(EXCEPTION,),
        ports={"tcp": 502},
    )
)
