"""Image requests: a client asks a service, by request and reply, for the last values of topics.

The service subscribes the client itself. Its reply holds a JSON object topic -> value, in one of four ways.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

from ..errors import EncodeError
from .ceda_data import Blob, Data
from .ceda_records import write_record
from .ceda_wire import PUBLISH

IMAGE_TOPIC = "API.REQUESTIMAGE"
MAX_TEXT = 64 << 20
"""What a compressed image may become."""
_TEXT, _REFUSED, _MODE = 3, 9, 5
_PLAIN, _GZIP, _BLOB, _GZIP_BLOB = range(4)


class BadImage(Exception):
    """The reply to an image request cannot be read."""


def image_request(topics: tuple[str, ...]) -> bytes:
    """The record of a request."""
    return write_record({_MODE: 0, _TEXT: json.dumps(topics, ensure_ascii=False, separators=(",", ":"))})


def refused_topics(reply: Data) -> tuple[str, ...]:
    """The topics that the service does not give to this client."""
    text = reply.values.get(_REFUSED)
    if not isinstance(text, str) or not text:
        return ()
    found = _parse(text)
    if not isinstance(found, list):
        raise BadImage("the refused topics are no list")
    return tuple(topic for topic in found if isinstance(topic, str))


def image_messages(reply: Data) -> list[Data]:
    """The image as one publish for each topic; none if the reply has none."""
    values = reply.values
    if _MODE not in values:
        return []
    found = _parse(_text(reply, values))
    if not isinstance(found, dict):
        raise BadImage("the image is no object")
    is_json = found.pop("SRL", "1") == "1"
    return [_message(topic, _dump(value) if is_json else value) for topic, value in found.items()]


def _text(reply: Data, values: dict[int, Any]) -> str:
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


def _message(topic: str, value: Any) -> Data:
    if not isinstance(value, str):
        raise BadImage(f"the value of {topic!r} is no text")
    try:
        return Data(PUBLISH, topic, write_record({_MODE: _PLAIN, _TEXT: value}))
    except EncodeError:
        raw = value.encode("utf-8", "replace")
        return Data(PUBLISH, topic, write_record({_MODE: _BLOB}), blob=Blob(_TEXT, raw))
