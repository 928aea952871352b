"""Integers that take as many bytes as they need, and those that share bytes: how they are read and written."""

from __future__ import annotations

from ..errors import BadValue, EncodeError, Incomplete, LimitExceeded
from ..spec import nodes as n

Buffer = bytes | bytearray | memoryview
_LETTERS = b"0123456789abcdef"


def bits_of(wire: n.Bits, whole: int) -> int:
    """Return these bits of an integer."""
    return whole >> wire.shift & ((1 << wire.width) - 1)


def longest(wire: n.Varint | n.Digits) -> int:
    """Return the most bytes that such a number takes."""
    if isinstance(wire, n.Varint):
        return wire.most_bytes
    if wire.size:
        return wire.size
    spelled = max(len(spell(wire, wire.high)), len(spell(wire, wire.low)))
    return (4 * spelled if wire.lenient else spelled) + len(wire.end)


def shortest(wire: n.Varint | n.Digits) -> int:
    return 1 if isinstance(wire, n.Varint) else (wire.size or 1) + len(wire.end)


def highest(wire: n.Varint | n.Digits) -> int:
    """Return the highest number that it can be."""
    if isinstance(wire, n.Digits):
        return wire.high
    if wire.wider or wire.signed:
        return n.limits(wire)[1]
    bits = 8 * max(0, wire.most_bytes - 1) if wire.ber else 7 * wire.most_bytes
    return min((1 << bits) - 1, (1 << (63 if wire.ber else 64)) - 1) if bits else 127


def read_numeral(wire: n.Varint | n.Digits, data: Buffer, start: int, stop: int, path: str) -> tuple[int, int]:
    """Return the number at ``start`` and where it ends. Offsets of errors count from ``start``.

    Incomplete: the bytes up to ``stop`` could be the beginning of one.
    """
    return (
        _varint(wire, data, start, stop, path) if isinstance(wire, n.Varint) else _digits(wire, data, start, stop, path)
    )


def _varint(wire: n.Varint, data: Buffer, start: int, stop: int, path: str) -> tuple[int, int]:
    if wire.ber:
        return _ber(wire, data, start, stop, path)
    if wire.wider:
        return _wider(wire, data, start, stop, path)
    value, size = 0, 0
    while True:
        if size == wire.most_bytes:
            raise BadValue(f"the number goes on behind {size} bytes", rule="varint", path=path, offset=size - 1)
        if start + size >= stop:
            raise _more(path, size)
        byte = data[start + size]
        value = value << 7 | byte & 0x7F if wire.high_first else value | (byte & 0x7F) << 7 * size
        size += 1
        if byte < 0x80:
            break
    is_long = size > 1 and (data[start] == 0x80 if wire.high_first else byte == 0)
    if is_long and not wire.lenient:
        raise BadValue(f"{value} is written in {size} bytes, fewer do", rule="varint", path=path, offset=size - 1)
    if value >> wire.bits:
        raise BadValue(f"{value} has more than {wire.bits} bits", rule="varint", path=path, offset=size - 1)
    return _with_sign(wire, value), start + size


def _with_sign(wire: n.Varint, value: int) -> int:
    """Return the number that is written as one without a sign."""
    match wire.signed:
        case "zigzag":
            return value >> 1 ^ -(value & 1)
        case "twos":
            return value - (value >> wire.bits - 1 << wire.bits)
        case _:
            return value


def _without_sign(wire: n.Varint, value: int) -> int:
    """Return the number without a sign that is written for one."""
    match wire.signed:
        case "zigzag":
            return value << 1 if value >= 0 else ~value << 1 | 1
        case "twos":
            return value & (1 << wire.bits) - 1
        case _:
            return value


def _ber(wire: n.Varint, data: Buffer, start: int, stop: int, path: str) -> tuple[int, int]:
    if start >= stop:
        raise _more(path, 0)
    first = data[start]
    if first < 0x80:
        return first, start + 1
    size = first & 0x7F
    if not 0 < size < wire.most_bytes:
        raise BadValue(
            f"a length of {size} bytes, 1..{wire.most_bytes - 1} are allowed", rule="varint", path=path, offset=0
        )
    if start + 1 + size > stop:
        raise _more(path, stop - start)
    value = int.from_bytes(data[start + 1 : start + 1 + size], "big")
    if value > highest(wire) or (not wire.lenient and write_numeral(wire, value, path)[0] != first):
        raise BadValue(f"{value} is not written in {size} bytes", rule="varint", path=path, offset=0)
    return value, start + 1 + size


def _wider(wire: n.Varint, data: Buffer, start: int, stop: int, path: str) -> tuple[int, int]:
    if start >= stop:
        raise _more(path, 0)
    first = data[start]
    if first < wire.wider[0][0]:
        return first, start + 1
    known = dict(wire.wider)
    if first not in known:
        raise BadValue(f"{first:#04x} begins no number", rule="varint", path=path, offset=0)
    inner = known[first]
    if inner is None:
        return -1, start + 1
    end = start + 1 + inner.size
    if end > stop:
        raise _more(path, stop - start)
    value = int.from_bytes(data[start + 1 : end], "little" if inner.little else "big")
    if value > highest(wire) or (not wire.lenient and write_numeral(wire, value, path)[0] != first):
        raise BadValue(f"{value} is not written in {inner.size} bytes", rule="varint", path=path, offset=0)
    return value, end


