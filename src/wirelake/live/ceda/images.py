"""Images: the last state of each topic.

A server keeps them for those who subscribe later: cached messages are laid over each other, field by field. A client
may also ask a service for them by request and reply: the service subscribes the client itself, and its reply holds a
JSON object topic -> value, in one of four ways.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from typing import Any

import msgspec

from ...errors import EncodeError
from .data import Blob, Message, raw_cells, write_record
from .wire import CEDA4_WS, MAX_PAYLOAD, PUBLISH

IMAGE_TOPIC = "API.REQUESTIMAGE"
IMAGE_TOPICS = (IMAGE_TOPIC, "ACS.REQUESTIMAGE")
MAX_TEXT = 64 << 20
"""What a compressed image may become."""
_TEXT, _REFUSED, _MODE = 3, 9, 5
_PLAIN, _GZIP, _BLOB, _GZIP_BLOB = range(4)
_ROOM = MAX_PAYLOAD[CEDA4_WS] - 2
_OVERHEAD = 256
"""What a topic costs beside its bytes, roughly."""


class Image(msgspec.Struct):
    cells: dict[int, bytes]
    blob: Blob | None = None
    size: int = 0


class Images(dict[str, Image]):
    """One image for each topic, at most ``most`` of them, in at most ``most_bytes``; what does not fit is counted."""

    def __init__(self, most: int, most_bytes: int, counts: Counter[str]) -> None:
        super().__init__()
        self._most = most
        self._most_bytes = most_bytes
        self._counts = counts
        self._bytes = 0

    def keep(self, message: Message) -> None:
        if message.is_bad:
            return
        topic = message.topic
        before = self.get(topic)
        image = _merged(before, message)
        room = _ROOM - len(topic.encode())
        if sum(map(len, image.cells.values())) > room:
            self._counts["images_restarted"] += 1
            image = _merged(None, message)
        image.size = _OVERHEAD + len(topic) + sum(map(len, image.cells.values()))
        image.size += len(image.blob.data) if image.blob is not None else 0
        held = self._bytes + image.size - (before.size if before is not None else 0)
        if held > self._most_bytes or (before is None and len(self) >= self._most):
            self._counts["images_refused"] += 1
            return
        self._bytes = held
        self[topic] = image

    def message(self, topic: str) -> Message:
        image = self[topic]
        return Message(PUBLISH, topic, b"".join(image.cells.values()), blob=image.blob)


def _merged(before: Image | None, message: Message) -> Image:
    cells = dict(raw_cells(message.body))
    blob = message.blob
    if before is not None:
        if blob is None and before.blob is not None and before.blob.position not in cells:
            blob = before.blob
        cells = before.cells | cells
    if blob is not None:
        cells.pop(blob.position, None)
    return Image(cells, blob)


class BadImage(Exception):
    """The reply to an image request cannot be read."""


def image_request(topics: tuple[str, ...]) -> bytes:
    return write_record({_MODE: 0, _TEXT: _dump(topics)})


def asked_topics(request: Message) -> tuple[str, ...]:
    return _topics(request.record.get(_TEXT))


def refused_topics(reply: Message) -> tuple[str, ...]:
    """The topics that the service does not give to this client."""
    return _topics(reply.record.get(_REFUSED))


def _topics(text: Any) -> tuple[str, ...]:
    if not isinstance(text, str) or not text:
        return ()
    found = _parse(text)
    if not isinstance(found, list):
        raise BadImage("the topics are no list")
    return tuple(topic for topic in found if isinstance(topic, str))


def image_messages(reply: Message) -> list[Message]:
    """The image as one publish for each topic; none if the reply has none."""
    values = reply.record
    if _MODE not in values:
        return []
    found = _parse(_text(reply, values))
    if not isinstance(found, dict):
        raise BadImage("the image is no object")
    is_json = found.pop("SRL", "1") == "1"
    return [_message(topic, _dump(value) if is_json else value) for topic, value in found.items()]


def _text(reply: Message, values: dict[int, Any]) -> str:
    mode, value = values[_MODE], values.get(_TEXT)
    if mode in (_BLOB, _GZIP_BLOB) and reply.blob is not None:
        value = reply.blob.data
    if mode in (_GZIP, _GZIP_BLOB) and isinstance(value, bytes):
        value = _unzip(value)
    if isinstance(value, bytes) and mode in (_GZIP, _BLOB, _GZIP_BLOB):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise BadImage("the image is not UTF-8") from None
    if not isinstance(value, str):
        raise BadImage("the image has no text")
    return value


def _unzip(data: bytes) -> bytes:
    unzipped = zlib.decompressobj(wbits=47)
    try:
        text = unzipped.decompress(data, MAX_TEXT)
    except zlib.error as error:
        raise BadImage(f"the image cannot be unpacked: {error}") from None
    if not unzipped.eof:
        raise BadImage("the packed image is cut off or too long")
    return text


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadImage(f"no JSON: {error}") from None


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _message(topic: str, value: Any) -> Message:
    if not isinstance(value, str):
        raise BadImage(f"the value of {topic!r} is no text")
    try:
        return Message(PUBLISH, topic, write_record({_MODE: _PLAIN, _TEXT: value}), is_image=True)
    except EncodeError:
        raw = value.encode("utf-8", "replace")
        return Message(PUBLISH, topic, write_record({_MODE: _BLOB}), blob=Blob(_TEXT, raw), is_image=True)
