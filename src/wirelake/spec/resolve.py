"""Protocol + reading options -> Layout: the description without choices, which every reader reads.

``auto`` options are resolved to their candidates: see ``candidates``.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property, lru_cache
from itertools import product
from typing import Any, assert_never

from ..errors import SpecError
from . import nodes as n
from .states import Then, states


@dataclass(frozen=True, eq=False)
class MessageNode:
    """One message of a layout."""

    cls: Any
    code: int
    """The number that stands for it in tables."""
    codes: tuple[Any, ...]
    """What is on the wire."""
    frame: str
    name: str
    kind: n.Kind
    answer: int | None
    """The reply that is usual; ``answers`` are all that may come."""
    answers: tuple[int, ...]
    failure: bool
    good: tuple[int | str, ...]
    sent_by: n.SentBy
    then: Then
    word: str
    head_least: int
    head_or: int | None
    head_rule: str
    padding: n.Padding | None
    published: str
    secret_cells: tuple[int, ...]
    """Cells of its record that nobody but the server should read: tables leave them out."""
    fields: tuple[n.Field, ...]
    derived: tuple[n.DerivedField, ...]

    @property
    def doc(self) -> str:
        return (self.cls.__doc__ or "").strip()

    def field(self, name: str) -> n.Field:
        return self._by_name[name]

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(self._by_name)

    @cached_property
    def lookups(self) -> Mapping[str, n.Lookup]:
        """What the message looks up in its lists, by name."""
        return {made.name: made.how for made in self.derived if isinstance(made.how, n.Lookup)}

    @cached_property
    def _by_name(self) -> dict[str, n.Field]:
        return {f.name: f for f in self.fields}

    @cached_property
    def body(self) -> n.Field | None:
        return next((f for f in self.fields if isinstance(f.wire, n.Body)), None)

    @cached_property
    def views(self) -> tuple[n.Field, ...]:
        return tuple(f for f in self.fields if f.view_of)


@dataclass(frozen=True, eq=False)
class Layout:
    """A protocol as read with certain options. ``shown`` are the options as they are reported with decoded data."""

    protocol: n.Protocol
    options: Mapping[str, Any]
    frame: n.Frame
    messages: Mapping[int, MessageNode]
    shown: Mapping[str, Any]
    by_code: Mapping[Any, MessageNode]
    """The messages that may come in this frame, from this side, by what says which one it is."""
    place: str = ""
    """The name of the frame, if it is not the usual one."""
    others: tuple[Layout, ...] = ()
    """The layouts of the other frames, in the order in which they are tried."""
    seen: bool = True
    """Whether the side that sends has messages in this frame, which may come now."""

    def __post_init__(self) -> None:
        about = (tuple(self.options.items()), tuple(self.shown.items()), self.place)
        object.__setattr__(self, "_hash", hash((id(self.protocol), about)))

    def __eq__(self, other: object) -> bool:
        # Not the identity: layouts that are made again, because a cache has let them go, are still the same.
        return self is other or (
            isinstance(other, Layout)
            and self.protocol is other.protocol
            and self.options == other.options
            and self.shown == other.shown
            and self.place == other.place
        )

    def __hash__(self) -> int:
        return self._hash  # type: ignore[attr-defined, no-any-return]

    def __reduce__(self) -> Any:
        # A message class leads to the declaration itself, where a protocol would be copied, and its layouts with it.
        about = tuple(self.options.items()), tuple(self.shown.items()), self.place
        return _layout_of, (self.protocol.messages[0], *about)

    def named(self, name: str) -> MessageNode | None:
        return next((m for m in self.messages.values() if m.name == name), None)

    def of(self, message: Any) -> MessageNode:
        return self.messages[message.__message__["code"]]

    @cached_property
    def nodes(self) -> tuple[MessageNode, ...]:
        """The messages that may come in this frame, from this side."""
        return tuple(self.by_code.values())

    @cached_property
    def beginnings(self) -> frozenset[tuple[Any, ...]]:
        """The codes behind which another one says more."""
        return frozenset(key[:i] for key in self.by_code if isinstance(key, tuple) for i in range(len(key)))

    def at(self, node: MessageNode) -> Layout:
        """Return the layout of the frame of a message."""
        return next((other for other in self.others if other.place == node.frame), self) if self.others else self

    @cached_property
    def tried(self) -> tuple[Layout, ...]:
        """The layouts of the frames that this side sends now: the first one whose header fits is taken."""
        return tuple(layout for layout in (*self.others, self) if layout.seen) or (self,)

    @cached_property
    def takes_any(self) -> bool:
        """Whether a message takes the codes that no other one has."""
        return n.OTHER in self.by_code

    @cached_property
    def ends(self) -> tuple[n.Ending, ...]:
        """The parts of the frame that are at, or decide about, its end."""
        return tuple(part for part in self.frame.parts if isinstance(part, n.Ending))

    @cached_property
    def loose(self) -> Mapping[str, n.Field]:
        """The fields of the header that have no fixed size, or are not always there."""
        kept = (self.nodes[0].field(part.name) for part in self.frame.parts if isinstance(part, n.Kept) and self.nodes)
        return {field.name: field for field in kept if not is_fixed(field)}

    @cached_property
    def has_head(self) -> bool:
        """Whether the frame says how long its head is."""
        return any(isinstance(part, n.Head) for part in self.frame.parts)

    @cached_property
    def has_plain_codes(self) -> bool:
        """Whether each message has one code of its own, in the usual frame."""
        return not (self.beginnings or self.takes_any or self.place)

    def other(self, code: Any) -> MessageNode | None:
        """Return the message with this code on the wire, or the one that takes what no other does."""
        found = self.by_code.get(code)
        return self.by_code.get(n.OTHER) if found is None and self.takes_any else found

    def said(self, word: str, fold: bool) -> MessageNode | None:
        """Return the message that this first word of a line names, or the one that takes what no other does."""
        named = (node for node in self.nodes if node.codes[0] != n.OTHER)
        known = (node for node in named if node.word == word or (fold and node.word.lower() == word.lower()))
        return next(known, self.by_code.get(n.OTHER))

    def part_size(self, part: n.Part) -> int:
        """Return the bytes of a part of the header: of a length that can be wide the short form, of a line none, nor of
        a field without a fixed size.
        """
        match part:
            case n.Magic(value=value):
                return len(value)
            case n.Size(wire=n.Escaped() | n.Varint() | n.Digits()):
                return 1
            case n.Size(wire=str() | n.By()):
                return 0
            case n.Code(wire=n.Run() | n.Varint() | n.Digits()):
                return 0
            case n.Size(wire=wire) | n.Head(wire=wire) | n.Code(wire=wire):
                return size_of(wire)
            case n.Kept(name=name):
                return 0 if name in self.loose else size_of(self.nodes[0].field(name).wire)
            case n.Line() | n.Trailer() | n.Until() | n.Ends() | n.Opaque():
                return 0
            case _:
                assert_never(part)

    def size_before(self, part: n.Part | None = None) -> int:
        """Return the bytes of the header before a part; without one, of the whole header."""
        parts = self.frame.parts
        return sum(map(self.part_size, parts if part is None else parts[: parts.index(part)]))


def is_fixed(field: n.Field) -> bool:
    """Return whether a field of the header is always there, with a fixed size."""
    return field.when is None and isinstance(field.wire, n.Fixed | n.Int | n.Bits | n.Bool)


def size_of(wire: Any) -> int:
    """Return the bytes of a value of fixed size; of bits, those that they are the end of."""
    match wire:
        case n.Int(size=size) | n.Fixed(size=size):
            return int(size)
        case n.Bits(wire=whole, shift=shift):
            return 0 if shift else whole.size
        case n.Bool():
            return 1
        case n.Constant(value=value):
            return len(value)
        case n.Checksum(wire=whole):
            return int(whole.size)
        case n.Align():
            return 0
        case _:
            return int(wire.size)


@lru_cache(maxsize=1024)
def spare_bytes(fields: tuple[n.Field, ...]) -> tuple[int, ...]:
    """Return for each field how many bytes what follows it needs, where that is not part of the record."""
    spare = [0] * len(fields)
    total = 0
    for i in reversed(range(len(fields))):
        spare[i] = total
        if not isinstance(fields[i].wire, n.WireOnly):
            break
        total += size_of(fields[i].wire)
    return tuple(spare)


def settle(protocol: n.Protocol, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given options completed with defaults; refuse unknown ones."""
    chosen = {name: option.default for name, option in protocol.options.items()}
    for name, value in options.items():
        if name not in protocol.options:
            known = ", ".join(protocol.options) or "none"
            raise ValueError(f"{protocol.name} has no option {name!r}; it has: {known}")
        allowed = protocol.options[name].values
        if not allowed:
            _check_charset(protocol, name, value)
        elif value not in allowed:
            raise ValueError(f"{protocol.name}: {name} is one of {', '.join(map(str, allowed))}, not {value!r}")
        chosen[name] = value
    return chosen


