"""A description -> random valid messages: every value that the description allows can occur, and nothing else.

Each node becomes, once, a function that draws a value of its kind; a message is drawn field by field. Sizes are random
and mostly small; ``size`` is the dial. A message that comes out larger than its frame may be is drawn again at half the
size.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, reduce
from random import Random
from typing import Any

import msgspec

from ..codec import codec_for
from ..codec.content import dump_json
from ..codec.encoder import encode_frame
from ..codec.walk import read_signature
from ..errors import EncodeError
from ..spec import nodes as n
from ..spec.check_wires import size_given
from ..spec.columns import value_of
from ..spec.declare import tag_rows
from ..spec.derive import element_names, found, is_key
from ..spec.resolve import Layout, MessageNode
from . import draws
from .draws import Draw, Maker, Step, Values
from .fitting import fitted

_EMPTY_TAIL = ":empty tail"


def random_message(layout: Layout, node: MessageNode, rng: Random, *, size: float = 1.0) -> Any:
    """A valid message. It has its ``layout`` and ``wire_length``, as if it had been decoded."""
    return random_frame(layout, node, rng, size=size)[0]


def random_frame(layout: Layout, node: MessageNode, rng: Random, *, size: float = 1.0) -> tuple[Any, bytes]:
    """A valid message and its bytes."""
    make = message_maker(layout, node)
    for _ in range(draws.TRIES):
        try:
            return make(Draw(rng, size))
        except EncodeError as error:
            too_large = error
            size /= 2
    raise too_large


@lru_cache(maxsize=1024)
def message_maker(layout: Layout, node: MessageNode) -> _MessageMaker:
    return _MessageMaker(layout, node)


class _TagMaker:
    """The tags that a message may carry, in any order, with those that it must."""

    def __init__(self, wire: n.Tags[Any], code: int, layout: Layout) -> None:
        self.wire = wire
        self.rows = [
            (row, None if row.wire is None else draws.value_maker(row.wire, layout))
            for row in tag_rows(wire.struct)
            if wire.anywhere or code in row.allowed
        ]
        self.required = {row.name for row, _ in self.rows if wire.demand and code in row.required}
        self.chance = min(0.4, 4 / max(1, len(self.rows)))

    def __call__(self, draw: Draw, room: int | None) -> Any:
        rng = draw.rng
        drawn: list[tuple[str, Any]] = []
        for row, make in self.rows:
            if row.name in self.required or rng.random() < self.chance:
                value = True if make is None else make(draw)
                cost = 1 + (0 if row.wire is None else _tag_bytes(row.wire, value))
                if room is None or cost <= room:
                    drawn.append((row.name, value))
                    room = None if room is None else room - cost
        rng.shuffle(drawn)
        values = dict(drawn)
        waived = self.wire.waived
        if waived is not None and (values.get(waived) or 0) > 0 and rng.random() < 0.5:
            values = {name: value for name, value in values.items() if name not in self.required}
        return self.wire.struct(**values, order=tuple(values))


def _tag_bytes(wire: Any, value: Any) -> int:
    match wire:
        case n.Int(size=size):
            return size
        case n.Run(length=n.Int(size=size), content="text" | "strict_text"):
            return size + len(value.encode("utf-8", "surrogateescape"))
        case n.Run(length=n.Int(size=size), content="bytes"):
            return size + len(value)
        case _:
            raise AssertionError(f"{wire!r} is not a tag")


class _MessageMaker:
    """Draws messages of one kind."""

    def __init__(self, layout: Layout, node: MessageNode) -> None:
        self.layout = layout
        self.node = node
        self.codec = codec_for(layout)
        self.head = next((f.when.size for f in node.fields if isinstance(f.when, n.HeadReaches)), None)
        written = [field for field in node.fields if not isinstance(field.wire, n.Length | n.WireOnly)]
        self.steps = [self._step(field) for field in written if not field.view_of]
        self.views = self._view_makers()
        self.lookups = [made.how for made in node.derived if isinstance(made.how, n.Lookup)]
        short = node.head_least if node.head_or is None else node.head_or
        self.may_drop_ids = self.head is not None and short < self.head and not self._must_have_tags()

    def __call__(self, draw: Draw) -> tuple[Any, bytes]:
        values: Values = {draws.WITH_IDS: not (self.may_drop_ids and draw.rng.random() < 0.5)}
        values[draws.NAMES] = self.node.names
        for step in self.steps:
            step(draw, values)
        del values[draws.WITH_IDS], values[draws.NAMES]
        values.pop(draws.NOTHING_LEFT, None)
        empty_tail = values.pop(_EMPTY_TAIL, None)
        for how in self.lookups:
            self._say(how, draw, values)
        message = fitted(self.layout, self.node, self.node.cls(**values, layout=self.layout))
        frame = encode_frame(self.layout, message)
        body = self.node.body
        if body is not None and body.name in values and values[body.name] is None:
            # The encoder wrote the views; their bytes are the body.
            values[body.name] = getattr(self.codec.decode(frame), body.name)
            if empty_tail is not None:
                values[body.name] = values[body.name][:-1]
                values[empty_tail] = draws.UNSET
            message = self.node.cls(**values, layout=self.layout)
            if empty_tail is not None:
                frame = encode_frame(self.layout, message)
        msgspec.structs.force_setattr(message, "wire_length", len(frame))
        return message, frame

    def _say(self, how: n.Lookup, draw: Draw, values: Values) -> None:
        """Say something under a key that is looked up, more often than chance would."""
        if values.get(how.field) is None or found(how, values[how.field]) is not None:
            return
        if how.number and found(replace(how, number=False), values[how.field]) is not None:
            values[how.field] = _without_key(how, values[how.field])
        if draw.rng.random() < 0.5:
            return
        if not how.number:
            wire = value_of(self.node.cls, how)
            text = draws.address(draw.rng)
            value: Any = text.encode() if isinstance(wire, n.Run) and wire.content == "bytes" else text
            if not isinstance(wire, n.Run):
                value = draws.value_maker(wire, self.layout)(draw)
            values[how.field] = with_element(self.node.cls, how, values[how.field], value)

    def _must_have_tags(self) -> bool:
        tables = [f.wire.struct for f in self.node.fields if isinstance(f.wire, n.Tags)]
        return any(self.node.code in row.required for table in tables for row in tag_rows(table))

    def _step(self, field: n.Field) -> Step:
        match field.wire:
            case n.Body():
                return draws.conditional(field, self._body(field))
            case n.Tags():
                return self._tags(field)
            case n.Word():
                line = next(p for p in self.layout.at(self.node).frame.parts if isinstance(p, n.Line))
                make = draws.word_maker(field.wire, self.node.code, line)
            case _ if n.By.of(size_given(field.wire)) is not None:
                return draws.value_step(field, self.layout, self.node.fields)
            case n.Run(length=None) if (opaque := self._opaque()) is not None:
                make = draws.value_maker(replace(field.wire, least=1, most=opaque.most), self.layout)
            case _:
                make = draws.value_maker(field.wire, self.layout)
        if field.name in self._mask_keys():
            return draws.field_step(field, lambda draw: make(draw) if draw.rng.random() < 0.4 else None, ())
        return draws.field_step(field, make, self.node.fields)

    def _opaque(self) -> n.Opaque | None:
        """Return the part that bounds any bytes, which are some at least."""
        parts = self.layout.at(self.node).frame.parts
        return next((part for part in parts if isinstance(part, n.Opaque)), None)

    def _mask_keys(self) -> set[str]:
        sizes = [p.wire for p in self.layout.frame.parts if isinstance(p, n.Size)]
        return {wire.mask_key for wire in sizes if isinstance(wire, n.Escaped)}

    def _tags(self, field: n.Field) -> Step:
        make = _TagMaker(field.wire, self.node.code, self.layout)
        longest = (self.head or 0) - 1 if self.node.head_or is None else self.node.head_or
        room = longest - self.layout.at(self.node).size_before()

        def step(draw: Draw, values: Values) -> None:
            # A head without ids must stay too short for them.
            values[field.name] = make(draw, None if values[draws.WITH_IDS] else room)

        return step

    def _view_makers(self) -> list[tuple[str, Maker]]:
        makers: list[tuple[str, Maker]] = []
        signatures = {v.wire.cells: v.wire for v in self.node.views if isinstance(v.wire, n.Signature)}
        for view in self.node.views:
            if isinstance(view.wire, n.Cells):
                makers.append((view.name, draws.cells_maker(view.wire, self.layout, signatures.get(view.name))))
            elif not isinstance(view.wire, n.Signature):
                makers.append((view.name, draws.value_maker(view.wire, self.layout)))
        return makers

    def _body(self, field: n.Field) -> Step:
        body: n.Body = field.wire
        name = field.name
        last = self.node.views[-1] if self.node.views else None
        nullable = last is not None and isinstance(last.wire, n.Run) and last.wire.null_if_empty
        signatures = [view for view in self.node.views if isinstance(view.wire, n.Signature)]

        def step(draw: Draw, values: Values) -> None:
            rng = draw.rng
            if not self.views or (body.opaque_if and _reach(values, body.opaque_if)):
                values[name] = _raw_body(draw, body)
                return
            may_be_empty = body.empty == "absent" or (body.empty_if is not None and _holds(values, body.empty_if))
            if may_be_empty and rng.random() < 0.4:
                values[name] = b""
                return
            if body.prefix and rng.random() < 0.15:
                error = {need: draws.random_text(draw) or need for need in body.prefix_needs}
                values[name] = body.prefix + dump_json(error).encode()
                values[self.views[0][0]] = error
                return
            values[name] = None
            for view, make in self.views:
                values[view] = make(draw)
            if nullable and last is not None and (values[last.name] is draws.UNSET or rng.random() < 0.1):
                values[last.name] = None
                values[_EMPTY_TAIL] = last.name
            for signature in signatures:
                values[signature.name] = read_signature(signature.wire, self.layout, values[signature.wire.cells])

        return step


def _without_key(how: n.Lookup, elements: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a list that says nothing under a key, but in the element that ends it."""
    cls: Any = type(elements[0])
    first = element_names(cls)[0]
    return tuple(element for element in elements if not is_key(how, getattr(element, first)))


