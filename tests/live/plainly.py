"""MB and CEDA over plain sockets, byte by byte as the specifications write them: nothing of ours is trusted here."""

from __future__ import annotations

import asyncio
import json
import struct
import uuid
from typing import Any

Address = tuple[str, int]
GREETING = b"publish:system.initialize:1.0.0\n{}"
HEARTBEAT = bytes.fromhex("820101")
LOGIN = bytes.fromhex("821c13037c0004007079 2d315c000600733363726574 4c00040064656d6f".replace(" ", ""))
"""User demo, password s3cret, client id py-1: example 2 of the specification."""


def split_address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def mb_frame(message: bytes) -> bytes:
    return struct.pack("!I", len(message)) + message


def mb_request(topic: str, arguments: Any = None, rid: str = "") -> bytes:
    rid = rid or str(uuid.uuid4())
    payload = b"{}" if arguments is None else json.dumps(arguments).encode()
    return mb_frame(f"request:{topic}:1.0.0:{rid}\n".encode() + payload)


class Mb:
    """A connection to a broker, greeted."""

    here: list[Mb] = []  # noqa: RUF012

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.here.append(self)

    @classmethod
    async def to(cls, address: Address, **more: Any) -> Mb:
        found = cls(*await asyncio.open_connection(*address, **more))
        assert await found.message() == GREETING
        return found

    async def message(self) -> bytes:
        (size,) = struct.unpack("!I", await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def ask(self, topic: str, arguments: Any = None) -> Any:
        """The answer to a request, whatever else comes before it."""
        rid = str(uuid.uuid4())
        self.writer.write(mb_request(topic, arguments, rid))
        while True:
            head, _, payload = (await self.message()).partition(b"\n")
            if head.split(b":")[3:4] == [rid.encode()]:
                return json.loads(payload)

    async def subscribe(self, topic: str, action: str = "publish") -> None:
        assert await self.ask("system.topic.subscribe", {"action": action, "topic": topic}) == {"status": "success"}

    def publish(self, topic: str, payload: bytes) -> None:
        self.writer.write(mb_frame(f"publish:{topic}:1.0.0\n".encode() + payload))

    @classmethod
    def leave_all(cls) -> None:
        for one in cls.here:
            one.writer.close()
        cls.here.clear()


class Ceda:
    """A connection to a server of CEDA."""

    here: list[Ceda] = []  # noqa: RUF012

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.here.append(self)

    @classmethod
    async def to(cls, address: Address, **more: Any) -> Ceda:
        return cls(*await asyncio.open_connection(*address, **more))

    async def payload(self) -> bytes:
        magic, length = await self.reader.readexactly(2)
        assert magic == 0x82
        if length == 126:
            (length,) = struct.unpack("!H", await self.reader.readexactly(2))
        return await self.reader.readexactly(length)

    async def login(self) -> bool:
        self.writer.write(LOGIN)
        answer = await self.payload()
        assert answer[:2] == b"\x13\x04"
        return b"Success" in answer

    def subscribe(self, topics: bytes) -> None:
        record = b"\x3c\x00" + struct.pack("<H", len(topics)) + topics
        self.writer.write(bytes((0x82, 2 + len(record))) + b"\x11\x0d" + record)

    def publish(self, topic: bytes, text: bytes) -> None:
        payload = b"\x61" + bytes((len(topic),)) + topic + b"\x3c\x00" + struct.pack("<H", len(text)) + text
        assert len(payload) < 126
        self.writer.write(bytes((0x82, len(payload))) + payload)

    @classmethod
    def leave_all(cls) -> None:
        for one in cls.here:
            one.writer.close()
        cls.here.clear()


async def http(address: Address, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, fields and content of an answer."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(request)
        head, _, content = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
    first, *lines = head.decode().split("\r\n")
    return int(first.split()[1]), dict(line.split(": ", 1) for line in lines), content


async def get(address: Address, path: str) -> tuple[int, dict[str, str], bytes]:
    return await http(address, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
