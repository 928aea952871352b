"""A byte stream -> messages and quarantined ranges, whatever the pieces it comes in.

Every byte ends up in exactly one place: a message, a quarantined range, or the pending tail. What is found at a
position is a pure function of the bytes from there on (and of the dialect that was proved before), so that any split
gives the same events.

A clean frame is believed at once, whatever follows: payloads may look like frames, and the last message of an idle
connection must not wait. A frame that is not clean costs itself if a frame seems to begin at the end it claims;
otherwise the search for the next frame begins at its second byte: a place where a whole frame decodes cleanly and
another seems to follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from ..errors import DecodeError, Incomplete
from ..protocols import load
from ..spec import nodes as n
from ..spec.derive import next_state
from ..spec.resolve import Layout, candidates, layout
from . import Codec, codec_for
from .compile import DOUBTS, compile_layout
from .detect import Verdict, detector_for, is_clean
from .faults import faults_for
from .frame import read_header
from .headers import NO_LIMIT
from .outline import UNKNOWN, outlines_for
from .records import UncleanError

MAX_QUARANTINE = 1 << 20
"""A longer bad range is told in pieces, so that memory stays bounded."""
_COMPACT = 1 << 16
_PATIENCE = 1 << 15
_PLACE, _ATTEMPT = 32, 512
"""What a search may spend in vain at once, beside one for each byte that it passes: so it takes linear time. A place
that looks like a frame costs something, a frame that is decoded there its length and something more."""


class Decoded(msgspec.Struct):
    """A message and where its frame began in the stream."""

    offset: int
    message: Any

    @property
    def length(self) -> int:
        length: int = self.message.wire_length
        return length


@dataclass(slots=True)
class Quarantined:
    """A range of bytes that is no message, and why. ``error.offset`` counts from the start of the range."""

    offset: int
    length: int
    error: DecodeError
    data: bytes


Event = Decoded | Quarantined


@dataclass(frozen=True, slots=True)
class Lost:
    """A search for the next frame that is under way. All of it counts from the first pending byte."""

    scan: int
    """No frame begins before this byte."""
    error: DecodeError
    passed: int = 0
    """Bytes that were given up before."""
    spent: int = 0
    """What was done in vain before ``scan``, see ``_PATIENCE``."""


def torn() -> Lost:
    """The search at a place behind missing bytes: the frame there must be proved by another one behind it."""
    return Lost(0, DecodeError("the beginning of this frame was not captured", rule="frame_torn", offset=0))


class Readings:
    """How the frames of a stream may be read: the layouts that come into question.

    ``strict``: a stricter reading of the same frames; what only that one refuses gets a note.
    """

    def __init__(self, protocol: n.Protocol, options: Mapping[str, Any], lenient: Mapping[str, Any]) -> None:
        if "framing" in protocol.options and "framing" not in options:
            options = {**options, "framing": "tcp"}
        if n.STATE in protocol.options and n.STATE not in options:
            options = {**options, n.STATE: n.BEGIN}
        chosen = {**options, **lenient}
        self.protocol = protocol
        self.choices = candidates(protocol, **chosen)
        self.detector = detector_for(self.choices)
        self.proved: Layout | None = self.choices[0] if len(self.choices) == 1 else None
        self.fallback = layout(protocol, **chosen)
        self.strict = layout(protocol, **options) if lenient else None
        self.note = " ".join(map(str, lenient.values()))
        if lenient and self.proved is None:
            raise ValueError(f"{protocol.name}: a second reading needs options that leave nothing open")
        self.known = self.choices + self._later()
        """The layouts that may be in use at one time or another: those of the beginning first."""
        self.has_states = len(self.known) > len(self.choices)
        """Whether messages lead from one state of their stream to another."""
        if lenient and self.has_states:
            raise ValueError(f"{protocol.name}: a stream whose frames depend on messages has one reading")
        self.first_codec = self.codec(self.fallback) if self.proved else codec_for(self.fallback, self.choices)

    def _later(self) -> tuple[Layout, ...]:
        """Return the layouts of the states that messages lead to."""
        option = self.protocol.options.get(n.STATE)
        others = (state for state in option.values if state != self.fallback.options[n.STATE]) if option else ()
        return tuple(self._at(each, state) for state in others for each in self.choices)

    def _at(self, made: Layout, state: str) -> Layout:
        return layout(self.protocol, **{**made.options, n.STATE: state})

    def after(self, message: Any) -> Layout:
        """Return the layout of what follows a message in its stream."""
        state = next_state(message)
        return self._at(message.layout, state) if state else message.layout

    def behind_loss(self, made: Layout) -> Layout:
        """Return the layout of what follows lost bytes: of any frames, unless they are opaque ones anyway."""
        return made if is_opaque(made) else self._at(made, n.ANY)

    @property
    def knows_sides(self) -> bool:
        """Whether which side sends, which a capture knows, decides between the layouts: the client's is the first."""
        return n.SIDE in self.protocol.options and len(self.choices) == 2 and not self.protocol.conduct.either_may_dial

    @property
    def is_stream(self) -> bool:
        """Whether frames say how long they are."""
        return any(isinstance(part, n.Limiting) for part in self.fallback.frame.parts)

    def doubt(self, frame: bytes) -> DecodeError | None:
        """What the strict reading finds wrong already with a frame's header."""
        if self.strict is not None:
            try:
                read_header(self.strict, frame, 0, len(frame))
            except DecodeError as error:
                return error
        return None

    def codec(self, layout: Layout) -> Codec:
        return codec_for(layout) if self.strict is None else _lenient(self.strict, layout, self.note)


