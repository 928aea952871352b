"""The exact reader: one frame, node by node, with path and offset of everything it sees.

It is the oracle. The generated decoder (compile.py) is faster and knows only "fine" and "look closely"; whatever is
not fine comes here, where faults get their rule, path and offset, and tolerated oddities their note. ``inspect``
draws its trace."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, assert_never

import msgspec

from ..errors import BadValue, DecodeError, Incomplete, LimitExceeded, Truncated
from ..spec import nodes as n
from ..spec.conditions import holds
from ..spec.conduct import When
from ..spec.declare import Cell, Tagged, tag_rows
from ..spec.derive import derive, found, reach
from ..spec.resolve import Layout, MessageNode, size_of, spare_bytes
from .checksums import SUMS
from .content import read_json, read_msgpack
from .escapes import unescape
from .frame import (
    Header,
    kept_fields,
    measure,
    read_code,
    read_header,
    read_int,
    smallest,
    struct_fields,
    unknown_code,
    unmask,
)
from .header_trace import trace_header
from .numbers import float_format
from .numerals import bits_of, read_numeral
from .records import cells_reader
from .scales import meaning

UNSET = msgspec.UNSET
_LONG = 256
"""Cells of more bytes are read quickly up to the first odd one."""


@dataclass(slots=True)
class Seen:
    """One thing the reader saw: for annotated hex."""

    path: str
    offset: int
    length: int
    value: Any
    what: str
    labels: n.Labels | None = None


def walk(layout: Layout, data: bytes, trace: list[Seen] | None = None) -> Any:
    """The message in ``data``, which must be exactly one frame. Errors are DecodeErrors with rule, path and offset."""
    reader = Reader(layout, trace)
    try:
        header = read_header(layout, data, 0, len(data), final=True, claimed=True)
        if header.length < len(data):
            header = read_header(layout, data, 0, len(data))
        reader.layout = header.layout or layout
        message = reader.read(data[: header.length], header)
        if len(data) > header.length:
            raise reader.bad(f"{len(data) - header.length} bytes behind the frame", "trailing_bytes", "", header.length)
        return message
    except DecodeError as error:
        inside = error.offset is not None and error.offset < len(reader.data)
        raise error.locate(layout.protocol.name, reader.name, reader.data if inside else data) from None


def walk_incomplete(layout: Layout, data: bytes, trace: list[Seen]) -> str:
    """Fill the trace with the fields that an incomplete frame has; return the name of its message, if known."""
    reader = Reader(layout, trace)
    reader.is_cut = True
    known = Header(len(data), len(data))
    try:
        header = measure(layout, data, 0, len(data), is_cut=True, into=known)
        header.length, header.stop = len(data), None
        reader.layout = header.layout or layout
        reader.read(data, header)
    except Incomplete:
        reader.show_header(data, known)
    except (DecodeError, IndexError):
        pass
    return reader.name


def find_end(layout: Layout, part: n.Ends, data: Any, start: int, stop: int, header: Header) -> int:
    """Return the length of a frame that ends with its last field; Incomplete while it is not all there.

    The bytes are read where they are, because a long value comes in many pieces.
    """
    reader = Reader(layout)
    reader.is_open = True
    if isinstance(data, memoryview):
        data, start, stop = bytes(data[start:stop]), 0, stop - start
    reader.data, reader.origin = data, start
    limit = start + part.most
    reader.at, reader.end = start + header.payload, min(stop, limit)
    reader.open_end = reader.end
    try:
        if reader.at > reader.end:
            raise reader._too_short("the header goes on", reader.at - start, part.rule, part.name, start)
        at, header.code_at = header.code_at, None if header.code_at is None else start + header.code_at
        node = reader._message_node(header)
        header.code_at = at
        reader.code = node.code
        values = reader._kept_values(node, header)
        reader._fields(_payload_steps(node, layout), values, "")
    except Truncated as error:
        available = stop - start
        if stop >= limit:
            detail = f"no end within {part.most} bytes"
            raise LimitExceeded(
                detail, rule=part.rule, path=part.name, offset=0, limit=part.most, actual=available
            ) from None
        needed = max(available + 1, (error.offset or 0) - start)
        detail = f"the frame goes on behind byte {available}"
        raise Incomplete(
            detail, rule="frame_incomplete", path=error.path, offset=available, needed=needed, available=available
        ) from None
    except DecodeError as error:
        error.offset = (error.offset or 0) - start
        raise
    return reader.at - start


class Reader:
    """Reads one frame. ``at`` moves forward, ``end`` bounds the range that is being read."""

    def __init__(self, layout: Layout, trace: list[Seen] | None = None) -> None:
        self.layout = self.whole = layout
        self.trace = trace
        self.data = b""
        self.origin = 0
        """Where the frame begins in the data."""
        self.at = 0
        self.end = 0
        self.name = ""
        self.code = 0
        self.head_end: int | None = None
        self.words: list[tuple[int, bytes]] = []
        self.skips = False
        self.scopes: list[tuple[frozenset[str], dict[str, Any]]] = []
        """The structures that are being read, the outermost first: which fields they have, and the values so far."""
        self.depth = 0
        self.is_open = False
        """Whether more bytes may follow those that are there."""
        self.open_end = -1
        """Where they may, so that it is not known yet what comes there."""
        self.is_cut = False
        """Whether bytes are missing, and those that are there are to be shown."""
        self.lookups: Mapping[str, n.Lookup] = {}
        self.words_needed = 0
        """Words of the line that later fields must have."""
        self.begun: dict[str, int] = {}
        """Where the fields of the structure that is being read begin."""

    def bad(self, detail: str, rule: str, path: str = "", at: int | None = None) -> BadValue:
        """Return the error for a value at ``at``, or where the reader is."""
        return BadValue(detail, rule=rule, path=path, offset=self.at if at is None else at)

    def _too_short(self, what: str, needed: int, rule: str, path: str, at: int) -> Truncated:
        left = max(0, self.end - self.at)
        return Truncated(f"{what}, {left} left", rule=rule, path=path, offset=at, needed=needed, available=left)

    def _too_much(self, detail: str, actual: int, limit: int, rule: str, path: str, at: int) -> LimitExceeded:
        return LimitExceeded(detail, rule=rule, path=path, offset=at, limit=limit, actual=actual)

    def read(self, frame: bytes, header: Header) -> Any:
        if header.mask_at is not None:
            frame = unmask(frame, 0, header)
        self.data = frame
        self.at, self.end = header.payload, header.length if header.stop is None else header.stop
        if not self.is_cut:
            self._trailer()
        self.head_end = header.head_end
        self._trace_header(header)
        node = self._message_node(header)
        self.name, self.code = node.name, node.code
        values = self._kept_values(node, header)
        if header.mask_at is not None:
            values[_mask_name(self.layout)] = frame[header.mask_at : header.mask_at + 4]
        steps = _payload_steps(node, self.layout)
        self._fields(steps, values, "")
        self._no_more_words()
        notes = self._finish(node)
        for name in steps.lengths:
            values.pop(name, None)
        message = node.cls(**values, wire_length=header.length, notes=notes, layout=self.whole)
        return self._views(node, message)

    def look_at_header(self, node: MessageNode, data: Any, start: int, end: int, header: Header) -> dict[str, Any]:
        """Take the bytes of a frame whose header is being read; return the fields that were read before."""
        self.is_open = True
        self.data, self.origin, self.at, self.end = data, start, start, end
        if isinstance(data, memoryview):
            self.data = bytes(data)
        return self._kept_values(node, header)

    def show_header(self, data: bytes, header: Header) -> None:
        """Show what there is of a header whose end is missing."""
        header.mask_at = None
        self.data, self.end = data, len(data)
        self._trace_header(header)
        with suppress(DecodeError):  # the last field is cut off
            self._kept_values(self.layout.nodes[0], header)

    def header_field(self, field: n.Field, values: dict[str, Any]) -> bool:
        """Read a field of the header behind those that have these values; return whether it is there."""
        self.scopes.append((kept_fields(self.layout), values))
        is_there = field.when is None or self._present(field.when, values)
        if is_there:
            self._value(field.wire, field.key)
        self.scopes.pop()
        return is_there

    def _kept_values(self, node: MessageNode, header: Header) -> dict[str, Any]:
        """Return the fields of a message that travel in the header."""
        self.lookups = node.lookups
        values: dict[str, Any] = {}
        self.scopes.append((kept_fields(self.layout), values))
        for name, at in (header.kept or {}).items():
            if name in node.names:
                values[name] = self._kept(node.field(name), self.origin + at)
        self.scopes.pop()
        return values

    def _kept(self, field: n.Field, at: int) -> Any:
        """Return a field that travels in the header."""
        if isinstance(field.wire, n.Fixed):
            raw = bytes(self.data[at : at + field.wire.size])
            if len(raw) < field.wire.size:
                raise self._too_short(
                    f"{field.wire.size} bytes are needed", field.wire.size, "bytes_fits", field.key, at
                )
            self._see(field.key, at, field.wire.size, raw, "bytes")
            return raw
        place, self.at = self.at, at
        value = self._value(field.wire, field.key)
        self.at = place
        return value

    def _trailer(self) -> None:
        """Check what stands behind the payload."""
        for part in self.layout.frame.parts:
            if isinstance(part, n.Trailer):
                given = self.data[self.end : self.end + len(part.value)]
                if given != part.value:
                    detail = f"ends with {given.hex(' ')}, not with {part.value.hex(' ')}"
                    raise self.bad(detail, "trailer", part.name, self.end)
                self._see(part.name, self.end, len(given), given, "trailer")
            elif isinstance(part, n.Until):
                self._see(part.name, self.end, len(part.end), part.end, "end of the frame")

    def _message_node(self, header: Header) -> MessageNode:
        if header.key is not None:
            found = self.layout.other(header.key)
            assert found is not None
            return found
        if header.code_at is None and not any(isinstance(p, n.Line) for p in self.layout.frame.parts):
            (only,) = self.layout.nodes
            return only
        line = next((p for p in self.layout.frame.parts if isinstance(p, n.Line)), None)
        if line is not None:
            return self._line(line)
        part = next(p for p in self.layout.frame.parts if isinstance(p, n.Code))
        assert header.code_at is not None
        code = read_code(part.wire, self.data, header.code_at)
        node = self.layout.other(code)
        if node is None:
            raise unknown_code(code, part.name, header.code_at)
        return node

    def _finish(self, node: MessageNode) -> tuple[str, ...]:
        left = self.data[self.at : self.end]
        if not left:
            return ()
        if node.padding is not None and left == node.padding.value:
            self._see("", self.at, len(left), left, f"padding ({node.padding.note})")
            return (node.padding.note,)
        raise self.bad(f"{len(left)} bytes are left behind the last field", "leftover_bytes")

    def _fields(self, steps: _Steps, values: dict[str, Any], prefix: str) -> None:
        self.scopes.append((steps.names, values))
        begun, self.begun = self.begun, {_BEGIN: self.at}
        for name, key, wire, when, spare in steps.each:
            if name in values:
                continue
            self.end -= spare
            if when is None or self._present(when, values):
                self.begun[name] = self.at
                value = self._value(wire, prefix + key)
                if value is not UNSET:
                    values[name] = value
            self.end += spare
        self.begun = begun
        self.scopes.pop()

    def _present(self, when: n.Condition, values: dict[str, Any]) -> bool:
        match when:
            case n.HeadReaches(size=size):
                assert self.head_end is not None
                return self.head_end >= size
            case n.IfLeft():
                return self.at < self.end
            case n.Begins(starts=starts):
                return self._begins(starts)
            case n.With(field=name):
                return name in values
            case When(field=path):
                return holds(when, self._earlier(path))
            case n.Every(conditions=conditions):
                return all(self._present(condition, values) for condition in conditions)
            case _:
                assert_never(when)

    def _begins(self, starts: tuple[bytes, ...]) -> bool:
        """Return whether the next bytes are any of these."""
        if any(self.data.startswith(start, self.at, self.end) for start in starts):
            return True
        given = bytes(self.data[self.at : self.end])
        if self.end == self.open_end and any(start.startswith(given) for start in starts):
            raise self._too_short("more bytes say whether it is there", len(given) + 1, "bytes_fits", "", self.at)
        return False

    def _struct(self, cls: Any, path: str) -> Any:
        values: dict[str, Any] = {}
        steps = _struct_steps(cls, self.layout)
        if cls.__sum_limits__:
            self._limits(cls, steps, values, path)
        self._fields(steps, values, f"{path}." if path else "")
        for name in steps.lengths:
            values.pop(name, None)
        return cls(**values)

    def _limits(self, cls: Any, steps: _Steps, values: dict[str, Any], path: str) -> None:
        """Reads up to and including the lengths that a sum limit binds, then applies it."""
        for limit in cls.__sum_limits__:
            wires = [wire for _, _, wire, _, _ in steps.each]
            bound = [i for i, wire in enumerate(wires) if isinstance(wire, n.Length) and wire.of in limit.fields]
            first = replace(steps, each=steps.each[: bound[-1] + 1])
            self._fields(first, values, f"{path}." if path else "")
            total = sum(values.get(steps.each[i][0], 0) for i in bound)
            if total > limit.most:
                names = " and ".join(limit.fields)
                detail = f"{names} together have {total} bytes, at most {limit.most} are allowed"
                raise self._too_much(detail, total, limit.most, limit.rule, path, self.at)

    def _value(self, wire: Any, path: str) -> Any:
        match wire:
            case n.Int():
                return self._int(wire, path)
            case n.Bool(lenient=lenient):
                return self._bool(lenient, path)
            case n.Float():
                return self._float(wire, path)
            case n.Fixed(size=size):
                raw = self._take(size, path, "bytes_fits")
                self._see(path, self.at - size, size, raw, "bytes")
                return raw
            case n.Run():
                return self._run(wire, path)
            case n.Bits():
                return self._bits(wire, path)
            case n.Varint() | n.Digits():
                return self._numeral(wire, path)
            case n.Scaled():
                return self._scaled(wire, path)
            case n.Constant():
                return self._constant(wire, path)
            case n.Checksum():
                return self._checksum(wire, path)
            case n.Sized():
                return self._sized(wire, path)
            case n.Length(wire=inner, since=since):
                begin = self.begun[since] if since else 0
                number = self._size(inner, path, "")
                return number if not since else _Until(begin + number)
            case n.Nested(struct=struct):
                return self._struct(struct, path)
            case n.Many():
                return self._many(wire, path)
            case n.Cells():
                return self._cells(wire, path)
            case n.Tags():
                return self._tags(wire, path)
            case n.Word():
                return self._word(wire, path)
            case n.Body():
                return self._body(wire, path)
            case n.Choice():
                return self._choice(wire, path)
            case n.Align(size=size):
                return self._align(size, path)
            case _:
                raise AssertionError(f"{wire!r} is not a wire node")

    def _take(self, size: int, path: str, rule: str) -> bytes:
        if size > self.end - self.at:
            raise self._too_short(f"{size} bytes are needed", size, rule, path, self.at)
        raw = self.data[self.at : self.at + size]
        self.at += size
        return bytes(raw) if self.is_open else raw

    def _int(self, wire: n.Int, path: str, what: str = "") -> int:
        at = self.at
        raw = self._take(wire.size, path, "int_fits")
        value = int.from_bytes(raw, "little" if wire.little else "big", signed=wire.signed)
        self._see(path, at, wire.size, value, what or f"{'int' if wire.signed else 'uint'}{wire.size * 8}", wire.labels)
        if (wire.low is not None and value < wire.low) or (wire.high is not None and value > wire.high):
            raise self.bad(f"{value} is not within {wire.low}..{wire.high}", wire.rule, path, at)
        return value

    def _bits(self, wire: n.Bits, path: str) -> int:
        at, whole = self.at, wire.wire
        if whole.size > self.end - at:
            raise self._too_short(f"{whole.size} bytes are needed", whole.size, "int_fits", path, at)
        value = bits_of(wire, read_int(whole, self.data, at))
        name = f"bit {wire.shift}" if wire.width == 1 else f"bits {wire.shift}..{wire.shift + wire.width - 1}"
        self._see(path, at, whole.size, value, f"{name} of uint{whole.size * 8}", whole.labels)
        if (whole.low is not None and value < whole.low) or (whole.high is not None and value > whole.high):
            raise self.bad(f"{value} is not within {whole.low}..{whole.high}", whole.rule, path, at)
        self.at += size_of(wire)
        return value

    def _numeral(self, wire: n.Varint | n.Digits, path: str, what: str = "") -> int:
        at = self.at
        try:
            value, self.at = read_numeral(wire, self.data, at, self.end, path)
        except Incomplete as error:
            needed = error.needed
            raise self._too_short(f"{needed} bytes are needed", needed, "int_fits", path, at) from None
        except DecodeError as error:
            error.offset = at + (error.offset or 0)
            raise
        self._see(path, at, self.at - at, value, what or ("varint" if isinstance(wire, n.Varint) else "digits"))
        return value

    def _scaled(self, wire: n.Scaled[Any], path: str) -> Any:
        at, number = self.at, self._value(wire.wire, path)
        try:
            value = meaning(wire)(number)
        except DecodeError as error:
            error.path, error.offset = path, at
            raise
        if self.trace is not None:
            self.trace[-1].value = value
        return value

    def _constant(self, wire: n.Constant, path: str) -> Any:
        at = self.at
        given = self._take(len(wire.value), path, "bytes_fits")
        wrong = next((i for i, (a, b) in enumerate(zip(given, wire.value, strict=True)) if a != b), None)
        if wrong is not None:
            raise self.bad(f"{given.hex(' ')} is not {wire.value.hex(' ')}", wire.rule, path, at + wrong)
        self._see(path, at, len(given), given, "constant")
        return UNSET

    def _checksum(self, wire: n.Checksum, path: str) -> Any:
        at = self.at
        if isinstance(wire.wire, n.Digits):
            given = self._numeral(wire.wire, path)
        else:
            given = read_int(wire.wire, self._take(wire.wire.size, path, "int_fits"), 0)
        begin = self.begun[wire.since] if wire.since else self.origin
        wanted = SUMS[wire.kind](self.data[begin:at])
        self._see(path, at, wire.wire.size, given, f"{wire.kind} of bytes {begin}..{at - 1}")
        if given != wanted:
            raise self.bad(f"{wire.kind} is {given:#x}, the bytes have {wanted:#x}", "checksum", path, at)
        return UNSET

    def _sized(self, wire: n.Sized[Any], path: str) -> Any:
        at = self.at
        by = n.By.of(wire.length)
        size = self._size(wire.length, path, "length") if by is None else self._referred(by, path)
        if size is None:
            raise self.bad(f"{by} says no length", "field_missing", path)
        if size > self.end - self.at:
            short = self._too_short(f"{size} bytes", size, "bytes_fits", path, at)
            if self.is_cut:
                self._value(wire.inner, path)
            raise short
        outer, self.end = self.end, self.at + size
        value = self._value(wire.inner, path)
        if self.at != self.end:
            detail = f"{self.end - self.at} of {size} bytes are left behind the value"
            raise self.bad(detail, "leftover_bytes", path)
        self.end = outer
        return value

    def _choice(self, wire: n.Choice[Any], path: str) -> Any:
        at = self.at
        if self.depth >= wire.depth:
            detail = f"a value inside of {self.depth} others, at most {wire.depth} are allowed"
            raise self._too_much(detail, self.depth + 1, wire.depth, "depth_limit", path, at)
        known = wire.known
        if wire.tag is None:
            self.depth += 1
            inside = self._value(known[None], path)
            self.depth -= 1
            return inside
        tag = self._value(wire.tag, f"{path}.tag")
        if tag not in known:
            raise self.bad(f"{tag!r} is not a known tag", "unknown_tag", f"{path}.tag", at)
        if known[tag] is None:
            return Tagged(tag)
        self.depth += 1
        value = self._value(known[tag], f"{path}.value")
        self.depth -= 1
        return Tagged(tag, value)

    def _earlier(self, path: str) -> Any:
        """Return the value of an earlier field, here or around it, or what a list says under a key."""
        first = path.partition(".")[0]
        for names, values in reversed(self.scopes):
            if first in names:
                return _reach(values, path)
        how = self.lookups.get(path)
        if how is None:
            return None
        value = found(how, self.scopes[0][1].get(how.field))
        if value is None and how.number:
            plain = found(replace(how, number=False), self.scopes[0][1].get(how.field))
            if plain is not None:
                raise self.bad(f"{how.keys[0]!r} is {plain!r}, which is no number", "digits", path)
        return value

    def _align(self, size: int, path: str) -> Any:
        at = self.at
        given = self._take(-(at - self.begun[_BEGIN]) % size, path, "bytes_fits")
        wrong = next((i for i, byte in enumerate(given) if byte), None)
        if wrong is not None:
            raise self.bad(f"{given.hex(' ')} is not zeros up to a multiple of {size}", "constant", path, at + wrong)
        if given:
            self._see(path, at, len(given), given, f"up to a multiple of {size}")
        return UNSET

    def _referred(self, by: n.By, path: str) -> int | None:
        """Return the length or count that an earlier field holds; None if it holds none."""
        value = self._earlier(by.field)
        size = value - self.at if isinstance(value, _Until) else by.number(self._number)
        if size is not None and size < 0:
            raise self.bad(f"{by} says {size}, which is negative", "negative_length", path)
        return size

    def _number(self, name: str) -> int | None:
        value = self._earlier(name)
        return None if value is UNSET else value

    def _size(self, given: n.Number | n.By, path: str, what: str, null: int | None = None) -> int:
        """Read a length or a count."""
        at = self.at
        wire = n.written(given)
        size = self._int(wire, path, what) if isinstance(wire, n.Int) else self._numeral(wire, path, what)
        if isinstance(given, n.By):
            size = given.size(size)
        if size < 0 and size != null:
            rule = "negative_count" if what == "count" else "negative_length"
            raise self.bad(f"{what or 'length'} {size} is negative", rule, path, at)
        return size

    def _bool(self, lenient: bool, path: str) -> bool:
        at = self.at
        raw = self._take(1, path, "int_fits")[0]
        if raw > 1 and not lenient:
            raise self.bad(f"{raw} is neither 0 nor 1", "bool_value", path, at)
        self._see(path, at, 1, bool(raw), "bool")
        return bool(raw)

    def _float(self, wire: n.Float, path: str) -> float:
        at = self.at
        raw = self._take(wire.size, path, "int_fits")
        value: float = struct.unpack(float_format(wire), raw)[0]
        self._see(path, at, wire.size, value, f"float{wire.size * 8}")
        return value

    def _run(self, wire: n.Run[Any], path: str, rules: str = "") -> Any:
        at = self.at
        size = self._run_length(wire, path)
        if wire.null is not None and size == wire.null:
            return None
        behind = len(wire.length) if isinstance(wire.length, bytes) else len(wire.end)
        kind = "text" if wire.content in ("text", "strict_text") else "bytes"
        if size < wire.least:
            raise self.bad(f"{kind} of {size} bytes, at least {wire.least}", "text_empty", path, at)
        if wire.most is not None and size > wire.most:
            detail = f"{kind} of {size} bytes, at most {wire.most}"
            raise self._too_much(detail, size, wire.most, f"{rules or kind}_limit", path, at)
        if size > self.end - self.at:
            raise self._too_short(f"{kind} of {size} bytes", size, f"{rules or kind}_fits", path, at)
        start = self.at
        if wire.end:
            self._check_behind(wire.end, start + size, path)
        raw = self.data[start : start + size]
        if self.is_open:
            raw = bytes(raw)
        self.at += size + behind
        if wire.pad:
            raw = raw.rstrip(wire.pad)
        elif wire.pad_before:
            raw = raw.lstrip(wire.pad_before)
            start += size - len(raw)
        return self._content(wire, raw, start, path, rules)

    def _check_behind(self, end: bytes, at: int, path: str) -> None:
        """Refuse other bytes behind a value than those that always follow it."""
        given = self.data[at : min(at + len(end), self.end)]
        wrong = next((i for i, (a, b) in enumerate(zip(given, end, strict=False)) if a != b), None)
        if wrong is not None:
            raise self.bad(f"{given.hex(' ')} follows, not {end.hex(' ')}", "terminator", path, at + wrong)
        if len(given) < len(end):
            raise self._too_short(f"{end!r} is needed behind it", at + len(end) - self.at, "terminator", path, at)

    def _run_length(self, wire: n.Run[Any], path: str) -> int:
        if isinstance(wire.length, n.Int):
            return self._size(wire.length, path, "length", wire.null)
        if wire.length is None:
            return self.end - self.at
        if isinstance(wire.length, bytes):
            return self._until_end(wire.length, wire.most, path)
        if isinstance(wire.length, int):
            return wire.length
        by = n.By.of(wire.length)
        if by is None:
            return self._size(wire.length, path, "length", wire.null)
        length = self._referred(by, path)
        if length is None and not wire.end:
            raise self.bad(f"{by} says no length", "field_missing", path)
        return self._until_end(wire.end, wire.most, path) if length is None else length

    def _until_end(self, end: bytes, most: int | None, path: str) -> int:
        """Return how many bytes there are before those that end a value."""
        stop = self.end if most is None else min(self.end, self.at + most + len(end))
        found = self.data.find(end, self.at, stop)
        if found < 0 and most is not None and stop - self.at == most + len(end):
            return most + 1  # however long it is
        if found < 0:
            needed = self.end - self.at + 1
            raise self._too_short(f"no {end!r} ends it", needed, "terminator", path, self.at)
        return found - self.at

    def _content(self, wire: n.Run[Any], raw: bytes, at: int, path: str, rules: str) -> Any:
        if not raw and (wire.null_if_empty or wire.absent_if_empty):
            return UNSET
        size = len(raw)
        try:
            if not raw and wire.content == "json" and wire.length is not None:
                raise BadValue("not JSON: no bytes", rule="payload_json")
            if wire.escapes:
                raw = unescape(wire.escapes, raw)
            match wire.content:
                case "bytes":
                    value: Any = raw
                case "text":
                    value = raw.decode("utf-8", "surrogateescape")
                case "strict_text":
                    value = _strict(raw, wire, rules)
                case "msgpack":
                    value = read_msgpack(raw)
                case "msgpack_map":
                    value = read_msgpack(raw, is_map=True)
                case "json":
                    value = read_json(raw)
                case _:
                    assert_never(wire.content)
        except DecodeError as error:
            error.path = path
            error.offset = at + (error.offset or 0)
            raise
        self._see(path, at, size, value, wire.content.replace("strict_", ""))
        return value

    def _many(self, wire: n.Many[Any], path: str) -> tuple[Any, ...] | None:
        found: list[Any] = []
        if wire.until is not None:
            while not found or not holds(wire.until, reach(found[-1], wire.until.field)):
                if wire.or_end and self.at >= self.end:
                    break
                found.append(self._element(wire.element, f"{path}[{len(found)}]"))
            return tuple(found)
        if wire.count is None:
            while self.at < self.end:
                found.append(self._element(wire.element, f"{path}[{len(found)}]"))
            return tuple(found)
        if isinstance(wire.count, bytes):
            return self._until(wire.element, wire.count, path)
        at = self.at
        by = None if isinstance(wire.count, n.Int) else n.By.of(wire.count)
        if by is not None:
            count = self._referred(by, path)
            if count is None:
                raise self.bad(f"{by} says no count", "field_missing", path)
        else:
            count = wire.count if isinstance(wire.count, int) else self._size(wire.count, path, "count", wire.null)
        if wire.null is not None and count == wire.null:
            return None
        least = max(1, smallest(wire.element, self.layout))
        if count * least > self.end - self.at:
            short = self._too_short(
                f"{count} elements of at least {least} bytes", count * least, "count_fits", path, at
            )
            for i in range(count if self.is_cut else 0):
                self._value(wire.element, f"{path}[{i}]")
            raise short
        for i in range(count):
            found.append(self._element(wire.element, f"{path}[{i}]"))
        return tuple(found)

    def _element(self, wire: Any, path: str) -> Any:
        """Read an element of a list; one of no bytes is refused, for a count could claim any number of them."""
        at = self.at
        value = self._value(wire, path)
        if self.at == at:
            raise self.bad("an element has no bytes", "count_fits", path)
        return value

    def _until(self, element: Any, end: bytes, path: str) -> tuple[Any, ...]:
        """Read elements up to the bytes that stand behind the last one."""
        found: list[Any] = []
        while not self.data.startswith(end, self.at, self.end):
            if self.at >= self.end:
                raise self._too_short(f"no {end!r} ends the list", len(end), "terminator", path, self.at)
            found.append(self._element(element, f"{path}[{len(found)}]"))
        self._see(path, self.at, len(end), end, "end of the list")
        self.at += len(end)
        return tuple(found)

    def _cells(self, wire: n.Cells[Any], path: str) -> tuple[Cell, ...]:
        found: list[Cell] = []
        read_plain = cells_reader(wire) if self.trace is None and self.end - self.at > _LONG else None
        while self.at < self.end:
            if read_plain is not None:
                plain, self.at = read_plain(self.data, self.at, self.end)
                found += plain
            if self.at < self.end:
                found.append(self._cell(wire, f"{path}[{len(found)}]"))
        return tuple(found)

    def _cell(self, wire: n.Cells[Any], path: str) -> Cell:
        at = self.at
        head = read_int(wire.head, self._take(wire.head.size, path, "cell_fits"), 0)
        fid = head >> wire.id_shift
        kind = wire.types[head >> wire.type_shift & wire.type_mask]
        group_bit = bool(head & wire.flag_mask)
        if self.trace is not None:
            self._see(f"{path}.head", at, wire.head.size, head, f"field {fid} {kind.name}")
        if fid > wire.id_max:
            raise self.bad(f"field id {fid} is above {wire.id_max}", "cell_id", path, at)
        bits = None
        match kind.wire:
            case None:
                value: Any = None
            case n.Run() as run:
                value = self._run(run, path, "cell")
            case n.Int(size=size) as number:
                value = read_int(number, self._take(size, path, "cell_fits"), 0)
                self._see(path, self.at - size, size, value, kind.name)
            case n.Float(size=size) as number:
                raw = self._take(size, path, "cell_fits")
                value = struct.unpack(float_format(number), raw)[0]
                if value != value:
                    bits = int.from_bytes(raw, "little" if number.little else "big")
                self._see(path, self.at - size, size, value, kind.name)
            case other:
                assert_never(other)
        return Cell(fid, kind.name, value, bits, group_bit)

    def _tags(self, wire: n.Tags[Any], path: str) -> Any:
        rows = {row.code: row for row in tag_rows(wire.struct)}
        values: dict[str, Any] = {}
        order: list[str] = []
        frame_end, self.end = self.end, self.head_end if self.head_end is not None else self.end
        while self.at < self.end:
            at = self.at
            code = self._take(1, path, "header_fits")[0]
            row = rows.get(code)
            if row is None:
                raise self.bad(f"header code {code:#04x} is not known", "unknown_header", path, at)
            here = f"{path}.{row.name}"
            self._see(f"{here}.code", at, 1, code, row.title or row.name)
            if not wire.anywhere and self.code not in row.allowed:
                raise self.bad(f"{row.title or row.name} is not allowed on {self.name}", "header_not_allowed", here, at)
            values[row.name] = self._tag_value(row, here)
            order.append(row.name)
        self.end = frame_end
        self._required(wire, rows.values(), values, path)
        return wire.struct(**values, order=tuple(order))

    def _tag_value(self, row: n.Tag, path: str) -> Any:
        if row.wire is None:
            return True
        try:
            return self._value(row.wire, path)
        except Truncated as error:
            error.rule = "header_fits"
            raise

    def _required(self, wire: n.Tags[Any], rows: Any, values: dict[str, Any], path: str) -> None:
        if not wire.demand or (wire.waived and (values.get(wire.waived) or 0) > 0):
            return
        for row in rows:
            if self.code in row.required and row.name not in values:
                detail = f"{self.name} needs {row.title or row.name}"
                raise self.bad(detail, "header_required", f"{path}.{row.name}")

    def _line(self, line: n.Line) -> MessageNode:
        stop = min(self.end, self.at + line.window)
        end = self.data.find(line.end, self.at, stop)
        if end < 0 and self.is_open and stop < self.at + line.window:
            raise self._too_short("no line end", stop + 1 - self.at, "no_newline", "", self.at)
        if end < 0 and self.is_cut:
            end = self.end
        if end < 0:
            raise self.bad(f"no line end within {line.window} bytes", "no_newline", "", stop)
        at = self.at
        for raw in self.data[at:end].split(line.separator):
            self.words.append((at, raw))
            at += len(raw) + len(line.separator)
        count = len(self.words)
        if count < line.fewest and not self.is_cut:
            raise self.bad(f"{count} fields, at least {line.fewest} are needed", "missing_fields")
        if line.most is not None and count > line.most:
            at = self.words[line.most][0]
            raise self.bad(f"{count} fields, at most {line.most} are allowed", "extra_fields", "", at)
        at, raw = self.words[0]
        given = raw.decode("utf-8", "replace")
        node = self.layout.said(given, line.fold)
        if node is None:
            raise self.bad(f"{given!r} is no {line.code}", line.code_rule, line.code, at)
        if node.codes[0] != n.OTHER:
            self.words.pop(0)
            self._see(line.code, at, len(raw), node.word, "word")
        self.at = end + len(line.end)
        if line.skip:
            self.skips = True
            self.words_needed = sum(isinstance(f.wire, n.Word) and not f.wire.optional for f in node.fields)
        return node

    def _word(self, wire: n.Word[Any], path: str) -> Any:
        if self.skips and self._is_left_out(wire, path):
            return UNSET
        if not self.words and wire.optional:
            return UNSET
        if not self.words:
            raise self.bad(f"{path} is missing", "missing_fields", path)
        at, raw = self.words.pop(0)
        if wire.all:
            raw = self.data[at : self.words[-1][0] + len(self.words[-1][1])] if self.words else raw
            self.words.clear()
        if not raw and wire.optional:
            return UNSET
        if wire.only is not None and self.code not in wire.only:
            raise self.bad(f"{path} is not allowed on {self.name}", wire.only_rule, path, at)
        value = read_word(wire, raw.decode("utf-8", "replace"))
        if value is None:
            raise self.bad(f"{raw[:80]!r} is not a valid {path}", wire.rule, path, at)
        self._see(path, at, len(raw), value, "word")
        return value

    def _is_left_out(self, wire: n.Word[Any], path: str) -> bool:
        """Return whether a word is absent, because those that are left belong to later fields."""
        if wire.optional:
            return len(self.words) <= self.words_needed
        self.words_needed -= 1
        if not self.words:
            raise self.bad(f"{path} is missing", "missing_fields", path)
        return False

    def _no_more_words(self) -> None:
        """Words that no field took are too many, unless the line may have any number."""
        line = next((p for p in self.layout.frame.parts if isinstance(p, n.Line)), None)
        if self.words and line is not None and (line.most is not None or line.skip):
            raise self.bad(f"{self.name} has {len(self.words)} fields fewer", "extra_fields", "", self.words[0][0])

    def _body(self, wire: n.Body, path: str) -> bytes:
        size = self.end - self.at
        if wire.exactly is not None and size != wire.exactly:
            detail = "must be empty" if wire.exactly == 0 else f"must have {wire.exactly} bytes"
            raise self.bad(f"the body {detail}, it has {size}", "body_length", path)
        at = self.at
        if wire.most is not None and size > wire.most:
            raise self._too_much(f"{size} bytes, at most {wire.most}", size, wire.most, wire.most_rule, path, at)
        self.at = self.end
        raw = self.data[at : self.end]
        self._see(path, at, size, raw, "body")
        return raw

    def _views(self, node: MessageNode, message: Any) -> Any:
        """The message with its body read once more through its views."""
        field = node.body
        if field is None or not node.views:
            return message
        raw = getattr(message, field.name)
        body = field.wire
        if raw is None or (body.opaque_if and reach(message, body.opaque_if)):
            return message
        self.end = len(self.data)
        self.at = self.end - len(raw)
        try:
            if not raw and body.empty == "refused":
                raise self.bad("the body is empty", "body_empty", field.key)
            if not raw and (body.empty == "absent" or (body.empty_if is not None and derive(body.empty_if, message))):
                return message
            return msgspec.structs.replace(message, **self._read_views(node, body, raw))
        except DecodeError as error:
            error.body_only = True
            raise

    def _read_views(self, node: MessageNode, body: n.Body, raw: bytes) -> dict[str, Any]:
        prefixed = bool(body.prefix) and raw.startswith(body.prefix)
        if prefixed:
            self.at += len(body.prefix)
        values: dict[str, Any] = {}
        for view in node.views:
            if isinstance(view.wire, n.Signature):
                values[view.name] = read_signature(view.wire, self.layout, values[view.wire.cells])
                continue
            start = self.at
            value = self._value(view.wire, view.key)
            if prefixed and not _has_all(value, body.prefix_needs):
                detail = f"an object with {', '.join(body.prefix_needs)} must follow {body.prefix.decode()!r}"
                raise self.bad(detail, body.prefix_rule, view.key, start)
            if value is not UNSET:
                values[view.name] = value
        if self.at != self.end:
            raise self.bad(f"{self.end - self.at} bytes are left in the body", "leftover_bytes", "body")
        return values

    def _see(self, path: str, at: int, length: int, value: Any, what: str, labels: n.Labels | None = None) -> None:
        if self.trace is not None:
            self.trace.append(Seen(path, at, length, value, what, labels))

    def _trace_header(self, header: Header) -> None:
        if self.trace is not None:
            trace_header(self.layout, self.data, header, self._see)


# --- what the parts need

_BEGIN = ":begin"
"""Where the structure itself begins."""


class _Until(int):
    """A length that is known as the place where it ends."""


_Step = tuple[str, str, Any, n.Condition | None, int]
"""A field as it is read: its name, its key, its wire, its condition, and how many bytes what follows it needs."""


@dataclass(frozen=True, slots=True)
class _Steps:
    """What is read one after the other. ``lengths`` are the fields that are no part of the record."""

    each: tuple[_Step, ...]
    lengths: tuple[str, ...]
    names: frozenset[str]
    """All fields, those in the header of the frame, too."""


@lru_cache(maxsize=1024)
def _payload_steps(node: MessageNode, layout: Layout) -> _Steps:
    in_frame = kept_fields(layout)
    steps = _steps(tuple(f for f in node.fields if f.name not in in_frame))
    return replace(steps, names=steps.names | in_frame)


@lru_cache(maxsize=1024)
def _struct_steps(cls: Any, layout: Layout) -> _Steps:
    return _steps(struct_fields(cls, layout))


def _steps(fields: tuple[n.Field, ...]) -> _Steps:
    each = tuple(
        (field.name, field.key, field.wire, field.when, spare)
        for field, spare in zip(fields, spare_bytes(fields), strict=True)
        if not field.view_of
    )
    lengths = tuple(field.name for field in fields if isinstance(field.wire, n.Length))
    return _Steps(each, lengths, frozenset(field.name for field in fields))


def _strict(raw: bytes, wire: n.Run[Any], rules: str) -> str:
    try:
        return raw.decode(wire.charset, wire.errors)
    except UnicodeDecodeError as error:
        detail = f"is not {wire.charset.upper()}"
        raise BadValue(detail, rule=f"{rules or 'text'}_utf8", offset=error.start) from None


def _reach(values: dict[str, Any], path: str) -> Any:
    first, _, inner = path.partition(".")
    value = values.get(first)
    return reach(value, inner) if inner and value is not None else value


def _has_all(value: Any, names: tuple[str, ...]) -> bool:
    return isinstance(value, dict) and all(value.get(name) not in (None, "", 0) for name in names)


_pattern = lru_cache(maxsize=1024)(re.compile)


def read_word(wire: n.Word[Any], text: str) -> Any:
    """The value of a word, or None if it breaks the word's rule."""
    if wire.most is not None and len(text) > wire.most:
        return None
    found = _pattern(wire.pattern).fullmatch(text)
    if found is None:
        return None
    if wire.number:
        digits = found.group(1)
        number = int(digits, 16 if "x" in digits.lower() else 10)
        return number if (wire.low or 0) <= number <= (wire.high or number) else None
    if wire.parts_most is not None and any(int(part) > wire.parts_most for part in found.groups() if part):
        return None
    return text


def read_signature(wire: n.Signature[Any], layout: Layout, cells: tuple[Cell, ...]) -> Any:
    """The signature in the last cell of the given number, or None."""
    fid = wire.fid
    for last in reversed(cells):
        if last.fid == fid:
            break
    else:
        return None
    if last.type != "BYTES" or not last.value or last.value[0] != wire.kind:
        return None
    for form in wire.forms:
        if form.size == len(last.value):
            reader = Reader(layout)
            reader.data, reader.end = last.value, len(last.value)
            made = reader._struct(form.struct, "")
            return made if (made.index == 0 if form.first else made.index > 0) else None
    return None


def _mask_name(layout: Layout) -> str:
    return next(p.wire.mask_key for p in layout.frame.parts if isinstance(p, n.Size) and isinstance(p.wire, n.Escaped))