def _check_charset(protocol: n.Protocol, name: str, value: Any) -> None:
    try:
        codecs.lookup(value)
    except (LookupError, TypeError):
        raise ValueError(f"{protocol.name}: {name} is a character set, and {value!r} is not a known one") from None


def settings(protocol: n.Protocol) -> Iterator[dict[str, Any]]:
    """Yield every combination of the reading options."""
    for chosen in product(*map(option_values, protocol.options.values())):
        yield dict(zip(protocol.options, chosen, strict=True))


def option_values(option: n.Option) -> list[Any]:
    """Return the settings that make a difference; of an option that takes any word, its default."""
    return [value for value in option.values if value != "auto"] or [option.default]


def frames(protocol: n.Protocol) -> Iterator[Any]:
    """Yield every frame that a protocol can have, one per case of a choice."""
    waiting: list[Any] = [protocol.frame]
    while waiting:
        frame = waiting.pop()
        if isinstance(frame, n.Choose):
            waiting += frame.cases.values()
        else:
            yield frame


def layout(protocol: n.Protocol, **options: Any) -> Layout:
    """Return the layout for these options; an ``auto`` option takes its fallback and is shown as undecided."""
    chosen = settle(protocol, options)
    shown = dict(chosen)
    for name, option in protocol.options.items():
        if option.auto and chosen[name] == "auto":
            chosen[name], shown[name] = option.auto, "undecided"
    return resolve(protocol, tuple(chosen.items()), tuple(shown.items()))