def with_element(cls: Any, how: n.Lookup, elements: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    """Return a list that says a value under a key."""
    wire = next(f.wire for f in cls.__wire_fields__ if f.name == how.field)
    while isinstance(wire, n.Sized):
        wire = wire.inner
    struct = wire.element.struct
    names = element_names(struct)
    written = value_of(cls, how)
    if isinstance(value, int) and isinstance(written, n.Run):
        value = f"{value}".encode() if written.content == "bytes" else f"{value}"
    others = tuple(element for element in elements if not is_key(how, getattr(element, names[0])))
    last = others[-1:] if getattr(wire, "until", None) is not None else ()  # it ends the list
    try:
        return (
            *others[: len(others) - len(last)],
            struct(**{names[0]: how.keys[0], how.value or names[1]: value}),
            *last,
        )
    except TypeError:  # it needs more than a key and a value
        return elements


def _raw_body(draw: Draw, body: n.Body) -> bytes:
    if body.exactly is not None:
        return draw.rng.randbytes(body.exactly)
    if body.text and draw.rng.random() < 0.7:
        if draw.rng.random() < 0.5:
            return dump_json(draws.random_free(draw, binary=False)).encode()
        return draws.random_text(draw, 0, body.most).encode()
    return draw.rng.randbytes(draws.random_length(draw, body.most))


def _reach(values: Values, path: str) -> Any:
    first, *rest = path.split(".")
    return reduce(lambda value, name: getattr(value, name, None), rest, values.get(first))


def _holds(values: Values, condition: n.AtLeast) -> bool:
    return (_reach(values, condition.field) or 0) >= condition.limit
