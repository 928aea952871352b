"""The vocabulary of descriptions: frozen nodes that say what bytes mean and never touch one.

A *wire* node describes the bytes of one value. A *part* node describes a piece of the frame around a message.
``Choose`` stands for a value that depends on a reading option (a dialect, a profile) and is replaced by ``resolve``
before any reader sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar

from .conduct import Conduct, When

T_co = TypeVar("T_co", covariant=True)


class Wire(Generic[T_co]):
    """What a field looks like on the wire; ``T_co`` is what it is in Python."""


@dataclass(frozen=True, eq=False)
class Choose:
    """One value per setting of a reading option."""

    option: str
    cases: Mapping[Any, Any]


@dataclass(frozen=True)
class Setting:
    """The value of a reading option itself."""

    option: str


@dataclass(frozen=True)
class Labels:
    """Names of an enumeration or of the bits of a set. Unknown numbers are data, never an error."""

    name: str
    names: Mapping[int, str] = field(hash=False)
    bits: bool = False

    def code(self, name: str) -> int:
        """Return the number that has this name."""
        return next(code for code, known in self.names.items() if known == name)


@dataclass(frozen=True)
class Int(Wire[int]):
    size: int
    signed: bool
    little: bool
    labels: Labels | None = None
    low: int | None = None
    high: int | None = None
    rule: str = "int_range"


@dataclass(frozen=True)
class Bits(Wire[int]):
    """Bits of an integer. Neighbours share it, from the high bits to the low ones; the one with shift 0 ends it."""

    wire: Int
    shift: int
    width: int


Signed = Literal["", "zigzag", "twos"]


@dataclass(frozen=True)
class Varint(Wire[int]):
    """An integer in bytes of 7 bits each, whose highest bit says that another byte follows.

    Low bits come first, unless ``high_first``. ``lenient``: more bytes than needed are read, too. ``ber``: as ASN.1
    writes lengths, one byte below 128, else one with the number of bytes that follow. ``wider``: one byte below the
    first of these, each of which announces an integer behind it, or the number -1. ``signed``: how negative numbers
    are written, in turns with the others (``zigzag``), or as the highest of 64 bits, in 5 bytes of 32 (``twos``).
    """

    most_bytes: int
    high_first: bool = False
    lenient: bool = False
    ber: bool = False
    wider: tuple[tuple[int, Int | None], ...] = ()
    signed: Signed = ""

    @property
    def bits(self) -> int:
        """The bits that the number has at most."""
        return 32 if self.signed == "twos" and self.most_bytes == 5 else min(7 * self.most_bytes, 64)


@dataclass(frozen=True)
class Digits(Wire[int]):
    """An integer as text that ends with ``end``; with none, where its range ends.

    ``lenient``: zeros before it are read, too. ``size``: it has always so many bytes, with zeros before it, or filled
    up with the byte ``pad``, or ``pad_before`` it.
    """

    end: bytes
    low: int = 0
    high: int = 2**63 - 1
    base: Literal[8, 10, 16] = 10
    lenient: bool = False
    size: int = 0
    pad: bytes = b""
    pad_before: bytes = b""


Number = Int | Varint | Digits
"""What lengths and counts can be."""


def limits(wire: Number) -> tuple[int, int]:
    """Return the lowest and the highest value of a number."""
    match wire:
        case Int(size=size, signed=signed, low=low, high=high):
            lowest, highest = (-(1 << 8 * size - 1) if signed else 0), (1 << 8 * size - signed) - 1
            return lowest if low is None else low, highest if high is None else high
        case Varint(wider=wider) if wider:
            sizes = [inner.size for _, inner in wider if inner is not None]
            return -(len(sizes) < len(wider)), min((1 << 8 * max(sizes, default=1)) - 1, (1 << 63) - 1)
        case Varint(signed=signed) if signed:
            return -(1 << wire.bits - 1), (1 << wire.bits - 1) - 1
        case Varint():
            return 0, (1 << wire.bits) - 1
        case Digits(low=lowest, high=highest):
            return lowest, highest


@dataclass(frozen=True)
class By:
    """A length or count that an earlier field says: ``per`` of its units are one byte or element, rounded up.

    Or one of its units is ``times`` bytes or elements. ``plus`` is added, and what the field ``less`` holds is taken
    off. Where the field is absent, ``otherwise`` says it. A plain name stands for ``By(name)``. A number instead of a
    name is written before the value: ``By(varint(5), plus=-1)`` is one more than its length.
    """

    field: Any
    per: int = 1
    plus: int = 0
    times: int = 1
    less: str = ""
    otherwise: str | By | None = None

    @property
    def chain(self) -> tuple[By, ...]:
        """This reference, and what stands in for it."""
        other = By.of(self.otherwise)
        return (self, *(other.chain if other is not None else ()))

    @property
    def names(self) -> tuple[str, ...]:
        """All fields that it asks."""
        return tuple(str(name) for by in self.chain for name in (by.field, by.less) if name)

    def number(self, value_of: Callable[[str], int | None]) -> int | None:
        """Return the length or count, which may be negative; None if no field says one."""
        for by in self.chain:
            value = value_of(by.field)
            if value is not None:
                return by.size(value) - ((value_of(by.less) or 0) if by.less else 0)
        return None

    @staticmethod
    def of(given: Any) -> By | None:
        """Return the reference to an earlier field that a length or count is, if it is one."""
        if isinstance(given, str):
            return By(given)
        return given if isinstance(given, By) and isinstance(given.field, str) else None

    def __str__(self) -> str:
        return " or ".join(str(by.field) for by in self.chain) if By.of(self) is not None else repr(self.field)

    def size(self, number: int) -> int:
        """Return the length or count that a number says."""
        return -(-number * self.times // self.per) + self.plus


def written(given: Any) -> Any:
    """Return the number that is written before a value, as its length or count says; None if none is."""
    number = given.field if isinstance(given, By) else given
    return number if isinstance(number, Number) else None


def sizes(given: Any) -> tuple[int, int]:
    """Return the lowest and the highest length or count that the number before a value can say."""
    low, high = limits(written(given))
    return (given.size(low), given.size(high)) if isinstance(given, By) else (low, high)


@dataclass(frozen=True)
class Constant(Wire[None]):
    """Bytes that are always the same: checked when read, written by themselves, no part of the record."""

    value: bytes
    rule: str = "constant"


Sum = Literal["crc32", "crc16_modbus", "crc16_ccitt", "adler32", "sum8", "sum16", "xor8"]


@dataclass(frozen=True)
class Checksum(Wire[None]):
    """A sum over the bytes of the frame before it, from its first byte on, or from the field ``since`` on.

    It is checked when read, computed when written, and no part of the record.
    """

    wire: Any
    """An ``Int``, or ``Digits`` of a fixed size."""
    kind: Sum
    since: str = ""


@dataclass(frozen=True)
class Align(Wire[None]):
    """Zero bytes up to a multiple of ``size``, counted from where the structure or message begins; no part of it."""

    size: int


@dataclass(frozen=True)
class Scaled(Wire[T_co]):
    """An integer that stands for a number with a fraction: ``per`` of its units are 1. Or for a time.

    Of a time, ``per`` units are a second, counted from ``epoch``, which is so many seconds after 1970 began; or it is
    a text of this ``form``.
    """

    wire: Any
    """A ``Number``, or a text."""
    per: int
    epoch: int | None = None
    form: str = ""


WireOnly = Constant | Checksum | Align
"""What is on the wire and not in the record; constants and sums may follow what takes the rest."""


@dataclass(frozen=True)
class Bool(Wire[bool]):
    """One byte, 0 or 1; ``lenient`` reads any other value as true."""

    lenient: bool = False


@dataclass(frozen=True)
class Float(Wire[float]):
    size: int
    little: bool


@dataclass(frozen=True)
class Fixed(Wire[bytes]):
    """A fixed number of raw bytes; ``uuid`` is one of 16."""

    size: int


Content = Literal["bytes", "text", "strict_text", "msgpack", "msgpack_map", "json"]


@dataclass(frozen=True)
class Run(Wire[T_co]):
    """Bytes whose number is written before them, in an earlier ``Length`` field, or which end with their range.

    A ``length`` of bytes is what ends them: those bytes are not part of the value.

    A number of bytes as the ``length``: there are always so many, and shorter values are filled up with the byte
    ``pad``, or ``pad_before`` them.

    ``text`` is UTF-8 that keeps bytes that are not; ``strict_text`` refuses those (or reads another ``charset``).
    ``msgpack`` and ``json`` are free-form values. ``null_if_empty``: no bytes mean null, ``absent_if_empty``: no value.
    """

    length: Any
    """A ``Number``, an earlier field (its name, or a ``By``), how many they are, the bytes that end it, or None."""
    content: Content = "bytes"
    least: int = 0
    most: int | None = None
    null_if_empty: bool = False
    absent_if_empty: bool = False
    charset: Any = "utf-8"
    errors: Any = "strict"
    null: int | None = None
    """The length that stands for no value: then nothing follows it."""
    end: bytes = b""
    """Bytes that always follow those that the length counts; they end it where the earlier field has no value."""
    escapes: tuple[tuple[bytes, bytes], ...] = ()
    """What is written, and what it stands for. The length counts what is written."""
    pad: bytes = b""
    pad_before: bytes = b""


@dataclass(frozen=True)
class Length(Wire[int]):
    """The length or count of a later field, written apart from it. It is not part of the record.

    ``since``: the length counts from that earlier field on, or from itself, up to the end of the later one.
    """

    wire: Int
    of: str
    since: str = ""


@dataclass(frozen=True)
class Nested(Wire[T_co]):
    """A structure. ``flat``: in JSON its fields appear as ``outer.inner``."""

    struct: Any
    flat: bool = True


@dataclass(frozen=True)
class Many(Wire[T_co]):
    """Elements one after the other: as many as a count says, a fixed number, or until their range ends.

    A ``count`` of bytes is what stands behind the last one.
    """

    element: Wire[Any]
    count: Any
    """A ``Number``, an earlier field, a fixed number, the bytes behind the last element, or None."""
    null: int | None = None
    """The count that stands for no value."""
    until: When | None = None
    """The list ends behind the first element that fulfils this."""
    or_end: bool = False
    """It may end with its range, too."""


@dataclass(frozen=True)
class Sized(Wire[T_co]):
    """A value with its length in bytes before it: inside, the end of those bytes is the end of the range."""

    length: Any
    """A ``Number``, or an earlier field."""
    inner: Wire[Any]


@dataclass(frozen=True, eq=False)
class Choice(Wire[T_co]):
    """A tag, and behind it the value that the tag announces; a case of None has no bytes.

    ``cases`` may be a function that returns them: so a case can hold the choice itself, down to ``depth`` levels.
    Without a tag there is one case, a structure that may hold itself, and the value is that structure.
    Equality is identity, because the cases of two choices may be the same function of different protocols.
    """

    tag: Int | Fixed | None
    cases: Any
    depth: int = 16

    @property
    def known(self) -> Mapping[Any, Any]:
        """The cases, by tag."""
        known: Mapping[Any, Any] = self.cases() if callable(self.cases) else self.cases
        return known


def structure_of(wire: Any) -> Nested[Any] | None:
    """Return the structure that a value is, also where a function names it; None if it is none."""
    if isinstance(wire, Choice) and wire.tag is None:
        return structure_of(wire.known[None])
    return wire if isinstance(wire, Nested) else None


@dataclass(frozen=True)
class CellType:
    name: str
    wire: Int | Float | Run[Any] | None


@dataclass(frozen=True)
class Cells(Wire[T_co]):
    """Typed, numbered values until the range ends; number and type share the bits of one head."""

    head: Int
    id_shift: int
    type_shift: int
    type_mask: int
    flag_mask: int
    id_max: int
    types: tuple[CellType, ...]


@dataclass(frozen=True)
class Form:
    """One shape of a signature: how long it is, and which index it has."""

    size: int
    struct: Any
    first: bool


@dataclass(frozen=True)
class Signature(Wire[T_co]):
    """A structure inside the last cell of a given number, recognised by its length, its kind and its index."""

    cells: str
    fid: int
    kind: int
    forms: tuple[Form, ...]


@dataclass(frozen=True)
class Tag:
    """One row of a tag table. ``wire`` None is a flag: its presence is the value."""

    code: int
    name: str
    wire: Wire[Any] | None
    allowed: frozenset[int]
    required: frozenset[int] = frozenset()
    doc: str = ""
    title: str = ""


@dataclass(frozen=True)
class Tags(Wire[T_co]):
    """Key byte, value, key byte, value ... until the head ends.

    ``anywhere``: any known key on any message. ``waived``: a required tag may be missing when this tag is positive.
    """

    struct: Any
    anywhere: Any = False
    demand: Any = True
    waived: str | None = None


@dataclass(frozen=True)
class Word(Wire[T_co]):
    """One word of a header line.

    ``pattern`` must match the whole word. The value is its text, or, with ``number``, the integer in group 1 of the
    pattern (``low`` .. ``high``). ``quick`` is a pattern of plain cases; what it does not match is looked at closely.
    """

    pattern: Any
    rule: str
    most: Any = None
    number: bool = False
    low: int | None = None
    high: int | None = None
    parts_most: int | None = None
    optional: bool = False
    only: frozenset[int] | None = None
    only_rule: str = ""
    quick: Any = None
    all: bool = False
    """It takes all that is left of the line, separators too."""


@dataclass(frozen=True)
class Body(Wire[bytes]):
    """What the frame leaves: kept raw, and read once more through the fields that are views of it.

    ``exactly`` bounds its size; ``empty`` says whether an empty one is read, means nothing, or is refused (unless
    ``empty_if`` holds); ``opaque_if`` names a number that, when it is not zero, keeps the views from looking.
    """

    text: bool = False
    exactly: int | None = None
    most: Any = None
    most_rule: str = "body_limit"
    empty: Literal["read", "absent", "refused"] = "read"
    empty_if: AtLeast | None = None
    opaque_if: str | None = None
    prefix: bytes = b""
    prefix_rule: str = ""
    prefix_needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class FrameLength:
    """Bytes of the whole frame, less those of a run."""

    less: str = ""


@dataclass(frozen=True)
class PayloadLength:
    """What the frame's length field says."""