def candidates(protocol: n.Protocol, **options: Any) -> tuple[Layout, ...]:
    """Return the layouts among which ``auto`` must find the right one; a single one if nothing is left open."""
    chosen = settle(protocol, options)
    for name, option in protocol.options.items():
        if option.auto and chosen[name] == "auto":
            return tuple(layout(protocol, **(chosen | {name: value})) for value in option_values(option))
    return (layout(protocol, **chosen),)


@lru_cache(maxsize=256)
def resolve(protocol: n.Protocol, options: tuple[tuple[str, Any], ...], shown: tuple[tuple[str, Any], ...]) -> Layout:
    chosen = dict(options)
    frame = without_choices(protocol.frame, chosen)
    messages = {cls.__message__["code"]: _message(cls, chosen) for cls in protocol.messages}
    side = chosen.get(n.SIDE)
    shared = {node.code for node in messages.values() if _has_twin(node, messages)} if side else set()
    unseen = {code if side == "server" else _negative(code) for code in shared}

    def known(frame: n.Frame, place: str) -> dict[Any, MessageNode]:
        several = sum(isinstance(part, n.Code) for part in frame.parts) > 1
        nodes = [node for node in messages.values() if node.frame == place and node.code not in unseen]
        return {_key(node, several): node for node in nodes}

    places = states(protocol).get(chosen.get(n.STATE, ""))

    def seen(place: str) -> bool:
        if places is not None and place not in places:
            return False
        return side is None or sides_of(protocol.messages, place) != {"server" if side == "client" else "client"}

    others = tuple(
        Layout(protocol, chosen, other, messages, dict(shown), known(other, place), place, (), seen(place))
        for place, other in without_choices(tuple(protocol.frames.items()), chosen)
    )
    usual = known(frame, "") if isinstance(frame, n.Frame) else {}
    return Layout(protocol, chosen, frame, messages, dict(shown), usual, "", others, seen(""))


def sides_of(messages: Iterable[Any], place: str) -> set[str]:
    """Return who sends the messages of a frame."""
    return {cls.__message__["sent_by"] for cls in messages if cls.__message__["frame"] == place}


def _has_twin(node: MessageNode, messages: Mapping[int, MessageNode]) -> bool:
    """Return whether the server has another message with the code of this one."""
    twin = messages.get(_negative(node.code))
    return node.sent_by == "client" and twin is not None and (twin.sent_by, twin.codes) == ("server", node.codes)


def _negative(code: int) -> int:
    return -code or n.SERVER_ZERO


def _key(node: MessageNode, several: bool) -> Any:
    """Return what says on the wire that it is this message."""
    return node.codes if several else node.codes[0]


def _layout_of(
    cls: Any, options: tuple[tuple[str, Any], ...], shown: tuple[tuple[str, Any], ...], place: str = ""
) -> Layout:
    made = resolve(cls.__protocol__, options, shown)
    return next((other for other in made.others if other.place == place), made)


def _message(cls: Any, chosen: Mapping[str, Any]) -> MessageNode:
    about = {key: without_choices(value, chosen) for key, value in cls.__message__.items()}
    derived = tuple(d for d in cls.__derived_fields__ if _holds(d.only, chosen))
    return MessageNode(cls=cls, fields=resolve_fields(cls, chosen), derived=derived, **about)


def resolve_fields(cls: Any, chosen: Mapping[str, Any]) -> tuple[n.Field, ...]:
    return tuple(
        replace(f, wire=without_choices(f.wire, chosen)) for f in cls.__wire_fields__ if _holds(f.only, chosen)
    )


def _holds(only: tuple[str, Any] | None, chosen: Mapping[str, Any]) -> bool:
    return only is None or chosen[only[0]] == only[1]


def without_choices(node: Any, chosen: Mapping[str, Any]) -> Any:
    """Return the node with every ``Choose`` in it replaced."""
    if isinstance(node, n.Choose):
        if node.option not in chosen:
            raise SpecError(f"a choice depends on the option {node.option!r}, which is not declared")
        return without_choices(node.cases[chosen[node.option]], chosen)
    if isinstance(node, n.Setting):
        return chosen[node.option]
    if isinstance(node, tuple):
        return tuple(without_choices(item, chosen) for item in node)
    if is_dataclass(node) and not isinstance(node, type) and not isinstance(node, n.Labels):
        old = {f.name: getattr(node, f.name) for f in fields(node)}
        new = {name: without_choices(value, chosen) for name, value in old.items()}
        changed = {name: value for name, value in new.items() if value is not old[name]}
        return replace(node, **changed) if changed else node
    return node