def is_opaque(made: Layout) -> bool:
    """Return whether nothing but opaque bytes may come."""
    return all(any(isinstance(part, n.Opaque) for part in each.frame.parts) for each in made.tried)


class _Lenient(Codec):
    """Two readings of the same frames: what the strict one refuses, the other one reads, and says so."""

    def __init__(self, strict: Layout, layout: Layout, note: str) -> None:
        super().__init__(layout)
        self._strict, self._plain, self._note = codec_for(strict), codec_for(layout), note
        self._measure_strict = self._strict.measure
        self.quick = self._quick

    def _quick(self, frame: bytes, length: int) -> Any:
        return self._strict.quick(frame, length) if self._measure_strict(frame, 0, length) == length else None

    def decode(self, frame: bytes) -> Any:
        try:
            return self._strict.decode(frame)
        except DecodeError:
            return self._noted(self._plain.decode(frame))

    def judge(self, frame: bytes) -> Any:
        message = self._strict.judge(frame)
        return self._noted(self._plain.judge(frame)) if isinstance(message, DecodeError) else message

    def _noted(self, message: Any) -> Any:
        if not isinstance(message, DecodeError):
            force_setattr(message, "notes", (*message.notes, self._note))
        return message


@lru_cache(maxsize=64)
def _lenient(strict: Layout, layout: Layout, note: str) -> Codec:
    return _Lenient(strict, layout, note)


def readings(
    protocol: str | n.Protocol, options: Mapping[str, Any], lenient: Mapping[str, Any] | None = None
) -> Readings:
    return _readings(load(protocol), tuple(options.items()), tuple((lenient or {}).items()))


@lru_cache(maxsize=256)
def _readings(protocol: n.Protocol, options: tuple[Any, ...], lenient: tuple[Any, ...]) -> Readings:
    return Readings(protocol, dict(options), dict(lenient))