@dataclass(frozen=True)
class LengthOf:
    field: str


@dataclass(frozen=True)
class AtLeast:
    """A number reaches a limit; an absent one counts as 0."""

    field: str
    limit: int


@dataclass(frozen=True)
class Present:
    """There are bytes for this view of the body; null where the body was not looked into."""

    field: str


@dataclass(frozen=True)
class Empty:
    field: str


@dataclass(frozen=True)
class OrderOf:
    """The names in a tag table in wire order."""

    field: str


@dataclass(frozen=True)
class Wide:
    """The frame's length took the wide form."""

    limit: int


@dataclass(frozen=True)
class Masked:
    """The frame was masked."""


@dataclass(frozen=True)
class Lookup:
    """What a list says under a key: the second field, or ``value``, of its first element whose first field is ``key``.

    Of several keys any will do. ``number``: it is text that is a number. ``fold``: capitals of the key do not matter,
    nor do blanks around keys and values, as in header lines of HTTP.
    """

    field: str
    key: Any
    value: str = ""
    number: bool = False
    fold: bool = False

    @property
    def keys(self) -> tuple[Any, ...]:
        """The keys under which it may stand."""
        return self.key if isinstance(self.key, tuple) else (self.key,)


Lengths = FrameLength | PayloadLength | LengthOf
Derived = Lengths | AtLeast | Present | Empty | OrderOf | Wide | Masked | Lookup


