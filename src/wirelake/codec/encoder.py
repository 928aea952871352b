"""Records to bytes: one frame per message. Lengths, counts and codes are computed; limits are those of the wire."""

from __future__ import annotations

import os
import struct
from functools import lru_cache
from typing import Any, assert_never

import msgspec

from ..errors import EncodeError
from ..spec import nodes as n
from ..spec.conditions import conditions_of, holds
from ..spec.conduct import When
from ..spec.declare import Tagged, tag_rows
from ..spec.derive import derive, reach
from ..spec.resolve import Layout, MessageNode, spare_bytes
from .checksums import SUMS
from .content import dump_json, write_msgpack
from .escapes import escape
from .frame import apply_mask, kept_fields, struct_fields
from .numbers import float_format
from .numerals import longest, write_numeral
from .records import cells_writer
from .scales import counted
from .walk import read_word

UNSET = msgspec.UNSET


def encode_frame(layout: Layout, message: Any, *, padded: bool = False) -> bytes:
    """Return the bytes of a message; EncodeError with path and rule if it cannot be written.

    ``padded``: with the bytes behind the last field that some peers add, and that readers tolerate.
    """
    node = layout.messages.get(message.__message__["code"])
    if node is None or node.cls is not type(message):
        detail = f"{type(message).__name__} is not a message of {layout.protocol.name}"
        raise EncodeError(detail, rule="unknown_message")
    writer = _Writer(layout.at(node), node, message)
    padding = node.padding.value if padded and node.padding is not None else b""
    try:
        return writer.frame(padding)
    except EncodeError as error:
        wrong = error
    except (TypeError, AttributeError) as error:
        wrong = EncodeError(f"has the wrong type: {error}", rule="field_type", path=writer.where)
    wrong.protocol, wrong.message = layout.protocol.name, node.name
    raise wrong from None


def bytes_behind(layout: Layout, message: Any, part: n.Size) -> int:
    """Return the length that fields of the header are to say."""
    node = layout.of(message)
    writer = _Writer(layout.at(node), node, message)
    return writer.bytes_behind(part, writer.payload())


def _octets(value: Any) -> bytes:
    """Return bytes as they are: ``bytes`` itself would also take numbers and lists."""
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"bytes are needed, not {type(value).__name__}")
    return bytes(value)


@lru_cache(maxsize=1024)
def _together(node: MessageNode, when: n.Condition) -> tuple[str, ...]:
    """The fields that share a condition."""
    return tuple(field.name for field in node.fields if field.when == when)


@lru_cache(maxsize=1024)
def _payload_fields(node: MessageNode, layout: Layout) -> tuple[tuple[n.Field, bool, bool, int], ...]:
    """Return the fields behind the header.

    Each with whether it is part of the record, whether it is always there, and how many bytes what follows it needs.
    """
    in_frame = kept_fields(layout)
    fields = tuple(field for field in node.fields if field.name not in in_frame)
    return tuple(
        (field, not isinstance(field.wire, n.WireOnly | n.Length), field.when is None, spare)
        for field, spare in zip(fields, spare_bytes(fields), strict=True)
        if not (field.view_of or isinstance(field.wire, n.Word))
    )


@lru_cache(maxsize=1024)
def _struct_fields(cls: Any, layout: Layout) -> tuple[tuple[n.Field, bool, bool, int], ...]:
    """Return the fields of a structure.

    Each with whether its own value is written, whether it always is, and how many bytes what follows it needs.
    """
    found = []
    fields = struct_fields(cls, layout)
    for field, spare in zip(fields, spare_bytes(fields), strict=True):
        is_behind = isinstance(field.wire, n.Length) and isinstance(field.when, When) and bool(field.when.off)
        is_own = is_behind or not isinstance(field.wire, n.WireOnly | n.Length)
        found.append((field, is_own, is_own and field.when is None, spare))
    return tuple(found)