class StreamDecoder:
    """Feed it bytes as they come; ``finish`` says that no more will.

    ``bytes_decoded + bytes_quarantined + pending == bytes_in`` holds at every moment.
    """

    def __init__(self, protocol: str | n.Protocol, **options: Any) -> None:
        self._begin(readings(protocol, options))

    @classmethod
    def of(cls, readings: Readings, proved: Layout | None = None, lost: Lost | None = None) -> StreamDecoder:
        """A decoder that goes on where another one was: with the dialect that it proved, and the search it was in."""
        made = cls.__new__(cls)
        made._begin(readings)
        if proved is not None and (readings.proved is None or readings.has_states):
            made._prove(proved)
        if lost is not None and readings.has_states and made._layout is not None:
            made._prove(readings.behind_loss(made._layout))
        if lost is not None and not (made._layout is not None and is_opaque(made._layout)):
            made._error, made._scan, made._lost_at, made._spent = lost.error, lost.scan, -lost.passed, lost.spent
        return made

    def _begin(self, readings: Readings) -> None:
        if not readings.is_stream:
            raise ValueError(f"frames of {readings.protocol.name} without a length cannot be told apart in a stream")
        self._readings = readings
        self._choices = readings.choices
        self._layout = readings.proved
        self._fallback = readings.fallback
        self._codec: Codec = readings.first_codec
        self._buffer = bytearray()
        self._at = 0
        self._base = 0
        self._scan = -1
        self._error: DecodeError | None = None
        self._outlines = outlines_for(self._possible())
        self._alike = outlines_for((self._fallback,))
        self._judged_at = -1
        self._judged = Verdict()
        self._refused = (-1, 0)
        self._ahead: Decoded | None = None
        self._lost_at = 0
        self._spent = 0
        self.bytes_in = 0
        self.bytes_decoded = 0
        self.bytes_quarantined = 0
        self.messages = 0

    @property
    def pending(self) -> int:
        """Bytes that nothing could be said about yet."""
        return len(self._buffer) - self._at

    @property
    def layout(self) -> Layout:
        """The reading in use: the proved dialect, or the fallback."""
        return self._layout or self._fallback

    @property
    def proved(self) -> Layout | None:
        """The reading that is sure; None while several are possible."""
        return self._layout

    @property
    def lost(self) -> Lost | None:
        """The search that is under way."""
        if self._error is None:
            return None
        return Lost(self._scan - self._at, self._error, self._base + self._at - self._lost_at, self._spent)

    def push(self, data: bytes | bytearray | memoryview) -> None:
        """Take bytes without looking at them; ``advance`` does."""
        self._buffer += data
        self.bytes_in += len(data)

    def advance(self, final: bool = False, most: int = NO_LIMIT) -> list[Event]:
        """Return the events that what was pushed completes, ``most`` of them. ``final``: no more bytes will come."""
        events = self._run(final, most)
        if self._at > _COMPACT or self._at == len(self._buffer):
            del self._buffer[: self._at]
            self._base += self._at
            if self._scan >= 0:
                self._scan -= self._at
            self._at = 0
        return events

    def feed(self, data: bytes | bytearray | memoryview) -> list[Event]:
        """Return the events that these bytes complete."""
        self.push(data)
        return self.advance()

    def finish(self) -> list[Event]:
        """Return the events of the pending tail; afterwards nothing is pending."""
        return self.advance(final=True)

    # --- one position after the other

    def _run(self, final: bool, most: int) -> list[Event]:
        events: list[Event] = []
        whole = b""
        while self._at < len(self._buffer) and len(events) < most:
            if self._ahead is not None or self._scan >= 0:
                event = self._step(final)
            elif whole or self._codec.measure(self._buffer, self._at, len(self._buffer)):
                whole = whole or bytes(self._buffer)
                length = self._plain(whole, events, most)
                if self._at == len(whole) or len(events) == most:
                    break
                event = self._frame(length, self._codec, final) if length else self._closely(final)
            else:
                event = self._closely(final)
            if event is None:
                break
            events.append(event)
        return events

    def _step(self, final: bool) -> Event | None:
        if self._scan >= 0:
            return self._search(final)
        return self._next(final) if self._ahead is None else self._take(self._ahead)

    def _plain(self, whole: bytes, events: list[Event], most: int) -> int:
        """Take frames that need no thought, as many as there are one after the other, until there are ``most`` events.

        Return the length of the next one if its header is good but ``quick`` has doubts about the rest, else 0.
        """
        measure, quick, base = self._codec.measure, self._codec.quick, self._base
        first = at = self._at
        before, end = len(events), len(whole)
        try:
            for _ in range(most - before):
                length = measure(whole, at, end)
                message = quick(whole[at : at + length], length) if length else None
                if message is None:
                    break
                events.append(Decoded(base + at, message))
                at += length
            else:
                length = 0
        except DOUBTS:
            pass
        self._at = at
        self.bytes_decoded += at - first
        self.messages += len(events) - before
        return length

    def _next(self, final: bool) -> Event | None:
        length = self._codec.measure(self._buffer, self._at, len(self._buffer))
        return self._frame(length, self._codec, final) if length else self._closely(final)

    def _closely(self, final: bool) -> Event | None:
        """Look at a frame that ``measure`` has doubts about."""
        buffer, at, end = self._buffer, self._at, len(self._buffer)
        codec, length = self._codec, 0
        if self._layout is None:
            if self._judged_at != self._base + at:
                verdict = self._readings.detector.detect(buffer, at, end)
                if verdict.wait and not final:
                    return None
                self._judged_at, self._judged = self._base + at, verdict
            if self._judged.layout is not None:
                codec, length = self._readings.codec(self._judged.layout), self._judged.length
        try:
            if not 0 < length <= end - at:
                length = read_header(codec.layout, buffer, at, end, final=final).length
        except Incomplete as error:
            return self._lose(error.as_value(), final) if final else None
        except DecodeError as error:
            return self._lose(error.as_value(), final)
        return self._frame(length, codec, final)

    def _prove(self, proved: Layout) -> None:
        self._layout = proved
        self._outlines = outlines_for((proved,))
        self._codec = self._readings.codec(proved)

    def _frame(self, length: int, codec: Codec, final: bool) -> Event | None:
        at = self._at
        frame = bytes(memoryview(self._buffer)[at : at + length])
        message = codec.judge(frame)
        if isinstance(message, DecodeError):
            follows = self._follows(at + length, final)
            if follows is None:
                return None
            return self._quarantine(length, message) if follows else self._lose(message, final)
        doubt = self._readings.doubt(frame)
        if doubt is not None:
            # Its length may be a broken one, and the payload then a thousand messages: another frame must follow.
            follows = self._follows(at + length, final)
            if not follows:
                return None if follows is None else self._lose(doubt, final)
        if codec is not self._codec:
            # Only a message proves a dialect: a frame that cannot be read may be broken.
            self._prove(codec.layout)
        return self._take(Decoded(self._base + at, message))

    def _take(self, decoded: Decoded) -> Decoded:
        length = decoded.length
        self._at += length
        self.bytes_decoded += length
        self.messages += 1
        self._ahead = None
        if self._readings.has_states:
            self._prove(self._readings.after(decoded.message))
        return decoded

    def _follows(self, at: int, final: bool) -> bool | None:
        """Whether a frame seems to begin at ``at``, or the stream ends there."""
        answer = self._outlines.follows(self._buffer, at, len(self._buffer))
        return True if answer is None and final else answer

    def _possible(self) -> tuple[Layout, ...]:
        return (self._layout,) if self._layout is not None else self._choices

    def _quarantine(self, length: int, error: DecodeError) -> Quarantined:
        at = self._at
        data = bytes(memoryview(self._buffer)[at : at + length])
        self._at += length
        self.bytes_quarantined += length
        if not error.excerpt:
            error.locate(self._fallback.protocol.name, "", data)
        return Quarantined(self._base + at, length, error, data)

    # --- after broken bytes

    def _lose(self, error: DecodeError, final: bool) -> Event | None:
        if self._readings.has_states and self._layout is not None:
            self._prove(self._readings.behind_loss(self._layout))
        self._error = error
        self._scan = self._at + 1
        self._lost_at, self._spent = self._base + self._at, 0
        return self._search(final)

    def _search(self, final: bool) -> Event | None:
        """Looks for the next frame from ``_scan`` on; the range from ``_at`` up to it is quarantined."""
        assert self._error is not None
        found = self._candidate(final)
        end = len(self._buffer)
        stop = found if found is not None else end if final else min(self._scan, end)
        if stop - self._at > MAX_QUARANTINE:
            self._ahead = None
            return self._quarantine(MAX_QUARANTINE, self._error)
        if found is None and not final:
            return None
        error, self._error, self._scan = self._error, None, -1
        if stop == self._at:
            return self._step(final)
        return self._quarantine(stop - self._at, error)

    def _candidate(self, final: bool) -> int | None:
        """Return the position of the next frame, None if what has come shows none before ``_scan``."""
        end = len(self._buffer)
        while True:
            # Where too much was decoded in vain, nothing is tried for a while.
            self._scan = max(self._scan, self._lost_at - self._base + self._spent - _PATIENCE)
            place = self._outlines.sieve.search(self._buffer, self._scan) if self._scan < end else None
            if place is not None and not final and place.start() > end - self._outlines.width:
                # Before it may be the beginning of another frame, of which the sieve sees too little.
                place = None
            if place is None:
                self._scan = max(self._scan, end if final else end - self._outlines.width + 1)
                return None
            self._scan = place.start()
            answer = self._starts(self._scan, final)
            if answer is not False:
                return self._scan if answer else None
            self._scan += 1

    def _starts(self, at: int, final: bool) -> bool | None:
        """Whether a whole, clean frame is at ``at`` and another seems to follow it; None: wait for more bytes.

        Of several lengths that the header may mean, the shortest one for which that holds is right.
        """
        end = len(self._buffer)
        spent = _PLACE
        for length, layouts in self._claims(at, end):
            if length == UNKNOWN or at + length > end:
                if not final:
                    return None
                continue
            # What a search has spent depends on the bytes alone: so nothing is decoded before this is known.
            follows = self._follows(at + length, final)
            if follows is None:
                return None
            if follows:
                if self._is_frame(at, length, layouts):
                    return True
                spent += _ATTEMPT + length
        self._spent += spent
        return False

    def _claims(self, at: int, end: int) -> list[tuple[int, tuple[Layout, ...]]]:
        if self._layout is None and self._codec.measure(self._buffer, at, end):
            # All read it alike, so it proves nothing.
            return self._alike.claims(self._buffer, at, end)
        return self._outlines.claims(self._buffer, at, end)

    def _is_frame(self, at: int, length: int, layouts: tuple[Layout, ...]) -> bool:
        """Whether these bytes are a clean message to one of the layouts that read them so; a single one is proved."""
        if self._refused == (self._base + at, length):
            return False
        frame = bytes(memoryview(self._buffer)[at : at + length])
        clean = []
        for reading in layouts:
            message = self._clean(reading, frame)
            if message is not None:
                clean.append((reading, message))
        if not clean:
            self._refused = (self._base + at, length)
        elif len(clean) == 1:
            ((reading, message),) = clean
            if self._layout is None and reading is not self._fallback and reading in self._choices:
                self._prove(reading)
            if self._readings.strict is None:
                self._ahead = Decoded(self._base + at, message)
        return bool(clean)

    def _clean(self, layout: Layout, frame: bytes) -> Any:
        """Return the message in ``frame`` if it is clean, else None."""
        if self._layout is None:
            # Whoever sends what no dialect reads may do so for long, and every fault costs a search: remember what
            # that found.
            known = faults_for(layout).recall(frame)
            if known is not None:
                return None if isinstance(known, DecodeError) else known
        try:
            message = compile_layout(layout, clean=True)(frame, len(frame))
            if message is not None:
                if self._layout is None:
                    faults_for(layout).remember(frame, message)
                return message
        except UncleanError:
            return None
        except DOUBTS:
            pass
        message = self._readings.codec(layout).judge(frame)
        return None if isinstance(message, DecodeError) or not is_clean(message) else message


__all__ = ["MAX_QUARANTINE", "Decoded", "Event", "Lost", "Quarantined", "Readings", "StreamDecoder", "readings", "torn"]