@dataclass(frozen=True)
class HeadReaches:
    """Present if the head is at least this long."""

    size: int


@dataclass(frozen=True)
class IfLeft:
    """Present if there are bytes left."""


@dataclass(frozen=True)
class Begins:
    """Present if the next bytes are any of these: the field begins with them."""

    starts: tuple[bytes, ...]


@dataclass(frozen=True)
class With:
    """Present if another field is."""

    field: str


@dataclass(frozen=True)
class Every:
    """Present if all of these hold."""

    conditions: tuple[When, ...]


Condition = HeadReaches | IfLeft | Begins | With | When | Every


@dataclass(frozen=True)
class Magic:
    value: bytes
    name: str = "magic"


@dataclass(frozen=True)
class Escaped:
    """A short length whose highest value announces a wide one; optionally with a mask bit."""

    escape: int
    wide: Any
    reserved: tuple[int, ...] = ()
    mask_bit: Any = 0
    mask_key: str = "mask_key"


@dataclass(frozen=True)
class Size:
    """How long the frame is: ``whole`` counts from its first byte, ``after`` the bytes that follow the length.

    ``wire`` is an ``Int``, an ``Escaped``, a ``Varint`` or ``Digits``; or a field of the header before it, by its name
    or as a ``By``: then it has no bytes of its own, and counts what follows it.
    """

    name: str
    wire: Any
    counts: Counts
    least: int = 0
    most: Any = None
    rule: str = "frame_limit"
    plus: int = 0
    """What is added to the number to have the length."""


