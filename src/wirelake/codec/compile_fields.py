"""Python source of a decoder under construction: how each kind of value is read."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, assert_never

import msgspec

from ..spec import nodes as n
from ..spec.conduct import When
from ..spec.resolve import Layout
from .content import read_json, read_ordinary_map, read_ordinary_msgpack
from .frame import smallest, struct_fields
from .numbers import FORMATS, byte_order, decoding
from .records import all_cells_reader, clean_cells_reader
from .scales import meaning

UNSET = msgspec.UNSET
Quick = Callable[[bytes, int], Any]
"""A generated decoder: ``(frame, length) -> message or None``."""


class Source:
    """Python source under construction, with the objects that it names."""

    def __init__(self, layout: Layout, clean: bool = False) -> None:
        self.layout = layout
        self.clean = clean
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"unpackb": read_ordinary_msgpack, "UNSET": UNSET, "from_bytes": int.from_bytes}
        self.depth = 1
        self.counter = 0
        # The cursor is `p + offset`, or just `offset` while everything so far had a fixed size.
        self.dynamic = False
        self.offset = 0
        self.pending: list[tuple[str, str]] = []
        self.pending_order = ""
        self.doubts: list[str] = []

    def emit(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Emit ``head``, and indent what is emitted inside."""
        self.emit(head)
        self.depth += 1
        yield
        self.depth -= 1

    def fresh(self, stem: str) -> str:
        self.counter += 1
        return f"{stem}{self.counter}"

    def give(self, stem: str, value: Any) -> str:
        name = self.fresh(stem)
        self.names[name] = value
        return name

    def made(self, name: str) -> Quick:
        """The function whose source is complete now."""
        source = "def decode(b, n):\n" + "\n".join(self.lines) + "\n"
        namespace = dict(self.names)
        exec(compile(source, f"<wirelake {self.layout.protocol.name} {name}>", "exec"), namespace)
        made: Quick = namespace["decode"]
        made.__doc__ = source
        return made

    def queue(self, order: str, form: str, variable: str | None = None) -> str:
        """Read a value of fixed size, together with its neighbours; return the variable that holds it."""
        variable = self.fresh("v") if variable is None else variable
        if self.pending and order and self.pending_order and order != self.pending_order:
            self.flush()
        self.pending_order = self.pending_order or order
        self.pending.append((form, variable))
        return variable

    def queue_size(self, part: n.Size) -> None:
        """The frame's length, which must be that of the frame at hand."""
        size = self.integer(part.wire)
        counted = 0 if part.counts == "whole" else self.layout.size_before(part) + self.layout.part_size(part)
        self.doubt(f"{size} != n - {counted}" if counted else f"{size} != n")
        self.bounds(part, size)

    def doubt(self, condition: str) -> None:
        """Leaves the frame to a closer look if the condition holds for what is being read."""
        self.doubts.append(condition)

    def flush(self) -> None:
        if not self.pending:
            self.settle_doubts()
            return
        shape = struct.Struct((self.pending_order or ">") + "".join(form for form, _ in self.pending))
        variables = [variable for _, variable in self.pending if variable]
        self.pending, self.pending_order = [], ""
        if variables:
            unpack = self.give("s", shape.unpack_from)
            self.emit(f"{', '.join(variables)}, = {unpack}(b, {self.cursor()})")
        else:
            self.doubt(f"{self.cursor(shape.size)} > n")
        self.offset += shape.size
        self.settle_doubts()

    def settle_doubts(self) -> None:
        if self.doubts:
            self.emit(f"if {' or '.join(self.doubts)}: return None")
            self.doubts = []

    def cursor(self, more: int = 0) -> str:
        offset = self.offset + more
        if not self.dynamic:
            return str(offset)
        return f"p + {offset}" if offset else "p"

    def here(self) -> str:
        """The cursor as a constant or as a variable that stays."""
        self.flush()
        if not self.dynamic:
            return str(self.offset)
        start = self.fresh("a")
        self.emit(f"{start} = {self.cursor()}")
        return start

    def settle(self) -> None:
        """Makes `p` the cursor."""
        self.flush()
        if not self.dynamic or self.offset:
            self.emit(f"p = {self.cursor()}")
        self.dynamic, self.offset = True, 0

    def value(self, wire: Any) -> str:
        """Emits the reading of one value; gives the expression that holds it."""
        match wire:
            case n.Int():
                return self.integer(wire)
            case n.Bool(lenient=lenient):
                variable = self.queue("", "B")
                if not lenient:
                    self.doubt(f"{variable} > 1")
                return f"{variable} != 0"
            case n.Float():
                return self.queue(byte_order(wire), "f" if wire.size == 4 else "d")
            case n.Scaled(wire=n.Int() as inner):
                return f"{self.give('scaled', meaning(wire))}({self.integer(inner)})"
            case n.Fixed(size=size):
                return self.queue("", f"{size}s")
            case n.Run():
                return self.run(wire)
            case n.Nested(struct=cls):
                return self.struct(cls)
            case n.Many():
                return self.many(wire)
            case n.Cells():
                self.settle()
                variable = self.fresh("v")
                read = clean_cells_reader(wire) if self.clean else all_cells_reader(wire)
                self.emit(f"{variable} = {self.give('cells', read)}(b, p, n)")
                self.emit(f"if {variable} is None: return None")
                self.emit("p = n")
                return variable
            case n.Length(wire=inner):
                variable = self.integer(inner)
                if inner.signed:
                    self.doubt(f"{variable} < 0")
                return variable
            case _:
                raise AssertionError(f"{wire!r} is not a wire node")

    def integer(self, wire: n.Int, variable: str | None = None) -> str:
        if wire.size == 3:
            variable = self.queue("", "3s", variable)
            self.flush()
            order = "little" if wire.little else "big"
            self.emit(f"{variable} = from_bytes({variable}, {order!r}, signed={wire.signed})")
        else:
            variable = self.queue(byte_order(wire), FORMATS[wire.size, wire.signed], variable)
        self.within(wire, variable)
        return variable

    def within(self, wire: n.Int | n.Word[Any], variable: str) -> None:
        if wire.low is not None:
            self.doubt(f"{variable} < {wire.low}")
        if wire.high is not None:
            self.doubt(f"{variable} > {wire.high}")

    def run(self, wire: n.Run[Any], scope: dict[str, str] | None = None) -> str:
        if wire.length is None:
            self.settle()
            start, stop = "p", "n"
            self.bounds(wire, "n - p")
        else:
            length = (scope or {})[wire.length] if isinstance(wire.length, str) else self.integer(wire.length)
            start, stop = self.here(), "p"
            self.emit(f"p = {start} + {length}")
            self.dynamic, self.offset = True, 0
            self.doubt("p > n")
            if isinstance(wire.length, n.Int) and wire.length.signed:
                self.doubt(f"{length} < 0")
            self.bounds(wire, length)
        self.settle_doubts()
        made = self.content(wire, start, stop)
        if wire.length is None:
            self.emit("p = n")
        return made

    def bounds(self, wire: n.Run[Any] | n.Size, length: str) -> None:
        if wire.least:
            self.doubt(f"{length} < {wire.least}")
        if wire.most is not None:
            self.doubt(f"{length} > {wire.most}")

    def content(self, wire: n.Run[Any], start: str, stop: str) -> str:
        variable = self.fresh("v")
        raw = f"b[{start}:{stop}]"
        match wire.content:
            case "bytes":
                read = raw
            case "text" | "strict_text":
                read = f"{raw}.decode({decoding(wire)})"
            case "msgpack":
                read = f"unpackb({raw})"
            case "msgpack_map":
                read = f"{self.give('unpack_map', read_ordinary_map)}({raw})"
            case "json":
                if wire.length is not None and not (wire.null_if_empty or wire.absent_if_empty):
                    self.doubt(f"{start} >= {stop}")
                read = f"{self.give('read_json', read_json)}({raw})"
            case _:
                assert_never(wire.content)
        if wire.null_if_empty or wire.absent_if_empty:
            read = f"{read} if {start} < {stop} else UNSET"
        self.emit(f"{variable} = {read}")
        return variable

    def struct(self, cls: Any) -> str:
        """An expression, so that fixed-size values around a structure's end are read together."""
        fields = struct_fields(cls, self.layout)
        made = self.fields(fields)
        for limit in cls.__sum_limits__:
            total = " + ".join(f"len({made[name]})" for name in limit.fields)
            self.emit(f"if {total} > {limit.most}: return None")
        values = {f.name: made[f.name] for f in fields if not isinstance(f.wire, n.Length)}
        return f"{self.give(cls.__name__, cls)}({arguments(cls, values)})"

    def fields(self, fields: tuple[n.Field, ...]) -> dict[str, str]:
        """Emits the reading of fields in order; neighbours under one condition share one branch."""
        made: dict[str, str] = {}
        i = 0
        while i < len(fields):
            field = fields[i]
            if field.when is None or self.always(field.when):
                made[field.name] = self.scoped(field.wire, made)
                i += 1
                continue
            group = [field]
            # IfLeft is asked anew before each field: the one before may have taken the last bytes.
            while (
                not isinstance(field.when, n.IfLeft)
                and i + len(group) < len(fields)
                and fields[i + len(group)].when == field.when
            ):
                group.append(fields[i + len(group)])
            self.branch(field.when, group, made)
            i += len(group)
        return made

    def always(self, when: n.Condition) -> bool:
        """Whether a condition holds for every frame of this message."""
        return False

    def scoped(self, wire: Any, made: dict[str, str]) -> str:
        return self.run(wire, made) if isinstance(wire, n.Run) and isinstance(wire.length, str) else self.value(wire)

    def branch(self, when: n.Condition, group: list[n.Field], made: dict[str, str]) -> None:
        self.settle()
        match when:
            case When(field=name, off=off) if off:
                test = f"{made[name]} not in {off!r}"
            case n.HeadReaches(size=size):
                test = f"h >= {size}"
            case n.IfLeft():
                test = "p < n"
            case n.With(field=name):
                test = f"{made[name]} is not None"
            case When() | n.Every() | n.Begins():
                raise AssertionError(f"{when!r} is for the exact reader")
            case _:
                assert_never(when)
        kept = {field.name: self.fresh("c") for field in group if not isinstance(field.wire, n.Length)}
        with self.block(f"if {test}:"):
            inner = dict(made)
            for field in group:
                inner[field.name] = self.scoped(field.wire, inner)
            self.settle()
            self.keep(kept, inner)
        with self.block("else:"):
            self.keep(kept, {field.name: default_of(field) for field in group})
        made.update(kept)

    def keep(self, kept: dict[str, str], values: dict[str, str]) -> None:
        """Give variables that outlast a branch the values that they have in it."""
        for name, variable in kept.items():
            self.emit(f"{variable} = {values[name]}")

    def many(self, wire: n.Many[Any]) -> str:
        variable = self.fresh("v")
        element = wire.element
        if wire.count is None:
            self.settle()
            return self.loop("while p < n:", element, variable)
        if isinstance(wire.count, n.Int):
            count = self.integer(wire.count)
            self.settle()
            least = smallest(element, self.layout)
            negative = f"{count} < 0 or " if wire.count.signed else ""
            self.emit(f"if {negative}{count} * {least} > n - p: return None")
        else:
            count = str(wire.count)
            self.settle()
        if isinstance(element, n.Int) and element.size != 3 and element.low is None and element.high is None:
            form = FORMATS[element.size, element.signed]
            unpack = self.give("unpack", struct.unpack_from)
            self.emit(f"{variable} = {unpack}(f'{byte_order(element)}{{{count}}}{form}', b, p)")
            self.emit(f"p += {count} * {element.size}")
            self.emit("if p > n: return None")
            return variable
        return self.loop(f"for _ in range({count}):", element, variable)

    def loop(self, head: str, element: Any, variable: str) -> str:
        self.emit(f"{variable} = []")
        with self.block(head):
            made = self.value(element)
            self.settle()
            self.emit(f"{variable}.append({made})")
        return f"tuple({variable})"


def default_of(field: n.Field) -> str:
    return "UNSET" if field.default is UNSET else "None" if field.default is ... else repr(field.default)


def arguments(cls: Any, values: dict[str, str]) -> str:
    """How a record is made of these values: by position as far as that goes, which is quicker than by name."""
    given = []
    for name in cls.__match_args__:  # those that can be given by position
        if name not in values:
            break
        given.append(values[name])
    positional = cls.__struct_fields__[: len(given)]
    return ", ".join(given + [f"{name}={value}" for name, value in values.items() if name not in positional])
