"""The one exception family.

Few classes, rich fields: ``rule`` is a stable name from docs/rules.md, ``path`` the dotted field path, ``offset`` the
byte in the frame where the rule was broken, ``excerpt`` the bytes around it."""

from __future__ import annotations

from typing import Any

EXCERPT_BYTES = 8


class WireError(Exception):
    """An error in a message: what is wrong, where, and by which rule."""

    def __init__(self, detail: str, *, rule: str, path: str = "", offset: int | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.rule = rule
        self.path = path
        self.offset = offset
        self.protocol = ""
        self.message = ""
        self.excerpt = ""

    def __str__(self) -> str:
        where = " ".join(part for part in (self.protocol, self.message, self.path) if part)
        if self.offset is not None:
            where = f"{where} at byte {self.offset}" if where else f"byte {self.offset}"
        text = f"{where}: {self.detail} [{self.rule}]" if where else f"{self.detail} [{self.rule}]"
        return f"{text} {self.excerpt}" if self.excerpt else text

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild, (type(self), self.__dict__.copy())


def rebuild(cls: type[WireError], state: dict[str, Any]) -> WireError:
    """An error of this class with these attributes."""
    error = cls.__new__(cls)
    Exception.__init__(error, state["detail"])
    error.__dict__.update(state)
    return error


class DecodeError(WireError):
    """The bytes break the declaration.

    ``incomplete`` is true when more bytes could still make a valid frame; ``clean_frame`` when the frame's own
    boundary is known in spite of the error, so that a reader can skip it.
    """

    incomplete = False
    body_only = False
    """Only the content of the body is wrong; everything before it was read."""

    def locate(self, protocol: str, message: str, data: bytes | bytearray | memoryview) -> DecodeError:
        """Add what only the outermost reader knows."""
        self.protocol = self.protocol or protocol
        self.message = self.message or message
        if self.offset is not None and not self.excerpt:
            at = self.offset
            before = bytes(data[max(0, at - EXCERPT_BYTES) : at]).hex(" ")
            after = bytes(data[at : at + EXCERPT_BYTES]).hex(" ")
            self.excerpt = f"{before} | {after}".strip()
        return self

    def as_value(self) -> DecodeError:
        """Forget where it was raised: a traceback keeps everything alive that the reader had in its hands."""
        self.__traceback__ = self.__context__ = None
        return self


class Truncated(DecodeError):
    """A field or a frame needs more bytes than there are."""

    def __init__(
        self, detail: str, *, rule: str, needed: int, available: int, path: str = "", offset: int | None = None
    ) -> None:
        super().__init__(detail, rule=rule, path=path, offset=offset)
        self.needed = needed
        self.available = available


class Incomplete(Truncated):
    """The frame is not all there yet; nothing is wrong with what is."""

    incomplete = True


class BadValue(DecodeError):
    """A value that the declaration does not allow."""


class LimitExceeded(DecodeError):
    """A length, count or depth above its limit."""

    def __init__(
        self, detail: str, *, rule: str, limit: int, actual: int, path: str = "", offset: int | None = None
    ) -> None:
        super().__init__(detail, rule=rule, path=path, offset=offset)
        self.limit = limit
        self.actual = actual


class EncodeError(WireError):
    """The record cannot be written; there is a path and a rule, but no offset yet."""


class ProtocolError(WireError):
    """A valid message sent out of sequence."""


class LocalProtocolError(ProtocolError):
    """We tried something that the protocol forbids now."""


class RemoteProtocolError(ProtocolError):
    """The peer did something that the protocol forbids now."""


class CaptureError(WireError):
    """A file that cannot be read as a capture; ``path`` is the file's."""

    def __init__(self, detail: str, *, path: str, offset: int | None = None) -> None:
        super().__init__(detail, rule="capture", path=path, offset=offset)


class SpecError(Exception):
    """A declaration is ill-formed; raised when it is imported."""


class OptionError(ValueError):
    """An option, path, column or schema that cannot be used; one line that says what can."""


class LakeError(Exception):
    """A lake cannot be opened, read or written: which path, and why, in one line."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"