class _Writer:
    def __init__(self, layout: Layout, node: MessageNode, message: Any) -> None:
        self.layout = layout
        self.node = node
        self.message = message
        self.out = bytearray()
        self.head_end: int | None = None
        self.where = ""
        self.depth = 0
        self.shared = 0
        """Bits of an integer that is not complete yet."""
        self.spare = 0
        """How many bytes what follows a field needs."""
        self.records: list[Any] = [message]
        """The message, and the structures in it, that are being written."""
        self.sums: list[tuple[int, int | None, n.Checksum]] = []
        """Where sums are to be written into the payload, and from where on they count, if not from the first byte."""
        self.left_out: list[tuple[int, int, str]] = []
        """Where fields are absent for want of bytes, how many may follow them, and which they are."""
        self.not_begun: list[tuple[int, n.Begins, str]] = []
        """Where fields are absent that their first bytes announce, and which they are."""

    def frame(self, padding: bytes = b"") -> bytes:
        payload = self.payload() + padding
        out = bytearray()
        tail = self._tail()
        patches: list[tuple[n.Size | n.Head, int]] = []
        mask_key, mask_at = None, 0
        for part in self.layout.frame.parts:
            match part:
                case n.Magic(value=value):
                    out += value
                case n.Size(wire=n.Int() as wire) | n.Head(wire=wire):
                    patches.append((part, len(out)))
                    out += bytes(wire.size)
                case n.Size(wire=n.Escaped() as escaped):
                    mask_key = self._mask(escaped)
                    out += self._escaped(escaped, self._after(part) + len(payload) + len(tail), part, mask_key)
                    mask_at = len(out)
                case n.Size(wire=str() | n.By() as given):
                    self._check_said(part, given, self.bytes_behind(part, payload))
                case n.Size(wire=numeral):
                    out += self._numeral_size(part, numeral, len(out), len(payload) + len(tail))
                case n.Code(wire=n.Int() as wire) if not (self.layout.beginnings or self.layout.takes_any):
                    out += self._int_bytes(wire, self.node.codes[0], "")
                case n.Code():
                    out += self._code(part)
                case n.Kept(name=name) if name in self.layout.loose:
                    out += self._header_field(self.node.field(name), len(out))
                case n.Kept(name=name):
                    out += self._kept(self.node.field(name))
                case n.Line():
                    out += self._line(part)
                case n.Trailer() | n.Until() | n.Ends() | n.Opaque():
                    pass
                case _:
                    assert_never(part)
        head_end = len(out) + self.head_end if self.head_end is not None else None
        begin = len(out)
        out += payload + tail
        for patched, at in patches:
            if isinstance(patched, n.Head):
                assert head_end is not None
                self._check_head(patched, head_end, len(out))
                number = head_end
            else:
                number = len(out) if patched.counts == "whole" else len(out) - at - patched.wire.size
                number -= patched.plus
                self._check_size(patched, number)
            out[at : at + patched.wire.size] = self._int_bytes(patched.wire, number, patched.name)
        for place, since, checksum in self.sums:
            covered = out[0 if since is None else begin + since : begin + place]
            total = SUMS[checksum.kind](bytes(covered))
            out[begin + place : begin + place + checksum.wire.size] = self._number(checksum.wire, total, "")
        if self.layout.ends:
            self._check_end(bytes(out[begin : begin + len(payload)]), begin)
        if self.not_begun:
            self._check_not_begun(out)
        if mask_key is not None:
            return bytes(out[:mask_at]) + mask_key + apply_mask(bytes(out[mask_at:]), mask_key)
        return bytes(out)

    def _code(self, part: n.Code) -> bytes:
        """Return what says which message it is; nothing where the message has no such code."""
        places = [other for other in self.layout.frame.parts if isinstance(other, n.Code)]
        if places.index(part) >= len(self.node.codes):
            return b""
        code = self.node.codes[places.index(part)]
        if code == n.OTHER:
            return self._other_code(part)
        match part.wire:
            case n.Run(length=end):
                return bytes(code + end)
            case n.Bits():
                return self._bits(part.wire, code, part.name)
            case wire:
                return self._number(wire, code, "")

    def _other_code(self, part: n.Code) -> bytes:
        """Return a code that no other message has."""
        value = getattr(self.message, part.name)
        given = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
        if given in self.layout.by_code:
            name = self.layout.by_code[given].name
            raise EncodeError(f"{value!r} is the code of {name}", rule="unknown_code", path=part.name)
        return self._kept(self.node.field(part.name))

    def _tail(self) -> bytes:
        """Return what stands behind the payload."""
        tail = b""
        for part in self.layout.ends:
            if isinstance(part, n.Trailer | n.Until):
                tail += part.value if isinstance(part, n.Trailer) else part.end
        return tail

    def _check_end(self, payload: bytes, begin: int) -> None:
        """Refuse a payload that holds, or overlaps, the bytes that end the frame, or is too long."""
        for part in self.layout.ends:
            if isinstance(part, n.Opaque) and not 1 <= len(payload) <= part.most:
                raise EncodeError(
                    f"{len(payload)} bytes, 1..{part.most} are allowed", rule="frame_limit", path=part.name
                )
            if isinstance(part, n.Ends) and begin + len(payload) > part.most:
                raise EncodeError(f"more than {part.most} bytes", rule=part.rule, path=part.name)
            if isinstance(part, n.Until):
                if (payload + part.end).find(part.end) != len(payload):
                    raise EncodeError(f"{part.end!r} ends a frame, and is inside this one", rule="terminator", path="")
                if len(payload) > part.most:
                    raise EncodeError(f"{len(payload)} bytes, at most {part.most}", rule=part.rule, path=part.name)

    def _numeral_size(self, part: n.Size, wire: n.Varint | n.Digits, at: int, payload: int) -> bytes:
        """Return a length of variable size: it may count itself, so the size that fits is looked for."""
        behind = payload + self._after(part)
        for size in range(1, longest(wire) + 1):
            value = behind + (at + size if part.counts == "whole" else 0) - part.plus
            if value >= 0 and len(written := write_numeral(wire, value, part.name)) == size:
                self._check_size(part, value)
                return written
        raise EncodeError(f"no length fits a payload of {payload} bytes", rule=part.rule, path=part.name)

    def _after(self, size: n.Size) -> int:
        """Return the bytes of the header behind the length."""
        parts = self.layout.frame.parts
        codes = [part for part in parts if isinstance(part, n.Code)][: len(self.node.codes)]
        behind = parts[parts.index(size) + 1 :]
        sizes = [self._part_size(part) for part in behind if not isinstance(part, n.Code)]
        return sum(sizes) + sum(self._code_size(part) for part in codes if part in behind)

    def _part_size(self, part: n.Part) -> int:
        """Return the bytes of a part of the header."""
        if isinstance(part, n.Kept) and part.name in self.layout.loose:
            field = self.node.field(part.name)
            is_there = field.when is None or self._present(field, getattr(self.message, field.name))
            return len(self._kept(field)) if is_there else 0
        return self.layout.part_size(part)

    def bytes_behind(self, part: n.Size, payload: bytes) -> int:
        """Return the length that fields of the header are to say."""
        return self._after(part) + len(payload) + len(self._tail()) - part.plus

    def _check_said(self, part: n.Size, given: Any, number: int) -> None:
        """Refuse a length that fields of the header contradict."""
        by = n.By.of(given)
        assert by is not None
        said = by.number(lambda name: getattr(self.message, name))
        if said != number:
            shown = ", ".join(f"{name} is {getattr(self.message, name)}" for name in by.names)
            raise EncodeError(f"{number} bytes follow, but {shown}", rule="count_fits", path=part.name)
        self._check_size(part, number)

    def _code_size(self, part: n.Code) -> int:
        """Return the bytes of a code; a text has as many as it has."""
        is_counted = isinstance(part.wire, n.Run | n.Varint | n.Digits)
        return len(self._code(part)) if is_counted else self.layout.part_size(part)

    def _header_field(self, field: n.Field, at: int) -> bytes:
        """Return a field that travels in the header, which may depend on those before it."""
        if field.when is not None:
            value = getattr(self.message, field.name)
            if isinstance(field.when, n.Begins) and value is None:
                self.not_begun.append((at, field.when, field.key))
            if not self._present(field, value):
                return b""
        written = self._kept(field)
        if isinstance(field.when, n.Begins):
            self._check_begun(field, field.when, written)
        return written

    def _check_begun(self, field: n.Field, begins: n.Begins, written: bytes | bytearray) -> None:
        """Refuse a field that does not begin as its condition asks."""
        if not written.startswith(begins.starts):
            detail = f"does not begin with {' or '.join(map(repr, begins.starts))}"
            raise EncodeError(detail, rule="field_not_allowed", path=field.key)

    def _check_not_begun(self, written: bytes | bytearray) -> None:
        """Refuse bytes in the place of an absent field that would be read as one."""
        for at, begins, path in self.not_begun:
            if written.startswith(begins.starts, at):
                raise EncodeError("is absent, but what follows begins like it", rule="field_missing", path=path)

    def _kept(self, field: n.Field) -> bytes:
        """Return a field that travels in the header."""
        value = getattr(self.message, field.name)
        if isinstance(field.wire, n.Fixed):
            return self._fixed(field.wire, value, field.name)
        outer, self.out = self.out, bytearray()
        self._write(field.wire, value, field.key)
        written, self.out = self.out, outer
        return bytes(written)

    def _bits(self, wire: n.Bits, value: Any, path: str) -> bytes:
        """Keep bits until those with shift 0 complete their integer; return it then."""
        whole = wire.wire
        if isinstance(value, bool) or not isinstance(value, int):
            raise EncodeError(f"{value!r} is not an integer", rule="int_range", path=path)
        if not (whole.low or 0) <= value <= (whole.high if whole.high is not None else (1 << wire.width) - 1):
            raise EncodeError(f"{value} does not fit in {wire.width} bits", rule=whole.rule, path=path)
        self.shared |= value << wire.shift
        if wire.shift:
            return b""
        number, self.shared = self.shared, 0
        return number.to_bytes(whole.size, "little" if whole.little else "big")

    def _mask(self, escaped: n.Escaped) -> bytes | None:
        key: bytes | None = getattr(self.message, escaped.mask_key, None)
        if key is None:
            return None
        if not escaped.mask_bit:
            raise EncodeError("masking is not allowed here", rule="mask_not_allowed", path=escaped.mask_key)
        if len(key) not in (0, 4):
            raise EncodeError("the mask key has 4 bytes", rule="bytes_fits", path=escaped.mask_key)
        return key or os.urandom(4)

    def _escaped(self, wire: n.Escaped, value: int, part: n.Size, mask_key: bytes | None) -> bytes:
        self._check_size(part, value)
        bit = wire.mask_bit if mask_key is not None else 0
        if value < wire.escape:
            return bytes([value | bit])
        return bytes([wire.escape | bit]) + self._int_bytes(wire.wide, value, part.name)

    def _check_size(self, part: n.Size, value: int) -> None:
        if value < part.least or (part.most is not None and value > part.most):
            raise EncodeError(f"length {value} is not within {part.least}..{part.most}", rule=part.rule, path=part.name)

    def _check_head(self, part: n.Head, head_end: int, total: int) -> None:
        if not part.least <= head_end <= part.most:
            detail = f"header of {head_end} bytes, {part.least}..{part.most} are allowed"
            raise EncodeError(detail, rule="head_length", path=part.name)
        if head_end < self.node.head_least and head_end != self.node.head_or:
            raise EncodeError(f"{self.node.name} needs its ids", rule=self.node.head_rule, path="request_id")
        if part.body_most is not None and total - head_end > part.body_most:
            detail = f"body of {total - head_end} bytes, at most {part.body_most}"
            raise EncodeError(detail, rule="body_limit", path="body")

    def _line(self, line: n.Line) -> bytes:
        words = [self.node.word] if self.node.codes[0] != n.OTHER else []
        for field in self.node.fields:
            if isinstance(field.wire, n.Word):
                self.where = field.key
                value = getattr(self.message, field.name)
                if value is not None or not line.skip or not field.wire.optional:
                    words.append(self._word(line, field.wire, value, field.key))
        named = self.layout.said(words[0], line.fold)
        if named is not self.node:
            detail = f"{words[0]!r} is the word of {named.name if named else 'no message'}"
            raise EncodeError(detail, rule=line.code_rule, path=line.code)
        while len(words) > line.fewest and words[-1] == "":
            words.pop()
        raw = line.separator.join(word.encode("utf-8") for word in words)
        if len(raw) >= line.window:
            detail = f"header line of {len(raw)} bytes, at most {line.window - 1}"
            raise EncodeError(detail, rule="no_newline", path=line.code)
        return raw + line.end

    def _word(self, line: n.Line, wire: n.Word[Any], value: Any, path: str) -> str:
        if value is None:
            if wire.optional:
                return ""
            raise EncodeError("is missing", rule="field_missing", path=path)
        if wire.only is not None and self.node.code not in wire.only:
            raise EncodeError(f"is not allowed on {self.node.name}", rule=wire.only_rule, path=path)
        text = str(value)
        if wire.number:
            if not (wire.low or 0) <= value <= (wire.high or value):
                raise EncodeError(f"{value} is not within {wire.low}..{wire.high}", rule=wire.rule, path=path)
        elif read_word(wire, text) is None or line.end.decode() in text or self._is_split(line, wire, text):
            raise EncodeError(f"{text[:80]!r} is not valid", rule=wire.rule, path=path)
        return text

    @staticmethod
    def _is_split(line: n.Line, wire: n.Word[Any], text: str) -> bool:
        """Return whether a text would be several words, or none."""
        return (line.separator.decode() in text and not wire.all) or (line.skip and not text)

    def payload(self) -> bytes:
        """Return the fields behind the header."""
        has_head = self.layout.has_head
        begun: dict[str, int] = {}
        apart: dict[str, tuple[int, n.Length]] = {}
        for field, in_record, is_always, spare in _payload_fields(self.node, self.layout):
            begun[field.name] = len(self.out)
            if not in_record:
                self._not_in_record(field, begun, apart)
                continue
            value = getattr(self.message, field.name)
            self.where, self.spare = field.key, spare
            if isinstance(field.wire, n.Body):
                if has_head:
                    self.head_end = len(self.out)
                self._body(field, value)
            elif is_always:
                self._write(field.wire, value, field.key)
            elif not self._is_left_out(field, value, spare, field.key) and self._present(field, value):
                self._write(field.wire, value, field.key)
                if isinstance(field.when, n.Begins):
                    self._check_begun(field, field.when, self.out[begun[field.name] :])
            if apart:
                self._fill(field, value, begun, apart)
        if has_head and self.head_end is None:
            self.head_end = len(self.out)
        if self.left_out:
            self._check_left_out()
        if self.not_begun:
            self._check_not_begun(self.out)
            self.not_begun = []
        return bytes(self.out)

    def _is_left_out(self, field: n.Field, value: Any, spare: int, path: str) -> bool:
        """Return whether a field is absent because no bytes are left: behind one that is, its default stands for it."""
        is_absent = value is None or value is UNSET or (bool(self.left_out) and value == field.default)
        if isinstance(field.when, n.Begins) and is_absent:
            self.not_begun.append((len(self.out), field.when, path))
            return True
        if not isinstance(field.when, n.IfLeft) or not is_absent:
            return False
        self.left_out.append((len(self.out), spare, path))
        return True

    def _check_left_out(self) -> None:
        """Refuse bytes behind an absent field, up to the end of its range: they would be read as its value."""
        for at, spare, path in self.left_out:
            if len(self.out) > at + spare:
                detail = f"is absent, but {len(self.out) - at - spare} bytes follow it"
                raise EncodeError(detail, rule="field_missing", path=path)

    def _not_in_record(self, field: n.Field, begun: dict[str, int], apart: dict[str, tuple[int, n.Length]]) -> None:
        if isinstance(field.wire, n.Length):
            self._reserve(field, field.wire, apart)
        else:
            self._wire_only(field.wire, begun)

    def _wire_only(self, wire: n.WireOnly, begun: dict[str, int]) -> None:
        if isinstance(wire, n.Constant):
            self.out += wire.value
            return
        if isinstance(wire, n.Align):
            self.out += bytes(-(len(self.out) - next(iter(begun.values()))) % wire.size)
            return
        self.sums.append((len(self.out), begun[wire.since] if wire.since else None, wire))
        self.out += bytes(wire.wire.size)

    def _reserve(self, field: n.Field, wire: n.Length, apart: dict[str, tuple[int, n.Length]]) -> None:
        """Leave room for a length whose value stands in a later field, if that is there."""
        if isinstance(field.when, When) and not holds(field.when, self._earlier(field.when.field)):
            return
        apart.setdefault(wire.of, (len(self.out), wire))
        self.out += bytes(wire.wire.size)

    def _fill(self, field: n.Field, value: Any, begun: dict[str, int], apart: dict[str, tuple[int, n.Length]]) -> None:
        """Write the length of a field that was just written where room was left for it."""
        if field.name not in apart:
            return
        at, wire = apart[field.name]
        if isinstance(field.wire, n.Many) and not wire.since:
            number = len(value or ())
        else:
            begin = begun[wire.since or field.name]
            number = len(self.out) - begin - (len(field.wire.end) if isinstance(field.wire, n.Run) else 0)
        self.out[at : at + wire.wire.size] = self._int_bytes(wire.wire, number, field.key)

    def _check_referred(self, given: Any, number: int, path: str) -> bool:
        """Refuse a size that an earlier field contradicts; return whether that field says one."""
        by = n.By.of(given)
        if by is None:
            return False
        said = by.number(self._earlier)
        if said is None:
            return False
        if said != number:
            shown = ", ".join(f"{name} is {self._earlier(name)}" for name in by.names)
            detail = f"{number} are given, but {shown}"
            raise EncodeError(detail, rule="count_fits", path=path)
        return True

    def _earlier(self, path: str) -> Any:
        """Return the value of a field, here or around; None where it is not in the record."""
        first = path.partition(".")[0]
        for record in reversed(self.records):
            if hasattr(record, first):
                return reach(record, path)
            if any(field.name == first for field in type(record).__wire_fields__):
                return None
        return None

    def _asked(self, record: Any, field: n.Field, when: tuple[When, ...], path: str) -> bool:
        """Return whether a field is to be written; refuse one that its conditions forbid, or miss."""
        value = getattr(record, field.name)
        for one in when:
            if not holds(one, self._earlier(one.field)):
                against = one.field
                break
        else:
            if value is None and getattr(field.wire, "null", None) is None:
                asking = f"{when[0].field} asks" if len(when) == 1 else f"{' and '.join(one.field for one in when)} ask"
                raise EncodeError(f"is missing, and {asking} for it", rule="field_missing", path=path)
            return True
        if value is not None and value != field.default:
            raise EncodeError(f"must be absent, as {against} says", rule="field_not_allowed", path=path)
        return False

    def _present(self, field: n.Field, value: Any) -> bool:
        match field.when:
            case None:
                return True
            case n.HeadReaches():
                given = [getattr(self.message, name) is not None for name in _together(self.node, field.when)]
                if any(given) and not all(given):
                    raise EncodeError("the ids come together or not at all", rule="ids_missing", path=field.key)
                return value is not None
            case n.IfLeft() | n.Begins() | n.With():
                return value is not None
            case When() | n.Every():
                return self._asked(self.message, field, conditions_of(field.when), field.key)
            case _:
                assert_never(field.when)

    def _write(self, wire: Any, value: Any, path: str) -> None:
        match wire:
            case n.Int():
                self.out += self._int_bytes(wire, value, path)
            case n.Bool():
                self.out.append(1 if value else 0)
            case n.Float():
                self.out += self._float_bytes(wire, value, path)
            case n.Fixed():
                self.out += self._fixed(wire, value, path)
            case n.Run():
                self._run(wire, value, path)
            case n.Nested(struct=cls):
                self._struct(cls, value, path)
            case n.Bits():
                self.out += self._bits(wire, value, path)
            case n.Varint() | n.Digits():
                self.out += self._number(wire, value, path)
            case n.Scaled(wire=inner):
                self._write(inner, counted(wire, value, path), path)
            case n.Sized(length=length, inner=inner):
                outer, self.out, left_out, self.left_out = self.out, bytearray(), self.left_out, []
                not_begun, self.not_begun = self.not_begun, []
                self._write(inner, value, path)
                self._check_left_out()
                self._check_not_begun(self.out)
                written, self.out, self.left_out, self.not_begun = self.out, outer, left_out, not_begun
                if n.By.of(length) is not None:
                    self._check_referred(length, len(written), path)
                else:
                    self.out += self._size(length, len(written), path)
                self.out += written
            case n.Many(element=element, count=count):
                if value is None and wire.null is not None:
                    self.out += self._size(count, wire.null, path)
                    return
                if n.written(count) is not None:
                    self._check_null(wire.null, len(value), path)
                    self.out += self._size(count, len(value), path)
                elif isinstance(count, int) and count != len(value):
                    raise EncodeError(f"{count} elements are needed, {len(value)} given", rule="count_fits", path=path)
                else:
                    self._check_referred(count, len(value), path)
                is_ended = wire.until is None or self._check_until(wire.until, value, path, wire.or_end)
                starts = []
                for i, item in enumerate(value):
                    starts.append(len(self.out))
                    self._write(element, item, f"{path}[{i}]")
                    if len(self.out) == starts[-1]:
                        raise EncodeError("an element has no bytes", rule="count_fits", path=f"{path}[{i}]")
                if isinstance(count, bytes):
                    self._end_list(count, starts, path)
                if not is_ended:
                    self.left_out.append((len(self.out), self.spare, path))
            case n.Cells():
                self.out += cells_writer(wire)(value, path)
            case n.Tags():
                self._tags(wire, value, path)
            case n.Choice():
                self._choice(wire, value, path)
            case _:
                raise AssertionError(f"{wire!r} is not a wire node")

    def _choice(self, wire: n.Choice[Any], value: Any, path: str) -> None:
        known = wire.known
        if wire.tag is not None and (not isinstance(value, Tagged) or value.tag not in known):
            raise EncodeError(f"{value!r} is not Tagged with a known tag"[:300], rule="unknown_tag", path=path)
        if self.depth >= wire.depth:
            raise EncodeError(f"more than {wire.depth} values inside of each other", rule="depth_limit", path=path)
        if wire.tag is None:
            self.depth += 1
            self._write(known[None], value, path)
            self.depth -= 1
            return
        case = known[value.tag]
        self._write(wire.tag, value.tag, f"{path}.tag")
        if case is not None:
            self.depth += 1
            self._write(case, value.value, f"{path}.value")
            self.depth -= 1
        elif value.value is not None:
            raise EncodeError(f"the tag {value.tag!r} has no value", rule="field_not_allowed", path=path)

    def _check_until(self, until: When, value: Any, path: str, or_end: bool) -> bool:
        """Refuse a list whose last element is not the first one that ends it; return whether one does."""
        ends = [i for i, item in enumerate(value) if holds(until, reach(item, until.field))]
        if or_end and not ends:
            return False
        if ends != [len(value) - 1]:
            raise EncodeError("the last element, and no other, ends the list", rule="terminator", path=path)
        return True

    def _end_list(self, end: bytes, starts: list[int], path: str) -> None:
        """Write what stands behind the last element; refuse elements that begin like that."""
        self.out += end
        for i, start in enumerate(starts):
            if self.out.startswith(end, start):
                raise EncodeError(f"begins with {end!r}, which ends the list", rule="terminator", path=f"{path}[{i}]")

    def _struct(self, cls: Any, value: Any, path: str) -> None:
        prefix = f"{path}." if path else ""
        for limit in cls.__sum_limits__:
            total = sum(len(getattr(value, name)) for name in limit.fields)
            if total > limit.most:
                raise EncodeError(f"{total} bytes, at most {limit.most}", rule=limit.rule, path=path)
        self.records.append(value)
        begun: dict[str, int] = {}
        apart: dict[str, tuple[int, n.Length]] = {}
        for field, is_own, is_always, spare in _struct_fields(cls, self.layout):
            begun[field.name], self.spare = len(self.out), spare
            if is_always:
                self._write(field.wire, getattr(value, field.name), prefix + field.key)
            elif not is_own:
                self._not_in_record(field, begun, apart)
                continue
            elif not self._conditional(field, value, spare, prefix + field.key):
                continue
            if apart:
                self._fill(field, getattr(value, field.name, None), begun, apart)
        self.records.pop()

    def _conditional(self, field: n.Field, value: Any, spare: int, path: str) -> bool:
        """Write a field of a structure that has a condition; return false if that forbids it."""
        if isinstance(field.wire, n.Length):
            assert isinstance(field.when, When)
            if not holds(field.when, self._earlier(field.when.field)):
                return False
            self.out += self._int_bytes(field.wire.wire, len(getattr(value, field.wire.of)), path)
            return True
        if (asked := conditions_of(field.when)) and not self._asked(value, field, asked, path):
            return False
        given = getattr(value, field.name)
        if self._is_left_out(field, given, spare, path):
            return False
        if not isinstance(field.when, n.IfLeft | n.Begins | n.With) or given is not None:
            at = len(self.out)
            self._write(field.wire, given, path)
            if isinstance(field.when, n.Begins):
                self._check_begun(field, field.when, self.out[at:])
        return True

    def _int_bytes(self, wire: n.Int, value: Any, path: str) -> bytes:
        if isinstance(value, bool) or not isinstance(value, int):
            raise EncodeError(f"{value!r} is not an integer", rule="int_range", path=path)
        if (wire.low is not None and value < wire.low) or (wire.high is not None and value > wire.high):
            raise EncodeError(f"{value} is not within {wire.low}..{wire.high}", rule=wire.rule, path=path)
        try:
            return value.to_bytes(wire.size, "little" if wire.little else "big", signed=wire.signed)
        except OverflowError:
            raise EncodeError(f"{value} does not fit in {wire.size} bytes", rule="int_range", path=path) from None

    def _number(self, wire: n.Number, value: Any, path: str) -> bytes:
        if isinstance(wire, n.Int):
            return self._int_bytes(wire, value, path)
        if isinstance(value, bool) or not isinstance(value, int):
            raise EncodeError(f"{value!r} is not an integer", rule="int_range", path=path)
        return write_numeral(wire, value, path)

    def _size(self, given: n.Number | n.By, size: int, path: str) -> bytes:
        """Return the length or count before a value."""
        if not isinstance(given, n.By):
            return self._number(given, size, path)
        number, left = divmod(size - given.plus, given.times)
        if left:
            raise EncodeError(f"{size} is no multiple of {given.times}, and {given.plus}", rule="count_fits", path=path)
        return self._number(n.written(given), number, path)

    @staticmethod
    def _check_null(null: int | None, size: int, path: str) -> None:
        """Refuse a value whose length or count stands for none."""
        if null is not None and size == null:
            raise EncodeError(f"the length or count {size} stands for no value", rule="count_fits", path=path)

    def _float_bytes(self, wire: n.Float, value: Any, path: str) -> bytes:
        try:
            return struct.pack(float_format(wire), value)
        except (struct.error, OverflowError) as error:
            raise EncodeError(f"{value!r}: {error}", rule="int_range", path=path) from None

    def _fixed(self, wire: n.Fixed, value: Any, path: str) -> bytes:
        if not isinstance(value, bytes) or len(value) != wire.size:
            raise EncodeError(f"{wire.size} bytes are needed", rule="bytes_fits", path=path)
        return value

    def _run(self, wire: n.Run[Any], value: Any, path: str, rules: str = "") -> None:
        if value is None and wire.null is not None:
            self.out += self._size(wire.length, wire.null, path)
            return
        raw = self._content(wire, value, path)
        if wire.escapes:
            raw = escape(wire.escapes, raw)
        kind = rules or ("text" if wire.content in ("text", "strict_text") else "bytes")
        if len(raw) < wire.least:
            raise EncodeError("must not be empty", rule="text_empty", path=path)
        if wire.most is not None and len(raw) > wire.most:
            raise EncodeError(f"{len(raw)} bytes, at most {wire.most}", rule=f"{kind}_limit", path=path)
        if isinstance(wire.length, bytes):
            if (raw + wire.length).find(wire.length) != len(raw):
                raise EncodeError(f"{wire.length!r} ends it, and is inside", rule="terminator", path=path)
            raw += wire.length
        elif isinstance(wire.length, int):
            raw = self._padded(wire, raw, kind, path)
        elif n.written(wire.length) is not None:
            self._check_null(wire.null, len(raw), path)
            self.out += self._size(wire.length, len(raw), path)
        elif wire.length is not None:
            self._check_end_inside(wire, raw, path)
        self.out += raw + wire.end

    @staticmethod
    def _padded(wire: n.Run[Any], raw: bytes, kind: str, path: str) -> bytes:
        """Return bytes filled up to as many as there always are; refuse those that would be taken for the filling."""
        pad = wire.pad or wire.pad_before
        if len(raw) > wire.length:
            raise EncodeError(f"{len(raw)} bytes, at most {wire.length}", rule=f"{kind}_limit", path=path)
        if raw.endswith(wire.pad) if wire.pad else raw.startswith(pad):
            where = "end" if wire.pad else "begin"
            raise EncodeError(f"{pad!r} fills it up, so it cannot {where} with it", rule="terminator", path=path)
        return raw.ljust(wire.length, pad) if wire.pad else raw.rjust(wire.length, pad)

    def _check_end_inside(self, wire: n.Run[Any], raw: bytes, path: str) -> None:
        """Refuse a length that an earlier field contradicts; without one, a value that holds what ends it."""
        is_said = self._check_referred(wire.length, len(raw), path)
        is_searched = not is_said and bool(wire.end) and not self._is_apart(wire.length)
        if is_searched and (raw + wire.end).find(wire.end) != len(raw):
            raise EncodeError(f"{wire.end!r} ends it, and is inside", rule="terminator", path=path)

    def _is_apart(self, length: Any) -> bool:
        """Return whether a length is one that is written apart."""
        by = n.By.of(length)
        return by is not None and any(
            field.name in by.names and isinstance(field.wire, n.Length)
            for field in type(self.records[-1]).__wire_fields__
        )

    def _content(self, wire: n.Run[Any], value: Any, path: str) -> bytes:
        if value is UNSET:
            return b"\xc0" if wire.null_if_empty else b""
        try:
            match wire.content:
                case "bytes":
                    return _octets(value)
                case "text":
                    return bytes(value.encode("utf-8", "surrogateescape"))
                case "strict_text":
                    return bytes(value.encode(wire.charset))
                case "msgpack" | "msgpack_map":
                    if wire.content == "msgpack_map" and not isinstance(value, dict):
                        raise EncodeError("the metadata is not a map", rule="msgpack_map")
                    return write_msgpack(value)
                case "json":
                    return dump_json(value).encode()
                case _:
                    assert_never(wire.content)
        except EncodeError as error:
            error.path = path
            raise
        except UnicodeEncodeError:
            raise EncodeError(f"is not {wire.charset.upper()}", rule="text_utf8", path=path) from None
        except (TypeError, AttributeError, ValueError) as error:
            raise EncodeError(f"{value!r}: {error}"[:300], rule="field_type", path=path) from None

    def _tags(self, wire: n.Tags[Any], value: Any, path: str) -> None:
        rows = {row.name: row for row in tag_rows(wire.struct)}
        present = [name for name in rows if getattr(value, name) is not None and getattr(value, name) is not False]
        ordered = dict.fromkeys([name for name in value.order if name in present] + present)
        for name in ordered:
            row, here = rows[name], f"{path}.{name}"
            if not wire.anywhere and self.node.code not in row.allowed:
                detail = f"{row.title} is not allowed on {self.node.name}"
                raise EncodeError(detail, rule="header_not_allowed", path=here)
            self.out.append(row.code)
            if row.wire is not None:
                self._write(row.wire, getattr(value, name), here)
        page = getattr(value, wire.waived) if wire.waived else None
        if wire.demand and not (page or 0) > 0:
            for name, row in rows.items():
                if self.node.code in row.required and name not in present:
                    detail = f"{self.node.name} needs {row.title}"
                    raise EncodeError(detail, rule="header_required", path=f"{path}.{name}")

    def _body(self, field: n.Field, value: bytes | None) -> None:
        wire: n.Body = field.wire
        start = len(self.out)
        if value is not None:
            self.out += _octets(value)
        elif field.when is None or self._present(field, b""):
            self._write_views(wire)
        size = len(self.out) - start
        if wire.exactly is not None and size != wire.exactly:
            raise EncodeError(f"the body has {size} bytes, not {wire.exactly}", rule="body_length", path=field.key)
        is_refused = size == 0 and wire.empty == "refused" and self.node.views
        if is_refused and not (wire.opaque_if and reach(self.message, wire.opaque_if)):
            raise EncodeError("the body is empty", rule="body_empty", path=field.key)
        if wire.most is not None and size > wire.most:
            raise EncodeError(f"{size} bytes, at most {wire.most}", rule=wire.most_rule, path=field.key)

    def _write_views(self, body: n.Body) -> None:
        views = [view for view in self.node.views if not isinstance(view.wire, n.Signature)]
        values = [getattr(self.message, view.name) for view in views]
        may_be_empty = body.empty != "read" or (body.empty_if is not None and derive(body.empty_if, self.message))
        if may_be_empty and all(value is UNSET for value in values):
            return
        for view, value in zip(views, values, strict=True):
            self.where = view.key
            if value is UNSET and not isinstance(view.wire, n.Run):
                raise EncodeError("is missing", rule="field_missing", path=view.key)
            self._write(view.wire, value, view.key)