@dataclass(frozen=True)
class Head:
    """The length of the head, the first part of the frame; what follows it is the body."""

    name: str
    wire: Int
    least: int
    most: int
    body_most: Any = None


@dataclass(frozen=True)
class Code:
    """Which message this is. ``early``: judged as soon as it is there, else when the frame is whole.

    Of several, a message names as many as it has: ``code=(1, 10, 10)``.
    """

    name: str
    wire: Any
    """An ``Int``, ``Bits`` of one, a ``Varint``, ``Digits``, or text up to its end, as ``code="CONNECT"`` says."""
    early: bool = False


OTHER = 1 << 100
"""``code=OTHER``: the message that takes every code that no other one has, in a field with the name of the code."""
OTHER_NUMBER, SERVER_ZERO = 0x7FFFFFFE, 0x7FFFFFFD
"""What stands in tables for such a message, and for the server's message where both sides have a code 0."""
SIDE = "sent_by"
"""The reading option that says which side sends, where a code means another message on each side."""
STATE, ANY, BEGIN = "state", "any", "begin"
"""The reading option that says which frames may come, where messages say ``then=``; and the settings that are always
there: any but opaque ones, and those with which a stream begins."""
USUAL = "usual"
"""The name of the frame of messages that name none, in ``then=``."""


