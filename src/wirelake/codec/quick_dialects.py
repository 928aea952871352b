"""The frames of a live stream whose dialect has to be found out, in whatever pieces its bytes come.

Dialects frame alike but for the byte order of wide lengths, so most frames need no thought and are cut out in one loop.
Only those that could tell the dialect, by a wide length or by what the dialects do not read alike, are put to the
detector. Like ``quick_frames``, and unlike the reader of
captures, this never searches: where the framing is lost, the connection has to be closed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from ..errors import DecodeError, Incomplete
from ..spec import nodes as n
from ..spec.resolve import Layout
from .detect import detector_for
from .frame import apply_mask, read_header
from .headers import undisputed


@lru_cache(maxsize=64)
def _plan(layouts: tuple[Layout, ...]) -> tuple[int, int, frozenset[int], tuple[bool, ...]]:
    """The magic byte, the value that announces a wide length, the messages that can show their dialect also without
    one, and whether a wide length has its high byte first.
    """
    heads, orders = set(), []
    for layout in layouts:
        match layout.frame.parts[:3]:
            case [n.Magic(value=magic), n.Size(wire=n.Escaped(escape=escape, wide=n.Int(size=2) as wide)), n.Code()]:
                heads.add((magic, escape))
                orders.append(not wide.little)
            case _:
                raise ValueError(f"frames of {layout.protocol.name} do not begin with a byte and an escaped length")
    ((magic, escape),) = heads
    known = frozenset(code for layout in layouts for code in layout.by_code)
    return magic[0], escape, known - undisputed(layouts), tuple(orders)


class QuickDialects:
    """What one peer sends: a stream in any pieces -> payloads, each from its message code on.

    ``dialect`` is the proved one, None while all read everything alike; ``error`` says where the framing was lost.
    """

    __slots__ = (
        "_big",
        "_disputed",
        "_escape",
        "_fallback",
        "_held",
        "_layouts",
        "_magic",
        "_need",
        "dialect",
        "error",
    )

    def __init__(self, layouts: Mapping[str, Layout], fallback: str, dialect: str | None) -> None:
        self._layouts = layouts
        self._fallback = fallback
        self._held = bytearray()
        self._need = 0
        self._magic, self._escape, self._disputed, orders = _plan(tuple(layouts.values()))
        self._big = dict(zip(layouts, orders, strict=True))
        self.dialect = dialect
        self.error: DecodeError | None = None

    @property
    def reading(self) -> str:
        """The dialect to read with: the proved one, or the one that is configured."""
        return self.dialect or self._fallback

    @property
    def pending(self) -> int:
        return len(self._held)

    def clear(self) -> None:
        self._held = bytearray()

    def prove(self, dialect: str) -> None:
        """The peer has shown its dialect."""
        self.dialect = dialect

    def read(self, data: bytes) -> Iterator[list[bytes]]:
        """The payloads that these bytes complete. Those of one list are to be read in the dialect known then."""
        if self.error is not None:
            return
        held = self._held
        if held:
            held += data
            if len(held) < self._need:
                return
            data = bytes(held)
            held.clear()
        at, end = 0, len(data)
        while at < end:
            found, at = self._plain(data, at, end)
            if found and (self.dialect is None or at >= end):
                yield found
                found = []
            if at < end:
                payload, stop = self._doubtful(data, at, end)
                if payload is not None:
                    found.append(payload)
                if found:
                    yield found
                if stop == at:
                    break
                at = stop
        if at < end and self.error is None:
            held += data[at:]

    def _plain(self, data: bytes, at: int, end: int) -> tuple[list[bytes], int]:
        """The frames that need no thought, as many as there are one after the other."""
        found: list[bytes] = []
        magic, escape, disputed = self._magic, self._escape, self._disputed
        is_open, is_big = self.dialect is None, self._big[self.reading]
        last = end - 2
        while at < last:
            length = data[at + 1]
            start = at + 2
            if length >= escape:
                if length != escape or is_open or at + 4 > end:
                    break
                length = data[start] << 8 | data[at + 3] if is_big else data[at + 3] << 8 | data[start]
                if length < escape:
                    break
                start = at + 4
            stop = start + length
            if stop > end or data[at] != magic or not length:
                break
            if is_open and data[start] in disputed:
                break
            found.append(data[start:stop])
            at = stop
        return found, at

    def _doubtful(self, data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
        """The payload of a frame that must be looked at closely, and where the frame ends; the same place if that
        cannot be said yet, or never.
        """
        layout = self._layouts[self.reading]
        try:
            if self.dialect is None:
                verdict = detector_for(tuple(self._layouts.values())).detect(data, at, end)
                if verdict.wait:
                    self._need = self._least(data, at, end)
                    return None, at
                if verdict.layout is not None:
                    self.prove(next(name for name, layout in self._layouts.items() if layout == verdict.layout))
                    layout = verdict.layout
            header = read_header(layout, data, at, end)
        except Incomplete as error:
            self._need = error.needed
            return None, at
        except DecodeError as error:
            self.error = error.locate(layout.protocol.name, "", data[at : at + 16])
            return None, at
        stop = at + header.length
        if header.mask_at is None:
            return data[at + header.payload - 1 : stop], stop
        key = at + header.mask_at
        return apply_mask(data[key + 4 : stop], data[key : key + 4]), stop

    def _least(self, data: bytes, at: int, end: int) -> int:
        """The fewest bytes with which more can be said about a frame whose length can be read in two ways."""
        if end - at < 4 or data[at + 1] != self._escape:
            return 0
        low, high = data[at + 2], data[at + 3]
        return 4 + min(low << 8 | high, high << 8 | low)