def _digits(wire: n.Digits, data: Buffer, start: int, stop: int, path: str) -> tuple[int, int]:
    most = longest(wire)
    window = bytes(data[start : min(stop, start + most)])
    if wire.size:
        stop = start + wire.size
    end = (
        wire.size
        if 0 < wire.size == len(window)
        else -1
        if wire.size
        else window.find(wire.end)
        if wire.end
        else stop - start
    )
    text = window[:end] if end >= 0 else window if len(window) == most else _without_begun(window, wire.end)
    if wire.pad or wire.pad_before:
        return _padded(wire, text, start, end, path)
    wrong = next((i for i, byte in enumerate(text) if not _is_digit(wire, byte, i)), len(text))
    is_over = end > len(text) or (end < 0 and len(window) == most and not wire.size)
    if wrong < len(text) or is_over or (end == wrong and not text.lstrip(b"-")):
        shown = text[: wrong + 1].decode("latin-1")
        raise BadValue(
            f"{shown!r} is no number of base {wire.base}", rule="digits", path=path, offset=min(wrong, most - 1)
        )
    if end < 0:
        raise _more(path, len(window))
    value = int(text, wire.base)
    if not wire.lenient and spell(wire, value) != text:
        raise BadValue(f"{text.decode()!r} is not how {value} is written", rule="digits", path=path, offset=0)
    return _limited(wire, value, path), start + end + len(wire.end)


def _padded(wire: n.Digits, text: bytes, start: int, end: int, path: str) -> tuple[int, int]:
    """Return the number in a fixed number of bytes, and where they end. Refuse bytes that hold no digits."""
    if end < 0:
        raise _more(path, len(text))
    digits = text.rstrip(wire.pad) if wire.pad else text.lstrip(wire.pad_before)
    first = 0 if wire.pad else len(text) - len(digits)
    wrong = next((i for i, byte in enumerate(digits) if not _is_digit(wire, byte, i)), len(digits))
    if wrong < len(digits) or not digits.lstrip(b"-"):
        detail = f"{text.decode('latin-1')!r} is no number of base {wire.base}"
        raise BadValue(detail, rule="digits", path=path, offset=min(first + wrong, len(text) - 1))
    value = int(digits, wire.base)
    if spell(wire, value) != text:
        raise BadValue(f"{text.decode()!r} is not how {value} is written", rule="digits", path=path, offset=0)
    return _limited(wire, value, path), start + end


def _limited(wire: n.Digits, value: int, path: str) -> int:
    """Return a number that lies within its limits."""
    if not wire.low <= value <= wire.high:
        detail = f"{value} is not within {wire.low}..{wire.high}"
        raise LimitExceeded(detail, rule="digits", path=path, offset=0, limit=wire.high, actual=value)
    return value


def _without_begun(text: bytes, end: bytes) -> bytes:
    """Return digits without the first bytes of what ends them, where the rest of that is not there yet."""
    begun = next((size for size in range(len(end) - 1, 0, -1) if text.endswith(end[:size])), 0)
    return text[: len(text) - begun]


def _is_digit(wire: n.Digits, byte: int, place: int) -> bool:
    if byte == 0x2D:
        return place == 0 and wire.low < 0
    known = _LETTERS[: wire.base]
    return byte in known or (wire.base == 16 and wire.lenient and byte in known.upper())


def _more(path: str, available: int) -> Incomplete:
    return Incomplete(
        f"the number goes on behind byte {available}",
        rule="frame_incomplete",
        path=path,
        offset=available,
        needed=available + 1,
        available=available,
    )


_FORMS = {8: "o", 10: "d", 16: "x"}


def spell(wire: n.Digits, value: int) -> bytes:
    """Return a number as it is written, without what ends it."""
    text = format(value, _FORMS[wire.base]).encode()
    if wire.pad:
        return text.ljust(wire.size, wire.pad)
    return text.rjust(wire.size, wire.pad_before) if wire.pad_before else text.zfill(wire.size)


def write_numeral(wire: n.Varint | n.Digits, value: int, path: str) -> bytes:
    """Return the bytes of a number; EncodeError if it has too many."""
    if isinstance(wire, n.Digits):
        if not wire.low <= value <= wire.high:
            raise EncodeError(f"{value} is not within {wire.low}..{wire.high}", rule="digits", path=path)
        return spell(wire, value) + wire.end
    if wire.ber and 0 <= value <= highest(wire):
        raw = value.to_bytes(max(1, -(-value.bit_length() // 8)), "big")
        return raw if value < 0x80 else bytes([0x80 | len(raw)]) + raw
    if wire.wider and n.limits(wire)[0] <= value <= highest(wire):
        return _write_wider(wire, value)
    low = n.limits(wire)[0]
    if not low <= value <= highest(wire):
        raise EncodeError(f"{value} is not within {low}..{highest(wire)}", rule="varint", path=path)
    value = _without_sign(wire, value)
    groups = [value >> shift & 0x7F for shift in range(0, max(value.bit_length(), 1), 7)]
    ordered = groups[::-1] if wire.high_first else groups
    return bytes([group | 0x80 for group in ordered[:-1]] + ordered[-1:])


def _write_wider(wire: n.Varint, value: int) -> bytes:
    """Return a number in one byte, or behind the byte that says how wide it is."""
    if value < 0:
        return bytes([next(byte for byte, inner in wire.wider if inner is None)])
    if value < wire.wider[0][0]:
        return bytes([value])
    known = ((byte, inner) for byte, inner in wire.wider if inner is not None)
    first, inner = next((byte, inner) for byte, inner in known if value < 1 << 8 * inner.size)
    return bytes([first]) + value.to_bytes(inner.size, "little" if inner.little else "big")