@dataclass(frozen=True)
class Kept:
    """A field of the message that travels in the frame's header, of any size; it may depend on those before it."""

    name: str


@dataclass(frozen=True)
class Line:
    """A header line of words. The first ``end`` must lie within ``window`` bytes; ``fewest`` .. ``most`` words;
    word ``code`` is one of the messages' words. ``fold``: capitals do not matter in it; it is written as declared.
    ``skip``: words that are absent are left out, so those that are there take their places."""

    separator: bytes
    end: bytes
    window: int
    fewest: int
    most: Any
    code: str
    code_rule: str
    fold: bool = False
    skip: bool = False


@dataclass(frozen=True)
class Trailer:
    """Bytes at the end of every frame."""

    value: bytes
    name: str = "trailer"


@dataclass(frozen=True)
class Until:
    """The frame ends with these bytes, which occur nowhere else in it. ``most`` is the most bytes before them."""

    end: bytes
    most: int
    name: str = "end"
    rule: str = "frame_limit"


@dataclass(frozen=True)
class Ends:
    """The frame ends with the last field of its message, which has at most ``most`` bytes with all before it."""

    most: int
    name: str = "end"
    rule: str = "frame_limit"


@dataclass(frozen=True)
class Opaque:
    """Any bytes. A frame takes ``most`` of them, and the last frame of a stream what is left.

    Only a message that says ``then=`` leads to such a frame.
    """

    most: int
    name: str = "end"


Part = Magic | Size | Head | Code | Kept | Line | Trailer | Until | Ends | Opaque
Ending = Trailer | Until | Ends | Opaque
"""Parts that are at, or decide about, the end of a frame."""
Limiting = Size | Until | Ends | Opaque
"""Parts that say where a frame ends."""


@dataclass(frozen=True)
class Frame:
    parts: tuple[Part, ...] = ()


Role = Literal["address", "correlation", "status", "payload", "xid", "execution", "version", "timeout"]


