"""Modbus/TCP, after "MODBUS Messaging on TCP/IP Implementation Guide" V1.0b and "Application Protocol" V1.1b3.

A function code has another layout in each direction where the standard says so; what differs is in ``data``.
"""

from __future__ import annotations

from wirelake import spec as s
from wirelake.spec.conduct import ERROR, REPLY, REQUEST, RESULTS, Conduct, Matching, Part, Result, When

REASONS = ("illegal_function", "illegal_address", "illegal_value", "failure", "acknowledge", "busy")
EXCEPTION = s.Labels("exception", dict(enumerate(REASONS, 1)))


class Adu(s.Message):
    transaction: int = s.field(s.be.u16, "chosen by the client", role="correlation")
    unit: int = s.field(s.u8, "which device behind the server", role="address")


class ReadCoils(Adu, code=0x01):
    data: bytes = s.field(s.rest, "address and count; or the number of bytes, and bits")


class ReadDiscreteInputs(Adu, code=0x02):
    data: bytes = s.field(s.rest, "address and count; or the number of bytes, and bits")


class ReadHoldingRegisters(Adu, code=0x03):
    data: bytes = s.field(s.rest, "address and count; or the number of bytes, and registers")


class ReadInputRegisters(Adu, code=0x04):
    data: bytes = s.field(s.rest, "address and count; or the number of bytes, and registers")


class WriteSingleCoil(Adu, code=0x05):
    address: int = s.field(s.be.u16, "which coil")
    value: int = s.field(s.labelled(s.be.u16, s.Labels("coil", {0: "off", 0xFF00: "on"})), "on or off")


class WriteSingleRegister(Adu, code=0x06):
    address: int = s.field(s.be.u16, "which register")
    value: int = s.field(s.be.u16, "what it becomes")


class WriteMultipleCoils(Adu, code=0x0F):
    address: int = s.field(s.be.u16, "the first coil")
    count: int = s.field(s.be.u16, "how many")
    coils: bytes | None = s.optional(s.blob(s.u8), "in requests: the bits", when=s.IfLeft())


class WriteMultipleRegisters(Adu, code=0x10):
    address: int = s.field(s.be.u16, "the first register")
    count: int = s.field(s.be.u16, "how many")
    registers: tuple[int, ...] | None = s.optional(
        s.sized(s.u8, s.many(s.be.u16, None)), "in requests: what they become", when=s.IfLeft()
    )


FUNCTIONS = s.messages_in(globals())


class Exception_(Adu):
    exception: int = s.field(s.labelled(s.u8, EXCEPTION), "why the server refuses", role="status")


class ReadCoilsException(Exception_, code=0x81, kind="response", sent_by="server"): ...


class ReadDiscreteInputsException(Exception_, code=0x82, kind="response", sent_by="server"): ...


class ReadHoldingRegistersException(Exception_, code=0x83, kind="response", sent_by="server"): ...


class ReadInputRegistersException(Exception_, code=0x84, kind="response", sent_by="server"): ...


class WriteSingleCoilException(Exception_, code=0x85, kind="response", sent_by="server"): ...


class WriteSingleRegisterException(Exception_, code=0x86, kind="response", sent_by="server"): ...


class WriteMultipleCoilsException(Exception_, code=0x8F, kind="response", sent_by="server"): ...


class WriteMultipleRegistersException(Exception_, code=0x90, kind="response", sent_by="server"): ...


NAMES = [(cls.__message__["code"], cls.__message__["name"]) for cls in FUNCTIONS]
FROM_CLIENT, FROM_SERVER = (When("direction", one_of=(way,)) for way in ("to_server", "to_client"))
PROTOCOL = s.declare(
    s.Protocol(
        name="modbus",
        title="Modbus/TCP",
        frame=s.Frame(
            (
                s.Kept("transaction"),
                s.Magic(b"\0\0", "protocol"),
                s.Size("length", s.be.u16, counts="after", least=2, most=254),
                s.Kept("unit"),
                s.Code("function", s.u8),
            )
        ),
        messages=s.messages_in(globals()),
        labels=(EXCEPTION,),
        ports={"tcp": 502},
        conduct=Conduct(
            parts=tuple(
                part
                for _, name in NAMES
                for part in (
                    Part(REQUEST, name, "request", messages=(name,), when=FROM_CLIENT),
                    Part(REPLY, "", "response", messages=(name,), when=FROM_SERVER),
                )
            ),
            results=(Result(RESULTS[ERROR], messages=tuple(f"{name}_exception" for _, name in NAMES)),),
            matching=Matching(instead=frozenset((code, 0x80 | code) for code, _ in NAMES)),
        ),
    )
)
