"""Records of typed cells: plain ones are read quickly, by generated decoders and by the exact reader up to what is odd;
by number, and in the order of the deployed writer."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from ..errors import EncodeError
from ..spec import nodes as n
from ..spec.declare import Cell
from .headers import NO_LIMIT
from .numbers import FORMATS, byte_order, decoding, float_format, unpacker

_FEW_BYTES = 128
"""Fewer are read sooner than skimmed."""


class UncleanError(Exception):
    """A message with cells that no sender writes, see ``is_clean``; whether it is valid was not asked."""


def clean_cells_reader(wire: n.Cells[Any]) -> Callable[[bytes, int, int], tuple[Cell, ...] | None]:
    """Read plain cells, but give up at once where they are not clean."""
    read = all_cells_reader(wire)
    head, size = unpacker(wire.head), wire.head.size
    sizes = [_cell_size(kind.wire) for kind in wire.types]

    def skim(b: bytes, p: int, end: int) -> None:
        seen = set()
        while p < end:
            (bits,) = head(b, p)
            fid = bits >> wire.id_shift
            known = sizes[bits >> wire.type_shift & wire.type_mask]
            if fid in seen or bits & wire.flag_mask or known is None:
                raise UncleanError
            seen.add(fid)
            length, unpack = known
            p += size + length
            if unpack is not None:
                p += unpack(b, p - length)[0]

    def read_clean(b: bytes, p: int, end: int) -> tuple[Cell, ...] | None:
        if end - p > _FEW_BYTES:
            skim(b, p, end)
        cells = read(b, p, end)
        if cells and (len({cell.fid for cell in cells}) < len(cells) or any(cell.value is None for cell in cells)):
            raise UncleanError
        return cells

    return read_clean


def _cell_size(wire: Any) -> tuple[int, Any] | None:
    """Bytes of a value, or of its length and what reads that; None where there is no value."""
    match wire:
        case None:
            return None
        case n.Run(length=n.Int() as length):
            return length.size, unpacker(length)
        case _:
            return wire.size, None


def all_cells_reader(wire: n.Cells[Any]) -> Callable[[bytes, int, int], tuple[Cell, ...] | None]:
    """Return a function that reads cells up to ``end``, or returns None if they are not all plain."""
    read = cells_reader(wire)

    def read_all(b: bytes, p: int, end: int) -> tuple[Cell, ...] | None:
        found, p = read(b, p, end)
        return tuple(found) if p == end else None

    return read_all


@lru_cache(maxsize=64)
def cells_reader(wire: n.Cells[Any]) -> Callable[[bytes, int, int], tuple[list[Cell], int]]:
    """Return a function that reads plain cells, and says where the first one begins that needs a closer look."""
    head, head_size = unpacker(wire.head), wire.head.size
    id_shift, id_max, flag_mask = wire.id_shift, wire.id_max, wire.flag_mask
    type_shift, type_mask = wire.type_shift, wire.type_mask
    readers: list[tuple[str, Any, int, bool, bool, int]] = []
    for kind in wire.types:
        match kind.wire:
            case None:
                readers.append((kind.name, None, 0, False, False, 0))
            case n.Int() | n.Float() as number:
                readers.append((kind.name, unpacker(number), number.size, False, False, 0))
            case n.Run(length=n.Int() as length, content=content, most=most):
                # A text in another character set gets a closer look.
                limit = (most or 1 << 62) if content == "bytes" or not decoding(kind.wire) else -1
                readers.append((kind.name, unpacker(length), length.size, True, content != "bytes", limit))
            case _:
                raise AssertionError(f"{kind!r} is not a cell type")

    def read(b: bytes, p: int, end: int) -> tuple[list[Cell], int]:
        found: list[Cell] = []
        begin = p
        try:
            while p < end:
                begin = p
                (bits,) = head(b, p)
                p += head_size
                fid = bits >> id_shift
                if bits & flag_mask or fid > id_max:
                    return found, begin
                name, unpack, size, is_run, is_text, most = readers[bits >> type_shift & type_mask]
                if unpack is None:
                    found.append(Cell(fid, name))
                    continue
                (value,) = unpack(b, p)
                p += size
                if is_run:
                    if value > most:
                        return found, begin
                    start = p
                    p += value
                    value = b[start:p].decode() if is_text else b[start:p]
                elif value != value:
                    return found, begin
                found.append(Cell(fid, name, value))
        except (struct.error, UnicodeDecodeError):
            return found, begin
        if p > end:
            found.pop()
            return found, begin
        return found, p

    return read


@lru_cache(maxsize=64)
def cells_writer(wire: n.Cells[Any]) -> Callable[[Iterable[Cell], str], bytes]:
    """Return a function that writes cells; EncodeError names the place, which begins with the path that it is given."""
    kinds = {kind.name: (code << wire.type_shift, *_packers(wire, kind.wire)) for code, kind in enumerate(wire.types)}
    id_shift, id_max, flag_mask = wire.id_shift, wire.id_max, wire.flag_mask

    def write(cells: Iterable[Cell], path: str) -> bytes:
        parts: list[bytes] = []
        try:
            for cell in cells:
                fid = cell.fid
                if cell.type not in kinds:
                    raise EncodeError(f"{cell.type!r} is not a field type", rule="cell_type")
                if not 0 <= fid <= id_max:
                    raise EncodeError(f"field id {fid} is not within 0..{id_max}", rule="cell_id")
                code, pack, pack_bits = kinds[cell.type]
                head = fid << id_shift | code | (flag_mask if cell.group_bit else 0)
                bits = cell.bits
                parts.append(pack(head, cell.value) if bits is None else pack_bits(head, bits))
        except EncodeError as error:
            error.path = f"{path}[{len(parts)}]"
            raise
        except (struct.error, OverflowError) as error:
            raise EncodeError(f"{cell.value!r}: {error}", rule="int_range", path=f"{path}[{len(parts)}]") from None
        return b"".join(parts)

    return write


def _packers(wire: n.Cells[Any], value: Any) -> tuple[Callable[[int, Any], bytes], Callable[[int, int], bytes]]:
    """What writes head and value of a cell, and head and bits of one whose value does not say them."""
    head = byte_order(wire.head) + FORMATS[wire.head.size, wire.head.signed]
    pack_head = struct.Struct(head).pack
    match value:
        case n.Int(size=size, signed=signed):
            pack = struct.Struct(head + FORMATS[size, signed]).pack
            return pack, pack
        case n.Float(size=size):
            return struct.Struct(head + float_format(value)[1:]).pack, struct.Struct(head + FORMATS[size, False]).pack
        case n.Run(length=n.Int(size=size), content=content, charset=charset):
            pack_both, most = struct.Struct(head + FORMATS[size, False]).pack, value.most or NO_LIMIT
            kinds: tuple[Any, ...] = (bytes, bytearray, memoryview) if content == "bytes" else (str,)

            def pack_run(bits: int, given: Any) -> bytes:
                if not isinstance(given, kinds):
                    raise EncodeError(f"{type(given).__name__} is no value of this type", rule="field_type")
                try:
                    raw = given.encode(charset) if content != "bytes" else bytes(given)
                except UnicodeEncodeError:
                    raise EncodeError(f"is not {charset.upper()}", rule="text_utf8") from None
                if len(raw) > most:
                    raise EncodeError(f"{len(raw)} bytes, at most {most}", rule="cell_limit")
                return pack_both(bits, len(raw)) + raw

            return pack_run, pack_run
        case _:
            return lambda bits, _: pack_head(bits), lambda bits, _: pack_head(bits)


# --- records


def by_id(record: Iterable[Cell]) -> dict[int, Any]:
    """The values by number; of equal numbers the last one counts."""
    return {cell.fid: cell.value for cell in record}


def java_order(record: Iterable[Cell]) -> tuple[Cell, ...]:
    """The cells in the order in which the Java API writes them: that of its chained hash table.

    The table starts with 11 buckets. Before a new number is added to one that is three quarters full, it grows to
    twice its size and one, moving entries bucket by bucket from the highest index down, each to the front of its new
    bucket. A cell whose number is there already replaces the value in place."""
    latest = {cell.fid: cell for cell in record}
    buckets: list[list[int]] = [[] for _ in range(11)]
    for count, fid in enumerate(latest):
        if count >= int(0.75 * len(buckets)):
            grown: list[list[int]] = [[] for _ in range(2 * len(buckets) + 1)]
            for bucket in reversed(buckets):
                for moved in bucket:
                    grown[moved % len(grown)].insert(0, moved)
            buckets = grown
        buckets[fid % len(buckets)].insert(0, fid)
    return tuple(latest[fid] for bucket in reversed(buckets) for fid in bucket)