@dataclass(frozen=True)
class Field:
    """A field of a structure or message: its Python name, its wire node and what the other readers need to know."""

    name: str
    wire: Any
    doc: str = ""
    json: str = ""
    column: str = ""
    role: Role | None = None
    published: str = ""
    unit: str = ""
    when: Condition | None = None
    only: tuple[str, Any] | None = None
    view_of: str = ""
    default: Any = ...

    @cached_property
    def key(self) -> str:
        """The name in JSON and in error paths."""
        return self.json or self.name


@dataclass(frozen=True)
class DerivedField:
    name: str
    how: Derived
    doc: str = ""
    only: tuple[str, Any] | None = None
    role: Role | None = None
    column: str = ""
    unit: str = ""
    wire: Any = None

    @property
    def key(self) -> str:
        """The name in JSON and of the column."""
        return self.name


@dataclass(frozen=True)
class SumLimit:
    """Several runs together may not exceed a limit."""

    fields: tuple[str, ...]
    most: int
    rule: str


@dataclass(frozen=True)
class Padding:
    """Bytes after the last field that a peer is known to add."""

    value: bytes
    note: str


Kind = Literal["request", "response", "event", "control"]
SentBy = Literal["client", "server", "both"]
Counts = Literal["whole", "after"]


@dataclass(frozen=True)
class Option:
    """A reading option and its settings; none named: the name of a character set.

    ``auto`` is the fallback when ``default`` is ``auto``: the setting is then found from the bytes.
    """

    values: tuple[Any, ...]
    default: Any
    doc: str = ""
    auto: str = ""


@dataclass(frozen=True)
class Captured:
    """How captured traffic is read where nothing else is said.

    ``options`` are the reading options; what they refuse is read with ``fallback``, too, and then gets a note.
    ``websocket``: what WebSocket messages carry: any pieces of the ``stream``, one ``message`` each, or ``frames``, if
    the protocol's own frames are WebSocket frames; ``websocket_paths`` are paths that no other protocol asks for.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    fallback: Mapping[str, Any] = field(default_factory=dict)
    websocket: Literal["", "stream", "message", "frames"] = ""
    websocket_options: Mapping[str, Any] = field(default_factory=dict)
    websocket_paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class Topics:
    """How topic patterns match topics: ``levels`` (MB), ``segments`` (CEDA), or ``words`` between any ``separator``.

    Of words, ``one`` stands for one, ``rest`` for any number, of which there are at least ``rest_least``; wherever it
    stands if ``rest_anywhere``, else at the end.
    """

    style: Literal["levels", "segments", "words"]
    one: str
    rest: str
    separator: str = "."
    rest_least: int = 0
    rest_anywhere: bool = False


@dataclass(frozen=True, eq=False)
class LifeCycle:
    """Who may send what in which state: state -> side -> message -> next state. What is absent is forbidden."""

    initial: str
    client: Mapping[str, Mapping[str, str]]
    server: Mapping[str, Mapping[str, str]]
    doc: str = ""


@dataclass(frozen=True, eq=False)
class Protocol:
    """One declaration; everything else is a reader of it."""

    name: str
    title: str
    frame: Frame | Choose
    messages: tuple[Any, ...]
    options: Mapping[str, Option] = field(default_factory=dict)
    labels: tuple[Labels, ...] = ()
    topics: Topics | None = None
    life_cycle: LifeCycle | None = None
    ports: Mapping[str, int] = field(default_factory=dict)
    doc: str = ""
    captured: Captured = field(default_factory=Captured)
    conduct: Conduct = field(default_factory=Conduct)
    traffic: Callable[[Any], None] | None = None
    """Starts the processes of generated traffic on the ``Stage`` it is given; without it, traffic is made from the
    declaration alone. It imports what it needs when it is called."""
    frames: Mapping[str, Frame] = field(default_factory=dict)
    """Other frames, of the messages that name them (``frame="hello"``). Each is tried before the usual one."""
    begins: tuple[str, ...] = ()
    """The frames with which streams begin, where messages lead to others (``then=``); not said: the usual one, and
    those that no message leads to."""

    def has_setting(self, option: str, value: Any) -> bool:
        """Return whether there is this option and this setting of it; an option that lists none takes any."""
        known = self.options.get(option)
        return known is not None and (not known.values or value in known.values)
